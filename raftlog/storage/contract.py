"""What storage requires of an operating system, so that a simulated disk can replace the real one.

Two implementations pass the same contract tests: `storage.posix` (the real one) and
`tests.storage.memory` (whose `crash` loses what was not synced, and tears what was being written).

Durability: written bytes are durable once a later `File.sync` has returned. A file's name is
durable once `FileSystem.sync_folder` of its folder has returned after the creation, rename or
removal. Every failure to write or sync raises `raftlog.errors.DiskFailed` and must end the process.
The operation is never tried again, because the kernel may have dropped the pages.

There is one exception: what finds no room raises `DiskFull`, and what needs an open file or memory
where there is no more raises `LimitReached`. Both are a `ResourceShortage`: some bytes of a write
may be there, nothing that was there before is lost, and the caller may try the same again later. A
*sync* that finds no room has failed like any other: the kernel had already accepted the bytes that
it was to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

ROOT = ""
"""The path of a file system's root folder."""

DIRECT_BLOCK_BYTES = 4096
"""Of what is written to a file that was opened `direct`, whole blocks of this size go past the page
cache, if the write begins at a multiple of it."""


class File(Protocol):
    """An open file. Positions and lengths are in bytes. Only `read_at` is safe from two threads."""

    @property
    def path(self) -> str:
        """The path as an error names it."""
        ...

    def size(self) -> int:
        """The file's length in bytes, as written so far."""
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes at [position, position + length); fewer only where the file ends."""
        ...

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        """Write all the buffers, one after another. Raises `DiskFailed`, `ResourceShortage`."""
        ...

    def sync(self) -> None:
        """Make all bytes written before this call durable, and the file's size (fdatasync)."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, or extend it with zeros."""
        ...

    def reserve(self, size: int) -> None:
        """Allocate space so that the file is at least `size` bytes long. New bytes are zero.

        On a full disk this does nothing: a write may still find room.
        """
        ...

    def close(self) -> None:
        """Close the file. What was not synced may be lost by a power loss."""
        ...


class Lock(Protocol):
    """A lock that is held until `release`, or until its process ends for any reason."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class FileSystem(Protocol):
    """Folders and files below one root, by relative path with `/` between parts."""

    def location(self, path: str) -> str:
        """How an error names the path: absolute if there is a real disk."""
        ...

    def new_id(self) -> int:
        """64 random bits that no file here had before, to tell files' bytes apart."""
        ...

    def free_bytes(self) -> int:
        """How much more can be written, as far as can be told."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock the whole file system by this file. Raises `DataFolderLocked`, with the holder."""
        ...

    def open(self, path: str, *, create: bool, direct: bool = False) -> File:
        """Open for reading and writing. `create` makes a new file and fails if it exists.

        `direct`: past the page cache, where the file system can; what was written is durable after
        a sync only, as ever.

        Raises FileNotFoundError or FileExistsError (facts about the path, not disk failures),
        `CorruptFile` where a folder is in its place, and `ResourceShortage`.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder at the path."""
        ...

    def list(self, folder: str) -> list[str]:
        """Names of files and folders directly in `folder`, sorted. Raises `CorruptFile` where there
        is no such folder."""
        ...

    def make_folder(self, path: str) -> None:
        """Make the folder unless it exists. Its parent must exist, except for the root's.

        Raises `CorruptFile` where a file is in its place, and `ResourceShortage`.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` by `source`, a file or folder of the same folder.

        Raises `ResourceShortage`; nothing is changed then.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it. Raises `ResourceShortage`: then part of
        a folder may be gone."""
        ...

    def sync_folder(self, path: str) -> None:
        """Make all names in the folder durable. Raises `DiskFailed`, `ResourceShortage`."""
        ...
