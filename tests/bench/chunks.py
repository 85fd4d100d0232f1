"""A node with as many history files as a month of small epochs leaves, made directly.

To write a month's 467 million entries takes days. What a node keeps in memory and reads at its
start follows from the number of files, so each has few records here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from raftlog.bench.measure import MEGABYTE
from raftlog.client.log_client import LogClient
from raftlog.compaction.row_groups import SourceBatch, row_groups
from raftlog.core.types import Offset
from raftlog.image.history_file import HistoryFile, write_history_file
from raftlog.image.manifest import HistoryInfo, read_image, write_image
from raftlog.machines.commands import TopicInfo
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.storage.posix import PosixFileSystem
from raftlog.wire.runs import Runs
from tests.bench.disk import NEVER_COMPACTED, wait_compacted
from tests.bench.figures import Figure
from tests.bench.month import NODES, applied, restart_s, serves
from tests.bench.place import Place
from tests.bench.processes import MemoryWatch
from tests.bench.rows import SCHEMA_DDL, rows

_FILE_ROWS = 40
_APPENDS = 8
"""So many entries are a snapshot point's least distance."""
_PATIENCE_S = 600.0


def chunks(topics: int, files: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece with so many topics of so many history files each."""

    def piece(place: Place) -> Iterator[Figure]:
        made = _compacted_topics(place, topics, files)
        for topic in made:
            _split_history(place.folder / "data", topic, files)
        end = Offset(files * _FILE_ROWS)
        with place.cluster(settings=NEVER_COMPACTED) as cluster, cluster.client() as client:
            one_s = restart_s(cluster, NODES[-1:], lambda: applied(client, made, NODES[-1], end))
            all_s = restart_s(cluster, NODES, lambda: serves(client, made))
            with MemoryWatch(cluster.pids.values(), with_children=True) as watch:
                for topic in made:
                    _read_all(client, topic, end)
            memory_mb = watch.most("VmRSS") / MEGABYTE
        about = f"{topics} topics of {files:,} history files each"
        yield Figure(
            name="chunks_memory_mb",
            value=memory_mb,
            unit="MB",
            about=f"highest resident memory of a node while all records are read: {about}",
        )
        yield Figure(
            name="chunks_restart_s",
            value=one_s,
            unit="s",
            about=f"one node started, until it has opened every topic: {about}",
        )
        yield Figure(
            name="chunks_restart_all_s",
            value=all_s,
            unit="s",
            about=f"all nodes started, until every topic answers a linearizable read: {about}",
        )

    return piece


def _compacted_topics(place: Place, topics: int, files: int) -> Sequence[TopicInfo]:
    """New topics whose records are in one history file each, on every node."""
    settings = [f"storage.snapshot_entries={_APPENDS}"]
    count = files * _FILE_ROWS
    with place.cluster(settings=settings) as cluster, cluster.client() as client:
        made = [client.create_topic(f"t-{number}", SCHEMA_DDL) for number in range(topics)]
        for topic in made:
            client.append(topic, rows(0, count))
            for each in range(_APPENDS):
                client.append(topic, rows(count + each, 1))
        wait_compacted(client, made, Offset(count), _PATIENCE_S)
    return made


def _split_history(data: Path, topic: TopicInfo, files: int) -> None:
    """Give the topic's first records a history file for every `_FILE_ROWS`, on every node."""
    first, *others = (data / f"node-{node}" for node in NODES)
    fs, folder = PosixFileSystem(first), f"groups/{topic.group}"
    image = read_image(fs, folder).image
    [whole, *rest] = image.history
    assert whole.start == 0, "the first history file begins with the first record"
    assert whole.end >= files * _FILE_ROWS, "it holds what was appended first"
    source = HistoryFile(fs, folder, topic.group, whole)
    timestamp_us = next(source.row_groups_between(Offset(0), Offset(1))).runs.timestamps_us[0]
    source.close()
    (first / folder / whole.name).unlink()
    starts = [number * _FILE_ROWS for number in range(files)]
    ends = [*starts[1:], whole.end]
    split = tuple(
        _history_file(fs, topic, start, end, timestamp_us)
        for start, end in zip(starts, ends, strict=True)
    )
    write_image(
        fs, folder, replace(image, generation=image.generation + 1, history=(*split, *rest))
    )
    for other in others:
        shutil.rmtree(other / folder)
        shutil.copytree(first / folder, other / folder)


def _history_file(
    fs: PosixFileSystem, topic: TopicInfo, start: int, end: int, timestamp_us: int
) -> HistoryInfo:
    schema = topic.schema
    encoded = encode_batch(conform(rows(start, end - start), schema, topic.name), schema, "lz4")
    runs = Runs.of_one(count=end - start, timestamp_us=timestamp_us, term=1, epoch=-1, writer="")
    body = bytes(encoded.body)
    batch = SourceBatch(
        start=Offset(start), header=encoded.header, body=body, record_bytes=len(body), runs=runs
    )
    groups = row_groups([batch], schema, planes=True)
    return write_history_file(fs, f"groups/{topic.group}", topic.group, groups)


def _read_all(client: LogClient, topic: TopicInfo, end: Offset) -> None:
    count = 0
    for batch in client.read(topic, 0, end):
        count += batch.num_rows
    assert count == end, f"{count} records of {end} were read"
