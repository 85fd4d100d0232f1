"""Bugs to plant in what a scrub reads and tells; see `planted`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raftlog.core.types import GroupId, LogIndex
from raftlog.image import scrub
from raftlog.image.history_file import HistoryFile, StoredRowGroup
from raftlog.storage.contract import FileSystem
from tests.simulation.planting import both, replaced


def scrub_skips_the_second_half() -> Any:
    """It ends in the middle of the log."""
    original = scrub._log

    def half(
        fs: FileSystem, folder: str, group: GroupId, wanted: LogIndex, last: LogIndex
    ) -> Iterator[Any]:
        return original(fs, folder, group, wanted, LogIndex((wanted + last) // 2))

    return replaced(scrub, "_log", half)


def scrub_tells_what_a_compaction_removed() -> Any:
    """What is gone is damaged, whatever the manifest says by now."""
    return both(
        replaced(scrub, "_base", lambda fs, folder: LogIndex(0)),
        replaced(scrub, "_is_named", lambda fs, folder, name: True),
    )


def scrub_reads_no_columns() -> Any:
    """Of history files it checks header, footer and descriptions."""

    def lengths(self: HistoryFile, row_group: StoredRowGroup) -> Iterator[int]:
        return iter([row_group.length])

    return replaced(HistoryFile, "check_columns", lengths)


def scrub_checks_commands_only() -> Any:
    """The bodies of the log's entries are read and not checked."""

    def crc(found: Any, start: int, end: int) -> Iterator[int]:
        header = found.placed.header
        yield end - start
        return header.command_crc if start == 0 else header.body_crc

    return replaced(scrub, "_crc", crc)


SCRUB_BUGS = (
    scrub_skips_the_second_half,
    scrub_tells_what_a_compaction_removed,
    scrub_reads_no_columns,
    scrub_checks_commands_only,
)
