"""Files that are replaced while a process runs: what they hold now, and how one is replaced."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import tenacity

from raftlog.errors import InvalidOption

_LOOK_AGAIN_S = 1.0
"""Files are looked at again after so long. No setting: a certificate is replaced days before the
former one ends, and a caller that is shut out waits no longer."""

_LOCK_PATIENCE_S = 10.0
"""A writer waits so long for another, which holds its lock for a few writes. No setting."""
_LOCK_RETRY_S = 0.02

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


def lock_file(file: Path) -> Path:
    """The empty file that the writer of `file` keeps locked. It stays there."""
    return file.with_name(f".{file.name}.lock")


@contextmanager
def only_writer(file: Path) -> Iterator[None]:
    """While it runs, no other holder changes the file. Raises `OSError`, also if another holds it
    for more than 10 s.

    Neither `file`, which is replaced, nor its folder is locked: a process that can only read
    something can hold an flock on it.
    """
    lock = lock_file(file)
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    locking = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(BlockingIOError),
        wait=tenacity.wait_fixed(_LOCK_RETRY_S),
        stop=tenacity.stop_after_delay(_LOCK_PATIENCE_S),
        reraise=True,
    )
    try:
        try:
            locking(fcntl.flock, held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            problem = (
                f"another process keeps it locked (`fuser {shlex.quote(str(lock))}` shows which). "
                "End that process, and run this one again. With mode 0600 only processes of its "
                "owner and of root can lock it"
            )
            raise TimeoutError(errno.ETIMEDOUT, problem, str(lock)) from error
        yield
    finally:
        os.close(held)


def replace_whole(file: Path, data: bytes) -> None:
    """Replace the file as a whole. Only its owner can read it, from the first byte. Its draft has a
    name that nothing else can have taken: other users may write to the folder."""
    descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with ExitStack() as unless_replaced:
        unless_replaced.callback(os.unlink, draft)
        with open(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(descriptor)
        os.replace(draft, file)
        unless_replaced.pop_all()
