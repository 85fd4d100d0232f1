"""What an idle cluster costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from raftlog.bench.measure import MEGABYTE
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import cpu_s, memory_bytes
from tests.bench.systems import System, running, settle

_COUNTS = (0, 1000)
"""So many topics."""
_WATCH_S = 60.0
"""An idle node takes a second of processor time meanwhile, which the kernel gives in steps of
10 ms."""


def idle(
    places: Sequence[Place], counts: Sequence[int] = _COUNTS, watch_s: float = _WATCH_S
) -> Iterator[tuple[Figure, ...]]:
    """A cluster at each place, all idle at the same time, as they get more and more topics."""
    with ExitStack() as stack:
        systems = []
        for place in places:
            cluster = stack.enter_context(place.cluster())
            systems.append(stack.enter_context(running(place, cluster)))
        made = 0
        for count in counts:
            topics = [f"t-{number}" for number in range(made, count)]
            for system in systems:
                if topics:
                    system.client.call("create", topics=topics)
            made = count
            settle(systems)
            yield from _watched(systems, count, watch_s)


def _watched(
    systems: Sequence[System], topics: int, watch_s: float
) -> Iterator[tuple[Figure, ...]]:
    began_s = time.perf_counter()
    before = [_spent_s(system) for system in systems]
    threading.Event().wait(watch_s)  # never set
    after = [_spent_s(system) for system in systems]
    seconds = time.perf_counter() - began_s
    percents = [
        [100 * (end_s - start_s) / seconds for start_s, end_s in zip(*both, strict=True)]
        for both in zip(before, after, strict=True)
    ]
    about = f"an idle cluster with {topics:,} topics, {watch_s:g} s"
    yield tuple(
        Figure(
            name=f"idle_{topics}_topics_cpu_percent",
            value=max(nodes),
            unit="% of a core",
            about=f"the busiest node of {about}",
            detail={
                "memory_mb": max(memory_bytes(pid)["RssAnon"] for pid in system.pids.values())
                / MEGABYTE,
            },
        )
        for system, nodes in zip(systems, percents, strict=True)
    )
    yield tuple(
        Figure(
            name=f"idle_{topics}_topics_all_cpu_percent",
            value=sum(nodes),
            unit="% of a core",
            about=f"all nodes of {about}",
        )
        for nodes in percents
    )


def _spent_s(system: System) -> list[float]:
    return [cpu_s(pid) for pid in system.pids.values()]
