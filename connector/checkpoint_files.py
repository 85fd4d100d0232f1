"""Where a query's checkpoint is opened: any place that `pyarrow.fs` knows, asked in bounded time.

A storage that does not answer must not hold up a batch, so it is asked in a thread of its own. It
is asked again once that thread has ended: at most one waits for each checkpoint.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from raftlog.redaction import without_secrets

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_unanswered: dict[tuple[int, str], threading.Thread] = {}
"""By (process id, location): what asked a checkpoint that did not answer in time."""

T = TypeVar("T")

FILE_BYTES_MAX = 16 << 20
"""More than the offsets of 100,000 topics take; a longer file is none of Spark's. No setting: only
the memory of the process that reads it depends on it."""

_SCHEMES = {"hdfs": "hdfs", "gs": "gs", "gcs": "gcs", "s3": "s3", "s3a": "s3", "s3n": "s3"}
"""Schemes that are read, and what `pyarrow.fs` calls them: Hadoop's names for S3's clients all mean
S3. Others are rejected: `abfs://` sends this process's token to the host that the URI names, and
what comes with fsspec fetches any URL."""


class Unreadable(Exception):
    """Why a file is not what Spark wrote."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a checkpoint gave no answer."""

    problem: str
    """Without the secrets of its URI."""


def ask(location: str, question: Callable[[FileSystem, str], T], timeout_s: float) -> T | Unread:
    """What `question` finds in the file system and folder of a checkpoint, within the timeout.

    Errors of the storage, and of contents that are not as expected, are answers too.
    """
    here = (os.getpid(), location)
    earlier = _unanswered.pop(here, None)
    if earlier is not None and earlier.is_alive():
        _unanswered[here] = earlier
        return Unread("it has not answered yet since it was last asked")
    outcomes: list[T | Unread] = []
    reader = threading.Thread(
        target=lambda: outcomes.append(_asked(location, question)),
        name="raftlog-checkpoint",
        daemon=True,
    )
    reader.start()
    reader.join(timeout_s)
    if reader.is_alive():
        _unanswered[here] = reader
        return Unread(f"it did not answer within {timeout_s:g} s")
    assert outcomes, "the reader ended with an error that is a defect"
    return outcomes[0]


def _asked(location: str, question: Callable[[FileSystem, str], T]) -> T | Unread:
    with _Failure() as failure:
        return question(*opened(location))
    return Unread(without_secrets(f"{type(failure.error).__name__}: {failure.error}", location))


class _Failure:
    """Keeps what its block raises, of whatever kind: storages raise their own errors."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> _Failure:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.error = error
        return isinstance(error, Exception)


def opened(location: str) -> tuple[FileSystem, str]:
    """The file system and the folder of a checkpoint, without asking either. Raises `ValueError`
    for a place that is not to be read.

    Hadoop's local paths are not URIs: nothing in them is escaped.
    """
    from pyarrow import fs

    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return fs.LocalFileSystem(), location.rstrip("/")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.strip("/")
    if scheme not in _SCHEMES:
        raise ValueError(
            "only local paths and URIs of these schemes can be read: file, " + ", ".join(_SCHEMES)
        )
    if "?" in rest:
        raise ValueError("its URI has a query, which could lead what proves this process elsewhere")
    files, folder = fs.FileSystem.from_uri(f"{_SCHEMES[scheme]}:{rest}")
    return files, folder.rstrip("/")


def content(files: FileSystem, path: str) -> bytes:
    """A checkpoint's file, of at most `FILE_BYTES_MAX` bytes. Errors of the storage pass through.

    Raises `Unreadable` for a longer one, and for another kind: a FIFO or a device has no end.
    """
    from pyarrow.fs import FileType

    if files.get_file_info(path).type not in (FileType.File, FileType.NotFound):
        raise Unreadable(f"{path!r} is not a regular file")
    with files.open_input_stream(path, compression=None) as stream:
        data: bytes = stream.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise Unreadable(f"{path!r} has more than {FILE_BYTES_MAX} bytes")
    return data


def is_batch(name: str) -> bool:
    """Whether a file of a checkpoint is a batch's, by its name: the batch's number."""
    return name.isascii() and name.isdecimal() and name == str(int(name))
