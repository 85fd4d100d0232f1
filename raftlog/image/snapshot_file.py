"""A machine's state at one index of its group's log, as a file.

The first line says what it is, in JSON; the rest is the state as `raftlog.wire.codec_states` writes
it, which has a version of its own and names the rules that the state was made under.
"""

from __future__ import annotations

import json

from raftlog.core.types import GroupId
from raftlog.errors import CorruptFile
from raftlog.image.manifest import SnapshotInfo
from raftlog.storage.checked_file import read_checked, write_checked
from raftlog.storage.contract import FileSystem

_KIND = "snapshot"


def write_snapshot(
    fs: FileSystem, folder: str, group: GroupId, info: SnapshotInfo, state: bytes
) -> None:
    """Write the snapshot into the group's folder; durable when this returns.

    Raises `DiskFull` and `DiskFailed`.
    """
    write_checked(fs, f"{folder}/{info.name}", _KIND, [_headline(group, info), state])


def read_snapshot(
    fs: FileSystem, folder: str, group: GroupId, info: SnapshotInfo, *, prefix: str = ""
) -> bytes:
    """The state that `write_snapshot` was given; `prefix` goes before the name that it has now.

    Raises `CorruptFile` if it is damaged, missing, or the snapshot of something else.
    """
    path = f"{folder}/{prefix}{info.name}"
    content = read_checked(fs, path, _KIND)
    headline = _headline(group, info)
    if not content.startswith(headline):
        problem = f"it is not the snapshot of group {group} at {info.index} that is wanted"
        raise CorruptFile(file=fs.location(path), position=0, problem=problem)
    return content[len(headline) :]


def _headline(group: GroupId, info: SnapshotInfo) -> bytes:
    table = {
        "group": group,
        "index": info.index,
        "term": info.term,
        "mark": info.mark,
        "state_hash": info.state_hash.hex(),
    }
    return json.dumps(table).encode() + b"\n"
