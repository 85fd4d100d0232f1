"""Columns in byte planes: they come back as they were, and lie so only where that saves."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from raftlog.checksum import crc32c
from raftlog.errors import DataLoss
from raftlog.machines.schema import Schema
from raftlog.records import byte_planes
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.records.conform import conform
from raftlog.wire.batch import BatchHeader, ColumnChunk, EncodedBatch
from tests.records.strategies import batches

WRITTEN = (
    "eNrNk1VUlFEUhT/8B0QdGFRUVJSQMgcTC0FiTHAsxEYFGwWxE1FRTOzGTuxA7C7sDgwMZAQbu8Z/RgblX/roWp77sM"
    "8+e5/7cO49Wq1WqzECS36GHCtMMMZUzOS6giDDWoRIGdkhFysWyLI9LmK/zqO/4zefTH8Qvb/CIQtdDFz4iWqBHGHg"
    "7lk8VqIbuHMWT5ToBu6YxVMkeopEN5Xl1A3coLtKdFeJHijRAyW6/s7f5hNglD2knPGPeaShbO9nFeQZZSamHgmhyQ"
    "IhahESQqV9Bp84LvGnZFLXCx9f6tWnYSP8/FE3pXkLAlrRug3t2tMxiM5dCOlK9x706k2fvoT3o/8ABg1m6DBGjCRy"
    "NGPGEj2emIlMnsK0WGbMZPYc5s1n4SLilrBsOStXsWYt6+PZuIktW9m+g4Rd7N7Dvv0cPMSRoxw/wanTnDnL+Qtcus"
    "zVa9y4ye1k7t4j5QGPHvMkjafpPHvOy1e8yeTdez5+4stXvmsxyoXMmNym5M2HmTkW+SloSeEiFC2GdQlsbLEvhaMT"
    "LqUpW44KSipWokpV3KpTsxbudfCsi7cPqno0aEhjP5qoadaclgEEtqZtOzp0pFNngkPo1p2evQjtQ1g4Ef0ZOIghQx"
    "k+glGRRI1hXDQTYpg0manTmD6DWbOZO48FC1kcx9JlrFjJ6jWsW8+GjWzewrbt7EwgcTd793HgIIePcOw4J0+RdIZz"
    "57l4iStXuX6DW7e5c5f7KTx8ROoTNE/JeMaLl7x+w9t3fPjI5y98+w5GuoU2yU2evMjNUFhQoCCFCmNVlOLWlLTBzh"
    "4HR5xdKFOW8hVwrUjlKlRzo0ZNarvj4YmXN74q6jegUWP8m9C0GS1a0iqQNm1p34GgTnQJpms3evSkdyh9w+gXwYCB"
    "DB7CsOGMHMXoKMaOY/wEJk5iylRipzNzFnPmMn8BixazZCnLV7BqNWvXEb+BTZvZuo0dO9mVyJ697D/AocMcPcaJk5"
    "xO4uw5Llzk8hWuXefmLZLvcO8+Dx7yOJU0DekZPH/Bq9dkvuX9Bz595us3tJBLwNgE0zzkk2OuIH8BLAtRxIpixSlR"
    "Els7Sjng5EzpMpQrj9KVSpWpWo3qNahVmzoeCBq1/iP8ZU+cdPuEl5dAvNLbWyBd6eMjkOHhi68ISpVKwFGtQqX6S7"
    "+Fvl+hEHTbplErxPSPPnMxtREfU3Slq/+07/+r7wcm3k1R"
)

RISING = 10_000
"""Values that rise: planes save most of their bytes."""


@pytest.mark.slow
@settings(max_examples=60)
@given(batches(rows_min=0))
def test_planes_joined_again_are_the_column(given_batch: tuple[Schema, pa.RecordBatch]) -> None:
    _, batch = given_batch
    for column in batch.columns:
        if byte_planes.width_of(column.type):
            planes = byte_planes.split(column)
            assert planes.num_columns == byte_planes.width_of(column.type)
            found = byte_planes.join(planes, column.type)
            found.validate(full=True)
            as_bytes = pa.binary(planes.num_columns)
            assert found.view(as_bytes).equals(column.view(as_bytes)), "NaNs equal no others"


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        (pa.int8(), 0), (pa.int16(), 2), (pa.int32(), 4), (pa.int64(), 8), (pa.float32(), 4),
        (pa.float64(), 8), (pa.date32(), 4), (pa.timestamp("us", "UTC"), 8), (pa.time64("ns"), 8),
        (pa.duration("us"), 8), (pa.decimal128(38, 10), 16), (pa.bool_(), 0), (pa.string(), 0),
        (pa.binary(), 0), (pa.list_(pa.int64()), 0), (pa.struct([("a", pa.int64())]), 0),
        (pa.binary(8), 0), (pa.null(), 0),
    ],
    ids=str,
)  # fmt: skip
def test_types_of_fixed_width_can_lie_in_planes(kind: pa.DataType, width: int) -> None:
    assert byte_planes.width_of(kind) == width


_RANDOM = random.Random(7)

SAVING: dict[str, Callable[[], pa.Array[Any]]] = {
    "ids": lambda: pa.array(range(RISING), pa.int64()),
    "small ids": lambda: pa.array(range(RISING), pa.int32()),
    "times": lambda: pa.array(
        [1_790_000_000_000_000 + 977 * n for n in range(RISING)], pa.timestamp("us", "UTC")
    ),
    "amounts": lambda: pa.array([n * 0.25 for n in range(RISING)]),
    "money": lambda: pa.array([Decimal(n) / 100 for n in range(RISING)], pa.decimal128(18, 2)),
    "gaps": lambda: pa.array([n if n % 3 else None for n in range(RISING)], pa.int64()),
    "the end of a longer one": lambda: pa.array(range(3 * RISING), pa.int64()).slice(RISING),
}

NOT_SAVING: dict[str, Callable[[], pa.Array[Any]]] = {
    "noise": lambda: pa.array([_RANDOM.random() for _ in range(RISING)]),
    "one value": lambda: pa.array([7] * RISING, pa.int64()),
    "a pattern": lambda: pa.array([n % 1000 for n in range(RISING)], pa.int32()),
    "nulls": lambda: pa.nulls(RISING, pa.int64()),
    "text": lambda: pa.array([f"customer {n}" for n in range(RISING)]),
}


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("name", SAVING)
def test_columns_that_are_smaller_in_planes_lie_so(name: str, compression: str) -> None:
    column = SAVING[name]()
    schema = schema_of(pa.schema([("a", column.type)]))
    encoded = _encoded(column, schema, compression)
    assert _in_planes(encoded)
    assert len(encoded.body) < 0.75 * _bytes_as_it_is(column, compression)
    assert decode_batch(encoded.header, encoded.body, schema, ["a"]).column(0).equals(column)


@pytest.mark.parametrize("name", NOT_SAVING)
def test_columns_that_planes_do_not_make_smaller_stay_as_they_are(name: str) -> None:
    column = NOT_SAVING[name]()
    schema = schema_of(pa.schema([("a", column.type)]))
    encoded = _encoded(column, schema, "lz4")
    assert not _in_planes(encoded)
    assert decode_batch(encoded.header, encoded.body, schema, ["a"]).column(0).equals(column)


def test_what_is_not_compressed_stays_as_it_is() -> None:
    schema = schema_of("a BIGINT")
    many, few = pa.array(range(RISING), pa.int64()), pa.array(range(500), pa.int64())
    assert not _in_planes(_encoded(many, schema, "none"))
    assert not _in_planes(_encoded(few, schema, "lz4")), "a small column"


def test_planes_are_read_from_the_bytes_of_the_format() -> None:
    """The bytes of 1,024 rising numbers, each third of them null, as they lie in a topic."""
    numbers = [None if n % 3 == 0 else 1_000_000 + n for n in range(1024)]
    body = zlib.decompress(base64.b64decode(WRITTEN))
    chunk = ColumnChunk(
        field_id=1, position=0, length=len(body), crc=crc32c(body), null_count=342, in_planes=True
    )
    header = BatchHeader(record_count=1024, schema_version=1, columns=(chunk,))
    found = decode_batch(header, body, schema_of("a BIGINT"), ["a"])
    assert found.column(0).to_pylist() == numbers


# ---------------------------------------------------------------- damage


def test_planes_taken_for_a_column_and_a_column_for_planes_are_data_loss() -> None:
    """Neither is ever read as other values."""
    schema = schema_of("a BIGINT")
    for column, in_planes in ((SAVING["ids"](), True), (NOT_SAVING["one value"](), False)):
        encoded = _encoded(column, schema, "lz4")
        (chunk,) = encoded.header.columns
        assert chunk.in_planes == in_planes
        turned = BatchHeader(
            record_count=RISING,
            schema_version=1,
            columns=(chunk._replace(in_planes=not in_planes),),
        )
        with pytest.raises(DataLoss, match="Column 'a' is not an Arrow message"):
            decode_batch(turned, encoded.body, schema, ["a"])


def test_planes_of_a_type_without_planes_are_data_loss() -> None:
    schema = schema_of("a STRING")
    encoded = _encoded(pa.array(["b"] * RISING), schema, "lz4")
    (chunk,) = encoded.header.columns
    header = BatchHeader(
        record_count=RISING, schema_version=1, columns=(chunk._replace(in_planes=True),)
    )
    with pytest.raises(DataLoss, match="string has no byte planes"):
        decode_batch(header, encoded.body, schema, ["a"])


def _encoded(column: pa.Array[Any], schema: Schema, compression: str) -> EncodedBatch:
    batch = pa.RecordBatch.from_arrays([column], schema=arrow_schema(schema))
    return encode_batch(conform(batch, schema, "t"), schema, compression)


def _bytes_as_it_is(column: pa.Array[Any], compression: str) -> int:
    """The bytes that Arrow needs for the column without planes."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([column], ["a"])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue().size


def _in_planes(encoded: EncodedBatch) -> bool:
    return encoded.header.columns[0].in_planes
