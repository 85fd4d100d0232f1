"""The log by itself: appends, small records, large batches, reads, and the nodes' memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from raftlog.bench.measure import MEGABYTE
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import MemoryWatch
from tests.bench.systems import (
    System,
    Tally,
    cpu_figures,
    in_turns,
    latency_figures,
    running,
    settle,
)

_RECORD_BYTES = 100
_ROWS = 1000
"""Of an Arrow batch that the producer of small records is given."""
_BATCH_BYTES = 1 << 20
_IN_FLIGHT = 8
_TOPICS = ["append", "records", "batches", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How often the clients of a place work, and how much one of them does then."""

    clients: int
    turns: int
    appends: int
    records: int
    batches: int
    read_batches: int
    read_turns: int
    """More and shorter ones: reads depend most on what else uses the machine's memory."""


USUAL = Sizes(
    clients=4, turns=40, appends=60, records=100_000, batches=16, read_batches=32, read_turns=160
)
LEAST = Sizes(clients=1, turns=2, appends=5, records=1000, batches=1, read_batches=1, read_turns=2)


def log(places: Sequence[Place], sizes: Sizes = USUAL) -> Iterator[tuple[Figure, ...]]:
    """Three nodes and their clients at each place, which work in turns."""
    with ExitStack() as stack:
        systems = []
        for place in places:
            cluster = stack.enter_context(place.cluster())
            systems.append(stack.enter_context(running(place, cluster, clients=sizes.clients)))
            systems[-1].client.call("create", topics=_TOPICS)
        settle(systems)
        memory = [stack.enter_context(MemoryWatch(each.pids.values())) for each in systems]
        for tallies in _measured(systems, sizes):
            yield from zip(*tallies, strict=True)
        yield tuple(map(_memory_figure, memory))


def smallest_log(places: Sequence[Place]) -> Iterator[tuple[Figure, ...]]:
    """The same with so little work that only the program itself is tested."""
    return log(places, LEAST)


def _measured(systems: Sequence[System], sizes: Sizes) -> Iterator[list[list[Figure]]]:
    """The figures of each system, one workload after the other."""
    turns = sizes.turns
    tallies = in_turns(
        systems, turns, "append", "append", count=sizes.appends, record_bytes=_RECORD_BYTES
    )
    yield [list(_append_figures(tally)) for tally in tallies]
    tallies = in_turns(
        systems,
        turns,
        "records",
        "records",
        count=sizes.records,
        record_bytes=_RECORD_BYTES,
        rows=_ROWS,
    )
    yield [list(_record_figures(tally)) for tally in tallies]
    large = {"batch_bytes": _BATCH_BYTES, "max_in_flight": _IN_FLIGHT}
    tallies = in_turns(systems, turns, "batches", "batches", count=sizes.batches, **large)
    yield [list(_batch_figures(tally)) for tally in tallies]
    for system in systems:
        system.client.call("batches", topic="read", count=sizes.read_batches, **large)
    tallies = in_turns(systems, sizes.read_turns, "read", "read", passes=1)
    yield [list(_read_figures(tally)) for tally in tallies]


def _append_figures(tally: Tally) -> Iterator[Figure]:
    about = f"append one record of {_RECORD_BYTES} B and wait, one client"
    yield from latency_figures("append", tally, about)
    yield from cpu_figures("append", tally, tally.operations, "ms/append", 1e3)


def _record_figures(tally: Tally) -> Iterator[Figure]:
    yield Figure(
        name="records_per_s",
        value=tally.operations / tally.seconds,
        unit="records/s",
        about=f"records of {_RECORD_BYTES} B, Arrow batches of {_ROWS:,} to one producer",
        detail={"mb_per_s": tally.megabytes / tally.seconds},
    )
    yield from cpu_figures("record", tally, tally.operations, "us/record", 1e6)


def _batch_figures(tally: Tally) -> Iterator[Figure]:
    yield Figure(
        name="batches_mb_per_s",
        value=tally.megabytes / tally.seconds,
        unit="MB/s",
        about=f"batches of 1 MiB, {_IN_FLIGHT} in flight, uncompressed",
    )
    yield from cpu_figures("batches", tally, tally.megabytes, "ms/MB", 1e3)


def _read_figures(tally: Tally) -> Iterator[Figure]:
    yield Figure(
        name="read_mb_per_s",
        value=tally.megabytes / tally.seconds,
        unit="MB/s",
        about="read in batches of 1 MiB, page cache, one client",
    )
    # A client reads from whichever replica it likes, so the nodes cannot be told apart.
    client_s = tally.cpu_s["client"]
    nodes_s = tally.cpu_s["leader"] + tally.cpu_s["followers"]
    for name, spent_s in (("", client_s + nodes_s), ("_client", client_s), ("_nodes", nodes_s)):
        yield Figure(
            name=f"read_cpu{name}",
            value=1e3 * spent_s / tally.megabytes,
            unit="ms/MB",
            about="processor time for each MB read",
        )


def _memory_figure(memory: MemoryWatch) -> Figure:
    return Figure(
        name="node_memory_mb",
        value=memory.most("RssAnon") / MEGABYTE,
        unit="MB",
        about="highest anonymous memory of any node under all of the above",
        detail={
            "rss_mb": memory.most("VmRSS") / MEGABYTE,
            "mapped_files_mb": memory.most("RssFile") / MEGABYTE,
        },
    )
