"""A machine's state at one index of its group's log, as a file.

The first line says what it is, in JSON; the rest is the state as `raftlog.wire.codec_states` writes
it, which has a version of its own and names the rules that the state was made under.
"""

from __future__ import annotations

import json

from raftlog.core.types import GroupId
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image.manifest import SnapshotInfo
from raftlog.storage.checked_file import (
    Headline,
    damage_of,
    read_checked,
    read_headline,
    write_checked,
)
from raftlog.storage.contract import FileSystem

_KIND = "snapshot"


def write_snapshot(
    fs: FileSystem, folder: str, group: GroupId, info: SnapshotInfo, state: bytes
) -> None:
    """Write the snapshot into the group's folder; durable when this returns.

    Raises `FileTooLarge`, `DiskFull` and `DiskFailed`.
    """
    write_checked(fs, f"{folder}/{info.name}", _KIND, [_headline(group, info), state])


def read_snapshot(
    fs: FileSystem, folder: str, group: GroupId, info: SnapshotInfo, *, prefix: str = ""
) -> bytes:
    """The state that `write_snapshot` was given; `prefix` goes before the name that it has now.

    Raises `CorruptFile` if it is damaged, missing, or the snapshot of something else.
    """
    path = f"{folder}/{prefix}{info.name}"
    try:
        content = read_checked(fs, path, _KIND)
    except FormatUnsupported as error:
        raise damage_of(error) from None  # the manifest that names it has this program's format
    headline = _headline(group, info)
    if not content.startswith(headline):
        problem = f"it is not the snapshot of group {group} at {info.index} that is wanted"
        raise CorruptFile(file=fs.location(path), position=0, problem=problem)
    return content[len(headline) :]


class SnapshotRead:
    """A part of what `read_snapshot` reads and of the line before it. `run` once, on any thread."""

    __slots__ = ("_fs", "_length", "_offset", "_path", "damage", "data", "headline")

    def __init__(self, fs: FileSystem, path: str, offset: int, length: int) -> None:
        """Bytes [offset, offset + length), less where the content ends."""
        self._fs = fs
        self._path = path
        self._offset = offset
        self._length = length
        self.headline: Headline | None = None
        """What the file says that it holds; None: there is no such file, or `damage`."""
        self.data = b""
        self.damage: CorruptFile | None = None

    def run(self) -> None:
        """Read it."""
        try:
            file = self._fs.open(self._path, create=False)
        except FileNotFoundError:
            return
        try:
            headline = read_headline(file, _KIND)
            offset = min(self._offset, headline.length)
            length = min(self._length, headline.length - offset)
            self.data = file.read_at(headline.begin + offset, length)
            self.headline = headline
        except CorruptFile as damage:
            self.damage = damage
        finally:
            file.close()


def _headline(group: GroupId, info: SnapshotInfo) -> bytes:
    table = {
        "group": group,
        "index": info.index,
        "term": info.term,
        "mark": info.mark,
        "state_hash": info.state_hash.hex(),
    }
    return json.dumps(table).encode() + b"\n"
