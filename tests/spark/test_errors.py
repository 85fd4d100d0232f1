"""What a user sees of an error that ends a query on the driver: its own words, soon."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException

from tests.spark.conftest import DEADLINE_S, failure, need_streams


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
    patient_ms = int(10 * DEADLINE_S * 1000)
    lab.rows_file("a", 1)
    for _ in range(2):
        sink = lab.sink(
            lab.file_stream(),
            raftlog__bootstrap__servers=nobody(),
            raftlog__request__timeout__ms=patient_ms,
        )
        assert "NodeUnreachable: The node at " in failure(sink.start()).splitlines()[0]
