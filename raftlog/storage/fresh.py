"""A log that begins afresh behind another node's image: nothing of the former one stays.

The order is: the empty log is made under a name of its own (`make`), the image's manifest with its
base and id becomes durable, and then it takes the former log's place (`put_in_place`). A crash
before the manifest leaves the former log, a crash after it is finished by the next opening. So
there is always one log, and the manifest says which.
"""

from __future__ import annotations

from raftlog.storage.contract import FileSystem
from raftlog.storage.frames import Purpose, SegmentHeader
from raftlog.storage.prefix import Base
from raftlog.storage.reopen import segment_names, segment_path

_ENDING = ".fresh"


def make(fs: FileSystem, folder: str, group: int, base: Base) -> int:
    """Make an empty log that begins directly after `base`, beside the one in use; durable on
    return. Returns the id by which `put_in_place` finds it. Raises `ResourceShortage` and
    `DiskFailed`."""
    _remove_all_but(fs, folder, "")
    header = SegmentHeader(
        purpose=Purpose.LOG,
        segment_id=fs.new_id(),
        group=group,
        first_index=base[0] + 1,
        previous_end=0,
        previous_chain=0,
    )
    file = fs.open(f"{folder}/{_name(header.segment_id)}", create=True)
    try:
        file.write_at(0, [header.encode()])
        file.sync()
    finally:
        file.close()
    fs.sync_folder(folder)
    return header.segment_id


def put_in_place(fs: FileSystem, folder: str, base: Base, log_id: int) -> None:
    """Let the log of this id, which begins after `base`, take the place of the one in use.

    Does nothing if it has. The durable manifest names the id (0: none), so others that lie there
    were never wanted. They are removed. Raises `ResourceShortage` (call it again) and `DiskFailed`.
    """
    wanted = _name(log_id)
    _remove_all_but(fs, folder, wanted if log_id else "")
    if not fs.exists(f"{folder}/{wanted}"):
        return
    for name in segment_names(fs, folder):
        fs.remove(f"{folder}/{name}")
    fs.rename(f"{folder}/{wanted}", segment_path(folder, base[0] + 1))
    fs.sync_folder(folder)


def _remove_all_but(fs: FileSystem, folder: str, wanted: str) -> None:
    for name in fs.list(folder):
        if name.endswith(_ENDING) and name != wanted:
            fs.remove(f"{folder}/{name}")


def _name(log_id: int) -> str:
    return f"log-{log_id:016x}{_ENDING}"
