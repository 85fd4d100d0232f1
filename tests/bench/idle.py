"""What an idle cluster costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from raftlog import LogClient
from raftlog.bench.measure import MEGABYTE
from raftlog.chaos.cluster import ProcessCluster
from raftlog.core.types import GroupId, Term
from raftlog.errors import RaftlogError
from tests.bench.figures import Figure
from tests.bench.processes import cpu_s, memory_bytes

_SETTLE_S = 5.0
"""So long no leader has changed: those of new topics are spread over the nodes first."""
_SETTLED_WITHIN_S = 180.0
_WATCH_S = 15.0


def idle(counts: Sequence[int]) -> Callable[[Path], Iterator[Figure]]:
    """A piece that measures one cluster as it gets so many topics, one count after another."""

    def piece(folder: Path) -> Iterator[Figure]:
        with ProcessCluster.start(folder / "idle") as cluster, cluster.client() as client:
            made = 0
            for count in counts:
                make_topics(client, range(made, count))
                made = count
                settle(client)
                yield _figure(count, list(cluster.pids.values()))

    return piece


def make_topics(client: LogClient, numbers: range) -> None:
    """Topics, the last of which has a record."""
    for number in numbers:
        client.create_topic(f"t-{number}", "payload binary not null")
    client.append(f"t-{numbers[-1]}", [{"payload": b"x"}])


def settle(client: LogClient) -> None:
    """Wait until leaders change no more, and nothing is awake."""
    pause, deadline_s = threading.Event(), time.monotonic() + _SETTLED_WITHIN_S
    terms, since_s = _terms(client), time.monotonic()
    while time.monotonic() - since_s < _SETTLE_S:
        assert time.monotonic() < deadline_s, "leaders still change"
        pause.wait(1.0)
        before, terms = terms, _terms(client)
        if terms != before:
            since_s = time.monotonic()
    pause.wait(_SETTLE_S)  # these looks have woken something


def _terms(client: LogClient) -> dict[GroupId, Term]:
    """The latest term of each group."""
    found: dict[GroupId, Term] = {}
    for _, _, view in client.views():
        assert not isinstance(view, RaftlogError), view
        for each in view.groups:
            found[each.group] = max(found.get(each.group, Term(0)), each.term)
    return found


def _figure(topics: int, pids: list[int]) -> Figure:
    pause = threading.Event()
    began_s = time.perf_counter()
    before = [cpu_s(pid) for pid in pids]
    pause.wait(_WATCH_S)
    seconds = time.perf_counter() - began_s
    percents = [
        100 * (cpu_s(pid) - start_s) / seconds for pid, start_s in zip(pids, before, strict=True)
    ]
    return Figure(
        name=f"idle_{topics}_topics_cpu_percent",
        value=max(percents),
        unit="% of a core",
        about=f"the busiest node of an idle cluster with {topics:,} topics, {_WATCH_S:g} s",
        detail={
            "all_nodes_percent": sum(percents),
            "memory_mb": max(memory_bytes(pid)["RssAnon"] for pid in pids) / MEGABYTE,
        },
    )
