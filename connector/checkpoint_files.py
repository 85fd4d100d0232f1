"""Where a query's checkpoint is opened: any place that `pyarrow.fs` knows, asked in bounded time.

A storage that does not answer must not hold up a batch, so it is asked in a thread of its own, and
once it was silent no more in this process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from raftlog.redaction import without_secrets

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_silent: set[tuple[int, str]] = set()
"""(process id, location) of checkpoints that did not answer in time. They are not asked again."""

T = TypeVar("T")

_WITH_QUERIES = frozenset({"s3", "gs", "gcs", "abfs", "abfss"})
"""Schemes whose URIs may name another endpoint. Hadoop's own have no queries."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a checkpoint gave no answer."""

    problem: str
    """Without the secrets of its URI."""


def ask(location: str, question: Callable[[FileSystem, str], T], timeout_s: float) -> T | Unread:
    """What `question` finds in the file system and folder of a checkpoint, within the timeout.

    Errors of the storage, and of contents that are not as expected (`ValueError`, `KeyError`,
    `TypeError`), are answers too.
    """
    here = (os.getpid(), location)
    if here in _silent:
        return Unread("it did not answer before")
    outcomes: list[T | Unread] = []
    reader = threading.Thread(
        target=lambda: outcomes.append(_asked(location, question)),
        name="raftlog-checkpoint",
        daemon=True,
    )
    reader.start()
    reader.join(timeout_s)
    if reader.is_alive():
        _silent.add(here)
        return Unread(f"it did not answer within {timeout_s:g} s")
    assert outcomes, "the reader ended with an error that is a defect"
    return outcomes[0]


def _asked(location: str, question: Callable[[FileSystem, str], T]) -> T | Unread:
    import pyarrow as pa

    try:
        return question(*opened(location))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        return Unread(without_secrets(f"{type(error).__name__}: {error}", location))


def opened(location: str) -> tuple[FileSystem, str]:
    """The file system and the folder of a checkpoint, without asking either.

    Hadoop's local paths are not URIs: nothing in them is escaped. Its names for S3's clients all
    mean S3.
    """
    from pyarrow import fs

    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return fs.LocalFileSystem(), location.rstrip("/")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.strip("/")
    if scheme in ("s3a", "s3n"):
        scheme = "s3"
    if "?" in rest and scheme in _WITH_QUERIES:
        raise ValueError("its URI has a query, which could lead what proves this process elsewhere")
    files, folder = fs.FileSystem.from_uri(f"{scheme}:{rest}")
    return files, folder.rstrip("/")
