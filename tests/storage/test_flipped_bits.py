"""One bit flipped anywhere in a log of real batches is noticed or has no effect.

A flip in the log's own structure is noticed on opening, one in a command on its replay, one in a
body by the reader's CRC of the chunk, as through a node. What none of these notices must be bytes
without meaning: then everything reads as it was written.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from raftlog.core.types import Entry, EntryKind, LogIndex, Payload, Term
from raftlog.errors import CorruptFile, DataLoss, FormatUnsupported
from raftlog.machines.commands import Append, BatchSummary
from raftlog.machines.schema import Field, Schema
from raftlog.records.batch_codec import decode_batch, encode_batch
from raftlog.records.conform import conform
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.wire.codec import decode_batch_header, decode_command, encode_command
from tests.fuzz.inputs import numbered
from tests.storage.disks import FOLDER, GROUP, disk_of, files_of, flipped, new_disk, write

ENTRIES, ROWS = 30, 20
LIMITS = LogLimits(segment_bytes_max=8_000, preallocate_bytes=0, payload_cache_bytes_max=0)
SCHEMA = Schema(
    version=1,
    fields=(
        Field(id=1, name="id", type='"long"', nullable=True),
        Field(id=2, name="text", type='"string"', nullable=True),
    ),
)
Rows = list[dict[str, object]]


def rows_of(index: int) -> Rows:
    return [{"id": index * ROWS + row, "text": f"row {row} of {index}"} for row in range(ROWS)]


def entry_of(index: int) -> Entry:
    batch = pa.RecordBatch.from_pylist(
        rows_of(index), schema=pa.schema([("id", pa.int64()), ("text", pa.string())])
    )
    encoded = encode_batch(conform(batch, SCHEMA, "t"), SCHEMA, "lz4")
    summary = BatchSummary(
        record_count=ROWS, schema_version=1, body_bytes=len(encoded.body), crc=encoded.crc
    )
    command = Append(producer="p", sequence=index, timestamp_us=index, batch=summary)
    payload = Payload(encode_command(command, encoded.header), encoded.body)
    return Entry(LogIndex(index), Term(1), EntryKind.COMMAND, payload)


def written() -> dict[str, bytes]:
    """The files of a log that was closed in order, so that every frame has its witness."""
    disk = new_disk()
    log = GroupLog.create(disk, FOLDER, GROUP, LIMITS)
    for index in range(1, ENTRIES + 1):
        log.append([entry_of(index)])
        write(log)
    log.close()
    return files_of(disk)


def served(log: GroupLog) -> list[Rows]:
    """What a node would replay and a reader get, entry by entry."""
    found: list[Rows] = []
    for index in range(1, log.last_index + 1):
        term, kind, raw = log.command(index)
        command, header = decode_command(raw), decode_batch_header(raw)
        assert (term, kind) == (1, EntryKind.COMMAND)
        assert isinstance(command, Append)
        assert command.sequence == index
        (body,) = log.body_slices(index, [(0, command.batch.body_bytes)])
        batch = decode_batch(header, body, SCHEMA, ["id", "text"])
        found.append(batch.to_pylist())
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_flipped_bit_is_noticed_or_means_nothing(count: int) -> None:
    files = written()
    names = sorted(files)
    assert len(names) > 2, "sealed segments are tried as well"
    whole = [rows_of(index) for index in range(1, ENTRIES + 1)]
    noticed = 0
    for one in numbered("flips in a log", count):
        name = one.random.choice(names)
        place, mask = one.random.randrange(len(files[name])), 1 << one.random.randrange(8)
        disk = disk_of(files | {name: flipped(files[name], place, mask)})
        try:
            found = served(GroupLog.open(disk, FOLDER, GROUP, LIMITS))
        except (CorruptFile, FormatUnsupported, DataLoss):
            noticed += 1
        else:
            assert found == whole, f"{name} byte {place} mask {mask}; replay: {one.replay}"
    print(f"{noticed} of {count} noticed; the others changed nothing that is read")
    assert noticed > count * 0.9
