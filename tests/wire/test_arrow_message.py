"""What an Arrow message claims is known before Arrow allocates it, whatever its bytes are."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import chain, crc32c
from raftlog.compaction.digest import digest_chunks
from raftlog.compaction.merge import Batch, merge
from raftlog.errors import DataLoss, MalformedRequest
from raftlog.machines.evolution import ADD, SET_TYPE, ColumnChange, evolved
from raftlog.machines.schema import Schema
from raftlog.records import batch_codec
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import COMPRESSIONS, decode_batch, encode_batch
from raftlog.server.record_batches import checked_summary
from raftlog.wire.arrow_message import (
    BATCH_DECODED_BYTES_MAX,
    BATCH_ROWS_MAX,
    Claims,
    claims_of,
)
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.framing import Unreadable
from tests.records.strategies import batches
from tests.server.test_record_batches import TOPIC
from tests.wire import bombs
from tests.wire.bombs import REJECTED, arrow_memory

SCHEMA = schema_of("text STRING")
TEXT_TOPIC = replace(TOPIC, schema=SCHEMA)
TEXT_TYPE = SCHEMA.fields[0].type
COUNT = 1_000
TEXT = "abcdefgh"


def claims(encoded: EncodedBatch, schema: Schema) -> list[Claims]:
    body = memoryview(encoded.body)
    return [
        claims_of(body[each.position :][: each.length], field.type)
        for each, field in zip(encoded.header.columns, schema.fields, strict=True)
    ]


def exaggerated(claimed: int, count: int = COUNT) -> EncodedBatch:
    """A batch of texts whose data claims to be so long; all checksums are right."""
    rows = pa.RecordBatch.from_pydict({"text": [TEXT] * count}, schema=arrow_schema(SCHEMA))
    encoded = encode_batch(rows, SCHEMA, "zstd")
    body = bytearray(encoded.body)
    at = body.index(struct.pack("<q", len(TEXT) * count))
    struct.pack_into("<q", body, at, claimed)
    (column,) = encoded.header.columns
    crc = crc32c(bytes(body))
    header = replace(encoded.header, columns=(column._replace(crc=crc),))
    return EncodedBatch(header=header, body=bytes(body), crc=chain(0, crc))


@pytest.mark.slow
@settings(max_examples=40)
@given(batches(), st.sampled_from(COMPRESSIONS))
def test_claims_are_the_rows_and_the_bytes_of_a_batch(given_batch, compression: str) -> None:
    schema, batch = given_batch
    found = claims(encode_batch(batch, schema, compression), schema)
    assert {each.record_count for each in found} == {batch.num_rows}
    # Arrow leaves out the bits of what has no nulls, and pads buffers.
    claimed, held = sum(each.decoded_bytes for each in found), batch.nbytes
    elements = sum(map(elements_of, batch.columns))
    assert held / 2 - 64 <= claimed <= 2 * held + 1024 * batch.num_columns + 4 * elements


def elements_of(column: pa.Array) -> int:
    """How many elements its lists and maps have, and the members of these, at all levels."""
    if pa.types.is_struct(column.type):
        return sum(elements_of(each) + len(each) for each in column.flatten())
    if pa.types.is_map(column.type):
        return sum(2 * len(each) + elements_of(each) for each in (column.keys, column.items))
    if pa.types.is_list(column.type):
        return len(column.values) + elements_of(column.values)
    return 0


@pytest.mark.parametrize("compression", ["zstd", None])
def test_elements_of_a_list_count_though_they_take_a_bit_each(compression: str | None) -> None:
    """Ten gigabytes of Python's objects would come out of some kilobytes."""
    topic = replace(TOPIC, schema=bombs.LISTS)
    allowed = bombs.list_of(BATCH_DECODED_BYTES_MAX // 4 - 1024, compression)
    checked_summary(topic, allowed.header, allowed.crc, allowed.body, latest=bombs.LISTS)
    batch = bombs.list_of(BATCH_DECODED_BYTES_MAX // 4 + 2, compression)
    with pytest.raises(MalformedRequest, match="bytes decompressed"):
        checked_summary(topic, batch.header, batch.crc, batch.body, latest=bombs.LISTS)
    with arrow_memory() as pool:
        with pytest.raises(DataLoss, match="claims"):
            decode_batch(batch.header, batch.body, bombs.LISTS, ["v"])
        assert pool.max_memory() < 1 << 20
    copied = list(merge([Batch(batch.header, batch.body)] * 2, bombs.LISTS))
    assert [each.digest for each in copied] == [digest_chunks(batch.header, batch.body)] * 2


@given(st.data())
def test_bytes_that_are_broken_anywhere_are_claims_or_unreadable(data: st.DataObject) -> None:
    message = bytearray(exaggerated(8 * COUNT).body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(message), 400) - 1))
        message[at] = data.draw(st.integers(0, 255))
    try:
        found = claims_of(memoryview(message[: data.draw(st.integers(0, len(message)))]), TEXT_TYPE)
    except Unreadable:
        return
    assert found.decoded_bytes >= 0


def test_random_bytes_are_no_message() -> None:
    random = Random(1)
    for size in range(200):
        with pytest.raises(Unreadable):
            claims_of(memoryview(random.randbytes(size)), TEXT_TYPE)


@pytest.mark.parametrize("claimed", [1 << 62, BATCH_DECODED_BYTES_MAX, -2], ids=str)
def test_a_batch_that_claims_too_much_is_refused_and_never_decoded(claimed: int) -> None:
    batch = exaggerated(claimed)
    with pytest.raises(MalformedRequest, match=r"decompressed|that claims"):
        checked_summary(TEXT_TOPIC, batch.header, batch.crc, batch.body, latest=SCHEMA)
    with pytest.raises(DataLoss, match="claims"):
        decode_batch(batch.header, batch.body, SCHEMA, ["text"])
    twice = [Batch(batch.header, batch.body)] * 2
    copied = list(merge(twice, SCHEMA))
    assert [each.digest for each in copied] == [digest_chunks(batch.header, batch.body)] * 2


def test_a_batch_of_another_number_of_values_is_refused() -> None:
    batch = exaggerated(8 * COUNT)
    header = replace(batch.header, record_count=COUNT + 1)
    with pytest.raises(MalformedRequest, match=f"of {COUNT} values"):
        checked_summary(TEXT_TOPIC, header, batch.crc, batch.body, latest=SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize("name", REJECTED)
def test_a_batch_that_takes_more_than_it_shows_is_refused_and_never_decoded(name: str) -> None:
    make, what = REJECTED[name]
    batch = make()
    topic = replace(TOPIC, schema=bombs.SCHEMA)
    with pytest.raises(MalformedRequest, match=what):
        checked_summary(topic, batch.header, batch.crc, batch.body, latest=bombs.SCHEMA)
    names = [field.name for field in bombs.SCHEMA.fields]
    twice = [Batch(batch.header, batch.body)] * 2
    with arrow_memory() as pool:
        with pytest.raises(DataLoss):
            decode_batch(batch.header, batch.body, bombs.SCHEMA, names)
        copied = list(merge(twice, bombs.SCHEMA))
        assert pool.max_memory() < BATCH_DECODED_BYTES_MAX
    assert [each.digest for each in copied] == [digest_chunks(batch.header, batch.body)] * 2


def test_records_without_columns_are_bounded_too() -> None:
    """Metadata columns are made for each record."""
    make, _ = REJECTED["counting"]
    batch = make()
    with pytest.raises(DataLoss, match=f"{bombs.ROWS_CLAIMED} records"):
        decode_batch(batch.header, batch.body, bombs.SCHEMA, [])


def test_a_compressed_buffer_has_room_for_what_it_claims() -> None:
    """A shorter one would lower the sum."""
    message = bombs.message_of(pa.array([1] * COUNT), "zstd")
    (size,) = {size for size in range(9, 500) if message.count(struct.pack("<qq", 0, size)) == 1}
    short = message.replace(struct.pack("<qq", 0, size), struct.pack("<qq", 0, 7))
    with pytest.raises(Unreadable, match="buffer of 7 bytes"):
        claims_of(memoryview(short), '"long"')


def test_what_follows_a_message_is_never_read() -> None:
    two = bombs.message_of(pa.array(["one"])) + bombs.text(BATCH_DECODED_BYTES_MAX, "zstd")
    batch = bombs.with_text(two)
    with arrow_memory() as pool:
        found = decode_batch(batch.header, batch.body, bombs.SCHEMA, ["a"])
        assert pool.max_memory() < 1 << 20
    assert found.column("a").to_pylist() == ["one"]


@pytest.mark.parametrize("claimed", [0, 8, 1 << 62, -1], ids=str)
def test_a_body_of_another_length_than_it_has_takes_no_memory(claimed: int) -> None:
    message = bombs.message_of(pa.array(["x" * 5_000] * COUNT))
    body_bytes = len(message) - 8 - struct.unpack_from("<I", message, 4)[0]
    batch = bombs.with_text(bombs.with_longs(message, body_bytes, claimed))
    header = replace(batch.header, record_count=COUNT)
    with arrow_memory() as pool, pytest.raises(DataLoss):
        decode_batch(header, batch.body, bombs.SCHEMA, ["a"])
    assert pool.max_memory() < 1 << 20


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a" * 20] * COUNT, pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([1 << 30], ["a"]).slice(0, COUNT),
        pa.array([[1, 2]] * COUNT, pa.list_view(pa.int64())),
        pa.array(["a"] * COUNT, pa.large_string()),
        pa.nulls(COUNT),
    ],
    ids=lambda column: str(column.type),
)
def test_a_message_of_another_type_is_no_column(column: pa.Array) -> None:
    batch = bombs.with_text(bombs.message_of(column, "zstd"))
    header = replace(batch.header, record_count=COUNT)
    with arrow_memory() as pool, pytest.raises(DataLoss):
        decode_batch(header, batch.body, bombs.SCHEMA, ["a"])
    assert pool.max_memory() < 1 << 20


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("STRING", bombs.straying_text()),
        ("ARRAY<BIGINT>", bombs.straying_lists()),
        ("STRUCT<l: ARRAY<BIGINT>>", pa.StructArray.from_arrays([bombs.straying_lists()], ["l"])),
    ],
)
def test_offsets_outside_of_a_column_are_an_error_and_no_crash(kind: str, column: pa.Array) -> None:
    """Arrow reads wherever they lead."""
    schema = schema_of(f"v {kind}")
    batch = bombs.batch_of([bombs.message_of(column)], len(column))
    with pytest.raises(DataLoss, match="not an Arrow message"):
        decode_batch(batch.header, batch.body, schema, ["v"])
    (copied,) = merge([Batch(batch.header, batch.body)], schema)
    assert copied.digest == digest_chunks(batch.header, batch.body)


def test_text_need_not_be_utf_8() -> None:
    """Spark's strings need not."""
    text = pa.array([b"\xff\xfe"]).view(pa.string())
    batch = bombs.batch_of([bombs.message_of(text)], 1)
    found = decode_batch(batch.header, batch.body, SCHEMA, ["text"])
    assert found.column(0).view(pa.binary()).to_pylist() == [b"\xff\xfe"]


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("ARRAY<TINYINT>", "ARRAY<BIGINT>", pa.array([1], pa.int8())),
        (
            "ARRAY<STRUCT<ok: BOOLEAN>>",
            "ARRAY<STRUCT<ok: BOOLEAN, note: STRING>>",
            pa.StructArray.from_arrays([pa.array([True])], ["ok"]),
        ),
    ],
)
def test_a_column_that_takes_too_much_as_a_wider_type_is_not_cast(
    before: str, after: str, column: pa.Array
) -> None:
    """Few bytes of the earlier version would be gigabytes of the later one."""
    elements = BATCH_DECODED_BYTES_MAX // 9
    many = pa.repeat(column[0], elements)
    kind = arrow_schema(schema_of(f"v {before}")).field(0).type
    offsets = pa.py_buffer(struct.pack("<2i", 0, elements))
    lists = pa.Array.from_buffers(kind, 1, [None, offsets], children=[many.cast(kind.value_type)])
    schema = schema_of(f"v {before}")
    batch = bombs.batch_of([bombs.message_of(lists, "zstd")], 1)
    wider = evolved(
        schema,
        [ColumnChange(action=SET_TYPE, name="v", type=schema_of(f"v {after}").fields[0].type)],
    )
    assert isinstance(wider, Schema), wider
    assert decode_batch(batch.header, batch.body, schema, ["v"], latest=wider).num_rows == 1
    with arrow_memory() as pool:
        with pytest.raises(DataLoss, match="claims"):
            decode_batch(batch.header, batch.body, wider, ["v"])
        assert pool.max_memory() <= BATCH_DECODED_BYTES_MAX


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_memory_that_no_value_refers_to_is_dropped_with_the_decoding(compression: str) -> None:
    """Readers bound what they keep by `nbytes`, which does not count it."""
    batch = bombs.wasteful(compression)
    topic = replace(TOPIC, schema=bombs.SCHEMA)
    checked_summary(topic, batch.header, batch.crc, batch.body, latest=bombs.SCHEMA)
    with arrow_memory() as pool:
        kept = [decode_batch(batch.header, batch.body, bombs.SCHEMA, ["id", "a"]) for _ in "123"]
        assert pool.bytes_allocated() < 1 << 20
        assert pool.max_memory() < BATCH_DECODED_BYTES_MAX + (1 << 20)
    assert [each.to_pylist() for each in kept] == [[{"id": 1, "a": ""}]] * 3


def test_columns_that_a_batch_lacks_share_their_memory() -> None:
    many = evolved(
        SCHEMA, [ColumnChange(action=ADD, name=f"c{each}", type='"long"') for each in range(200)]
    )
    assert isinstance(many, Schema), many
    batch = bombs.batch_of([bombs.message_of(pa.array([""] * BATCH_ROWS_MAX))], BATCH_ROWS_MAX)
    names = [field.name for field in many.fields if field.name != "text"]
    with arrow_memory() as pool:
        found = decode_batch(batch.header, batch.body, many, names)
        assert pool.max_memory() <= 2 * 8 * BATCH_ROWS_MAX
    assert found.column("c199").null_count == BATCH_ROWS_MAX


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(batches(), st.sampled_from(COMPRESSIONS), st.data())
def test_broken_bytes_that_a_leader_takes_need_no_more_memory_than_they_claim(
    given_batch, compression: str, data: st.DataObject
) -> None:
    schema, rows = given_batch
    encoded = encode_batch(rows, schema, compression)
    field, column = data.draw(
        st.sampled_from(list(zip(schema.fields, encoded.header.columns, strict=True)))
    )
    message = bytearray(encoded.body[column.position :][: column.length])
    numbers = st.sampled_from([0, 1, 2, 8, -1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)])
    for _ in range(data.draw(st.integers(1, 3))):
        at = 8 * data.draw(st.integers(0, len(message) // 8 - 1))
        struct.pack_into("<q", message, at, data.draw(numbers))
    try:
        claimed = claims_of(memoryview(message), field.type)
    except Unreadable:
        return
    chunk = column._replace(position=0, length=len(message), crc=crc32c(bytes(message)))
    header = replace(encoded.header, columns=(chunk,))
    with arrow_memory() as pool:
        # A value may be none of Python's, such as text that is not UTF-8.
        with suppress(DataLoss, ValueError, OverflowError):
            decode_batch(header, bytes(message), schema, [field.name]).to_pydict()
        merged = list(merge([Batch(header, bytes(message))], schema))
        limit = min(claimed.decoded_bytes, BATCH_DECODED_BYTES_MAX)
        assert pool.max_memory() <= 4 * (limit + len(message)) + (64 << 10)
    assert len(merged) == 1


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("malloc of size 8000 failed"),
        OSError("LZ4 decompress failed: ERROR_allocation_failed"),
        OSError("ZSTD decompression failed: Allocation error : not enough memory"),
    ],
    ids=str,
)
def test_too_little_memory_is_no_damage_and_changes_no_digest(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Another replica may have the memory."""
    batch = exaggerated(8 * COUNT)

    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(batch_codec.pa.ipc, "open_stream", full)
    with pytest.raises(MemoryError):
        decode_batch(batch.header, batch.body, SCHEMA, ["text"])
    with pytest.raises(MemoryError):
        list(merge([Batch(batch.header, batch.body)] * 2, SCHEMA))
