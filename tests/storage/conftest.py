"""Every file system, for every test that asks for a disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.faulty_disk import FaultyFileSystem
from raftlog.storage.contract import FileSystem
from raftlog.storage.posix import PosixFileSystem
from tests.chaos.noted_disk import NotedFileSystem, NoteFiles
from tests.storage.disks import FOLDER
from tests.storage.memory import MemoryFileSystem

DISKS: dict[str, Callable[[Path], FileSystem]] = {
    "posix": lambda path: PosixFileSystem(path),
    "faulty": lambda path: FaultyFileSystem(
        NotedFileSystem(PosixFileSystem(path), NoteFiles.of(path.with_name(f"{path.name}-of"), 1)),
        path.with_name(f"{path.name}.faults"),
    ),
    "memory": lambda path: MemoryFileSystem(Random(1)),
}


@pytest.fixture(params=DISKS)
def empty_disk(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return DISKS[request.param](tmp_path)


@pytest.fixture
def disk(empty_disk: FileSystem) -> FileSystem:
    """With the folder of one group."""
    empty_disk.make_folder(FOLDER)
    empty_disk.sync_folder("")
    return empty_disk
