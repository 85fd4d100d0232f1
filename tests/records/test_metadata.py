"""Metadata columns: their values, and their order among a topic's own."""

from __future__ import annotations

import datetime

import pyarrow as pa

from raftlog.machines.schema import RESERVED_NAMES
from raftlog.records.arrow_types import schema_of
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.records.metadata import METADATA_FIELDS, with_metadata


def _flights(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(count), pa.int64())], names=["id"])


def test_metadata_columns_are_where_they_were_asked_for():
    names = ["_offset", "id", "_topic", "_writer", "_epoch", "_timestamp", "_term"]
    batch = _flights(2)
    found = with_metadata(
        batch, names, topic="flights", start=40, timestamp_us=7, epoch=3, writer="w", term=2
    )
    assert found.schema == pa.schema(
        [METADATA_FIELDS.get(name, pa.field("id", pa.int64())) for name in names]
    )
    at = datetime.datetime(1970, 1, 1, 0, 0, 0, 7, datetime.UTC)
    assert found.to_pylist()[1] == {
        "_offset": 41,
        "id": 1,
        "_topic": "flights",
        "_writer": "w",
        "_epoch": 3,
        "_timestamp": at,
        "_term": 2,
    }


def test_a_plain_append_has_neither_writer_nor_epoch():
    found = with_metadata(
        _flights(1), RESERVED_NAMES, topic="t", start=0, timestamp_us=0, epoch=-1, writer="", term=1
    )
    row = found.to_pylist()[0]
    assert row["_writer"] is None
    assert row["_epoch"] is None


def test_metadata_without_columns_has_as_many_rows_as_the_batch():
    schema = schema_of("id BIGINT")
    encoded = encode_batch(_flights(1000), schema, "lz4")
    counted = decode_batch(encoded.header, encoded.body, schema, [])
    found = with_metadata(
        counted, ["_offset"], topic="t", start=5, timestamp_us=0, epoch=-1, writer="", term=1
    )
    assert found.column(0).to_pylist() == list(range(5, 1005))
