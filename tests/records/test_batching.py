"""Batches of the size that is sent: every record in order, none held back for long."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.records.batching import coalesce
from raftlog.wire.arrow_message import BATCH_ROWS_MAX


def _sizes(count: int, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([b"x" * size] * count, pa.binary())], names=["a"])


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 900), max_size=8), max_size=8),
    st.integers(1, 1000),
)
def test_coalescing_keeps_every_record_in_order_and_gives_no_empty_batch(sizes, target: int):
    schema = pa.schema([pa.field("a", pa.binary())])
    values = [[bytes([n % 256]) * n for n in batch] for batch in sizes]
    given_batches = [
        pa.RecordBatch.from_arrays([pa.array(batch, pa.binary())], schema=schema)
        for batch in values
    ]
    found = list(coalesce(given_batches, target))
    assert [v for batch in found for v in batch.column(0).to_pylist()] == [
        v for batch in values for v in batch
    ]
    assert all(batch.num_rows for batch in found)
    assert all(batch.nbytes <= 2 * target or batch.num_rows == 1 for batch in found)


def test_small_batches_are_joined_and_large_ones_split():
    joined = list(coalesce([_sizes(1, 100)] * 100, 1000))
    assert all(900 <= batch.nbytes <= 2000 for batch in joined)
    split = list(coalesce([_sizes(1000, 100)], 10_000))
    assert 8 <= len(split) <= 12


def test_one_large_record_does_not_take_small_ones_into_its_batch():
    values = [b"x"] * 100 + [b"x" * 100_000] + [b"x"] * 100
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["a"])
    found = list(coalesce([batch], 1000))
    assert max(batch.nbytes for batch in found if batch.num_rows > 1) <= 2000


def test_coalescing_gives_out_what_is_ready_before_it_asks_for_more():
    asked = 0

    def endless():
        nonlocal asked
        while True:
            asked += 1
            yield _sizes(1, 1000)

    stream = coalesce(endless(), 1000)
    next(stream)
    assert asked == 1


def test_no_batch_has_more_records_than_may_be_decoded():
    truths = pa.record_batch([pa.array([True] * (BATCH_ROWS_MAX + 1))], names=["a"])
    found = list(coalesce([truths] * 3, 1 << 30))
    assert sum(batch.num_rows for batch in found) == 3 * truths.num_rows
    assert max(batch.num_rows for batch in found) <= BATCH_ROWS_MAX
