"""A reader that prefers observers asks another replica while they are behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from raftlog.client import reader as reading
from raftlog.client.connection import Connection
from raftlog.client.reader import TopicReader
from raftlog.config import ClientSettings
from raftlog.core.types import NodeId, Offset
from raftlog.errors import NotYet
from raftlog.wire.calls import DESCRIBE_CLUSTER, READ_SIZES, RangeSizes
from raftlog.wire.codec import encode_reply
from tests.client.answering import described, node
from tests.client.test_reader import TOPIC

BEHIND = NotYet(topic=TOPIC.name, have=0, need=1)
SIZES = RangeSizes(offsets=(Offset(1),), body_bytes=())


@contextmanager
def a_voter_and_observers(
    asked: list[str], observers: int = 1, they_wait_s: float = 0.0
) -> Iterator[Connection]:
    """Node 1 has record 0. The others, observers, do not get it, for which they wait so long."""
    never = threading.Event()

    def voter(_: bytes) -> bytes:
        asked.append("voter")
        return encode_reply(READ_SIZES, SIZES)

    def observer(_: bytes) -> bytes:
        asked.append("observer")
        never.wait(they_wait_s)
        raise BEHIND

    addresses: list[str] = []

    def describe(_: bytes) -> bytes:
        numbers = tuple(NodeId(2 + number) for number in range(observers))
        description = replace(described(addresses), observers=numbers)
        return encode_reply(DESCRIBE_CLUSTER, description)

    with ExitStack() as stack:
        for answer in (voter, *[observer] * observers):
            port = node(READ_SIZES.name, answer, others={DESCRIBE_CLUSTER.name: describe})
            addresses.append(stack.enter_context(port))
        connection = Connection(ClientSettings(bootstrap_servers=addresses[0]))
        stack.callback(connection.close)
        yield connection


def test_who_waits_for_records_is_told_by_another_replica_while_observers_are_behind() -> None:
    asked: list[str] = []
    with a_voter_and_observers(asked) as connection:
        reader = TopicReader(connection, TOPIC, preference="observer")
        assert reader.wait(Offset(1), 5.0)
    assert asked == ["observer", "voter"]


@pytest.mark.slow
def test_observers_that_take_longer_to_say_so_than_it_is_remembered_are_not_asked_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_BEHIND_S", 0.5)
    asked: list[str] = []
    with a_voter_and_observers(asked, observers=4, they_wait_s=0.6) as connection:
        reader = TopicReader(connection, TOPIC, preference="observer")
        assert reader.wait(Offset(1), 10.0)
    assert asked == ["observer", "observer", "voter"]
