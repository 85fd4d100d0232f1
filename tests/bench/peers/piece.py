"""The log beside etcd and NATS JetStream, in turns, so that ratios carry over to other machines.

All of them sync to a majority of three before they acknowledge. etcd is asked by its key-value API
with a Python client, JetStream by its Python client and, where Go is installed, by its Go client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from raftlog.bench.measure import latency_of
from raftlog.chaos.cluster import wait_for
from tests.bench.client_process import ClientProcess
from tests.bench.figures import Figure
from tests.bench.peers.servers import (
    NoPeer,
    etcd_members,
    etcd_program,
    go_client,
    nats_program,
    nats_servers,
    need_nats_py,
    version_of,
)
from tests.bench.place import Place
from tests.bench.systems import System, Tally, in_turns, running, settle

_RECORD_BYTES = 100
_BATCH_BYTES = 1 << 20
_IN_FLIGHT = 8
_TOPICS = ["append", "batches", "read"]
_LEADER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How often each client works, and how much it does then."""

    turns: int
    appends: int
    batches: int


USUAL = Sizes(turns=40, appends=100, batches=16)
LEAST = Sizes(turns=2, appends=5, batches=2)


def peers(places: Sequence[Place], sizes: Sizes = USUAL) -> Iterator[tuple[Figure, ...]]:
    """A cluster of raftlog at each place, and those peers that are installed."""
    with ExitStack() as stack:
        ours = []
        for place in places:
            cluster = stack.enter_context(place.cluster())
            ours.append(stack.enter_context(running(place, cluster)))
            ours[-1].client.call("create", topics=_TOPICS)
        settle(ours)
        folder = places[0].folder
        others = [*_etcd(stack, folder), *_jetstream(stack, folder)]
        systems = [*ours, *others]
        appends = in_turns(
            systems,
            sizes.turns,
            "append",
            "append",
            count=sizes.appends,
            record_bytes=_RECORD_BYTES,
        )
        batches = in_turns(
            systems,
            sizes.turns,
            "batches",
            "batches",
            count=sizes.batches,
            batch_bytes=_BATCH_BYTES,
            max_in_flight=_IN_FLIGHT,
        )
        for system in systems:
            system.client.call(
                "batches",
                topic="read",
                count=sizes.turns,
                batch_bytes=_BATCH_BYTES,
                max_in_flight=_IN_FLIGHT,
            )
        reads = in_turns(systems, sizes.turns, "read", "read", passes=1)
    found = [_values(*each) for each in zip(appends, batches, reads, strict=True)]
    for other, theirs in zip(others, found[len(ours) :], strict=True):
        for name in theirs:
            yield tuple(_ratio(other.name, name, own, theirs) for own in found[: len(ours)])


def smallest_peers(places: Sequence[Place]) -> Iterator[tuple[Figure, ...]]:
    """The same with so little work that only the program itself is tested."""
    return peers(places, LEAST)


def _values(appends: Tally, batches: Tally, reads: Tally) -> dict[str, float]:
    """What one system came to. Times are in ms, rates in MB/s."""
    latency = latency_of(appends.samples_ns)
    return {
        "append_p50": latency.p50_ms,
        "append_p99": latency.p99_ms,
        "append_cpu": 1e3 * sum(appends.cpu_s.values()) / appends.operations,
        "batches": batches.megabytes / batches.seconds,
        "batches_cpu": 1e3 * sum(batches.cpu_s.values()) / batches.megabytes,
        "read": reads.megabytes / reads.seconds,
        "read_cpu": 1e3 * sum(reads.cpu_s.values()) / reads.megabytes,
    }


_ABOUT = {
    "append_p50": f"p50 of an append of {_RECORD_BYTES} B, one client, ms",
    "append_p99": "p99 of the same",
    "append_cpu": "processor time of an append, client and three nodes, ms",
    "batches": f"rate of batches of 1 MiB, {_IN_FLIGHT} in flight, MB/s",
    "batches_cpu": "processor time of a MB of them, client and three nodes, ms",
    "read": "rate of a read of such batches, MB/s",
    "read_cpu": "processor time of a MB read, client and three nodes, ms",
}


def _ratio(peer: str, name: str, own: Mapping[str, float], theirs: Mapping[str, float]) -> Figure:
    return Figure(
        name=f"{peer}_{name}_ratio",
        value=own[name] / theirs[name],
        unit="x",
        about=f"{_ABOUT[name]}: raftlog's over that of {peer}",
        detail={"raftlog": own[name], peer: theirs[name]},
    )


# ---------------------------------------------------------------- peers


def _etcd(stack: ExitStack, folder: Path) -> Iterator[System]:
    try:
        program = etcd_program()
    except NoPeer as missing:
        _say(f"etcd is left out: {missing}")
        return
    _say(f"etcd: {version_of(program)}")
    addresses, pids = stack.enter_context(etcd_members(program, folder / "etcd"))
    command = [sys.executable, "-m", "tests.bench.peers.etcd_client", addresses]
    yield _system(stack, "etcd", command, pids, folder)


def _jetstream(stack: ExitStack, folder: Path) -> Iterator[System]:
    try:
        program = nats_program()
    except NoPeer as missing:
        _say(f"JetStream is left out: {missing}")
        return
    _say(f"JetStream, sync_interval always: {version_of(program)}")
    for name, client in (("jetstream_py", _python_client), ("jetstream_go", _go_client)):
        try:
            command = client()
        except NoPeer as missing:
            _say(f"{name} is left out: {missing}")
            continue
        # Servers of its own, because both clients have the same streams.
        addresses, pids = stack.enter_context(nats_servers(program, folder / name))
        system = _system(stack, name, [*command, addresses], pids, folder)
        system.client.call("create", topics=_TOPICS)
        yield system


def _python_client() -> list[str]:
    need_nats_py()
    return [sys.executable, "-m", "tests.bench.peers.nats_client"]


def _go_client() -> list[str]:
    return [str(go_client())]


def _system(
    stack: ExitStack, name: str, command: list[str], pids: Mapping[int, int], folder: Path
) -> System:
    client = stack.enter_context(ClientProcess(name, command, folder / f"{name}-client.log"))
    system = System(name=name, clients=[client], pids=pids)
    if name == "etcd":
        wait_for(lambda: system.leader("") != 0, "a leader of etcd", _LEADER_S)
    return system


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr)
