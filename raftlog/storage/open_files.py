"""The files that a node's logs and images keep open: one bound for all, the one used least recently
is closed first.

A topic that is read and written keeps a few files open. Without a common bound the number of topics
would be bounded by the open files that the process may have. What is closed here is opened again at
its next use, which costs a tenth of a millisecond.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from threading import Lock
from typing import Protocol, TypeVar

from raftlog.errors import LimitReached
from raftlog.storage.contract import File, FileSystem
from raftlog.storage.write import Segment

T = TypeVar("T")


class Closes(Protocol):
    """An open file that opens again by itself after `close`."""

    busy: bool
    """Whether another thread uses it now, so that it must stay open."""

    def close(self) -> None:
        """Close it. Nothing if it is closed."""


class OpenFiles:
    """The bound. `opened` is for the thread of the node's logs; any thread may `forget`."""

    def __init__(self, most: int) -> None:
        assert most >= 0, "`most` is a number"
        self._most = most
        self._oldest_first: OrderedDict[Closes, None] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._oldest_first)

    def opened(self, file: Closes, use: Callable[[], T]) -> T:
        """What `use` returns, which opens the file unless it is open. Closes others beyond the
        bound, and all others if the process may open no more. Raises what `use` raises."""
        with self._lock:
            self._oldest_first[file] = None
            self._oldest_first.move_to_end(file)
            self._close(len(self._oldest_first) - self._most, besides=file)
            try:
                return use()
            except LimitReached:
                if not self._close(len(self._oldest_first), besides=file):
                    raise
                return use()

    def forget(self, file: Closes) -> None:
        """The file is closed, or used by one that keeps it open: it does not count any more."""
        with self._lock:
            self._oldest_first.pop(file, None)

    def _close(self, count: int, *, besides: Closes) -> int:
        """Close so many, as far as they are not used now; how many that were."""
        if count <= 0:
            return 0
        idle = (file for file in self._oldest_first if file is not besides and not file.busy)
        chosen = list(islice(idle, count))
        for file in chosen:
            del self._oldest_first[file]
            file.close()
        return len(chosen)


class SegmentFiles:
    """The open files of one log: its active segment, and a few others. For the log's thread, except
    that another one may have it after `leave`."""

    def __init__(self, fs: FileSystem, sealed_max: int) -> None:
        """At most `sealed_max` sealed segments stay open."""
        self._fs = fs
        self._sealed_max = sealed_max
        self._sealed: OrderedDict[Segment, None] = OrderedDict()
        """Sealed segments that may be open, the one used last at the end."""
        self._of_node: OpenFiles | None = None
        self._counted: set[Segment] = set()
        """Those that may count among them."""

    def join(self, open_files: OpenFiles, segments: Iterable[Segment]) -> None:
        """From now on they count among these, which may close them between two uses. `segments` are
        all of the log's: they are closed first."""
        for segment in segments:
            self.close(segment)
        self._of_node = open_files

    def leave(self) -> None:
        """From now on another thread may use them: none is closed meanwhile."""
        if self._of_node is not None:
            for segment in self._counted:
                self._of_node.forget(segment)
            self._of_node = None

    def opened(self, segment: Segment) -> File:
        """The segment's file. Raises `ResourceShortage`."""
        if self._of_node is None:
            return segment.opened(self._fs)
        self._counted.add(segment)
        return self._of_node.opened(segment, lambda: segment.opened(self._fs))

    def used(self, segments: Iterable[Segment]) -> None:
        """They were used last. Those that are sealed may be closed by `keep_few`."""
        for segment in segments:
            self._sealed[segment] = None
            self._sealed.move_to_end(segment)

    def not_sealed(self, segments: Iterable[Segment]) -> None:
        """They stay open until the log closes them."""
        for segment in segments:
            self._sealed.pop(segment, None)

    def close(self, segment: Segment) -> None:
        """Close its file; the next use opens it again."""
        self._sealed.pop(segment, None)
        if self._of_node is not None:
            self._counted.discard(segment)
            self._of_node.forget(segment)
        segment.close()

    def keep_few(self, active: Segment) -> None:
        """Close sealed segments beyond the bound. Not while a write is in flight: it may be writing
        to a segment that it seals."""
        self._sealed.pop(active, None)
        while len(self._sealed) > self._sealed_max:
            self.close(next(iter(self._sealed)))
