"""Record batches as a server handles them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.types import GroupId, NodeId
from raftlog.errors import MalformedRequest, SchemaMismatch, UnknownSchemaVersion
from raftlog.machines.commands import BatchSummary, TopicInfo
from raftlog.machines.evolution import ADD, DROP, RENAME, SET_TYPE, ColumnChange, evolved
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import schema_of
from raftlog.records.batch_codec import encode_batch
from raftlog.records.rows import batch_from_rows
from raftlog.server.record_batches import checked_summary
from raftlog.wire.batch import BOUND_BYTES_MAX

SCHEMA = schema_of("id BIGINT, delay INT")
TOPIC = TopicInfo(
    name="flights",
    incarnation="1f",
    group=GroupId(1),
    schema=SCHEMA,
    voters=(NodeId(1),),
    created_us=1,
    rules=RULES_LATEST,
)


def with_changes(*changes: ColumnChange) -> TopicInfo:
    schema = evolved(SCHEMA, changes)
    assert isinstance(schema, Schema), schema
    return replace(TOPIC, schema=schema)


def summary_in(topic: TopicInfo, writer: TopicInfo) -> BatchSummary:
    """What the leader of `topic` makes of a batch from a client that knows it as `writer` is."""
    rows = batch_from_rows([{"id": 1, "delay": 2}], writer.schema, "flights")
    batch = encode_batch(rows, writer.schema, "none")
    return checked_summary(topic, batch.header, batch.crc, batch.body, latest=topic.schema)


def test_a_writer_that_knows_an_earlier_version_goes_on():
    altered = with_changes(ColumnChange(action=ADD, name="gate", type='"string"'))
    assert summary_in(altered, TOPIC).schema_version == 1
    assert summary_in(altered, altered).schema_version == 2


@pytest.mark.parametrize("bound", ["é" * 32, b"x" * 64, "é" * 32 + "x", b"x" * 65])
def test_a_bound_is_no_longer_than_a_writer_makes_it(bound: str | bytes):
    """Quotas and retention count bodies, so that long bounds would be stored for nothing."""
    topic = replace(TOPIC, schema=schema_of("t STRING"))
    rows = batch_from_rows([{"t": "text"}], topic.schema, "flights")
    batch = encode_batch(rows, topic.schema, "none")
    [column] = batch.header.columns
    header = replace(batch.header, columns=(column._replace(maximum=bound),))
    raw = bound.encode() if isinstance(bound, str) else bound
    if len(raw) <= BOUND_BYTES_MAX:
        assert checked_summary(topic, header, batch.crc, batch.body, latest=topic.schema)
        return
    with pytest.raises(MalformedRequest, match="a bound that is too long"):
        checked_summary(topic, header, batch.crc, batch.body, latest=topic.schema)


def test_a_batch_of_a_later_version_waits_for_the_log_to_have_it():
    altered = with_changes(ColumnChange(action=ADD, name="gate", type='"string"'))
    with pytest.raises(UnknownSchemaVersion) as refused:
        summary_in(TOPIC, altered)
    assert refused.value.retriable


def test_values_of_a_dropped_column_are_not_taken_in_silence():
    altered = with_changes(ColumnChange(action=DROP, name="delay"))
    with pytest.raises(SchemaMismatch, match="dropped: delay"):
        summary_in(altered, TOPIC)


def test_columns_are_those_of_the_version_that_the_batch_names():
    altered = with_changes(ColumnChange(action=ADD, name="gate", type='"string"'))
    rows = batch_from_rows([{"id": 1}], SCHEMA, "flights")
    batch = encode_batch(rows, SCHEMA, "none")
    with pytest.raises(SchemaMismatch, match="field ids"):
        checked_summary(
            altered,
            replace(batch.header, schema_version=2),
            batch.crc,
            batch.body,
            latest=altered.schema,
        )


def test_values_of_a_renamed_column_are_not_taken_for_another_s():
    altered = with_changes(ColumnChange(action=RENAME, name="delay", to="late"))
    with pytest.raises(SchemaMismatch, match="renamed: delay is late now"):
        summary_in(altered, TOPIC)


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        ("INT", "BIGINT", False),
        ("FLOAT", "DOUBLE", True),
        ("ARRAY<FLOAT>", "ARRAY<DOUBLE>", True),
        ("MAP<STRING, FLOAT>", "MAP<STRING, DOUBLE>", True),
        ("STRUCT<x: FLOAT>", "STRUCT<x: FLOAT, y: DOUBLE>", False),
        ("STRUCT<x: INT, y: FLOAT>", "STRUCT<x: BIGINT, y: DOUBLE, z: FLOAT>", True),
    ],
)
def test_who_knows_a_float_writes_no_doubles(before: str, after: str, is_refused: bool):
    known = schema_of(f"v {before}")
    wider = schema_of(f"v {after}").fields[0].type
    latest = evolved(known, [ColumnChange(action=SET_TYPE, name="v", type=wider)])
    assert isinstance(latest, Schema), latest
    batch = encode_batch(batch_from_rows([{"v": None}], known, "flights"), known, "none")
    topic = replace(TOPIC, schema=latest)
    if is_refused:
        with pytest.raises(SchemaMismatch, match=r"wider: *v has a double"):
            checked_summary(topic, batch.header, batch.crc, batch.body, latest=topic.schema)
    else:
        assert (
            checked_summary(
                topic, batch.header, batch.crc, batch.body, latest=topic.schema
            ).schema_version
            == 1
        )


def test_a_change_counts_before_the_topic_s_log_has_it():
    altered = with_changes(ColumnChange(action=RENAME, name="delay", to="late"))
    batch = encode_batch(batch_from_rows([{"id": 1}], SCHEMA, "flights"), SCHEMA, "none")
    with pytest.raises(SchemaMismatch, match="renamed: delay is late now"):
        checked_summary(TOPIC, batch.header, batch.crc, batch.body, latest=altered.schema)
