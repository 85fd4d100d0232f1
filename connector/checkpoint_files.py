"""Where a query's checkpoint is opened: any place that `pyarrow.fs` knows, asked in bounded time.

A storage that does not answer must not hold up a batch, so it is asked in a thread of its own, and
once it was silent no more in this process.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_PARAMETER = re.compile(
    r"(?i)[?&#;]([^=&?#;/]*(?:key|secret|token|password|sig|credential|sas)[^=&?#;/]*)=([^&]+)"
)
"""The name and the value of a URI's parameter that may be secret."""
_URI = re.compile(r"(?i)(?!file:/)[a-z][a-z0-9+.-]+:/{1,2}|//|file://")
"""How one begins, also where somebody left out a slash or the scheme."""
_HIDDEN = "***"
_TELLING_CHARACTERS = 6
"""A shorter secret may be part of a word, and is hidden only where a URI has it."""

_silent: set[tuple[int, str]] = set()
"""(process id, location) of checkpoints that did not answer in time. They are not asked again."""

T = TypeVar("T")


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
    files, folder = fs.FileSystem.from_uri(f"{scheme}:{rest}")
    return files, folder.rstrip("/")


def without_secrets(text: str, location: str) -> str:
    """A text about a location, with neither its password nor the values of its parameters that may
    be secret, if it is a URI.

    Who writes a URI may forget to escape what is in a secret. So a password is all from the first
    colon to the last `@`, and a parameter is looked for wherever it stands.
    """
    beginning = _URI.match(location)
    if beginning is None:
        return text
    rest = location[beginning.end() :]
    user, _, _ = rest.rpartition("@")
    _, _, password = user.partition(":")
    found = [password, *(value for _, value in _PARAMETER.findall(location))]
    for secret in filter(None, (form for each in found for form in (each, unquote(each)))):
        for before, after in ((":", "@"), ("=", "")):
            text = text.replace(f"{before}{secret}{after}", f"{before}{_HIDDEN}{after}")
        if len(secret) >= _TELLING_CHARACTERS:
            text = text.replace(secret, _HIDDEN)
    return text
