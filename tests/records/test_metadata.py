"""Metadata columns: their values, and their order among a topic's own."""

from __future__ import annotations

import datetime
from array import array

import pyarrow as pa

from raftlog.machines.schema import RESERVED_NAMES
from raftlog.records.arrow_types import schema_of
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.records.metadata import METADATA_FIELDS, with_metadata
from raftlog.wire.runs import Runs


def _flights(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(count), pa.int64())], names=["id"])


def _append(count: int) -> Runs:
    return Runs.of_one(count=count, timestamp_us=0, epoch=-1, writer="", term=1)


def test_metadata_columns_are_where_they_were_asked_for():
    names = ["_offset", "id", "_topic", "_writer", "_epoch", "_timestamp", "_term"]
    batch = _flights(2)
    run = Runs.of_one(count=2, timestamp_us=7, epoch=3, writer="w", term=2)
    found = with_metadata(batch, names, topic="flights", start=40, runs=run)
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
    found = with_metadata(_flights(1), RESERVED_NAMES, topic="t", start=0, runs=_append(1))
    row = found.to_pylist()[0]
    assert row["_writer"] is None
    assert row["_epoch"] is None


def test_each_record_has_the_metadata_of_its_run():
    runs = Runs(
        counts=array("q", (2, 1, 1)),
        timestamps_us=array("q", (7, 7, 2**62)),
        terms=array("q", (1, 2, 3)),
        epochs=array("q", (0, -1, 5)),
        writers=array("q", (1, 0, 2)),
        names=("", "w", "ü"),
    )
    names = ["_writer", "_epoch", "_term", "_timestamp", "_offset", "_topic", "id"]
    found = with_metadata(_flights(4), names, topic="t", start=8, runs=runs)
    assert found.schema == pa.schema(
        [METADATA_FIELDS.get(name, pa.field("id", pa.int64())) for name in names]
    )
    assert found.column("_writer").to_pylist() == ["w", "w", None, "ü"]
    assert found.column("_epoch").to_pylist() == [0, 0, None, 5]
    assert found.column("_term").to_pylist() == [1, 1, 2, 3]
    assert found.column("_timestamp").cast(pa.int64()).to_pylist() == [7, 7, 7, 2**62]
    assert found.column("_offset").to_pylist() == [8, 9, 10, 11]
    assert found.column("_topic").to_pylist() == ["t"] * 4
    found.validate(full=True)


def test_metadata_without_columns_has_as_many_rows_as_the_batch():
    schema = schema_of("id BIGINT")
    encoded = encode_batch(_flights(1000), schema, "lz4")
    counted = decode_batch(encoded.header, encoded.body, schema, [])
    found = with_metadata(counted, ["_offset"], topic="t", start=5, runs=_append(1000))
    assert found.column(0).to_pylist() == list(range(5, 1005))
