"""What is damaged of a replica's files: found by scrub, read or compaction; healed by repairs.

Each kind names the smallest thing that another replica can give again. The causes name file and
position.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from raftlog.core.types import LogIndex
from raftlog.errors import CorruptFile


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
