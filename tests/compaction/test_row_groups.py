"""From batches of a log to a history file and back: the same records, each with its metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, groupby, repeat
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.compaction import merge as merging
from raftlog.compaction.cuts import (
    LARGE_BYTES_MIN,
    LARGE_RECORDS_MIN,
    ROW_GROUP_NAME_BYTES_MAX,
    ROW_GROUP_RECORDS_MAX,
    ROW_GROUP_RUNS_MAX,
)
from raftlog.compaction.digest import digest_chunks
from raftlog.compaction.merge import DECODED_BYTES_MAX, JOB_DECODED_BYTES_MIN
from raftlog.compaction.row_groups import SourceBatch, row_groups
from raftlog.config import ServerSettings
from raftlog.core.types import Offset
from raftlog.image.history_file import HistoryFile, RowGroup, write_history_file
from raftlog.image.limits import DESCRIPTION_BYTES_MAX, ENTRY_BYTES_MAX
from raftlog.machines.evolution import ADD, RENAME, SET_TYPE, ColumnChange, evolved
from raftlog.machines.schema import Schema
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec_commands import COMMAND_BYTES_MAX
from raftlog.wire.runs import Runs
from tests.image.row_groups import read_back
from tests.records.strategies import SCHEMAS, batches_of
from tests.storage.disks import FOLDER, GROUP, new_disk
from tests.wire import bombs

START = 1000
METADATA = st.tuples(
    st.integers(0, 3), st.integers(1, 2), st.sampled_from(("", "q", "r")), st.integers(-1, 1)
)
Metadata = tuple[int, int, str, int]
SCHEMA = schema_of("id BIGINT, payload BINARY")


def altered(schema: Schema, *changes: ColumnChange) -> Schema:
    found = evolved(schema, changes)
    assert isinstance(found, Schema), found
    return found


LATEST = altered(
    altered(schema_of("id INT"), ColumnChange(action=ADD, name="gate", type='"string"')),
    ColumnChange(action=SET_TYPE, name="id", type='"long"'),
    ColumnChange(action=RENAME, name="gate", to="stand"),
)
"""At version 3: another type and another name than at 2, where 1 lacks a column."""


def logged(
    parts: list[pa.RecordBatch], metadata: list[Metadata], schema: Schema
) -> Iterator[SourceBatch]:
    start = START
    for part, (timestamp_us, term, writer, epoch) in zip(parts, metadata, strict=True):
        encoded = encode_batch(part, schema, "lz4")
        yield SourceBatch(
            start=Offset(start),
            header=encoded.header,
            body=encoded.body,
            record_bytes=len(encoded.body),
            runs=Runs.of_one(
                count=part.num_rows,
                timestamp_us=timestamp_us,
                term=term,
                epoch=epoch,
                writer=writer,
            ),
        )
        start += part.num_rows


def metadata_of(runs: Runs) -> list[Metadata]:
    """That of each record."""
    columns = (runs.timestamps_us, runs.terms, [runs.names[n] for n in runs.writers], runs.epochs)
    return list(chain(*map(repeat, zip(*columns, strict=True), runs.counts)))


def through_a_file(groups: Iterator[RowGroup]) -> list[RowGroup]:
    disk = new_disk()
    info = write_history_file(disk, FOLDER, GROUP, groups)
    file = HistoryFile(disk, FOLDER, GROUP, info)
    found = []
    for stored in file.row_groups_between(info.start, info.end):
        file.check_row_group(stored)
        found.append(read_back(file, stored))
    return found


def ids(start: int, count: int, payload: bytes = b"") -> pa.RecordBatch:
    columns: list[Any] = [pa.array(range(start, start + count)), pa.array([payload] * count)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_a_history_file_holds_the_records_and_metadata_of_its_batches(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    parts = data.draw(st.lists(batches_of(schema), min_size=1, max_size=5))
    metadata = [data.draw(METADATA) for _ in parts]
    batches = list(logged(parts, metadata, schema))
    trimmed, whole = data.draw(st.integers(0, parts[0].num_rows - 1)), parts[0].num_rows
    found = through_a_file(row_groups(batches, schema, Offset(START + trimmed)))
    assert found[0].start == START + trimmed
    names = [field.name for field in schema.fields]
    decoded = [decode_batch(each.header, each.body, schema, names) for each in found]
    assert pa.Table.from_batches(decoded).equals(pa.Table.from_batches(parts)[trimmed:])
    expected = [each for part, each in zip(parts, metadata, strict=True) for _ in part.to_pylist()]
    assert [each for group in found for each in metadata_of(group.runs)] == expected[trimmed:]
    sizes = [len(each.body) for each in batches]
    kept_bytes = sum(sizes) - sizes[0] * trimmed // whole
    assert sum(group.record_bytes for group in found) == kept_bytes


def test_records_of_the_same_metadata_are_one_run() -> None:
    same, other = (5, 1, "q", 3), (6, 1, "q", 4)
    parts = [ids(10 * n, 10) for n in range(5)]
    batches = logged(parts, [same, same, other, other, same], SCHEMA)
    (group,) = row_groups(batches, SCHEMA)
    assert list(group.runs.counts) == [20, 20, 10]
    assert group.runs.names == ("q",)


def test_batches_are_cut_into_row_groups() -> None:
    large = ids(0, 1, Random(1).randbytes(LARGE_BYTES_MIN))
    parts = [ids(8000 * n, 8000) for n in range(10)] + [large, ids(0, 5), ids(0, 5)]
    batches = [*logged(parts, [(1, 1, "", -1)] * len(parts), SCHEMA)]
    found = list(row_groups(batches, SCHEMA))
    fit = ROW_GROUP_RECORDS_MAX // 8000
    counts = [each.header.record_count for each in found]
    assert counts == [8000 * fit, 8000 * (10 - fit), 1, 10]
    assert [each.start for each in found] == [START, START + counts[0], START + 80_000, 81_001]


@pytest.mark.slow
@pytest.mark.parametrize("records", [1, LARGE_RECORDS_MIN])
def test_a_job_decodes_no_more_than_its_batches_in_the_log_are_worth(
    records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is copied as it is, and usual batches after it are merged."""
    schema = schema_of("id BIGINT, payload STRING")
    decoded_bytes = JOB_DECODED_BYTES_MIN // 8 - (1 << 20)
    offsets = pa.py_buffer(struct.pack(f"<{records + 1}i", 0, *[decoded_bytes] * records))
    zeros = pa.Array.from_buffers(
        pa.string(), records, [None, offsets, pa.py_buffer(bytes(decoded_bytes))]
    )
    messages = [bombs.message_of(pa.array(range(records))), bombs.message_of(zeros, "zstd")]
    large = bombs.batch_of(messages, records)
    usual = encode_batch(
        pa.RecordBatch.from_arrays(
            [pa.array([1]), pa.array(["usual"])], schema=arrow_schema(schema)
        ),
        schema,
        "none",
    )
    start = START
    batches = []
    for each in [large] * 20 + [usual] * 2:
        count = each.header.record_count
        runs = Runs.of_one(count=count, timestamp_us=0, term=1, writer="", epoch=-1)
        body_bytes = len(each.body)
        batches.append(
            SourceBatch(
                start=Offset(start), header=each.header, body=each.body,
                record_bytes=body_bytes, runs=runs,
            )
        )  # fmt: skip
        start += count
    decoded: list[BatchHeader] = []

    def noted(header: BatchHeader, *rest: Any) -> pa.RecordBatch:
        decoded.append(header)
        return decode_batch(header, *rest)

    monkeypatch.setattr(merging, "decode_batch", noted)
    found = list(row_groups(batches, schema))
    assert 8 <= decoded.count(large.header) <= 9, "each was decoded at most once"
    digest = digest_chunks(large.header, large.body)
    copied = [each for each in found if each.digest == digest]
    assert len(copied) == 20 - decoded.count(large.header)
    assert {each.body for each in copied} == {large.body}
    assert found[-1].header.record_count == 2, "usual batches are still merged"
    assert sum(each.header.record_count for each in found) == 20 * records + 2


def test_batches_of_an_unknown_schema_are_copied_with_their_metadata() -> None:
    later = replace(SCHEMA, version=2)
    batches = [*logged([ids(0, 3), ids(3, 4)], [(1, 1, "a", 2), (2, 2, "b", 3)], later)]
    found = list(row_groups(batches, SCHEMA, Offset(START + 1)))
    assert [(each.start, each.body) for each in found] == [(b.start, b.body) for b in batches]
    assert [metadata_of(each.runs)[0] for each in found] == [(1, 1, "a", 2), (2, 2, "b", 3)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=8))
def test_batches_of_several_versions_stay_as_each_version_has_them(versions: list[int]) -> None:
    """Only neighbours of one version are merged, and all are read with the last columns."""
    latest = LATEST
    parts, batches, start = [], [], START
    for number, version in enumerate(versions):
        written = latest.at(version)
        values = {"id": [number], "gate": [f"g{number}"], "stand": [f"g{number}"]}
        arrays = [pa.array(values[f.name], f.type) for f in arrow_schema(written)]
        part = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(written))
        [batch] = logged([part], [(1, 1, "", -1)], written)
        batches.append(replace(batch, start=Offset(start)))
        parts.append({"id": number, "stand": f"g{number}" if version > 1 else None})
        start += 1
    found = through_a_file(row_groups(batches, latest))
    assert [each.header.schema_version for each in found] == [one for one, _ in groupby(versions)]
    decoded = [decode_batch(each.header, each.body, latest, ["id", "stand"]) for each in found]
    assert pa.Table.from_batches(decoded).to_pylist() == parts


def test_no_row_group_has_more_than_a_history_file_may_have() -> None:
    (entry_bytes_max,) = (
        each.le
        for each in ServerSettings.model_fields["entry_bytes_max"].metadata
        if hasattr(each, "le")
    )
    assert max(entry_bytes_max, 2 * DECODED_BYTES_MAX) < ENTRY_BYTES_MAX
    runs_bytes = 5 * 10 * ROW_GROUP_RUNS_MAX + 4 * ROW_GROUP_NAME_BYTES_MAX
    assert COMMAND_BYTES_MAX + runs_bytes < DESCRIPTION_BYTES_MAX
