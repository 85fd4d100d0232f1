"""What storage asks of an operating system, so that a simulated disk can stand in for it.

Two implementations pass the same contract tests: `storage.posix` (the real one) and
`storage.memory` (which loses on `crash` what was not synced, and tears what was being written).

Durability: bytes written are durable once `File.sync` returned after the write; a file's name
once `FileSystem.sync_folder` of its folder returned after the creation, rename or removal. Every
failure to write or sync raises `raftlog.errors.DiskFailed` and must end the process: it is never
tried again, because the kernel may have dropped the pages.

But one: a write or a new name that finds no room raises `DiskFull`. Some of its bytes may be there;
nothing that was there before is lost, and the same may be tried again later. A *sync* that finds
no room has failed as any other: what it was to write had been taken already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

ROOT = ""
"""The path of a file system's root folder."""


class File(Protocol):
    """An open file. Positions and lengths in bytes. Not for two threads at once, save `read_at`."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes at [position, position + length), fewer only where the file ends."""
        ...

    def write_at(self, position: int, buffers: Sequence[bytes]) -> None:
        """Write the buffers one after another; all of them, or raise `DiskFailed`, `DiskFull`."""
        ...

    def sync(self) -> None:
        """Make all bytes written before this call durable, and the size (fdatasync)."""
        ...

    def truncate(self, size: int) -> None:
        """Truncation the file, or extend it with zeros."""
        ...

    def reserve(self, size: int) -> None:
        """Allocate space so that the file is at least `size` bytes long, new bytes zero.

        On a full disk nothing happens: a write may still find room.
        """
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    """A lock that is held until `release`, or until its process ends however it ends."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """Folders and files by relative path with `/` between parts, below one root."""

    def location(self, path: str) -> str:
        """How an error names the path: absolute where there is a disk."""
        ...

    def new_id(self) -> int:
        """64 random bits that no file here had before, to tell one file's bytes from another's."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock the whole file system by this file, or raise `DataFolderLocked` with the holder."""
        ...

    def open(self, path: str, *, create: bool) -> File:
        """Open for reading and writing; `create` makes a new one and fails if it is there.

        Raises FileNotFoundError or FileExistsError (those are facts, not failures), `DiskFull`.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """Names of files and folders directly in `folder`, sorted."""
        ...

    def make_folder(self, path: str) -> None:
        """Make the folder unless it is there; its parent must exist, save for the root's.

        Raises `DiskFull`.
        """
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` by `source`, a file or folder of the same folder.

        Raises `DiskFull`: then nothing is changed.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it."""
        ...

    def sync_folder(self, path: str) -> None: ...
