"""The bytes of outcomes in the state hash: the same for ever, however their classes are named."""

from __future__ import annotations

from typing import get_args

import pytest

from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.encoding import _REFUSALS, encode_outcome
from raftlog.machines.group_info import KvInfo
from raftlog.machines.outcomes import (
    Appended,
    Configured,
    DutySet,
    EpochAborted,
    EpochCommitted,
    Expired,
    GroupPlaced,
    KeyWritten,
    KvCreated,
    NodeAdded,
    NodeRegistered,
    NodeRetired,
    Outcome,
    ParentsSet,
    PlacementReported,
    Refused,
    RulesApplied,
    SchemaSet,
    SessionOpened,
    SnapshotPointApplied,
    Staged,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
    refused,
)
from raftlog.machines.schema import Field, FormerField, Schema
from raftlog.machines.settings import TopicSetting
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

TOPIC_BYTES = (
    f"11(1=6:flüge;2=32:{'1' * 32};3=7;"
    '4=12(1=1;2=[1 13(1=1;2=1:a;3=6:"long";4=1;););5=[2 1 2;6=3;7=1;)'
).encode()
ALTERED = TopicInfo(
    name="a",
    incarnation="b",
    group=GroupId(2),
    schema=Schema(
        version=3,
        fields=(Field(id=2, name="c", type="d", nullable=False, since=2),),
        former=(FormerField(id=3, name="e", type="f", nullable=True, until=3, since=2),),
    ),
    voters=(NodeId(4),),
    created_us=5,
    rules=1,
    settings=(TopicSetting(name="g", value=6),),
    settings_version=LogIndex(7),
)
KV = KvInfo(group=GroupId(9), voters=(NodeId(1), NodeId(2)), created_us=5, rules=1)

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
    (
        TopicCreated(topic=TOPIC, existed=False),
        b"8(1=" + TOPIC_BYTES + b";)",
    ),
    (
        TopicDeleted(topic=TOPIC),
        b"9(1=" + TOPIC_BYTES + b";)",
    ),
    (
        TopicAltered(topic=ALTERED),
        b"19(1=11(1=1:a;2=1:b;3=2;"
        b"4=12(1=3;2=[1 13(1=2;2=1:c;3=1:d;5=2;);3=[1 28(1=3;2=1:e;3=1:f;4=1;5=3;6=2;););"
        b"5=[1 4;6=5;7=1;8=[1 20(1=1:g;2=6;);9=7;);)",
    ),
    (NodeAdded(known_before=True), b"21(1=1;)"),
    (DutySet(draining=True, leaving=False), b"22(1=1;)"),
    (NodeRetired(known_before=True), b"23(1=1;)"),
    (GroupPlaced(generation=3), b"24(1=3;)"),
    (PlacementReported(done=True), b"25(1=1;)"),
    (ParentsSet(parents=(NodeId(1), NodeId(4))), b"26(1=[2 1 4;)"),
    (SchemaSet(version=2), b"27(1=2;)"),
    (WriterOwnerSet(known=True, former="token:a"), b"29(1=1;2=7:token:a;)"),
    (KvCreated(kv=KV, existed=True), b"40(1=41(1=9;2=[2 1 2;3=5;4=1;);2=1;)"),
    (SessionOpened(session="6"), b"42(1=1:6;)"),
    (KeyWritten(version=LogIndex(8), previous=LogIndex(7)), b"43(1=8;2=7;)"),
    (refused("WriterForgotten", writer="u"), b"1(25:1=1:u;)"),
    (
        refused("WriterOfAnother", writer="u", owner="a", principal="b", topic="t"),
        b"1(37:1=1:u;2=1:a;3=1:b;4=1:t;)",
    ),
    (refused("MalformedRequest", call="Stage", what="is senseless"), b"1(1:)"),
    (refused("StageGap", attempt="a", number=5, expected=0), b"1(16:1=1:a;2=5;)"),
]

KNOWN_REFUSALS = {
    "MalformedRequest": b"1(1:)",
    "InvalidOption": b"1(2:1=6:option;)",
    "InvalidTopicName": b"1(3:1=5:topic;)",
    "TopicExists": b"1(4:1=5:topic;)",
    "TopicNotFound": b"1(5:1=5:topic;)",
    "TopicRecreated": b"1(6:1=5:topic;2=6:wanted;3=5:found;)",
    "TooMany": b"1(7:1=5:limit;)",
    "IdentityRefused": b"1(8:1=4:node;2=10:store_uuid;3=16:known_store_uuid;)",
    "StoreCopied": b"1(38:1=4:node;2=7:boot_id;3=13:known_boot_id;)",
    "UnknownSchemaVersion": b"1(9:1=7:version;2=6:latest;)",
    "UnknownProducer": b"1(10:1=8:producer;2=8:sequence;)",
    "SequenceGap": b"1(11:1=8:producer;2=8:sequence;3=8:expected;)",
    "SequenceReused": b"1(12:1=8:producer;2=8:sequence;)",
    "UnknownWriter": b"1(13:1=6:writer;2=5:epoch;)",
    "TooManyWriters": b"1(14:1=5:topic;2=5:limit;3=5:owner;)",
    "StageGap": b"1(16:1=7:attempt;2=6:number;3=8:expected;)",
    "RunFenced": b"1(17:1=6:writer;2=3:run;3=11:current_run;)",
    "EpochTooOld": b"1(18:1=6:writer;2=5:epoch;3=10:last_epoch;)",
    "EpochContentMismatch": (
        b"1(19:1=6:writer;2=5:epoch;3=17:committed_records;4=16:replayed_records;"
        b"5=14:committed_plan;6=13:replayed_plan;)"
    ),
    "EpochReferencesMismatch": b"1(20:1=6:writer;2=5:epoch;3=3:run;)",
    "CheckpointReset": (
        b"1(21:1=6:writer;2=5:epoch;3=10:last_epoch;4=8:query_id;5=14:known_query_id;)"
    ),
    "EpochIncomplete": b"1(22:1=6:writer;2=5:epoch;3=7:attempt;)",
    "CheckpointRewound": b"1(23:1=6:writer;2=5:batch;3=10:last_batch;)",
    "VersionReused": b"1(24:1=6:writer;2=7:version;3=5:batch;4=10:last_batch;)",
    "WriterForgotten": b"1(25:1=6:writer;)",
    "NodeRemoved": b"1(26:1=4:node;)",
    "NodeExists": b"1(27:1=4:node;2=7:address;)",
    "AddressTaken": b"1(28:1=7:address;2=4:node;)",
    "NodeUnknown": b"1(29:1=4:node;)",
    "NodeInUse": b"1(30:1=4:node;)",
    "PlacementOutdated": b"1(31:1=5:group;2=10:generation;)",
    "PlacementUnderWay": b"1(32:1=5:group;2=6:voters;3=6:former;)",
    "GroupUnknown": b"1(33:1=5:group;)",
    "ObserverRefused": b"1(34:1=4:node;)",
    "TooFewNodes": b"1(35:1=6:needed;2=5:found;)",
    "SchemaChanged": b"1(36:1=5:topic;2=8:expected;3=5:found;)",
    "WriterOfAnother": b"1(37:1=6:writer;2=5:owner;3=9:principal;4=5:topic;)",
    "UnknownSession": b"1(50:1=7:session;)",
    "SequencePassed": b"1(51:1=7:session;2=8:sequence;3=13:last_sequence;)",
    "VersionConflict": b"1(52:1=3:key;2=8:expected;3=5:found;)",
}
"""The bytes of each refusal whose values are texts, each the name of what it stands for."""


@pytest.mark.parametrize(("outcome", "known"), KNOWN, ids=repr)
def test_an_outcome_is_the_same_bytes_for_ever(outcome: Outcome, known: bytes) -> None:
    assert encode_outcome(outcome) == known


def test_the_bytes_of_every_kind_of_outcome_are_known() -> None:
    kinds = {type(outcome) for outcome, _ in KNOWN}
    assert kinds == set(get_args(Outcome))


def test_the_bytes_of_every_refusal_are_known() -> None:
    for code, known in KNOWN_REFUSALS.items():
        values = tuple((name, name) for name in _REFUSALS[code][1])
        assert encode_outcome(Refused(code=code, values=values)) == known
    assert KNOWN_REFUSALS.keys() == _REFUSALS.keys()


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
