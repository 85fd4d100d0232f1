"""Outcomes as canonical bytes, for the state hash: the same on every node and in every version.

Replicas of two versions compare their hashes during an upgrade, so the bytes contain no name:
every kind, refusal and value has a number, which is never used again. A value that is 0, False or
empty is left out, so a field added under new rules does not change the bytes of old logs. The
sentences of a refusal are left out as well, because they may be reworded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from raftlog.machines.commands import TopicInfo
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
)
from raftlog.machines.schema import Field, FormerField, Schema
from raftlog.machines.settings import TopicSetting

_REFUSED = 1

_KINDS: dict[type, tuple[int, tuple[str, ...]]] = {
    Appended: (2, ("start", "end", "repeated")),
    Staged: (3, ("number", "repeated")),
    EpochCommitted: (4, ("start", "end", "record_count", "replayed", "kept")),
    EpochAborted: (5, ("attempts",)),
    NodeRegistered: (7, ("known_before",)),
    TopicCreated: (8, ("topic", "existed")),
    TopicDeleted: (9, ("topic",)),
    RulesApplied: (10, ("version",)),
    TopicInfo: (
        11,
        (
            "name",
            "incarnation",
            "group",
            "schema",
            "voters",
            "created_us",
            "rules",
            "settings",
            "settings_version",
        ),
    ),
    Schema: (12, ("version", "fields", "former")),
    Field: (13, ("id", "name", "type", "nullable", "since")),
    Expired: (14, ("epochs", "writers", "producers")),
    WriterRemoved: (15, ("known", "staged_bytes")),
    SnapshotPointApplied: (16, ("keep_from",)),
    Trimmed: (17, ("log_start_offset",)),
    Configured: (18, ("version",)),
    TopicAltered: (19, ("topic",)),
    TopicSetting: (20, ("name", "value")),
    NodeAdded: (21, ("known_before",)),
    DutySet: (22, ("draining", "leaving")),
    NodeRetired: (23, ("known_before",)),
    GroupPlaced: (24, ("generation",)),
    PlacementReported: (25, ("done",)),
    ParentsSet: (26, ("parents",)),
    SchemaSet: (27, ("version",)),
    FormerField: (28, ("id", "name", "type", "nullable", "until", "since")),
    WriterOwnerSet: (29, ("known", "former")),
    KvCreated: (40, ("kv", "existed")),
    KvInfo: (41, ("group", "voters", "created_us", "rules")),
    SessionOpened: (42, ("session",)),
    KeyWritten: (43, ("version", "previous")),
}
"""A kind's number, and its fields: the first has number 1. Add new ones at the end."""

_REFUSALS: dict[str, tuple[int, tuple[str, ...]]] = {
    "MalformedRequest": (1, ()),
    "InvalidOption": (2, ("option",)),
    "InvalidTopicName": (3, ("topic",)),
    "TopicExists": (4, ("topic",)),
    "TopicNotFound": (5, ("topic",)),
    "TopicRecreated": (6, ("topic", "wanted", "found")),
    "TooMany": (7, ("limit",)),
    "IdentityRefused": (8, ("node", "store_uuid", "known_store_uuid")),
    "UnknownSchemaVersion": (9, ("version", "latest")),
    "UnknownProducer": (10, ("producer", "sequence")),
    "SequenceGap": (11, ("producer", "sequence", "expected")),
    "SequenceReused": (12, ("producer", "sequence")),
    "UnknownWriter": (13, ("writer", "epoch")),
    "TooManyWriters": (14, ("topic", "limit", "owner")),
    "StageGap": (16, ("attempt", "number", "expected")),
    "RunFenced": (17, ("writer", "run", "current_run")),
    "EpochTooOld": (18, ("writer", "epoch", "last_epoch")),
    "EpochContentMismatch": (
        19,
        (
            "writer",
            "epoch",
            "committed_records",
            "replayed_records",
            "committed_plan",
            "replayed_plan",
        ),
    ),
    "EpochReferencesMismatch": (20, ("writer", "epoch", "run")),
    "CheckpointReset": (21, ("writer", "epoch", "last_epoch", "query_id", "known_query_id")),
    "EpochIncomplete": (22, ("writer", "epoch", "attempt")),
    "CheckpointRewound": (23, ("writer", "batch", "last_batch")),
    "VersionReused": (24, ("writer", "version", "batch", "last_batch")),
    "WriterForgotten": (25, ("writer",)),
    "NodeRemoved": (26, ("node",)),
    "NodeExists": (27, ("node", "address")),
    "AddressTaken": (28, ("address", "node")),
    "NodeUnknown": (29, ("node",)),
    "NodeInUse": (30, ("node",)),
    "PlacementOutdated": (31, ("group", "generation")),
    "PlacementUnderWay": (32, ("group", "voters", "former")),
    "GroupUnknown": (33, ("group",)),
    "ObserverRefused": (34, ("node",)),
    "TooFewNodes": (35, ("needed", "found")),
    "SchemaChanged": (36, ("topic", "expected", "found")),
    "WriterOfAnother": (37, ("writer", "owner", "principal", "topic")),
    "StoreCopied": (38, ("node", "boot_id", "known_boot_id")),
    "UnknownSession": (50, ("session",)),
    "SequencePassed": (51, ("session", "sequence", "last_sequence")),
    "VersionConflict": (52, ("key", "expected", "found")),
}
"""The same by error code: a refusal's number, and the values that are part of the bytes."""


class _Plan(NamedTuple):
    begin: bytes
    values_of: Callable[[Any], Sequence[Any]]


def _plan(kind: type, number: int, names: tuple[str, ...]) -> _Plan:
    fields = {field.name for field in dataclasses.fields(kind)}
    assert fields == set(names), f"{kind.__name__}: give {fields ^ set(names)} a number in _KINDS"
    read = attrgetter(*names)
    return _Plan(b"%d(" % number, read if len(names) > 1 else lambda value: (read(value),))


_PLANS = {kind: _plan(kind, number, names) for kind, (number, names) in _KINDS.items()}

_MISSING = set(get_args(Outcome)) - _PLANS.keys() - {Refused}
assert not _MISSING, f"give {_MISSING} a number in _KINDS"


def encode_outcome(outcome: Outcome) -> bytes:
    """The outcome's canonical bytes."""
    if isinstance(outcome, Refused):
        number, names = _REFUSALS[outcome.code]
        given = dict(outcome.values)
        return _joined(b"%d(%d:" % (_REFUSED, number), [given.get(name) for name in names])
    plan = _PLANS[type(outcome)]
    return _joined(plan.begin, plan.values_of(outcome))


def _value(value: Any) -> bytes:
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, str):
        text = value.encode()
        return b"%d:" % len(text) + text
    if isinstance(value, tuple):
        return b"[%d " % len(value) + b" ".join([_value(each) for each in value])
    plan = _PLANS[type(value)]
    return _joined(plan.begin, plan.values_of(value))


def _joined(begin: bytes, values: Sequence[Any]) -> bytes:
    joined = begin
    for number, value in enumerate(values, 1):
        if isinstance(value, int):  # repeated from `_value` for speed: most values are integers
            if value:
                joined += b"%d=%d;" % (number, value)
        elif value:
            joined += b"%d=%b;" % (number, _value(value))
    return joined + b")"
