"""Removing the beginning of a log: segments whose entries an image of the group covers.

A log's *base* is the index and term of the last entry that was dropped. The log cannot tell it
from its own files, so the image's manifest says it, and `GroupLog.open` is given it. The order is:
the manifest with the new base becomes durable, then the files are removed. A crash in between
leaves segments at or below the base; opening removes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import LogIndex, Term
from raftlog.storage.contract import FileSystem

Base = tuple[LogIndex, Term]
"""Index and term of the entry before the first one that a log holds."""

NO_BASE: Base = (LogIndex(0), Term(0))
"""The base of a log from which nothing was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixRemoval:
    """Files that a log no longer uses, to be removed by any thread, once.

    Nothing else opens them to write, and no later file of the log gets one of their names.
    """

    fs: FileSystem
    folder: str
    removed: tuple[str, ...]
    """The paths of the dropped segments, by first index; () if there was nothing to drop."""
    base: Base
    """The log's base without them. It must be durable in the manifest before `run`."""

    def run(self) -> None:
        """Remove the files that are still there. All of them are gone durably
        when this returns. Raises `DiskFailed`.

        They go in ascending order, so that a crash leaves a log without gaps: file systems keep the
        order of changes to one folder.
        """
        for path in self.removed:
            if self.fs.exists(path):
                self.fs.remove(path)
        if self.removed:
            self.fs.sync_folder(self.folder)
