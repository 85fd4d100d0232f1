"""What a history file says of its row groups: a description of each, and a footer about all.

`raftlog.image.history_file` knows where they lie in the file and checks them against each other.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from raftlog.wire.batch import BatchHeader
from raftlog.wire.runs import Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupDescription:
    """What is known of one row group besides its place."""

    header: BatchHeader
    runs: Runs
    """Of exactly the header's `record_count` records."""
    digest: bytes
    """Equal on two replicas if their records are (`raftlog.compaction.digest`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFooter:
    """One row per row group, in offset order. The columns are `array("q")` of equal length."""

    record_counts: array[int]
    """Records, from 1."""
    record_bytes: array[int]
    """Body bytes of the records as they lay in the log."""
    body_lengths: array[int]
    description_lengths: array[int]
    description_crcs: array[int]
    """CRC-32C of each encoded description."""
