"""What an Arrow message claims is known before Arrow allocates it, whatever its bytes are."""

from __future__ import annotations

import struct
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
from raftlog.records import batch_codec
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import COMPRESSIONS, decode_batch, encode_batch
from raftlog.server.record_batches import checked_summary
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX, Claims, claims_of
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.framing import Unreadable
from tests.records.strategies import batches
from tests.server.test_record_batches import TOPIC

SCHEMA = schema_of("text STRING")
TEXT_TOPIC = replace(TOPIC, schema=SCHEMA)
COUNT = 1_000
TEXT = "abcdefgh"


def claims(encoded: EncodedBatch) -> list[Claims]:
    body = memoryview(encoded.body)
    return [claims_of(body[each.position :][: each.length]) for each in encoded.header.columns]


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
    found = claims(encode_batch(batch, schema, compression))
    assert {each.record_count for each in found} == {batch.num_rows}
    # Arrow leaves out the bits of what has no nulls, and pads buffers.
    claimed, held = sum(each.decoded_bytes for each in found), batch.nbytes
    assert held / 2 - 64 <= claimed <= 2 * held + 1024 * batch.num_columns


@given(st.data())
def test_bytes_that_are_broken_anywhere_are_claims_or_unreadable(data: st.DataObject) -> None:
    message = bytearray(exaggerated(8 * COUNT).body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(message), 400) - 1))
        message[at] = data.draw(st.integers(0, 255))
    try:
        found = claims_of(memoryview(message[: data.draw(st.integers(0, len(message)))]))
    except Unreadable:
        return
    assert found.decoded_bytes >= 0


def test_random_bytes_are_no_message() -> None:
    random = Random(1)
    for size in range(200):
        with pytest.raises(Unreadable):
            claims_of(memoryview(random.randbytes(size)))


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


def test_too_little_memory_is_no_damage_and_changes_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another replica may have the memory."""
    batch = exaggerated(8 * COUNT)

    def full(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8000 failed")

    monkeypatch.setattr(batch_codec.pa.ipc, "open_stream", full)
    with pytest.raises(MemoryError):
        decode_batch(batch.header, batch.body, SCHEMA, ["text"])
    with pytest.raises(MemoryError):
        list(merge([Batch(batch.header, batch.body)] * 2, SCHEMA))
