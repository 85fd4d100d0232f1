"""What a user sees of an error that ends a query on the driver: its own words, soon."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import AnalysisException

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from tests.spark.conftest import failure, finish, need_streams


def wrong_options(lab) -> None:
    lab.read(startingOffsets="soon")


def no_such_topic(lab) -> None:
    lab.read(subscribe=lab.topic + "-gone")


def other_columns(lab) -> None:
    lab.write(lab.spark.range(1).selectExpr("id AS other"))


def unreachable(lab) -> None:
    lab.write(lab.spark.range(1), raftlog__bootstrap__servers=nobody())


def nobody() -> str:
    """An address where nothing listens, at least for now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (wrong_options, "InvalidOption: Option 'startingOffsets' is 'soon', which is neither"),
        (no_such_topic, "TopicNotFound: There is no topic '"),
        (other_columns, "SchemaMismatch: "),
        (unreachable, "NodeUnreachable: The node at "),
    ],
)
def test_an_error_begins_with_its_own_words_and_has_no_stack(
    lab, fail: Callable[..., None], words: str
) -> None:
    lab.create()
    with pytest.raises(AnalysisException) as raised:
        fail(lab)
    first, *others = str(raised.value).splitlines()
    assert words in first
    assert others[-1].split() == ["SQLSTATE:", "38000"], "which Spark appends to every error"
    assert "Traceback" not in str(raised.value)
    assert 'File "' not in str(raised.value)


def test_a_stream_that_cannot_begin_says_so_in_its_first_line(lab) -> None:
    lab.create()
    stream = lab.read_stream(schema="id bigint", startingOffsets="soon")
    message = failure(lab.collect(stream, []))
    assert "InvalidOption: Option 'startingOffsets' is 'soon'" in message.splitlines()[0]
    assert "Traceback" not in message


def test_what_the_log_refuses_in_a_task_is_told_without_its_stack(lab) -> None:
    """A checkpoint that was lost, under a name that is known."""
    need_streams()
    lab.rows_file("a", 1)
    finish(lab.sink(lab.file_stream(), txnAppId="job").start())
    shutil.rmtree(lab.checkpoint)
    message = failure(lab.sink(lab.file_stream(), txnAppId="job").start())
    said = next(line for line in message.splitlines() if "CheckpointReset: " in line)
    assert "exception" in said.lower() or said.startswith("raftlog.errors.")
    assert "Traceback" not in message
    assert 'File "' not in message
    assert lab.ids() == [1]


def test_a_read_is_soon_told_that_no_node_answers_any_more(lab) -> None:
    """In a session whose worker processes have had answers before."""
    need_streams()
    lab.create()
    patient_ms = int(10 * PATIENCE_S * 1000)
    with faulty_cluster(lab) as servers:
        given = {
            "raftlog__bootstrap__servers": servers,
            "raftlog__request__timeout__ms": patient_ms,
        }
        assert lab.read_stream(subscribe="t", **given).isStreaming
    for load in (lab.read, lab.read_stream):
        with pytest.raises(AnalysisException, match="NodeUnreachable: The node at "):
            load(subscribe="t", **given)


@contextmanager
def faulty_cluster(lab) -> Iterator[str]:
    """The servers of a cluster of one node with the topic "t", which is gone afterwards."""
    with ProcessCluster.start(lab.folder / "gone", nodes=1) as cluster:
        with cluster.client() as client:
            client.create_topic("t", "id bigint")
        yield cluster.servers


def test_the_errors_of_users_functions_keep_their_stacks(lab) -> None:
    """Also after one of ours: each ends its worker process."""
    lab.create()
    with pytest.raises(AnalysisException):
        wrong_options(lab)

    def broken(batches):
        raise ValueError("broken function")
        yield from batches

    with pytest.raises(Exception, match=r'File ".*test_errors\.py"(.|\n)*broken function'):
        lab.spark.range(1).mapInArrow(broken, "id bigint").collect()


def test_a_stream_that_only_writes_is_soon_told_that_nothing_listens(lab) -> None:
    """Each of its runs: the request timeout is far longer than the test may take."""
    need_streams()
    patient_ms = int(10 * PATIENCE_S * 1000)
    lab.rows_file("a", 1)
    for _ in range(2):
        sink = lab.sink(
            lab.file_stream(),
            raftlog__bootstrap__servers=nobody(),
            raftlog__request__timeout__ms=patient_ms,
        )
        assert "NodeUnreachable: The node at " in failure(sink.start()).splitlines()[0]
