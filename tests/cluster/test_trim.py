"""Trims, and epochs that overwrite a topic, from end to end: what is removed, and that everything
else continues."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import ExitCode, OffsetTrimmed
from raftlog.machines.commands import EpochKey

DDL = "id bigint"


@pytest.fixture(scope="module")
def cluster(lone: ProcessCluster) -> ProcessCluster:
    return lone


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def name(client: LogClient) -> str:
    """A topic with the ids 0 to 9 at these offsets, in entries of 1, 4, 1 and 4 rows."""
    topic = f"t-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, DDL)
    append(client, topic, 0, 1, 5, 6, 10)
    return topic


def append(client: LogClient, topic: str, *boundaries: int) -> None:
    for start, end in pairwise(boundaries):
        client.append(topic, [{"id": each} for each in range(start, end)])


def ids(client: LogClient, topic: str, *range_: int) -> list[int]:
    return [row["id"] for batch in client.read(topic, *range_) for row in batch.to_pylist()]


def ran(cluster: ProcessCluster, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def answer(cluster: ProcessCluster, *words: str) -> Any:
    ended = ran(cluster, *words, "-o", "json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    return json.loads(ended.stdout)


def test_what_is_trimmed_is_refused_and_the_rest_stays_where_it_was(
    client: LogClient, name: str
) -> None:
    assert client.trim(name, before=3) == 3, "within an entry"
    assert ids(client, name) == list(range(3, 10)), "a read begins at the log's start"
    assert ids(client, name, 4, 7) == [4, 5, 6]
    for ask in (
        lambda: ids(client, name, 2, 5),
        lambda: client.read_sizes(name, 2, 5, mark=10, pieces_max=3),
        lambda: next(client.follow(name, 0, idle_timeout_s=PATIENCE_S)),
    ):
        with pytest.raises(OffsetTrimmed, match=r"Read from offset \d+ on") as caught:
            ask()
        assert (caught.value.earliest, caught.value.end) == (3, 10)
    held = client.read_high_water_mark(name)
    assert (held.log_start_offset, held.high_water_mark) == (3, 10)
    assert client.read_sizes(name, 3, 10, mark=10, pieces_max=1).offsets == (3, 10)
    waits = client.read_sizes(name, 0, 0, mark=10, pieces_max=1)
    assert waits.offsets == (0,), "an older client waits for a mark so, wherever the log starts"
    assert client.watermark(name).log_start_offset == 3
    assert client.trim(name, before=1) == 3, "it never goes back"


def test_an_emptied_topic_is_written_and_read_on(client: LogClient, name: str) -> None:
    key = EpochKey(writer="s", query_id="s", run="run", epoch=0, streaming=True)
    producer = client.producer(name)
    first = producer.append_and_flush([{"id": 10}])
    committed = client.commit_epoch(name, key, [])
    assert client.trim(name, before=1_000_000) == first.end == 11, "at most to the mark"
    assert ids(client, name) == []
    assert client.read_high_water_mark(name).record_bytes == 0
    followed = client.follow(name, 11, idle_timeout_s=PATIENCE_S)
    assert producer.append_and_flush([{"id": 11}]).start == 11
    producer.close()
    assert next(followed).to_pylist() == [{"id": 11}]
    again = client.commit_epoch(name, key, [])
    assert (again.replayed, again.record_count) == (True, committed.record_count)
    assert client.commit_epoch(name, EpochKey(**{**_values(key), "epoch": 1}), []).start == 12


def _values(key: EpochKey) -> dict[str, Any]:
    return {
        name: getattr(key, name) for name in ("writer", "query_id", "run", "epoch", "streaming")
    }


def test_a_restarted_node_begins_where_it_was_trimmed(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    client.trim(name, before=6)
    cluster.kill(1)
    cluster.serve(1)
    assert ids(client, name) == [6, 7, 8, 9]
    assert client.read_high_water_mark(name).log_start_offset == 6


def overwrite(client: LogClient, name: str, epoch: int) -> int:
    """Overwrite the topic with `epoch` rows that have this id; the first offset."""
    key = EpochKey(writer="s", query_id="s", run="run", epoch=epoch, streaming=True)
    attempt = client.attempt(name, key)
    attempt.write(pa.RecordBatch.from_pylist([{"id": epoch}] * epoch, pa.schema({"id": "int64"})))
    return client.commit_epoch(name, key, [attempt.finish()], overwrite=True).start


def test_a_reader_sees_what_an_epoch_overwrote_or_what_it_wrote(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    """Whole, and nothing else; a read that was under way says that its records are gone."""
    key = EpochKey(writer="s", query_id="s", run="run", epoch=0, streaming=True)
    client.commit_epoch(name, key, [], overwrite=True)
    assert ids(client, name) == []
    ended = threading.Event()
    wrong: list[list[int]] = []
    seen: set[int] = set()

    def look() -> None:
        with cluster.client() as other:
            while not ended.is_set():
                try:
                    found = ids(other, name)
                except OffsetTrimmed:
                    continue
                seen.add(len(found))
                if found != [len(found)] * len(found):
                    wrong.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        starts = [overwrite(client, name, epoch) for epoch in range(1, 40)]
    finally:
        ended.set()
        reader.join(PATIENCE_S)
    assert starts == [10 + sum(range(epoch)) for epoch in range(1, 40)]
    assert not wrong
    assert len(seen) > 1
    append(client, name, 100, 101)
    again = replace(key, epoch=39, run="again")
    assert client.commit_epoch(name, again, [], keep_on_mismatch=True, overwrite=True).kept
    cluster.kill(1)
    cluster.serve(1)
    assert ids(client, name) == [39] * 39 + [100]
    assert client.watermark(name).log_start_offset == starts[-1]


def test_the_command_line_trims_by_offset_and_by_time(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    times = [
        each
        for batch in client.read(name, columns=["_timestamp"])
        for each in batch.column(0).to_pylist()
    ]
    assert times[1] < times[5], "two appends never have one timestamp here"
    unasked = ran(cluster, "topic", "trim", name, "--before", "1", text="n\n")
    assert (unasked.returncode, client.watermark(name).log_start_offset) == (1, 0)
    question = f"Remove the records [0, 1) of topic '{name}', permanently? [1, 10) stays."
    assert question in unasked.stderr
    trimmed = answer(cluster, "topic", "trim", name, "--before", "1", "--yes")
    assert trimmed == {"topic": name, "removed_records": 1, "log_start_offset": 1}
    described = answer(cluster, "topic", "describe", name)
    assert (described["log_start_offset"], described["high_water_mark"]) == (1, 10)
    iso = times[5].isoformat()
    assert answer(cluster, "topic", "trim", name, "--before", iso, "-y")["log_start_offset"] == 5
    seconds = f"@{times[5].timestamp() + 0.000001:.6f}"
    assert (
        answer(cluster, "topic", "trim", name, "--before", seconds, "-y")["log_start_offset"] == 6
    )
    long_ago = answer(cluster, "topic", "trim", name, "--before", "2001-02-03", "--yes")
    assert (long_ago["removed_records"], long_ago["log_start_offset"]) == (0, 6)
    assert [row["id"] for row in _tailed(cluster, name)] == [6, 7, 8, 9]
    tomorrow = datetime.datetime.now(tz=datetime.UTC) + datetime.timedelta(days=1)
    done = ran(cluster, "topic", "trim", name, "--before", tomorrow.isoformat(), "--yes")
    assert done.stderr.startswith(f"removed [6, 10) of topic {name}, all the records that it had;")


def _tailed(cluster: ProcessCluster, name: str) -> list[dict[str, Any]]:
    ended = ran(cluster, "tail", name, "--no-follow", "--start", "earliest", "-o", "json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_an_offset_above_the_end_is_refused(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    """The library takes it for the mark; a person has mistyped it, or means a time."""
    ended = ran(cluster, "topic", "trim", name, "--before=11", "--yes")
    assert ended.returncode == ExitCode.USAGE
    assert "'--before' is 11, above the end" in ended.stderr
    assert "@SECONDS" in ended.stderr
    assert client.read_high_water_mark(name).log_start_offset == 0
