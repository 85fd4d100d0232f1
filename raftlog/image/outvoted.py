"""What a group's folder says of having been outvoted: that, and when it was rebuilt.

A majority of the replicas was found to have other records in history than this one. A restart makes
that no better, so it is on disk, in a file of its own: it says nothing about which files belong to
the image, and no compaction has to carry it on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.storage.checked_file import TEXT, read_checked, write_checked
from raftlog.storage.contract import FileSystem

OUTVOTED_NAME = "outvoted"

REBUILDS_MAX = 2
"""In `REBUILDS_US`. No setting: a replica that differs again so soon does so for a reason that one
more copy does not remove, and each may take hours of disk and wire."""

REBUILDS_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outvoted:
    """Of one replica."""

    history: bool = False
    """A majority has other records in history, as far as was known last."""
    rebuilt_us: tuple[int, ...] = ()
    """When it was last rebuilt: at most `REBUILDS_MAX` times, the latest last, in microseconds
    since 1970 UTC."""

    def may_rebuild(self, now_us: int) -> bool:
        """May it be rebuilt now? A clock that went back allows nothing."""
        if len(self.rebuilt_us) < REBUILDS_MAX:
            return True
        return now_us - self.rebuilt_us[-REBUILDS_MAX] >= REBUILDS_US

    def rebuilt(self, now_us: int) -> Outvoted:
        """The same after one more rebuild."""
        latest = (*self.rebuilt_us, now_us)[-REBUILDS_MAX:]
        return Outvoted(history=self.history, rebuilt_us=latest)


NEVER_OUTVOTED = Outvoted()


def write_outvoted(fs: FileSystem, folder: str, value: Outvoted) -> None:
    """Durable when this returns. Raises `ResourceShortage` (call it again) and `DiskFailed`."""
    table = {"history": value.history, "rebuilt_us": value.rebuilt_us}
    write_checked(fs, f"{folder}/{OUTVOTED_NAME}", TEXT, [json.dumps(table).encode()])


def read_outvoted(fs: FileSystem, folder: str) -> Outvoted:
    """What was written last. Raises `CorruptFile`."""
    path = f"{folder}/{OUTVOTED_NAME}"
    if not fs.exists(path):
        return NEVER_OUTVOTED
    try:
        table = json.loads(read_checked(fs, path, TEXT))
        times = tuple(int(each) for each in table["rebuilt_us"])
        return Outvoted(history=bool(table["history"]), rebuilt_us=times)
    except (FormatUnsupported, ValueError, KeyError, TypeError) as error:
        problem = f"it does not say whether the replica was outvoted: {error!r}"
        raise CorruptFile(file=fs.location(path), position=0, problem=problem) from error
