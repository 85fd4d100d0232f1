"""A record batch as servers and readers see it: a header, and column chunks they never decode.

The body of an `Append` or `Stage` entry is the chunks one after another. Each chunk is one Arrow
IPC record-batch message of one column or of its byte planes, compressed by the client. The header
travels inside the entry's command, so a server can slice columns out of a body without reading the
rest of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Bound = int | float | str | bytes | bool | None
"""A column's smallest or largest value: date and timestamps as their integer; None: not known."""

BOUND_BYTES_MAX = 64
"""A writer leaves out a longer text or binary bound, to keep headers small, and a leader rejects
it: neither quotas nor retention count headers."""


class ColumnChunk(NamedTuple):
    """Bytes [position, position + length) of the body hold column `field_id`.

    A tuple, because a search by bounds makes one for every column of every batch.
    """

    field_id: int
    position: int
    length: int
    crc: int
    """CRC-32C of the chunk's bytes as they travel (compressed)."""
    null_count: int
    minimum: Bound = None
    maximum: Bound = None
    in_planes: bool = False
    """Whether the chunk holds the byte planes of the column (`raftlog.records.byte_planes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """What stands before the chunks. `columns` are in the order of the body."""

    record_count: int
    schema_version: int
    columns: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatch:
    """A record batch ready for the wire: its header and its body's bytes."""

    header: BatchHeader
    body: bytes
    crc: int
    """`BatchSummary.crc`: CRC-32C over the column CRCs in order."""
