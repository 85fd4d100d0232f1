"""Files under construction: each is made under another name and gets its own when it is durable.

If there is no room for one, or it cannot be made for another reason, it is removed: a full disk
needs its room, and nothing else would remove it before the next try.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raftlog.errors import DiskFailed, RaftlogError, ResourceShortage
from raftlog.storage.contract import File, FileSystem


@contextmanager
def unfinished_file(fs: FileSystem, path: str) -> Iterator[File]:
    """A new file at `path`, which is synced at the end of the block and then closed.

    Raises `ResourceShortage`, `DiskFailed`, and what the block raises.
    """
    file = fs.open(path, create=True)
    try:
        try:
            yield file
            file.sync()
        finally:
            file.close()  # one that is removed while it is open would keep its room
    except DiskFailed:
        raise
    except (RaftlogError, MemoryError):
        fs.remove(path)
        raise


def finish_file(fs: FileSystem, path: str, name: str) -> None:
    """Give the file at `path`, which is durable, its path `name` in the same folder; durable when
    this returns. Raises `ResourceShortage`, `DiskFailed`."""
    try:
        fs.rename(path, name)
    except ResourceShortage:
        fs.remove(path)
        raise
    fs.sync_folder(name.rpartition("/")[0])
