"""Files that are replaced while a process runs: what they hold now, and how one is replaced."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from raftlog.errors import InvalidOption

_LOOK_AGAIN_S = 1.0
"""Files are looked at again after so long. No setting: a certificate is replaced days before the
former one ends, and a caller that is shut out waits no longer."""

_Stamp: TypeAlias = "tuple[tuple[int, int, int] | None, ...]"

T = TypeVar("T")


class Latest(Generic[T]):
    """What is read from files, read again after they changed. Thread-safe, and without a lock that
    a forked child would find held: at worst two threads read at once.

    Files that cannot be used leave what was read before in force: who replaces two that belong
    together does so one after the other.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[], T],
        on_problem: Callable[[str], None],
        *,
        first: Callable[[], T] | None = None,
    ) -> None:
        """Reads at once, by `first`, which may take its time, or by `read`, and raises what that
        does. Of later files `on_problem` is told the cause of an `InvalidOption`, once."""
        self._paths = paths
        self._read = read
        self._on_problem = on_problem
        self._stamp = _stamp(paths)
        self._looked_at_s = time.monotonic()
        self._value = (first or read)()

    @property
    def before(self) -> T:
        """What is in force, without a look at the files."""
        return self._value

    def now(self) -> T:
        """What the files hold, or held when they could last be used. The same object as long as
        that does not change."""
        now_s = time.monotonic()
        if now_s >= self._looked_at_s + _LOOK_AGAIN_S:
            self._looked_at_s = now_s
            self._look()
        return self._value

    def _look(self) -> None:
        stamp = _stamp(self._paths)
        if stamp == self._stamp:
            return
        try:
            value = self._read()
        except InvalidOption as error:
            self._on_problem(error.cause)
        else:
            if _stamp(self._paths) != stamp:
                return  # they are being replaced just now
            self._value = value
        self._stamp = stamp


def _stamp(paths: Sequence[str]) -> _Stamp:
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


@contextmanager
def only_writer(file: Path) -> Iterator[None]:
    """While it runs, no other holder changes a file in the same folder. Raises
    `OSError`."""
    held = os.open(file.parent, os.O_RDONLY | os.O_CLOEXEC)  # the file itself is replaced
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def replace_whole(file: Path, data: bytes) -> None:
    """Replace the file as a whole. Only its owner can read it, from the first byte."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(descriptor)
    draft.replace(file)
