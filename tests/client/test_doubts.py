"""Who asks for what can never be, or is not there yet, is told so at once and not at a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import raftlog
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.core.types import GroupId, LogIndex, NodeId, Term
from raftlog.errors import GroupUnknown, IndexOverflow, NotLeader, RaftlogError
from raftlog.machines.group_info import KvInfo
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    DESCRIBE_PLACEMENTS,
    GET_LAST_APPLIED,
    GET_SERVERS,
    OPEN_KV,
    READ_KEYS,
    WATCH_EVENTS,
    WATCH_KEYS,
)
from raftlog.wire.codec import encode_reply
from raftlog.wire.group_calls import GroupEvent, LastApplied, Servers
from raftlog.wire.kv_calls import KeysReply, KvReply
from raftlog.wire.placing_calls import GroupPlace, PlacementsReply
from tests.client.answering import Answer, Handler, described, serving, streamed, unary

GROUP = GroupId(7)
STORE = KvInfo(group=GROUP, voters=(NodeId(1),), created_us=0, rules=1)
ELSEWHERE = NotLeader(group=GROUP)
AHEAD = IndexOverflow(requested=9, latest=5)


def in_turn(*answers: bytes | RaftlogError) -> Answer:
    """One after another, and the last one again and again."""
    left = list(answers)

    def answer(_: bytes) -> bytes:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, RaftlogError):
            raise found
        return found

    return answer


def placed(*groups: int) -> bytes:
    places = tuple(
        GroupPlace(
            group=GroupId(group), topic="t", voters=(), former=(), generation=0, reached=True
        )
        for group in groups
    )
    return encode_reply(DESCRIBE_PLACEMENTS, PlacementsReply(nodes=(), groups=places, founders=()))


def applied(index: int) -> bytes:
    return encode_reply(GET_LAST_APPLIED, LastApplied(index=LogIndex(index)))


SERVERS = Servers(
    voters=(), learners=(), observers=(), leader=NodeId(1), leader_address="", term=Term(1),
    applied_index=LogIndex(1),
)  # fmt: skip
KEYS = KeysReply(index=LogIndex(9), keys=(), more=False)
EVENT = GroupEvent(
    kind="leader_changed", leader=NodeId(1), leader_address="", term=Term(3), index=LogIndex(0),
    voters=(), learners=(),
)  # fmt: skip


@contextmanager
def client_of(handlers: dict[str, Handler]) -> Iterator[raftlog.LogClient]:
    addresses: list[str] = []
    describe = unary(lambda _: encode_reply(DESCRIBE_CLUSTER, described(addresses)))
    with (
        serving({DESCRIBE_CLUSTER.name: describe, **handlers}) as address,
        raftlog.connect(address, request_timeout_s=PATIENCE_S) as client,
    ):
        addresses.append(address)
        yield client


Ask = Callable[[raftlog.LogClient], object]
ASKS: dict[str, Ask] = {
    GET_SERVERS.name: lambda client: client.groups.servers(GROUP),
    GET_LAST_APPLIED.name: lambda client: client.groups.last_applied(GROUP),
    WATCH_EVENTS.name: lambda client: next(client.groups.events(GROUP)),
}


@pytest.mark.parametrize("call", ASKS)
def test_a_group_that_never_was_is_refused_once_the_controller_s_leader_was_asked(
    call: str,
) -> None:
    make = streamed if call == WATCH_EVENTS.name else unary
    handlers = {call: make(in_turn(ELSEWHERE)), DESCRIBE_PLACEMENTS.name: unary(in_turn(placed(0)))}
    with (
        client_of(handlers) as client,
        pytest.raises(GroupUnknown, match="There is no group 7"),
    ):
        ASKS[call](client)


@pytest.mark.parametrize("call", ASKS)
def test_a_group_that_the_controller_s_leader_knows_is_asked_for_again(call: str) -> None:
    """The node that was asked may only be behind."""
    make = streamed if call == WATCH_EVENTS.name else unary
    good = {
        GET_SERVERS.name: encode_reply(GET_SERVERS, SERVERS),
        GET_LAST_APPLIED.name: applied(1),
        WATCH_EVENTS.name: encode_reply(WATCH_EVENTS, EVENT),
    }[call]
    handlers = {
        call: make(in_turn(ELSEWHERE, good)),
        DESCRIBE_PLACEMENTS.name: unary(in_turn(placed(0, GROUP))),
    }
    with client_of(handlers) as client:
        assert ASKS[call](client)


READS: dict[str, Ask] = {
    READ_KEYS.name: lambda client: client.kv.get("k", at=9),
    WATCH_KEYS.name: lambda client: next(client.kv.watch("k", after=9)),
}


@pytest.mark.parametrize("call", READS)
def test_an_index_beyond_the_end_of_the_log_is_refused_once_the_leader_was_asked(
    call: str,
) -> None:
    make = streamed if call == WATCH_KEYS.name else unary
    handlers = {
        OPEN_KV.name: unary(in_turn(encode_reply(OPEN_KV, KvReply(kvs=(STORE,))))),
        call: make(in_turn(AHEAD)),
        GET_LAST_APPLIED.name: unary(in_turn(applied(6))),
    }
    with client_of(handlers) as client:
        with pytest.raises(IndexOverflow, match=r"Index 9 is not there yet.* applied up to 6"):
            READS[call](client)
        with pytest.raises(IndexOverflow, match="Index 7 is not there yet"):
            next(client.groups.entries(GROUP, index=7))


def test_an_index_that_the_leader_has_applied_is_asked_for_again() -> None:
    handlers = {
        OPEN_KV.name: unary(in_turn(encode_reply(OPEN_KV, KvReply(kvs=(STORE,))))),
        READ_KEYS.name: unary(in_turn(AHEAD, encode_reply(READ_KEYS, KEYS))),
        GET_LAST_APPLIED.name: unary(in_turn(applied(9))),
    }
    with client_of(handlers) as client:
        assert client.kv.get("k", at=9) is None
