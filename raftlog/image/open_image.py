"""The files of a group's image, opened for readers when they are first needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict

from raftlog.core.types import GroupId, LogIndex, Offset
from raftlog.errors import CorruptFile
from raftlog.image.history_file import HistoryFile
from raftlog.image.manifest import HistoryInfo, Image, StagesInfo
from raftlog.image.stages_file import StagesFile
from raftlog.storage.contract import FileSystem
from raftlog.storage.open_files import OpenFiles

_HISTORY_FILES_OPEN_MAX = 4
"""History files of one topic that stay open. No setting: opening one costs a tenth of a
millisecond, and a reader stays in one for megabytes."""


class OpenImage:
    """The image that readers of one replica are given now. One thread's own."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        group: GroupId,
        image: Image,
        open_files: OpenFiles | None = None,
    ) -> None:
        """Its files count among `open_files`, if there are any."""
        self._fs = fs
        self._open_files = open_files
        self.folder = folder
        """The group's, in the data folder."""
        self._group = group
        self.manifest = image
        self._stages: dict[StagesInfo, StagesFile] = {}
        self._history: OrderedDict[HistoryInfo, HistoryFile] = OrderedDict()
        """Open history files, the one used last at the end."""

    def take(self, image: Image, received: frozenset[str] = frozenset()) -> frozenset[str]:
        """Go over to another image, whose manifest is durable.

        Files of the names in `received` came from another node: one that had such a name before
        is another file, and damaged. Returns the names of the files that only the former image
        had. Both are closed here.
        """
        obsolete = self.manifest.names() - image.names()
        self.manifest = image
        gone = obsolete | received
        for info in [info for info in self._stages if info.name in gone]:
            self._close(self._stages.pop(info))
        for old in [info for info in self._history if info.name in gone]:
            self._close(self._history.pop(old))
        return obsolete

    def history_file_with(self, offset: Offset) -> HistoryFile:
        """The history file that holds the record at `offset`, which is in history.

        A few files stay open; another one is closed when there are too many. Raises `CorruptFile`
        if no file holds it.
        """
        image = self.manifest
        if not image.history_start <= offset < image.history_end:
            raise CorruptFile(
                file=self._fs.location(self.folder),
                position=0,
                problem=f"the record at offset {offset} is in no history file",
            )
        info = image.history[bisect_right(image.history, offset, key=lambda each: each.end)]
        file = self._history.get(info)
        if file is None:
            file = HistoryFile(self._fs, self.folder, self._group, info)
            self._history[info] = file
            if len(self._history) > _HISTORY_FILES_OPEN_MAX:
                self._close(self._history.popitem(last=False)[1])
        self._history.move_to_end(info)
        if self._open_files is not None:
            self._open_files.opened(file, file.opened)
        return file

    def stages_with(self, index: LogIndex) -> StagesFile:
        """The open file of carried stages that holds the entry. Raises `CorruptFile`."""
        stages = self.manifest.stages
        after = bisect_left(stages, index, key=lambda info: info.last)
        for info in stages[after : after + 1]:
            file = self._stages.get(info)
            if file is None:
                file = StagesFile(self._fs, self.folder, self._group, info)
                self._stages[info] = file
            if self._open_files is not None:
                self._open_files.opened(file, file.opened)
            if index in file:
                return file
        raise CorruptFile(
            file=self._fs.location(self.folder),
            position=0,
            problem=f"entry {index} is neither in the log nor among the carried stages",
        )

    def close(self) -> None:
        """Close all files."""
        for file in self._stages.values():
            self._close(file)
        for history in self._history.values():
            self._close(history)
        self._stages.clear()
        self._history.clear()

    def _close(self, file: HistoryFile | StagesFile) -> None:
        if self._open_files is not None:
            self._open_files.forget(file)
        file.close()
