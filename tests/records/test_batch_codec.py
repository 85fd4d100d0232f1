"""Record batches as bytes: nothing changes, all damage is named, statistics are true."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import chain, crc32c
from raftlog.errors import DataLoss, InvalidOption
from raftlog.records.arrow_types import arrow_schema, schema_from_arrow, schema_of
from raftlog.records.batch_codec import COMPRESSIONS, decode_batch, encode_batch
from raftlog.wire.batch import BatchHeader, ColumnChunk
from tests.compaction.layouts import NESTED_VARIANTS, with_null_fields
from tests.records.strategies import batches

SCHEMA = schema_of("id BIGINT NOT NULL, name STRING, at TIMESTAMP")


def _flights(count: int = 1000) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(count), pa.int64()),
            pa.array([f"UA {number}" for number in range(count)], pa.string()),
            pa.array([number * 1_000_000 for number in range(count)], pa.timestamp("us", "UTC")),
        ],
        schema=arrow_schema(SCHEMA),
    )


# ---------------------------------------------------------------- there and back


@pytest.mark.slow
@settings(max_examples=60)
@given(batches(), st.sampled_from(COMPRESSIONS))
def test_a_batch_of_any_types_comes_back_as_it_was(given_batch, compression: str):
    schema, batch = given_batch
    encoded = encode_batch(batch, schema, compression)
    found = decode_batch(encoded.header, encoded.body, schema, batch.schema.names)
    found.validate(full=True)
    assert found.schema == batch.schema
    assert found.equals(batch)


@pytest.mark.parametrize("kind", NESTED_VARIANTS)
def test_fields_of_a_null_struct_may_be_null_though_their_type_forbids_it(kind: str):
    schema = schema_of(f"c {kind}")
    (field,) = logical = arrow_schema(schema)
    batch = pa.RecordBatch.from_arrays([with_null_fields(field.type)], schema=logical)
    encoded = encode_batch(batch, schema, "none")
    found = decode_batch(encoded.header, encoded.body, schema, ["c"])
    assert found.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_large_batch_comes_back_as_it_was_and_compression_saves(compression: str):
    batch = _flights(20_000)
    encoded = encode_batch(batch, SCHEMA, compression)
    assert decode_batch(encoded.header, encoded.body, SCHEMA, batch.schema.names).equals(batch)
    small = len(encoded.body) < batch.nbytes * 0.8
    assert small == (compression != "none")


def test_only_the_asked_columns_come_in_the_asked_order():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    found = decode_batch(encoded.header, encoded.body, SCHEMA, ["at", "id"])
    assert found.schema.names == ["at", "id"]
    assert found.equals(_flights().select(["at", "id"]))


def test_an_unknown_column_is_refused_with_the_known_ones():
    encoded = encode_batch(_flights(), SCHEMA, "none")
    with pytest.raises(InvalidOption, match="id, name, at, _topic"):
        decode_batch(encoded.header, encoded.body, SCHEMA, ["carrier"])


def test_no_column_asked_for_still_counts_the_records():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    found = decode_batch(encoded.header, encoded.body, SCHEMA, [])
    assert (found.num_rows, found.num_columns) == (1000, 0)
    assert found.slice(10, 20).num_rows == 20


def test_the_body_is_the_chunks_one_after_another_with_the_crcs_of_the_header():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    position = batch_crc = 0
    for chunk in encoded.header.columns:
        assert chunk.position == position
        position += chunk.length
        assert chunk.crc == crc32c(encoded.body[chunk.position : position])
        batch_crc = chain(batch_crc, chunk.crc)
    assert position == len(encoded.body)
    assert encoded.crc == batch_crc


def test_chunks_can_be_sliced_out_and_joined_again():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    wanted = [encoded.header.columns[2], encoded.header.columns[0]]
    body = b""
    chunks = []
    for chunk in wanted:
        part = encoded.body[chunk.position : chunk.position + chunk.length]
        chunks.append(chunk._replace(position=len(body)))
        body += part
    header = BatchHeader(record_count=1000, schema_version=1, columns=tuple(chunks))
    found = decode_batch(header, memoryview(body), SCHEMA, ["id", "at"])
    assert found.equals(_flights().select(["id", "at"]))


def test_an_unknown_compression_is_refused_with_the_known_ones():
    with pytest.raises(InvalidOption, match="lz4, zstd, none"):
        encode_batch(_flights(), SCHEMA, "snappy")


# ---------------------------------------------------------------- damage


@settings(max_examples=40)
@given(st.data())
def test_one_changed_byte_is_data_loss_that_names_the_column(data: st.DataObject):
    encoded = encode_batch(_flights(50), SCHEMA, data.draw(st.sampled_from(COMPRESSIONS)))
    position = data.draw(st.integers(0, len(encoded.body) - 1))
    body = bytearray(encoded.body)
    body[position] ^= data.draw(st.integers(1, 255))
    hurt = next(
        field.name
        for field, chunk in zip(SCHEMA.fields, encoded.header.columns, strict=True)
        if position < chunk.position + chunk.length
    )
    names = [field.name for field in SCHEMA.fields]
    with pytest.raises(DataLoss, match=f"Column '{hurt}'"):
        decode_batch(encoded.header, bytes(body), SCHEMA, names)
    others = [name for name in names if name != hurt]
    assert decode_batch(encoded.header, bytes(body), SCHEMA, others).num_rows == 50


def test_a_body_that_ends_early_is_data_loss():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    with pytest.raises(DataLoss, match="Column 'at' ends beyond"):
        decode_batch(encoded.header, encoded.body[:-1], SCHEMA, ["at"])


def test_a_column_that_was_not_sent_is_data_loss():
    encoded = encode_batch(_flights(), SCHEMA, "lz4")
    header = BatchHeader(record_count=1000, schema_version=1, columns=encoded.header.columns[:1])
    with pytest.raises(DataLoss, match="Column 'name' is not in the batch"):
        decode_batch(header, encoded.body, SCHEMA, ["name"])


END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
SCHEMA_MESSAGE = pa.schema([pa.field("column", pa.int64())]).serialize().to_pybytes()


@pytest.mark.parametrize("body", [b"no Arrow message", b"", END_OF_STREAM, SCHEMA_MESSAGE])
def test_bytes_with_a_good_crc_that_are_no_record_batch_are_data_loss(body: bytes):
    chunk = ColumnChunk(field_id=1, position=0, length=len(body), crc=crc32c(body), null_count=0)
    header = BatchHeader(record_count=1, schema_version=1, columns=(chunk,))
    with pytest.raises(DataLoss, match="Column 'id' is not an Arrow message"):
        decode_batch(header, body, SCHEMA, ["id"])


@pytest.mark.parametrize("wrong", ["a STRING", "a ARRAY<BIGINT>", "a STRUCT<x: INT>"])
def test_a_column_read_as_another_type_is_data_loss_and_no_crash(wrong: str):
    schema = schema_of("a ARRAY<TINYINT>")
    batch = pa.RecordBatch.from_arrays(
        [pa.array([[1, 2, 3]] * 99, pa.list_(pa.int8()))], schema=arrow_schema(schema)
    )
    encoded = encode_batch(batch, schema, "none")
    with pytest.raises(DataLoss, match="Column 'a' is not an Arrow message"):
        decode_batch(encoded.header, encoded.body, schema_of(wrong), ["a"])


def test_a_column_with_another_number_of_values_is_data_loss():
    encoded = encode_batch(_flights(5), SCHEMA, "none")
    header = BatchHeader(record_count=6, schema_version=1, columns=encoded.header.columns)
    with pytest.raises(DataLoss, match="5 values for 6 records"):
        decode_batch(header, encoded.body, SCHEMA, ["id"])


# ---------------------------------------------------------------- statistics


def _bounds(values: list, kind: pa.DataType) -> tuple:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["a"])
    schema = schema_from_arrow(batch.schema)
    chunk = encode_batch(batch, schema, "none").header.columns[0]
    return chunk.minimum, chunk.maximum


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([3, None, -1], pa.int64(), (-1, 3)),
        ([2.5, None], pa.float64(), (2.5, 2.5)),
        ([2.5, math.nan], pa.float64(), (None, None)),
        ([math.inf, -math.inf], pa.float64(), (-math.inf, math.inf)),
        ([True, False], pa.bool_(), (False, True)),
        ([None, None], pa.int32(), (None, None)),
        (["b", "ä", "a"], pa.string(), ("a", "ä")),
        (["a", "z" * 64], pa.string(), ("a", "z" * 64)),
        (["a", "z" * 65], pa.string(), ("a", None)),
        (["a", "ä" * 33], pa.string(), ("a", None)),
        ([b"\xff", b"\x00"], pa.binary(), (b"\x00", b"\xff")),
        ([datetime.date(1970, 1, 3)], pa.date32(), (2, 2)),
        ([5, 7], pa.timestamp("us", tz="UTC"), (5, 7)),
        ([-5, 7], pa.timestamp("us"), (-5, 7)),
        ([Decimal("1.5")], pa.decimal128(5, 2), (None, None)),
        ([[1]], pa.list_(pa.int32()), (None, None)),
    ],
)
def test_bounds_are_the_smallest_and_largest_values_or_unknown(values, kind, expected):
    assert _bounds(values, kind) == expected


def test_text_that_is_not_utf8_has_no_bound_and_is_kept():
    # Spark's strings may hold any bytes: cast(X'ff' as string).
    raw = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    batch = pa.RecordBatch.from_arrays([raw], names=["a"])
    schema = schema_from_arrow(batch.schema)
    encoded = encode_batch(batch, schema, "none")
    assert encoded.header.columns[0].maximum is None
    found = decode_batch(encoded.header, encoded.body, schema, ["a"])
    assert found.column(0).cast(pa.binary()).to_pylist() == [b"\xff"]


def test_nulls_are_counted():
    batch = pa.RecordBatch.from_arrays([pa.array([1, None, None])], names=["a"])
    encoded = encode_batch(batch, schema_from_arrow(batch.schema), "lz4")
    assert encoded.header.columns[0].null_count == 2
