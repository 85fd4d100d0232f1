"""The marks of many topics: several are asked at once, and every topic has its own answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.client import marks
from raftlog.client.connection import Connection
from raftlog.client.marks import read_marks
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, NodeId, Offset
from raftlog.errors import (
    DeadlineExceeded,
    Internal,
    NotLeader,
    Overloaded,
    RaftlogError,
    TopicRecreated,
)
from raftlog.machines.commands import TopicInfo
from raftlog.machines.schema import Schema
from raftlog.wire.calls import DESCRIBE_CLUSTER, READ_HIGH_WATER_MARK, ReadableRange
from raftlog.wire.codec import decode_request, encode_reply
from tests.client.answering import described, node

THIRD_S = 0.05
"""How long it then waits for one that must not be in flight with them."""

Say = Callable[[GroupId], ReadableRange | RaftlogError]


def topics(count: int) -> list[TopicInfo]:
    """Topics t1, t2 and so on, of the groups 1, 2 and so on."""
    return [
        TopicInfo(
            name=f"t{group}",
            incarnation=f"{group:x}",
            group=GroupId(group),
            schema=Schema(version=1, fields=()),
            voters=(NodeId(1), NodeId(2)),
            created_us=0,
            rules=1,
        )
        for group in range(1, count + 1)
    ]


def mark(group: GroupId) -> ReadableRange:
    """Each topic's mark is its group."""
    return ReadableRange(log_start_offset=Offset(0), high_water_mark=Offset(group), record_bytes=0)


@contextmanager
def cluster(*says: Say, request_timeout_s: float = 20.0) -> Iterator[tuple[Connection, list[str]]]:
    """A client of a cluster whose nodes 1, 2 and so on say that of groups, and their addresses."""
    addresses: list[str] = []

    def answering(say: Say) -> Callable[[bytes], bytes]:
        def answer(data: bytes) -> bytes:
            said = say(decode_request(READ_HIGH_WATER_MARK, data)[0].group)
            if isinstance(said, RaftlogError):
                raise said
            return encode_reply(READ_HIGH_WATER_MARK, said)

        return answer

    def describe(_: bytes) -> bytes:
        return encode_reply(DESCRIBE_CLUSTER, described(addresses))

    @contextmanager
    def nodes(left: tuple[Say, ...]) -> Iterator[None]:
        if not left:
            yield
            return
        others = {DESCRIBE_CLUSTER.name: describe}
        with node(READ_HIGH_WATER_MARK.name, answering(left[0]), others=others) as address:
            addresses.append(address)
            with nodes(left[1:]):
                yield

    with nodes(says):
        connection = Connection(
            ClientSettings(
                bootstrap_servers=",".join(addresses), request_timeout_s=request_timeout_s
            )
        )
        try:
            yield connection, addresses
        finally:
            connection.close()


def test_as_many_topics_are_asked_at_once_as_may_be_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "IN_FLIGHT_MAX", 2)
    together = threading.Barrier(2)
    third = threading.Event()
    lock = threading.Lock()
    now = most = 0

    def say(group: GroupId) -> ReadableRange:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now > 2:
                third.set()
        together.wait(PATIENCE_S)  # fails unless another call is in flight
        third.wait(THIRD_S)
        with lock:
            now -= 1
        return mark(group)

    with cluster(say) as (connection, _):
        assert read_marks(connection, topics(8)) == [mark(GroupId(n)) for n in range(1, 9)]
    assert most == 2


def test_a_named_leader_is_asked_next_without_holding_up_the_others() -> None:
    hinted: list[GroupId] = []
    together = threading.Barrier(4)
    addresses: list[str] = []

    def follower(group: GroupId) -> RaftlogError:
        hinted.append(group)
        return NotLeader(group=group, leader=2, address=addresses[1])

    def leader(group: GroupId) -> ReadableRange:
        together.wait(PATIENCE_S)
        return mark(group)

    with cluster(follower, leader) as (connection, known):
        addresses += known
        for _ in range(2):
            assert read_marks(connection, topics(8)) == [mark(GroupId(n)) for n in range(1, 9)]
    assert hinted
    assert len(hinted) == len(set(hinted)), "the leaders are known from then on"


def test_topics_that_are_gone_are_answers_and_a_full_node_is_asked_again() -> None:
    gone = TopicRecreated(topic="t2", wanted="2")
    full = [Overloaded(queue="server.requests_max", limit=1)]

    def say(group: GroupId) -> ReadableRange | RaftlogError:
        if group == 3 and full:
            return full.pop()
        return gone if group == 2 else mark(group)

    with cluster(say) as (connection, _):
        first, second, *rest = read_marks(connection, topics(4))
    assert [first, *rest] == [mark(GroupId(n)) for n in (1, 3, 4)]
    assert isinstance(second, TopicRecreated)
    assert second.topic == "t2"
    assert not full


@pytest.mark.slow
def test_a_topic_without_a_leader_is_named_by_the_error() -> None:
    def say(group: GroupId) -> ReadableRange | RaftlogError:
        return NotLeader(group=group) if group == 3 else mark(group)

    with (
        cluster(say, request_timeout_s=0.3) as (connection, _),
        pytest.raises(DeadlineExceeded, match="of topic 't3'"),
    ):
        read_marks(connection, topics(4))


def test_an_error_that_is_final_ends_the_call() -> None:
    with (
        cluster(lambda group: Internal(what=f"group {group}")) as (connection, _),
        pytest.raises(Internal, match="group 1"),
    ):
        read_marks(connection, topics(4))
