"""What a power loss could take from a node's disk: the changes that no sync has made durable.

A node on a `FaultyFileSystem` notes every change before it makes it, with what was there before,
and every sync after it returned. The notes are next to the data folder and outlive the process, as
the kernel's page cache does: a node that starts again continues them. `power_loss` reads them once
the process is dead.

The format is one JSON object per line. Changes are numbered; a sync has the number up to which it
covers its file or folder. When the notes have grown they are rewritten without what is durable.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

NameChangeKind = Literal["create", "rename", "remove"]

_GROWN_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """Bytes of a file that were written or truncated: [position, position + length).

    `before` is what was there, without the zeros at its end; `size_before` is the file's size.
    """

    number: int
    inode: int
    position: int
    length: int
    size_before: int
    before: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NameChange:
    """A name in a folder that was created, renamed to `target`, or removed.

    What a rename replaced or a removal took is kept under the number `aside`; 0 if there was
    nothing.
    """

    number: int
    folder: str
    kind: NameChangeKind
    name: str
    target: str = ""
    aside: int = 0


@dataclass(slots=True, kw_only=True)
class Unsynced:
    """The changes that may be lost, oldest first: by a file's inode, and by folder."""

    files: dict[int, list[FileChange]]
    folders: dict[str, list[NameChange]]
    last_number: int = 0

    def add_file(self, change: FileChange) -> None:
        """Add a change of a file."""
        self.files.setdefault(change.inode, []).append(change)
        self.last_number = max(self.last_number, change.number)

    def add_name(self, change: NameChange) -> None:
        """Add a change of a name. A renamed folder takes the changes of its own names along."""
        self.folders.setdefault(change.folder, []).append(change)
        self.last_number = max(self.last_number, change.number)
        if change.kind == "rename":
            source, target = (_join(change.folder, each) for each in (change.name, change.target))
            for folder in [each for each in self.folders if (each + "/").startswith(source + "/")]:
                self.folders[target + folder[len(source) :]] = self.folders.pop(folder)

    def file_synced(self, inode: int, upto: int) -> None:
        """Forget the file's changes up to that number: they are durable."""
        self.last_number = max(self.last_number, upto)
        left = [each for each in self.files.pop(inode, []) if each.number > upto]
        if left:
            self.files[inode] = left

    def folder_synced(self, folder: str, upto: int) -> list[int]:
        """Forget the folder's changes up to that number. Returns the numbers of what was kept
        aside for them: it is no longer needed."""
        self.last_number = max(self.last_number, upto)
        changes = self.folders.pop(folder, [])
        left = [each for each in changes if each.number > upto]
        if left:
            self.folders[folder] = left
        return [each.aside for each in changes if each.number <= upto and each.aside]


def read_notes(path: Path) -> Unsynced:
    """The changes that the notes do not show to be durable; none if there are no notes."""
    unsynced = Unsynced(files={}, folders={})
    # A process that was killed while it wrote a line had not made that change yet.
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for line in lines:
        if line.endswith(b"\n"):
            _take(unsynced, json.loads(line))
    return unsynced


def _take(unsynced: Unsynced, row: dict[str, Any]) -> None:
    match row.pop("note"):
        case "file":
            row["before"] = zlib.decompress(base64.b64decode(row["before"]))
            unsynced.add_file(FileChange(**row))
        case "name":
            unsynced.add_name(NameChange(**row))
        case "file_synced":
            unsynced.file_synced(**row)
        case "folder_synced":
            unsynced.folder_synced(**row)
        case other:
            raise AssertionError(f"the notes hold a line of unknown kind {other!r}")


class DiskNotes:
    """Writes the notes of one running node. Any thread may use it; a line is written whole."""

    def __init__(self, path: Path) -> None:
        """Continue the notes at `path`, or begin them."""
        self._path = path
        self._lock = threading.Lock()
        self._unsynced = read_notes(path)
        self._number = self._unsynced.last_number
        self._fd = -1
        self._grown_bytes = 0
        self._rewrite()

    @property
    def number(self) -> int:
        """The number of the last change that any thread noted."""
        return self._number

    def file_changes(
        self, inode: int, position: int, length: int, *, size_before: int, before: bytes
    ) -> None:
        """Note a change of a file that is about to be made."""
        with self._lock:
            change = FileChange(
                number=self._next(),
                inode=inode,
                position=position,
                length=length,
                size_before=size_before,
                before=before,
            )
            self._unsynced.add_file(change)
            self._say([_file_row(change)])

    def name_changes(
        self,
        folder: str,
        name: str,
        *,
        kind: NameChangeKind,
        target: str = "",
        aside: int = 0,
    ) -> None:
        """Note a change of a folder that is about to be made."""
        with self._lock:
            change = NameChange(
                number=self._next(), folder=folder, kind=kind, name=name, target=target, aside=aside
            )
            self._unsynced.add_name(change)
            self._say([_name_row(change)])

    def file_synced(self, inode: int, upto: int) -> None:
        """Note that a sync of the file, which began after change `upto`, returned."""
        with self._lock:
            self._unsynced.file_synced(inode, upto)
            self._say([{"note": "file_synced", "inode": inode, "upto": upto}])

    def folder_synced(self, folder: str, upto: int) -> list[int]:
        """Like `file_synced`, for a folder. What was kept aside under the returned numbers is no
        longer needed."""
        with self._lock:
            done = self._unsynced.folder_synced(folder, upto)
            self._say([{"note": "folder_synced", "folder": folder, "upto": upto}])
            return done

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _say(self, rows: Iterable[dict[str, Any]]) -> None:
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        written = os.write(self._fd, data)
        assert written == len(data), "a note is written whole"
        self._grown_bytes += written
        if self._grown_bytes > _GROWN_BYTES_MAX:
            self._rewrite()

    def _rewrite(self) -> None:
        draft = self._path.with_suffix(".draft")
        former, flags = self._fd, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._fd = os.open(draft, flags, 0o600)
        rows = [_file_row(each) for changes in self._unsynced.files.values() for each in changes]
        rows += [_name_row(each) for changes in self._unsynced.folders.values() for each in changes]
        self._grown_bytes = -(1 << 62)  # what stays does not count as growth
        self._say(sorted(rows, key=lambda row: row["number"]))
        self._grown_bytes = 0
        draft.rename(self._path)
        if former >= 0:
            os.close(former)


def _file_row(change: FileChange) -> dict[str, Any]:
    packed = base64.b64encode(zlib.compress(change.before, 1)).decode()
    return {"note": "file", **asdict(change), "before": packed}


def _name_row(change: NameChange) -> dict[str, Any]:
    return {"note": "name", **asdict(change)}


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
