"""Merging keeps every record, its order and its bits; what cannot be decoded stays as it is."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import crc32c
from raftlog.compaction import merge as merging
from raftlog.compaction.digest import digest_chunks
from raftlog.compaction.merge import COMPRESSION, Batch, MergedBatch, copy, merge
from raftlog.errors import DataLoss, Internal
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import COMPRESSIONS, decode_batch, encode_batch
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX
from raftlog.wire.batch import BatchHeader, ColumnChunk
from tests.compaction.layouts import NESTED_VARIANTS, digest_of, with_null_fields
from tests.records.strategies import SCHEMAS, batches_of
from tests.wire import bombs
from tests.wire.bombs import arrow_memory

SCHEMA = schema_of("id BIGINT NOT NULL, text STRING, real DOUBLE")


def logged(batch: pa.RecordBatch, schema: Schema = SCHEMA, compression: str = "lz4") -> Batch:
    encoded = encode_batch(batch, schema, compression)
    return Batch(encoded.header, encoded.body)


def rows(start: int, count: int) -> pa.RecordBatch:
    """Every third text is null; every fifth number is a NaN."""
    numbers = range(start, start + count)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(numbers, pa.int64()),
            pa.array([None if n % 3 == 0 else f"text {n}" for n in numbers], pa.string()),
            pa.array([float("nan") if n % 5 == 0 else n / 2 for n in numbers], pa.float64()),
        ],
        schema=arrow_schema(SCHEMA),
    )


def decoded(batch: Batch | MergedBatch, schema: Schema = SCHEMA) -> pa.RecordBatch:
    names = [field.name for field in schema.fields]
    return decode_batch(batch.header, batch.body, schema, names)


def chunk_batch(schema_columns: list[tuple[int, bytes]], count: int) -> Batch:
    """A batch of any bytes, with good CRCs."""
    columns = []
    position = 0
    for field_id, data in schema_columns:
        columns.append(
            ColumnChunk(
                field_id=field_id, position=position, length=len(data), crc=crc32c(data),
                null_count=0,
            )
        )  # fmt: skip
        position += len(data)
    header = BatchHeader(record_count=count, schema_version=1, columns=tuple(columns))
    return Batch(header, b"".join(data for _, data in schema_columns))


# ---------------------------------------------------------------- records are kept


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_batches_of_any_types_become_one_with_the_same_records(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    parts = data.draw(st.lists(batches_of(schema), min_size=2, max_size=4))
    sources = [logged(part, schema, data.draw(st.sampled_from(COMPRESSIONS))) for part in parts]
    (merged,) = merge(sources, schema)
    assert merged.count == len(parts)
    found = decoded(merged, schema)
    found.validate(full=True)
    whole = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    assert found.equals(whole)
    assert merged.header.record_count == whole.num_rows
    assert merged.digest == digest_of(schema, whole)


@settings(max_examples=20)
@given(st.data())
def test_borders_and_compressions_of_the_batches_make_no_difference(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    whole = data.draw(batches_of(schema, rows_min=3))
    border = data.draw(st.integers(1, whole.num_rows - 2))
    other = data.draw(st.integers(border + 1, whole.num_rows - 1))
    digests = set()
    for starts in ((0, border), (0, other), (0, border, other), (0,)):
        ends = [*starts[1:], whole.num_rows]
        parts = [whole.slice(a, b - a) for a, b in zip(starts, ends, strict=True)]
        compression = data.draw(st.sampled_from(COMPRESSIONS))
        (merged,) = merge([logged(part, schema, compression) for part in parts], schema)
        digests.add(merged.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("kind", NESTED_VARIANTS)
def test_batches_with_nulls_below_null_structs_become_one(kind: str) -> None:
    schema = schema_of(f"c {kind}")
    (field,) = logical = arrow_schema(schema)
    part = pa.RecordBatch.from_arrays([with_null_fields(field.type)], schema=logical)
    (merged,) = merge([logged(part, schema)] * 3, schema)
    assert decoded(merged, schema).to_pylist() == 3 * part.to_pylist()


def test_a_merged_batch_is_compressed_and_has_bounds() -> None:
    (merged,) = merge([logged(rows(100 * n, 100), compression="none") for n in range(50)], SCHEMA)
    first, text, real = merged.header.columns
    assert (first.minimum, first.maximum, first.null_count) == (0, 4999, 0)
    assert (text.minimum, text.maximum, text.null_count) == ("text 1", "text 998", 1667)
    assert (real.minimum, real.maximum) == (None, None)
    again = logged(decoded(merged), compression=COMPRESSION)
    assert (again.header, again.body) == (merged.header, merged.body)


def test_a_batch_by_itself_is_copied() -> None:
    source = logged(rows(0, 9))
    (merged,) = merge([source], SCHEMA)
    assert (merged.count, merged.header, merged.body) == (1, *source)
    assert merged.digest == digest_of(SCHEMA, rows(0, 9))


def test_text_that_is_not_utf8_is_merged() -> None:
    schema = schema_of("a STRING")
    raw = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    source = logged(pa.RecordBatch.from_arrays([raw], schema=arrow_schema(schema)), schema)
    (merged,) = merge([source, source], schema)
    column = decoded(merged, schema).column(0)
    assert column.view(pa.binary()).to_pylist() == [b"\xff", b"\xff"]


def test_records_that_are_large_in_memory_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "DECODED_BYTES_MAX", int(2.5 * rows(400, 100).nbytes))
    sources = [logged(rows(100 * n, 100)) for n in range(5)]
    found = list(merge(sources, SCHEMA))
    assert [each.count for each in found] == [2, 2, 1]
    monkeypatch.setattr(merging, "DECODED_BYTES_MAX", 1)
    assert [each.count for each in merge(sources, SCHEMA)] == [1] * 5


@pytest.mark.slow
def test_what_batches_claim_bounds_the_memory_of_a_merge_before_they_are_decoded() -> None:
    """Texts of a third of the bound, which take a few kilobytes each in the log."""
    part = bombs.with_text(bombs.text(merging.DECODED_BYTES_MAX // 3, "zstd"))
    wasteful = bombs.wasteful()
    sources = [Batch(each.header, each.body) for each in (*[part] * 5, *[wasteful] * 3)]
    with arrow_memory() as pool:
        found = list(merge(sources, bombs.SCHEMA))
        assert pool.max_memory() < BATCH_DECODED_BYTES_MAX + merging.DECODED_BYTES_MAX // 3
    assert [each.count for each in found] == [2, 2, 1, 1, 1, 1]


def test_batches_are_taken_as_they_are_needed() -> None:
    taken = []

    def sources():
        for number in (0, 1, 2):
            taken.append(number)
            yield STRANGE if number == 1 else logged(rows(number, 1))

    found = merge(sources(), SCHEMA)
    assert next(found).count == 1
    assert taken == [0, 1]


# ---------------------------------------------------------------- what cannot be merged


STRANGE = chunk_batch([(1, b"no"), (2, b"Arrow"), (3, b"messages")], 7)


def test_what_cannot_be_decoded_is_copied_in_its_place() -> None:
    sources = [logged(rows(10 * n, 10)) for n in range(5)]
    given_batches = [*sources[:2], STRANGE, *sources[2:4], STRANGE, STRANGE, sources[4]]
    found = list(merge(given_batches, SCHEMA))
    assert [each.count for each in found] == [2, 1, 2, 1, 1, 1]
    assert decoded(found[0]).column(0).to_pylist() == list(range(20))
    assert decoded(found[2]).column(0).to_pylist() == list(range(20, 40))
    for number in (1, 3, 4):
        assert (found[number].header, found[number].body) == STRANGE
        assert found[number].digest == digest_chunks(*STRANGE)


@pytest.mark.parametrize("fields", ["id BIGINT NOT NULL, text STRING", "b STRING, a BIGINT, c INT"])
def test_a_batch_of_other_columns_is_copied(fields: str) -> None:
    sources = [logged(rows(0, 5)), logged(rows(5, 5))]
    found = list(merge(sources, schema_of(fields)))
    assert [(each.header, each.body) for each in found] == [tuple(source) for source in sources]


def test_a_batch_of_another_count_of_values_is_copied() -> None:
    source = logged(rows(0, 5))
    header = BatchHeader(record_count=6, schema_version=1, columns=source.header.columns)
    false = Batch(header, source.body)
    assert [each.count for each in merge([source, false, source], SCHEMA)] == [1, 1, 1]


OFFSETS = {
    "beyond the data": (0, 2**30, 2**31 - 1),
    "falling": (0, 2, 1),
    "negative": (-8, 0, 2),
}


@pytest.mark.parametrize("offsets", OFFSETS.values(), ids=OFFSETS)
@pytest.mark.parametrize("ddl", ["a STRING", "a ARRAY<TINYINT>", "a STRUCT<x: BINARY>"])
def test_offsets_that_lead_out_of_a_column_are_copied_and_never_followed(
    ddl: str, offsets: tuple[int, int, int]
) -> None:
    schema = schema_of(ddl)
    kind = arrow_schema(schema).field(0).type
    values: list[Any] = ["a", "b"]
    if pa.types.is_list(kind):
        values = [[1], [2]]
    elif pa.types.is_struct(kind):
        values = [{"x": b"a"}, {"x": b"b"}]
    whole = pa.RecordBatch.from_arrays([pa.array(values, kind)], schema=arrow_schema(schema))
    good = logged(whole, schema, "none")
    at = good.body.rindex(struct.pack("<3i", 0, 1, 2))
    hurt = good.body[:at] + struct.pack("<3i", *offsets) + good.body[at + 12 :]
    bad = chunk_batch([(1, hurt)], 2)
    found = list(merge([good, good, bad, good], schema))
    assert [each.count for each in found] == [2, 1, 1]
    assert (found[1].header, found[1].body) == bad


def test_a_batch_of_an_unknown_schema_is_copied() -> None:
    found = copy(STRANGE)
    assert (found.header, found.body, found.count) == (*STRANGE, 1)
    assert found.digest == digest_chunks(*STRANGE)


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("take", [lambda batch: list(merge([batch], SCHEMA)), copy])
def test_a_column_that_is_not_what_its_client_wrote_is_never_copied(
    take: Callable[[Batch], object],
) -> None:
    good = logged(rows(0, 50))
    for position in range(0, len(good.body), 7):
        body = bytearray(good.body)
        body[position] ^= 0x10
        with pytest.raises(DataLoss, match="is not what its client wrote"):
            take(Batch(good.header, bytes(body)))
    with pytest.raises(DataLoss, match="Column 3 of a batch of 50 records"):
        take(Batch(good.header, good.body[:-1]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch: batch.slice(1),
        lambda batch: pa.concat_batches([batch, batch.slice(8)]),
        lambda batch: batch.take(pa.array([1, 0, *range(2, batch.num_rows)])),
        lambda batch: batch.set_column(1, batch.schema.field(1), pa.nulls(9, pa.string())),
        lambda batch: rows(0, 9).set_column(
            2, batch.schema.field(2), pa.array([0.0] * 9, pa.float64())
        ),
    ],
    ids=["a record too few", "a record too many", "another order", "nulls", "other values"],
)
def test_a_merge_that_changed_a_record_is_noticed(
    wrong: Callable[[pa.RecordBatch], pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: what is encoded is not what was joined."""
    monkeypatch.setattr(
        merging,
        "encode_batch",
        lambda batch, *rest: encode_batch(wrong(batch), *rest),
    )
    with pytest.raises(Internal, match=r"differ|does not decode to its records"):
        list(merge([logged(rows(0, 4)), logged(rows(4, 5))], SCHEMA))


def test_damage_between_writing_and_reading_back_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted bug: a byte of the merged body changes in memory."""

    def damaged(*arguments: Any, **more: Any) -> Any:
        encoded = encode_batch(*arguments, **more)
        body = bytearray(encoded.body)
        body[-1] ^= 1
        return type(encoded)(header=encoded.header, body=bytes(body), crc=encoded.crc)

    monkeypatch.setattr(merging, "encode_batch", damaged)
    with pytest.raises(Internal, match="does not decode to its records"):
        list(merge([logged(rows(0, 4)), logged(rows(4, 5))], SCHEMA))
