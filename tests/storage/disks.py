"""Small logs and disks for the tests of storage."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, Payload, Term
from raftlog.storage.contract import FileSystem
from raftlog.storage.frames import FRAME_HEADER_BYTES
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from tests.storage.memory import MemoryFileSystem

GROUP = GroupId(7)
FOLDER = "7"
SMALL = LogLimits(segment_bytes_max=700, preallocate_bytes=256, payload_cache_bytes_max=2_000)
"""A few entries a segment, zeros behind the last frame, and most reads from disk."""
ONE_SEGMENT = LogLimits(preallocate_bytes=256, payload_cache_bytes_max=0)
BARE = LogLimits(preallocate_bytes=0, payload_cache_bytes_max=0)
"""The file ends with its last frame."""


def entry(index: int, term: int = 1, body: bytes | None = None) -> Entry:
    """An entry whose bytes tell its index and term, unlike any other's."""
    command = b"command %d of term %d" % (index, term)
    body = b"body %d/%d " % (index, term) * (index % 4) if body is None else body
    return Entry(LogIndex(index), Term(term), EntryKind.COMMAND, Payload(command, body))


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [entry(index, term) for index in range(first, last + 1)]


def write(store: GroupLog | HardStateJournal) -> None:
    """Make everything pending durable."""
    work = store.take_write()
    if work is not None:
        work.run()
        store.written(work)


def content(log: GroupLog) -> list[Entry]:
    """All entries, each checked against what `command` and `terms` say of it."""
    if log.last_index == log.base_index:
        assert (log.terms(), log.sizes(), log.last_term) == ([], [], log.base_term)
        return []
    found = log.entries(log.base_index + 1, log.last_index, 1 << 40)
    first_of_term: dict[Term, LogIndex] = {}
    for item in found:
        first_of_term.setdefault(item.term, item.index)
    assert log.terms() == [(index, term) for term, index in first_of_term.items()]
    for item in found:
        assert log.command(item.index) == (item.term, item.kind, item.payload.command)
        assert log.term_at(item.index) == item.term
    assert log.sizes() == [item.payload.size for item in found]
    return found


def new_disk(seed: int = 1) -> MemoryFileSystem:
    """A disk in memory with the folder of one group, durable."""
    disk = MemoryFileSystem(Random(seed))
    disk.make_folder(FOLDER)
    disk.sync_folder("")
    return disk


def files_of(disk: FileSystem, folder: str = FOLDER) -> dict[str, bytes]:
    """The bytes of every file in a folder, by name."""
    found = {}
    for name in disk.list(folder):
        file = disk.open(f"{folder}/{name}", create=False)
        found[name] = file.read_at(0, file.size())
        file.close()
    return found


def disk_of(files: dict[str, bytes], folder: str = FOLDER) -> MemoryFileSystem:
    """A disk that holds exactly these files, durable."""
    disk = MemoryFileSystem(Random(1))
    disk.make_folder(folder)
    for name, data in files.items():
        file = disk.open(f"{folder}/{name}", create=True)
        file.write_at(0, [data])
        file.sync()
    disk.sync_folder(folder)
    disk.sync_folder("")
    return disk


def flipped(data: bytes, position: int, mask: int = 0xFF) -> bytes:
    """The data with the bits of one byte flipped."""
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def without_frame(data: bytes, position: int) -> bytes:
    """The data with the header of the frame at the position and the byte after it overwritten: that
    is more than the rest tells."""
    length = FRAME_HEADER_BYTES + 1
    return data[:position] + b"\xa5" * length + data[position + length :]


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process may open none beside those that are open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)  # the lowest number that is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
