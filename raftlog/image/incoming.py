"""An image of another node on its way into a group's folder.

Its files are received under names of their own (`incoming-*`), which nothing else touches: what
came before a break or a restart is still there. The size of such a file says how far it came. It
is checked as a whole once it is complete, so bytes that a crash garbled are fetched again. When all
files are here and checked, `install` makes the image the group's.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from raftlog.core.types import FIRST_OFFSET, GroupId
from raftlog.errors import CorruptFile, FormatUnsupported, LogFromNewerVersion
from raftlog.image.history_file import HistoryFile
from raftlog.image.machine import NO_PROGRESS, Restored, restored
from raftlog.image.manifest import (
    FileInfo,
    HistoryInfo,
    Image,
    SnapshotInfo,
    StagesInfo,
    read_image,
    write_image,
)
from raftlog.image.snapshot_file import read_snapshot
from raftlog.image.stages_file import StagesFile
from raftlog.machines.group_info import GroupInfo
from raftlog.machines.topic import TopicMachine
from raftlog.storage import fresh
from raftlog.storage.contract import FileSystem

INCOMING_PREFIX = "incoming-"


def wanted_image(theirs: Image, own: Image, damaged: Container[str] = frozenset()) -> Image:
    """What a replica that has the image `own` is to have after it has taken `theirs`.

    Replicas cut their history at the same offsets, so a file of the same records is kept, as its
    digest tells, unless it is among those `damaged` here. Of the snapshots only the newest is of
    use, as the log begins there.
    """
    history = {
        (each.start, each.end, each.digest): each
        for each in own.history
        if each.digest and each.name not in damaged
    }
    stages = {
        (each.first, each.last, each.byte_count): each
        for each in own.stages
        if each.name not in damaged
    }
    newest = theirs.snapshots[-1]
    return Image(
        generation=own.generation + 1,
        base=(newest.index, newest.term),
        snapshots=(newest,),
        stages=tuple(
            stages.get((each.first, each.last, each.byte_count), each) for each in theirs.stages
        ),
        history=tuple(
            history.get((each.start, each.end, each.digest), each) for each in theirs.history
        ),
        agreed_mark=theirs.agreed_mark,
    )


def mended_image(theirs: Image, own: Image, damaged: Collection[str]) -> Image | None:
    """`own` with files of `theirs` in the places of those that are `damaged` here: the newest
    snapshot, stages and history files of the same records. An older snapshot is done without.

    None if they have other files: their last history file is that of another snapshot point, say.
    """
    history = {(each.start, each.end, each.digest): each for each in theirs.history if each.digest}
    stages = {(each.first, each.last, each.byte_count): each for each in theirs.stages}
    newest = own.snapshots[-1]
    if newest.name in damaged and theirs.snapshots[-1] != newest:
        return None
    try:
        return replace(
            own,
            generation=own.generation + 1,
            snapshots=(
                *(each for each in own.snapshots[:-1] if each.name not in damaged),
                newest,
            ),
            stages=tuple(
                stages[each.first, each.last, each.byte_count] if each.name in damaged else each
                for each in own.stages
            ),
            history=tuple(
                history[each.start, each.end, each.digest] if each.name in damaged else each
                for each in own.history
            ),
        )
    except KeyError:
        return None


def with_received(wanted: Image, here: Container[str], received: Iterable[HistoryInfo]) -> Image:
    """`wanted` with history files that came whole from another node, in the places of those of the
    same records that are not here: theirs have other names and other bytes."""
    came = {(each.start, each.end, each.digest): each for each in received if each.digest}
    return replace(
        wanted,
        history=tuple(
            each if each.name in here else came.get((each.start, each.end, each.digest), each)
            for each in wanted.history
        ),
    )


class Missing(NamedTuple):
    """The rest of a file: bytes [position, byte_count). None is missing if these are equal."""

    name: str
    position: int
    byte_count: int


class Incoming:
    """The files of one image that are not here yet. Its methods block; one thread at a time, and
    besides it those that check files which are complete.

    Those that write raise `ResourceShortage` (call them again) and `DiskFailed`.
    """

    def __init__(
        self, fs: FileSystem, folder: str, info: GroupInfo, reached: Mapping[str, int] = NO_PROGRESS
    ) -> None:
        """`folder` is the group's. The image must not be behind what its replica has `reached`
        (`raftlog.image.machine.progress`)."""
        self._fs = fs
        self._folder = folder
        self.info = info
        self._reached = reached
        self._history_start = FIRST_OFFSET
        self._wanted: dict[str, FileInfo] = {}

    def begin(self, image: Image, here: Container[str], snapshot_bytes: int) -> list[Missing] | str:
        """What must be fetched for `image`: all but the files that are `here` and whole. Or why it
        cannot be: there is no room for so much, if the source's claims are true.

        `snapshot_bytes` is the length of its newest snapshot, the only one that is ever missing.
        What lies here of other images is removed.
        """
        self._history_start = image.history_start
        self._wanted = {info.name: info for info in image.files() if info.name not in here}
        missing = []
        for name, info in self._wanted.items():
            byte_count = snapshot_bytes if isinstance(info, SnapshotInfo) else info.byte_count
            position = self._size(name)
            if position > byte_count:
                self._fs.remove(self._path(name))
                position = 0
            missing.append(Missing(name, position, byte_count))
        discard_received(self._fs, self._folder, kept=self._wanted)
        needed = sum(each.byte_count - each.position for each in missing)
        free = self._fs.free_bytes()
        if needed > free:
            return f"{needed} bytes of it are missing here, and the disk has room for {free}"
        return missing

    def write(self, name: str, position: int, data: bytes) -> None:
        """Put bytes of a wanted file in their place."""
        path = self._path(name)
        file = self._fs.open(path, create=not self._fs.exists(path), direct=True)
        try:
            file.write_at(position, [data])
        finally:
            file.close()

    def finish(self, name: str) -> CorruptFile | FormatUnsupported | LogFromNewerVersion | None:
        """Make a file durable that is complete, and check every byte of it; any thread.

        Returns what is wrong with it, also if it is gone. Raises `DiskFailed`.
        """
        try:
            file = self._fs.open(self._path(name), create=False)
            try:
                file.sync()
            finally:
                file.close()
            self._check(self._wanted[name])
        except FileNotFoundError:  # its group may be deleted at any moment
            return CorruptFile(file=self._fs.location(name), position=0, problem="it is missing")
        except (CorruptFile, FormatUnsupported, LogFromNewerVersion) as problem:
            return problem
        return None

    def remove(self, name: str) -> None:
        """Remove what was received of a file, because it was found wrong."""
        if self._fs.exists(self._path(name)):
            self._fs.remove(self._path(name))

    def discard(self) -> None:
        """Remove all that was received."""
        self._wanted.clear()
        discard_received(self._fs, self._folder)

    def _check(self, info: FileInfo) -> None:
        fs, folder, group, prefix = self._fs, self._folder, self.info.group, INCOMING_PREFIX
        match info:
            case SnapshotInfo():
                state = read_snapshot(fs, folder, group, info, prefix=prefix)
                found = restored(self.info, info, state, received=True)
                self._check_state(info, found)
            case StagesInfo():
                stages = StagesFile(fs, folder, group, info, prefix=prefix, received=True)
                try:
                    for _ in stages.check():
                        pass
                finally:
                    stages.close()
            case HistoryInfo():
                history = HistoryFile(
                    fs, folder, group, info, prefix=prefix, direct=True, received=True
                )
                try:
                    for row_group in history.row_groups_between(info.start, info.end):
                        history.check_row_group(row_group)
                    if history.digest() != info.digest:
                        problem = "its records are not those that its manifest means"
                        raise CorruptFile(file=fs.location(info.name), position=0, problem=problem)
                finally:
                    history.close()

    def _check_state(self, info: SnapshotInfo, found: Restored) -> None:
        problem = found.problem_after(self._reached)
        if problem is None and isinstance(found.machine, TopicMachine):
            start = found.machine.log_start_offset
            if start < self._history_start:
                problem = f"its records from {start} to {self._history_start} are in no file"
        if problem is not None:
            raise CorruptFile(file=info.name, position=0, problem=problem)

    def _size(self, name: str) -> int:
        if not self._fs.exists(self._path(name)):
            return 0
        file = self._fs.open(self._path(name), create=False)
        try:
            return file.size()
        finally:
            file.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{INCOMING_PREFIX}{name}"


def discard_received(fs: FileSystem, folder: str, kept: Container[str] = ()) -> None:
    """Remove what was received of images for the group's folder, but for the files of the names in
    `kept`."""
    for name in fs.list(folder):
        if name.startswith(INCOMING_PREFIX) and name.removeprefix(INCOMING_PREFIX) not in kept:
            fs.remove(f"{folder}/{name}")


def publish(fs: FileSystem, folder: str, image: Image, received: frozenset[str]) -> None:
    """Make `image` the group's, whose files of the names in `received` were finished; the others
    have their names. Durable when this returns. Raises `ResourceShortage` (call it again)."""
    _take_in(fs, folder, received)
    write_image(fs, folder, image)


def _take_in(fs: FileSystem, folder: str, names: frozenset[str]) -> None:
    """Give files that were finished their names, durably. Those that have them stay."""
    for name in sorted(names):
        if fs.exists(f"{folder}/{INCOMING_PREFIX}{name}"):
            fs.rename(f"{folder}/{INCOMING_PREFIX}{name}", f"{folder}/{name}")
    if names:
        fs.sync_folder(folder)


def install(fs: FileSystem, folder: str, group: GroupId, image: Image) -> None:
    """Make `image` the group's, all of whose files were finished; durable when this returns.

    The log begins afresh after its snapshot. The group's files must not be in use: opening the
    group again completes it, also after a crash. A crash leaves the former image and log, or these.
    Raises `ResourceShortage` (call it again) and `DiskFailed`.
    """
    present = read_image(fs, folder).image
    if present.index < image.index:
        _take_in(fs, folder, image.names() - present.names())
        present = replace(
            image,
            generation=present.generation + 1,
            fresh_log=fresh.make(fs, folder, group, image.base),
        )
    write_image(fs, folder, present)
