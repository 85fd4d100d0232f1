"""Hypothesis strategies for every value of the wire, made from the values' own type hints.

Integers span the range of the protobuf field that carries them, so that a field too narrow for its
value is found.
"""

from __future__ import annotations

import dataclasses
from array import array
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from raftlog.core.messages import AppendRequest, EntryReply, ImageChunk, PulledEntries
from raftlog.core.types import Entry, EntryKind, Payload
from raftlog.machines.commands import (
    AbortEpoch,
    AddNode,
    AlterSchema,
    AlterTopic,
    Append,
    CommitEpoch,
    Configure,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    Expire,
    PlaceGroup,
    RegisterNode,
    RemoveWriter,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
    SetParents,
    SetSchema,
    SetWriterOwner,
    SnapshotPoint,
    Stage,
    Trim,
)
from raftlog.machines.kv_commands import DeleteKey, OpenSession, PutKey
from raftlog.predicates.predicate import (
    OPERATORS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.calls import BatchReply
from raftlog.wire.runs import Runs

COMMAND_TYPES = (
    Append,
    Stage,
    CommitEpoch,
    AbortEpoch,
    Expire,
    RemoveWriter,
    SetWriterOwner,
    Trim,
    Configure,
    SetSchema,
    AlterTopic,
    AlterSchema,
    SnapshotPoint,
    RegisterNode,
    AddNode,
    SetParents,
    SetDuty,
    RetireNode,
    PlaceGroup,
    ReportPlacement,
    Rules,
    CreateTopic,
    DeleteTopic,
    CreateKv,
    OpenSession,
    PutKey,
    DeleteKey,
)

_INT64 = (-(2**63), 2**63 - 1)
_RANGES = {
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
}

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)

BOUNDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(*_INT64),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=12),
)


VALUES = st.one_of(
    st.booleans(),
    st.integers(*_INT64),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=12),
)
"""What predicates compare with."""

COLUMNS = st.one_of(st.integers(0, 2**32 - 1), TEXTS)

LISTS = st.one_of(
    [
        st.lists(kind, min_size=1, max_size=4).map(sorted).map(tuple)
        for kind in (st.booleans(), st.integers(*_INT64), st.floats(allow_nan=False), TEXTS)
    ]
)

PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    st.one_of(
        st.builds(Compare, column=COLUMNS, operator=st.sampled_from(OPERATORS), value=VALUES),
        st.builds(In, column=COLUMNS, values=LISTS),
        st.builds(StartsWith, column=COLUMNS, prefix=TEXTS),
        st.builds(IsNull, column=COLUMNS),
        st.builds(Constant, value=st.sampled_from([True, False, None])),
        st.just(Unknown()),
    ),
    lambda parts: st.one_of(
        st.builds(Not, part=parts),
        st.builds(And, parts=st.lists(parts, max_size=3).map(tuple)),
        st.builds(Or, parts=st.lists(parts, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@cache
def values_of(kind: type) -> st.SearchStrategy[Any]:
    """Any value of a dataclass or NamedTuple that has a message of its name."""
    if kind is AppendRequest:
        return _append_requests()
    if kind is ImageChunk:
        return _image_chunks()
    if kind is PulledEntries:
        return _pulled_entries()
    if kind is EntryReply:
        return _entry_replies()
    if kind is BatchReply:
        return _batch_replies()
    hints = get_type_hints(kind)
    names = (
        [field.name for field in dataclasses.fields(kind)]
        if dataclasses.is_dataclass(kind)
        else kind._fields
    )
    fields = getattr(pb, kind.__name__).DESCRIPTOR.fields_by_name
    parts = {name: _values(hints[name], fields[name]) for name in names}
    if kind is ColumnChunk:
        parts |= {"minimum": BOUNDS, "maximum": BOUNDS}
    return st.builds(kind, **parts)


def _values(hint: Any, field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if get_origin(hint) is tuple:
        return st.lists(_values(get_args(hint)[0], field), max_size=3).map(tuple)
    if hint == Predicate:
        return PREDICATES
    plain = getattr(hint, "__supertype__", hint)
    if plain is bool:
        return st.booleans()
    if plain is str:
        return TEXTS
    if plain is bytes:
        return st.binary()
    if plain is int:
        return st.integers(*_RANGES[field.type])
    if hint == ColumnChunk.__annotations__["minimum"] or not isinstance(plain, type):
        return BOUNDS
    return values_of(plain)


def _image_chunks() -> st.SearchStrategy[ImageChunk]:
    ids = st.integers(0, 2**64 - 1)
    return st.builds(
        ImageChunk,
        group=ids,
        sender=ids,
        to=ids,
        name=st.text(),
        position=ids,
        crc=st.integers(0, 2**32 - 1),
        gone=st.booleans(),
        data=st.binary(),
    )


def _entry_replies() -> st.SearchStrategy[EntryReply]:
    ids = st.integers(0, 2**64 - 1)
    return st.builds(
        EntryReply,
        group=ids,
        sender=ids,
        to=ids,
        index=ids,
        term=ids,
        held=st.booleans(),
        dropped=st.booleans(),
        crc=st.integers(0, 2**32 - 1),
        payload=st.builds(Payload, st.binary(), st.binary()),
    )


def _append_requests() -> st.SearchStrategy[AppendRequest]:
    ids = st.integers(0, 2**64 - 1)
    indexes = st.integers(0, 2**63)
    parts = st.tuples(ids, st.sampled_from(EntryKind), st.builds(Payload, st.binary(), st.binary()))

    return st.builds(
        partial(_with_entries, AppendRequest),
        prev_index=indexes,
        rest=st.lists(parts, max_size=4),
        group=ids,
        sender=ids,
        to=ids,
        term=ids,
        prev_term=ids,
        commit_index=ids,
    )


def _pulled_entries() -> st.SearchStrategy[PulledEntries]:
    ids = st.integers(0, 2**64 - 1)
    parts = st.tuples(ids, st.sampled_from(EntryKind), st.builds(Payload, st.binary(), st.binary()))
    return st.builds(
        partial(_with_entries, PulledEntries),
        prev_index=st.integers(0, 2**63),
        rest=st.lists(parts, max_size=4),
        group=ids,
        sender=ids,
        to=ids,
        term=ids,
        leader=ids,
        held=st.booleans(),
        base_index=ids,
        prev_term=ids,
        commit_index=ids,
    )


def _with_entries(kind: type, prev_index: int, rest: list[Any], **plain: int) -> Any:
    entries = tuple(
        Entry(index, term, entry_kind, payload)
        for index, (term, entry_kind, payload) in enumerate(rest, start=prev_index + 1)
    )
    return kind(prev_index=prev_index, entries=entries, **plain)


@st.composite
def runs(draw: st.DrawFn, runs_max: int = 5, count_max: int = 2**60) -> Runs:
    """The runs of some batch: numbers that repeat, rise and leap."""
    size = draw(st.integers(1, runs_max))
    names = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))

    def column(values: st.SearchStrategy[int]) -> array[int]:
        return array("q", draw(st.lists(values, min_size=size, max_size=size)))

    return Runs(
        counts=column(st.integers(1, count_max)),
        timestamps_us=column(st.one_of(st.just(7), st.integers(0, 2**63 - 1))),
        terms=column(st.one_of(st.just(3), st.integers(0, 2**63 - 1))),
        epochs=column(st.one_of(st.just(-1), st.integers(0, 2**63 - 2))),
        writers=column(st.integers(0, len(names) - 1)),
        names=tuple(names),
    )


@st.composite
def _batch_replies(draw: st.DrawFn) -> BatchReply:
    found = draw(runs())
    if len(found) == 1:  # which travels without a table of names
        found = dataclasses.replace(
            found, writers=array("q", (0,)), names=(found.names[found.writers[0]],)
        )
    header = draw(values_of(BatchHeader))
    batch = dataclasses.replace(header, record_count=sum(found.counts))
    return BatchReply(start=draw(st.integers(*_INT64)), batch=batch, runs=found)
