"""What the listener makes of Spark's progress reports, and that it neither waits nor raises."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from raftlog import LogClient
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import NodeUnreachable
from raftlog.spark import listener
from raftlog.spark.listener import QueryListener, line_of, progress_of
from raftlog.spark.offsets import Reached, render

OTHERS = json.dumps({"flights": {"0": 5}})
"""As Kafka's source writes its offsets."""
QUERY, RUN = uuid.UUID(int=1), uuid.UUID(int=2)


def ours(end: int, topic: str = "flights", incarnation: str = "a") -> str:
    return json.dumps(render({topic: Reached(incarnation=incarnation, end=end)}, "c"))


def report(*sources: tuple[str | None, str | None], **given: Any) -> StreamingQueryProgress:
    """Spark's report of a batch whose sources end and could have ended there."""
    source = {
        "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonScan@1",
        "startOffset": None,
        "numInputRows": 100,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 400.0,
        "metrics": {},
    }
    return StreamingQueryProgress.fromJson(
        {
            "id": str(QUERY),
            "runId": str(RUN),
            "name": "delays",
            "timestamp": "2026-11-25T11:04:05.500Z",
            "batchId": 7,
            "batchDuration": 250,
            "stateOperators": [],
            "sources": [source | {"endOffset": e, "latestOffset": n} for e, n in sources],
            "sink": {"description": "sink", "numOutputRows": -1, "metrics": {}},
            "numInputRows": 100,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 400.0,
        }
        | given
    )


def test_a_report_names_our_topics_and_how_far_the_query_is_behind_in_them() -> None:
    found = progress_of(report((OTHERS, OTHERS), (ours(15), ours(40))))
    assert found is not None
    assert (found.query, found.id, found.batch, found.rows) == ("delays", str(QUERY), 7, 100)
    assert found.committed_at.isoformat() == "2026-11-25T11:04:05.750000+00:00"
    [topic] = found.topics
    assert (topic.topic, topic.position, topic.records_behind) == ("flights", 15, 25)
    assert line_of(found) == (
        "Query delays, batch 7, done 11:04:05: 100 rows, 400 rows/s; "
        "flights at 15, behind 25 records, ? bytes, ? s"
    )


@pytest.mark.parametrize(
    ("end", "newest", "behind"),
    [
        (ours(15), None, None),
        (ours(15), ours(10), 0),
        (ours(15), ours(40, incarnation="b"), None),
        (ours(15), ours(40, topic="weather"), None),
    ],
)
def test_what_is_behind_is_unknown_rather_than_guessed(
    end: str, newest: str | None, behind: int | None
) -> None:
    found = progress_of(report((end, newest)))
    assert found is not None
    assert [topic.records_behind for topic in found.topics] == [behind]


@pytest.mark.parametrize(
    "offset",
    [
        None,
        "null",
        "5",
        "",
        "{",
        pytest.param('{"a":' * 100_000, id="deep"),
        OTHERS,
        '{"v": 2, "topics": {}}',
        '{"v": 1}',
    ],
)
def test_sources_of_others_are_passed_over(offset: str | None) -> None:
    assert progress_of(report((offset, offset))) is None


def test_of_a_topic_that_a_query_reads_twice_the_farther_behind_counts() -> None:
    found = progress_of(report((ours(15), ours(40)), (ours(5), ours(40)), name=None))
    assert found is not None
    assert [topic.position for topic in found.topics] == [5]
    assert found.query == str(QUERY)


@pytest.mark.parametrize(
    ("start", "end", "skipped"),
    [
        (ours(15), ours(315), 200),
        (ours(15), ours(115), 0),
        (ours(15), ours(20), 0),  # read twice
        (ours(15, incarnation="b"), ours(315), None),
        (None, ours(315), None),
        (OTHERS, OTHERS, 0),
    ],
)
def test_what_filters_left_out_is_what_the_offsets_count_and_spark_did_not_get(
    start: str | None, end: str, skipped: int | None
) -> None:
    given = json.loads(report((end, None), (ours(7), ours(7))).json)
    given["sources"][0]["startOffset"] = start
    given["sources"][1] |= {"startOffset": ours(7), "numInputRows": 0}
    found = progress_of(StreamingQueryProgress.fromJson(given))
    assert found is not None
    assert found.records_skipped == skipped
    assert ("rows/s, 200 records skipped; " in line_of(found)) == (skipped == 200)


class Held:
    """A cluster that does not answer until it is let go, and then not at all."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> LogClient:
        self.asked.set()
        assert self.released.wait(PATIENCE_S)
        raise NodeUnreachable(address="127.0.0.1:1", problem="nothing listens")


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.released.set()


def test_a_cluster_that_does_not_answer_neither_delays_spark_nor_fails_it(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    followed = QueryListener(held, log_interval_s=0.0)
    with caplog.at_level(logging.INFO, logger=listener.LOGGER):
        followed.onQueryProgress(QueryProgressEvent(report((ours(15), ours(40)))))
        assert held.asked.wait(PATIENCE_S)
        # The thread is stuck: Spark's calls come through all the same.
        followed.onQueryProgress(QueryProgressEvent(report((ours(40), ours(41)), batchId=8)))
        assert followed.latest["delays"].topics[0].records_behind == 1
        error = "NodeUnreachable: gone\nand a traceback"
        followed.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, error, None))
        held.released.set()
        assert followed.flush(PATIENCE_S)
        followed.close()
    now = followed.latest["delays"]
    assert (now.batch, now.running, now.error) == (8, False, error)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines].count("WARNING") == 1
    assert "The query continues. NodeUnreachable: " in next(t for n, t in lines if n == "WARNING")
    assert sum("; ended" in text for _, text in lines) == 1
    assert lines[-1][1].endswith("behind 1 records, ? bytes, ? s; ended: NodeUnreachable: gone")
