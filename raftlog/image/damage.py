"""What is damaged of a replica's files: found by scrub, read or compaction; healed by repairs.

Each kind names the smallest thing that another replica can give again. The causes name file and
position.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from raftlog.core.types import LogIndex
from raftlog.errors import CorruptFile, MalformedRequest
from raftlog.machines.extents import Extent
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import decode_batch_header


class DamagedEntry(NamedTuple):
    """Command or body of an entry. The frames around it are whole, so the log is."""

    entry_index: LogIndex
    cause: CorruptFile


class DamagedFile(NamedTuple):
    """A snapshot, carried stages or a history file that the manifest names."""

    name: str
    cause: CorruptFile


class DamagedLog(NamedTuple):
    """A segment's header or a frame: what comes behind it cannot be told from a torn tail."""

    cause: CorruptFile


Damage: TypeAlias = DamagedEntry | DamagedFile | DamagedLog


def applied_header(command: bytes, extent: Extent) -> BatchHeader:
    """The header of the batch that was applied as this extent. Raises `CorruptFile`: the checksums
    of the entry may be right, if a member that lies wrote it."""
    try:
        header = decode_batch_header(command)
        found = f"its batch has {header.record_count} records"
    except MalformedRequest as error:
        header, found = None, error.what
    if header is None or header.record_count != extent.count:
        problem = f"{found}, and {extent.count} were applied"
        raise CorruptFile(file=f"entry {extent.index}", position=0, problem=problem)
    return header
