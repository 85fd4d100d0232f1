"""A stream's positions: the latest is published, at most a round an interval, and no error gets
through to the query."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import pytest
from pyspark.sql.types import StructType

from raftlog import TopicInfo
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import DeadlineExceeded, TooMany, UnknownSession
from raftlog.records.schema_text import parse_schema
from raftlog.spark import publishing
from raftlog.spark.declarations import Endpoint
from raftlog.spark.offsets import Pending, Reached, render
from raftlog.spark.options import ConnectionOptions, source_options
from raftlog.spark.publishing import (
    GroupPosition,
    LatestPositions,
    PositionPublisher,
    positions_at,
)
from raftlog.spark.stream_reader import RaftlogStreamReader

NEVER_S = 3600.0
CLUSTER = ConnectionOptions(bootstrap_servers="127.0.0.1:1", zookeeper="", request_timeout_s=1.0)


def topic(name: str, incarnation: str = "a") -> TopicInfo:
    return TopicInfo(
        name=name,
        incarnation=incarnation,
        group=GroupId(1),
        schema=parse_schema("id bigint"),
        voters=(NodeId(1),),
        created_us=0,
        rules=1,
    )


def at(offset: int, name: str = "flights", incarnation: str = "a") -> GroupPosition:
    return GroupPosition(
        connection=CLUSTER, group="etl", topic=topic(name, incarnation), offset=offset
    )


class Published:
    """Takes what is published, or refuses it; may hold up the first call."""

    def __init__(self, refusals: list[Exception] | None = None, *, held: bool = False) -> None:
        self.offsets: list[int] = []
        self.begun = threading.Event()
        self.release = threading.Event()
        self._refusals = refusals or []
        if not held:
            self.release.set()

    def __call__(self, position: GroupPosition) -> None:
        self.begun.set()
        assert self.release.wait(PATIENCE_S)
        if self._refusals:
            raise self._refusals.pop(0)
        self.offsets.append(position.offset)


def test_the_latest_of_each_topic_waits_for_the_interval() -> None:
    latest = LatestPositions(interval_s=1.0)
    assert latest.delay_s(5.0) is None
    for position in (at(1), at(7, "delays"), at(2)):
        latest.offer(position)
    assert latest.delay_s(5.0) == 0.0
    assert latest.take(5.0) == [at(2), at(7, "delays")]
    latest.offer(at(3))
    assert latest.delay_s(5.25) == 0.75
    assert latest.delay_s(9.0) == 0.0


def test_what_was_taken_does_not_wait_again_unless_it_failed_or_the_topic_is_another() -> None:
    latest = LatestPositions(interval_s=1.0)
    latest.offer(at(2))
    latest.take(0.0)
    latest.offer(at(2))
    assert latest.delay_s(0.0) is None
    latest.failed(at(2))
    latest.offer(at(2))
    assert latest.take(1.0) == [at(2)]
    latest.offer(at(2, incarnation="b"))
    assert latest.take(2.0) == [at(2, incarnation="b")]


def test_one_call_is_in_flight_and_a_flush_does_not_wait_for_the_interval() -> None:
    published = Published(held=True)
    publisher = PositionPublisher(published, interval_s=NEVER_S)
    publisher.offer([at(1)])
    assert published.begun.wait(PATIENCE_S)
    assert not publisher.flush(0.01), "the first call is still in flight"
    for offset in (2, 3, 4):
        publisher.offer([at(offset)])
    assert not publisher.flush(0.01), "another call would be in flight at once"
    published.release.set()
    assert publisher.flush(PATIENCE_S)
    assert published.offsets == [1, 4]


def test_only_a_query_that_ends_waits_for_its_last_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published = Published()
    publisher = PositionPublisher(published, interval_s=NEVER_S)
    monkeypatch.setitem(publishing._publishers, os.getpid(), publisher)
    monkeypatch.setattr(publishing, "FLUSH_TIMEOUT_S", PATIENCE_S)
    given = {"subscribe": "flights", "groupId": "etl"}
    reader = RaftlogStreamReader(source_options(given, Endpoint.STREAM_SOURCE), StructType())
    reader._topics = {"flights": topic("flights")}
    reader._publish(render({"flights": Reached(incarnation="a", end=1)}), ends=False)
    assert publisher.flush(PATIENCE_S)
    reader._publish(render({"flights": Reached(incarnation="a", end=2)}), ends=False)
    assert published.offsets == [1]
    reader._publish(render({"flights": Reached(incarnation="a", end=3)}), ends=True)
    assert published.offsets == [1, 3]


def test_an_unknown_session_is_tried_once_more() -> None:
    published = Published([UnknownSession(session=1)])
    publisher = PositionPublisher(published, interval_s=0.0)
    publisher.offer([at(1)])
    assert publisher.flush(PATIENCE_S)
    assert published.offsets == [1]


def test_errors_are_a_warning_once_a_kind_and_the_position_may_come_again(
    caplog: pytest.LogCaptureFixture, refusal: Callable[[], Exception]
) -> None:
    full = TooMany(what="The store", limit=1, unit="keys")
    published = Published([refusal(), refusal(), full])
    publisher = PositionPublisher(published, interval_s=0.0)
    with caplog.at_level(logging.WARNING, logger="raftlog.spark"):
        for _ in range(4):
            publisher.offer([at(1)])
            assert publisher.flush(PATIENCE_S)
    assert published.offsets == [1]
    kinds = [record.getMessage() for record in caplog.records]
    assert len(kinds) == 2
    assert "'etl' in topic 'flights' is not published, and the query continues" in kinds[0]
    assert "DeadlineExceeded: " in kinds[0]
    assert "TooMany: " in kinds[1]


@pytest.fixture
def refusal() -> Callable[[], Exception]:
    return lambda: DeadlineExceeded(what="put", seconds="1", last="none answers")


def test_a_forked_process_has_a_publisher_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = publishing.publisher()
    assert publishing.publisher() is ours
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert publishing.publisher() is not ours


def test_a_position_is_of_a_topic_that_was_reached_in_its_known_incarnation() -> None:
    offset = render(
        {
            "begun": Pending(start="latest"),
            "flights": Reached(incarnation="a", end=5, first=2),
            "recreated": Reached(incarnation="a", end=6),
            "unsubscribed": Reached(incarnation="a", end=7),
        }
    )
    known = {
        "begun": topic("begun"),
        "flights": topic("flights"),
        "recreated": topic("recreated", "b"),
    }
    assert positions_at(offset, known, options=CLUSTER, group="etl") == [at(5)]
