"""Writers as an operator sees them: listed, bounded before the log, removed."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import (
    ExitCode,
    UnknownWriter,
    WriterBytesExceeded,
    WriterNotFound,
)
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo

DDL = "id bigint, text string"
STAGED_BYTES_MAX = 2_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One node: these tests are not about the consensus."""
    folder = tmp_path_factory.mktemp("writers")
    settings = [f"server.staged_bytes_max={STAGED_BYTES_MAX}"]
    with ProcessCluster.start(folder / "data", nodes=1, settings=settings) as running:
        yield running


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


def stream(writer: str, epoch: int) -> EpochKey:
    return EpochKey(writer=writer, query_id="query", run="run", epoch=epoch, streaming=True)


def anonymous() -> EpochKey:
    name = uuid.uuid4().hex
    return EpochKey(writer=name, query_id=name, run=name, epoch=0, streaming=False)


def rows(count: int, text: str = "") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": list(range(count)), "text": [text] * count},
        schema=pa.schema([("id", pa.int64()), ("text", pa.string())]),
    )


def stage(client: LogClient, topic: TopicInfo, of: EpochKey, count: int) -> AttemptReference:
    attempt = client.attempt(topic, of)
    attempt.write(rows(count))
    reference = attempt.finish()
    assert reference is not None
    return reference


def test_writers_are_listed_with_what_they_have_open(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, DDL)
    client.commit_epoch(topic, stream("s", 0), [stage(client, topic, stream("s", 0), 3)])
    stage(client, topic, stream("s", 1), 4)
    once = anonymous()
    client.commit_epoch(topic, once, [stage(client, topic, once, 2)], transient_writer=True)
    listed = {writer.writer: writer for writer in client.writers.scan(topic)}
    assert listed.keys() == {"s", once.writer}
    assert (listed["s"].kind, listed["s"].last_epoch) == ("stream", 0)
    assert (listed["s"].open_epochs, listed["s"].staged_bytes > 0) == (1, True)
    assert (listed[once.writer].kind, listed[once.writer].staged_bytes) == ("transient", 0)
    assert client.writers.describe(topic, "s") == listed["s"]
    words = ["writers", "list", name, "-o", "json", "--servers", cluster.servers]
    shown = subprocess.run(
        [sys.executable, "-m", "raftlog", *words],
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert [row["kind"] for row in json.loads(shown.stdout)] == [
        listed[writer].kind for writer in sorted(listed)
    ]


def test_a_batch_beyond_the_setting_is_refused_before_the_log(client: LogClient, name: str) -> None:
    topic = client.create_topic(name, DDL)
    attempt = client.attempt(topic, stream("s", 0), compression="none", batch_bytes=100_000)
    with pytest.raises(WriterBytesExceeded, match=r"server\.staged_bytes_max") as caught:
        attempt.write(rows(10_000, "x" * 1_000))
    assert caught.value.limit == STAGED_BYTES_MAX
    attempt.close()
    [writer] = client.writers.scan(topic)
    in_flight = 4 * 210_000
    assert writer.staged_bytes <= STAGED_BYTES_MAX + in_flight
    assert client.watermark(topic).dead_bytes == 0, "nothing that was refused is on disk"
    client.abort_epoch(topic, stream("s", 0))
    assert client.watermark(topic).dead_bytes > 0


def test_a_removed_writer_is_unknown_and_its_records_stay(
    cluster: ProcessCluster, client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, DDL)
    client.commit_epoch(topic, stream("s", 0), [stage(client, topic, stream("s", 0), 3)])
    with pytest.raises(WriterNotFound, match="raftlog writers list"):
        client.writers.remove(topic, "nobody")
    words = ["writers", "remove", name, "s", "--servers", cluster.servers]
    command = [sys.executable, "-m", "raftlog", *words]
    unasked = subprocess.run(
        command, input=b"n\n", capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert unasked.returncode == ExitCode.FAILED
    assert b"UnknownWriter" in unasked.stderr, "the consequence is told before"
    subprocess.run([*command, "--yes"], timeout=PATIENCE_S, check=True)
    assert list(client.writers.scan(topic)) == []
    with pytest.raises(UnknownWriter):
        stage(client, topic, stream("s", 1), 1)
    assert client.read_high_water_mark(topic).high_water_mark == 3
