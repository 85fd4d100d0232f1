"""The bytes of outcomes in the state hash: the same for ever, however their classes are named."""

from __future__ import annotations

import hashlib

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.encoding import _REFUSALS, encode_outcome
from raftlog.machines.outcomes import (
    Appended,
    Configured,
    EpochAborted,
    EpochCommitted,
    Expired,
    NodeRegistered,
    Outcome,
    RulesApplied,
    SnapshotPointApplied,
    Staged,
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterRemoved,
    refused,
)
from raftlog.machines.schema import Field, Schema
from tests.machines.test_refusals import refusals

TOPIC = TopicInfo(
    name="flüge",
    incarnation="1" * 32,
    group=GroupId(7),
    schema=Schema(version=1, fields=(Field(id=1, name="a", type='"long"', nullable=True),)),
    voters=(NodeId(1), NodeId(2)),
    created_us=3,
    rules=1,
)

KNOWN: list[tuple[Outcome, bytes]] = [
    (Appended(start=Offset(0), end=Offset(3), repeated=False), b"2(2=3;)"),
    (Appended(start=Offset(-1), end=Offset(-1), repeated=True), b"2(1=-1;2=-1;3=1;)"),
    (Staged(number=4, repeated=True), b"3(1=4;2=1;)"),
    (
        EpochCommitted(start=Offset(5), end=Offset(9), record_count=4, replayed=False, kept=True),
        b"4(1=5;2=9;3=4;5=1;)",
    ),
    (EpochAborted(attempts=0), b"5()"),
    (NodeRegistered(known_before=True), b"7(1=1;)"),
    (RulesApplied(version=2), b"10(1=2;)"),
    (Expired(epochs=1, writers=0, producers=3), b"14(1=1;3=3;)"),
    (WriterRemoved(known=True, staged_bytes=7), b"15(1=1;2=7;)"),
    (SnapshotPointApplied(keep_from=LogIndex(5)), b"16(1=5;)"),
    (Trimmed(log_start_offset=Offset(0)), b"17()"),
    (Trimmed(log_start_offset=Offset(9)), b"17(1=9;)"),
    (Configured(version=LogIndex(4)), b"18(1=4;)"),
    (refused("WriterForgotten", writer="u"), b"1(25:1=1:u;)"),
    (
        refused("WriterOfAnother", writer="u", owner="a", identity="b"),
        b"1(37:1=1:u;2=1:a;3=1:b;)",
    ),
    (refused("MalformedRequest", call="Stage", what="is senseless"), b"1(1:)"),
    (refused("StageGap", attempt="a", number=5, expected=0), b"1(16:1=1:a;2=5;)"),
]

KNOWN_DIGESTS: list[tuple[Outcome, str]] = [
    (TopicCreated(topic=TOPIC, existed=False), "ba335abffa0e73df"),
    (TopicDeleted(topic=TOPIC), "ff736f72a2db9dcb"),
]


@pytest.mark.parametrize(("outcome", "known"), KNOWN, ids=repr)
def test_an_outcome_is_the_same_bytes_for_ever(outcome: Outcome, known: bytes) -> None:
    assert encode_outcome(outcome) == known


@pytest.mark.parametrize(("outcome", "known"), KNOWN_DIGESTS, ids=["created", "deleted"])
def test_a_topic_is_the_same_bytes_for_ever(outcome: Outcome, known: str) -> None:
    assert hashlib.blake2b(encode_outcome(outcome), digest_size=8).hexdigest() == known


def test_every_refusal_of_the_machines_has_a_number_of_its_own() -> None:
    codes = {code for _, code, _ in refusals()}
    assert codes == set(_REFUSALS)
    numbers = [number for number, _ in _REFUSALS.values()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(("where", "code", "names"), refusals())
def test_what_is_no_part_of_the_bytes_is_a_sentence_or_its_part(
    where: str, code: str, names: frozenset[str]
) -> None:
    left_out = names - set(_REFUSALS[code][1])
    assert left_out <= {"advice", "call", "known", "nearest", "problem", "unit", "what"}, where


def test_different_texts_never_make_equal_bytes() -> None:
    one = refused("TopicRecreated", topic="a;2=1:b", wanted="", found="")
    other = refused("TopicRecreated", topic="a", wanted="b", found="")
    assert encode_outcome(one) != encode_outcome(other)
