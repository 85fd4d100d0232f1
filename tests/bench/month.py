"""Topics that are written for long in small epochs: what they cost a node in memory, restart and
disk, and what compaction costs the appends beside it.

A stream with a batch a second from eight tasks writes such epochs. How long it takes makes no
difference here: what counts is how many entries there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from raftlog.bench.measure import MEGABYTE, latency_of
from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import Offset
from raftlog.errors import RaftlogError
from raftlog.machines.commands import EpochKey, TopicInfo
from tests.bench.disk import (
    NEVER_COMPACTED,
    disk_bytes,
    views_of,
    wait_compacted,
)
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import MemoryWatch
from tests.bench.rows import SCHEMA_DDL, rows
from tests.cluster.waiting import wait_serving

NODES = (1, 2, 3)
_TASKS = 8
_TASK_ROWS = 5
"""About 200 bytes: what a task of a small micro-batch writes."""
_EPOCH_ROWS = _TASKS * _TASK_ROWS
_EPOCH_ENTRIES = _TASKS + 1
_CLIENT_THREADS = 8
_LARGE_ROWS = 65_536
_CALM_S = 10.0
"""Before, and once more after: the speed of a shared machine varies."""
_PATIENCE_S = 7200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """How much is written, and how often it is compacted."""

    topics: int
    epochs: int
    """Of each topic."""
    snapshot_entries: int


class _Size(NamedTuple):
    """What one node costs at one size."""

    entries: int
    memory_mb: float
    restart_s: float
    disk_mb: float


def month(topics: int, epochs: int, snapshot_entries: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece that writes so many topics, and measures after each third of their epochs; the
    arguments are those of `Month`."""
    size = Month(topics=topics, epochs=epochs, snapshot_entries=snapshot_entries)

    def piece(place: Place) -> Iterator[Figure]:
        often = [
            f"storage.snapshot_entries={size.snapshot_entries}",
            # Logs are dropped by whole segments, so small ones show after fewer entries what stays.
            "storage.segment_bytes_max=1048576",
            "server.entry_bytes_max=1048576",
            "client.batch_bytes=524288",
        ]
        with place.cluster(settings=often) as cluster, cluster.client() as client:
            topics = [
                client.create_topic(f"t-{number}", SCHEMA_DDL) for number in range(size.topics)
            ]
            ends = [size.epochs * thirds // 3 for thirds in range(4)]
            sizes = [
                _grow(cluster, client, topics, range(first, end), size)
                for first, end in pairwise(ends)
            ]
            all_s = restart_s(cluster, NODES, lambda: serves(client, topics))
        yield from _figures(size, sizes)
        yield Figure(
            name="month_restart_all_s",
            value=all_s,
            unit="s",
            about="all three nodes started at once, until a linearizable read of every topic",
        )
        yield _append_p99_ratio(place, size)
        yield _disk_ratio(place, topics[0])

    return piece


# ---------------------------------------------------------------- sizes


def _grow(
    cluster: ProcessCluster,
    client: LogClient,
    topics: Sequence[TopicInfo],
    epochs: range,
    size: Month,
) -> _Size:
    """Write the epochs, wait for compaction, and restart a node."""
    node = NODES[-1]
    with MemoryWatch(cluster.pids.values(), with_children=True) as watch:
        _write(client, topics, epochs)
        # What came after the last point stays in the log.
        points = epochs.stop * _EPOCH_ENTRIES // size.snapshot_entries
        compacted = max(0, points - 1) * size.snapshot_entries // _EPOCH_ENTRIES * _EPOCH_ROWS
        wait_compacted(client, topics, Offset(compacted), _PATIENCE_S)
    groups = [cluster.data / f"node-{node}" / "groups" / str(topic.group) for topic in topics]
    assert all(group.is_dir() for group in groups), f"no folder {groups[0]}"
    disk = sum(map(disk_bytes, groups))
    end = Offset(epochs.stop * _EPOCH_ROWS)
    one_s = restart_s(cluster, [node], lambda: applied(client, topics, node, end))
    return _Size(
        entries=len(topics) * epochs.stop * _EPOCH_ENTRIES,
        memory_mb=watch.most("VmRSS") / MEGABYTE,
        restart_s=one_s,
        disk_mb=disk / MEGABYTE,
    )


def restart_s(cluster: ProcessCluster, nodes: Sequence[int], serves: Callable[[], bool]) -> float:
    for node in nodes:
        cluster.terminate(node)
    began_s = time.perf_counter()
    for node in nodes:
        cluster.serve(node)
    wait_for(serves, "the nodes to serve again", _PATIENCE_S)
    return time.perf_counter() - began_s


def applied(client: LogClient, topics: Sequence[TopicInfo], node: int, end: Offset) -> bool:
    """Does the node have every topic's records below `end`?"""
    try:
        views = [view for view in views_of(client, topics) if view.node == node]
    except RaftlogError:
        return False
    return len(views) == len(topics) and all(view.high_water_mark >= end for view in views)


def serves(client: LogClient, topics: Sequence[TopicInfo]) -> bool:
    """Does every topic answer a linearizable read?"""
    try:
        for topic in topics:
            client.read_high_water_mark(topic)
    except RaftlogError:
        return False
    return True


def _figures(size: Month, sizes: Sequence[_Size]) -> Iterator[Figure]:
    first, last = sizes[0], sizes[-1]
    million = (last.entries - first.entries) / 1_000_000
    about = (
        f"{size.topics} topics, {last.entries:,} entries in all, a snapshot point every "
        f"{size.snapshot_entries:,} entries of a topic"
    )
    for name, unit, what in (
        ("memory_mb", "MB", "highest resident memory of a node and its compaction process"),
        ("restart_s", "s", "one node started, until it has applied every topic"),
        ("disk_mb", "MB", "a node's folders of the topics"),
    ):
        values = [getattr(each, name) for each in sizes]
        yield Figure(
            name=f"month_{name}",
            value=values[-1],
            unit=unit,
            about=f"{what}: {about}",
            detail={
                "at_a_third": values[0],
                "at_two_thirds": values[1],
                "for_a_million_entries_more": (values[-1] - values[0]) / million,
            },
        )


# ---------------------------------------------------------------- beside compaction


def _append_p99_ratio(place: Place, size: Month) -> Figure:
    """All topics of a new cluster reach their first snapshot point at about the same time."""
    settings = [f"storage.snapshot_entries={size.snapshot_entries}"]
    before = range(size.snapshot_entries // _EPOCH_ENTRIES - 2)
    more = range(before.stop, before.stop + 4)
    with place.cluster("beside", settings=settings) as cluster, cluster.client() as client:
        topics = [client.create_topic(f"b-{number}", SCHEMA_DDL) for number in range(size.topics)]
        other = client.create_topic("other", SCHEMA_DDL)
        _write(client, topics, before)
        calm = _append_for(client, other, _CALM_S)
        _write(client, topics, more)
        compacted = threading.Event()
        end = Offset(before.stop * _EPOCH_ROWS)
        watcher = threading.Thread(
            target=_tell_when_compacted, args=(cluster, topics, end, compacted)
        )
        watcher.start()
        beside = latency_of(_append(client, other, compacted))
        watcher.join()
        calm_ms = latency_of(calm + _append_for(client, other, _CALM_S)).p99_ms
    return Figure(
        name="month_append_p99_ratio",
        value=beside.p99_ms / calm_ms,
        unit="times",
        about=f"p99 of single appends to another topic while {size.topics} topics of "
        f"{size.snapshot_entries:,} entries are compacted, over p99 while nothing is",
        detail={"calm_ms": calm_ms, "beside_ms": beside.p99_ms, "beside_p50_ms": beside.p50_ms},
    )


def _append_for(client: LogClient, topic: TopicInfo, seconds: float) -> list[int]:
    over = threading.Event()
    timer = threading.Timer(seconds, over.set)
    timer.start()
    return _append(client, topic, over)


def _append(client: LogClient, topic: TopicInfo, over: threading.Event) -> list[int]:
    """How long single appends took until `over`, in nanoseconds."""
    samples: list[int] = []
    while not over.is_set():
        began_ns = time.perf_counter_ns()
        client.append(topic, rows(0, 1))
        samples.append(time.perf_counter_ns() - began_ns)
    return samples


def _tell_when_compacted(
    cluster: ProcessCluster, topics: Sequence[TopicInfo], end: Offset, told: threading.Event
) -> None:
    try:
        with cluster.client() as client:
            wait_compacted(client, topics, end, _PATIENCE_S)
    finally:
        told.set()


def _disk_ratio(place: Place, topic: TopicInfo) -> Figure:
    """The same rows once more, in large batches."""
    with place.cluster(settings=NEVER_COMPACTED) as cluster, cluster.client() as client:
        wait_serving(cluster)
        [small, *_] = views_of(client, [topic])
        large = client.create_topic("large", SCHEMA_DDL)
        for start in range(0, small.history_end, _LARGE_ROWS):
            count = min(_LARGE_ROWS, small.history_end - start)
            client.append(large, rows(start, count))
        [log, *_] = views_of(client, [large])
    return Figure(
        name="month_disk_ratio",
        value=small.history_bytes / log.log_bytes,
        unit="times",
        about=f"bytes of the history files of {small.history_end:,} rows that came in batches of "
        f"{_TASK_ROWS}, over those of a log of the same rows in batches of {_LARGE_ROWS:,}",
        detail={
            "history_mb": small.history_bytes / MEGABYTE,
            "large_batches_mb": log.log_bytes / MEGABYTE,
        },
    )


# ---------------------------------------------------------------- what is written


def _write(client: LogClient, topics: Sequence[TopicInfo], epochs: range) -> None:
    with ThreadPoolExecutor(_CLIENT_THREADS) as threads:
        for each in [threads.submit(_write_topic, client, topic, epochs) for topic in topics]:
            each.result()


def _write_topic(client: LogClient, topic: TopicInfo, epochs: range) -> None:
    for epoch in epochs:
        key = EpochKey(writer="query", query_id="query", run="run", epoch=epoch, streaming=True)
        attempts = []
        for task in range(_TASKS):
            attempt = client.attempt(topic, key)
            attempt.write(rows(epoch * _EPOCH_ROWS + task * _TASK_ROWS, _TASK_ROWS))
            reference = attempt.finish()
            assert reference is not None, "every task has rows"
            attempts.append(reference)
        client.commit_epoch(topic, key, attempts)
