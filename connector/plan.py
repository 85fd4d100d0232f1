"""What Spark planned a batch to be: the digest of `offsets/N` in the query's checkpoint.

Spark makes that file durable before it runs batch N. A replay uses the same file. If the batch is
planned again, Spark writes another file, with another time in it. So the digest tells a replay from
other rows under an old number, which a record count cannot (docs/EXACTLY_ONCE.md, "What a replay
is"). If the file cannot be read, the connector says so once, and the count decides.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import threading
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

log = logging.getLogger("raftlog.spark")


class Asking(NamedTuple):
    """Which kind of write asks for a plan, for the warning that there is none."""

    without_location: str
    """The reason if no location is given."""
    advice: str


STREAM = Asking(
    "neither the option checkpointLocation nor a query's name says where it is",
    "Give checkpointLocation as an option and with its scheme (docs/SPARK.md).",
)
IN_FOREACH_BATCH = Asking(
    "the write in foreachBatch has no option checkpointLocation",
    "Give that write the query's checkpointLocation as an option, with its scheme (docs/SPARK.md).",
)

DIGEST_BYTES = 16
CHUNK_BYTES = 1 << 20
"""The length of the digest, which replays compare, so it is no setting, and the bytes of a plan
that are read at once."""

_PARAMETER = re.compile(
    r"(?i)[?&#;]([^=&?#;/]*(?:key|secret|token|password|sig|credential|sas)[^=&?#;/]*)=([^&]+)"
)
"""The name and the value of a URI's parameter that may be secret."""
_HIDDEN = "***"
_TELLING_CHARACTERS = 6
"""A shorter secret may be part of a word, and is hidden only where a URI has it."""

_unread_said: set[tuple[int, Asking]] = set()
"""(process id, kind of write) of the warnings that a plan cannot be read."""

_silent: set[tuple[int, str]] = set()
"""(process id, location) of checkpoints that did not answer in time. They are not asked again."""


class _Unread(NamedTuple):
    """Why there is no digest."""

    problem: str


def location_of(option: str, setting: str, query_name: str) -> str:
    """Where the query's checkpoint is, as Spark decides it; "" if that is not known.

    `option` is checkpointLocation, `setting` the session's default for it. Under that default, a
    query without a name gets a folder with a random name.
    """
    if option:
        return option
    return f"{setting.rstrip('/')}/{query_name}" if setting and query_name else ""


def plan_digest(
    location: str, query_id: str, batch: int, timeout_s: float, asking: Asking = STREAM
) -> str:
    """The batch's plan as 32 hex digits; "" if it cannot be read. Then it warns, once in this
    process for each kind of write.

    The checkpoint must be this query's, by its `metadata`. A storage that does not answer within
    the timeout is not asked again.
    """
    outcome = (
        _read_in_time(location, query_id, batch, timeout_s)
        if location
        else _Unread(asking.without_location)
    )
    if isinstance(outcome, str):
        return outcome
    if (os.getpid(), asking) not in _unread_said:
        _unread_said.add((os.getpid(), asking))
        log.warning(
            "The checkpoint %s of query %s cannot be read here: %s. So a replay of its last batch "
            "is known only by the record count, and other rows of the same count are NOT "
            "written. %s",
            repr(without_secrets(location, location)) if location else "",
            query_id,
            without_secrets(outcome.problem, location),
            asking.advice,
        )
    return ""


def _read_in_time(location: str, query_id: str, batch: int, timeout_s: float) -> str | _Unread:
    here = (os.getpid(), location)
    if here in _silent:
        return _Unread("it did not answer before")
    outcomes: list[str | _Unread] = []
    reader = threading.Thread(
        target=lambda: outcomes.append(_read(location, query_id, batch)),
        name="raftlog-plan",
        daemon=True,
    )
    reader.start()
    reader.join(timeout_s)
    if reader.is_alive():
        _silent.add(here)
        return _Unread(f"it did not answer within {timeout_s:g} s")
    assert outcomes, "the reader ended with an error that is a defect"
    return outcomes[0]


def _read(location: str, query_id: str, batch: int) -> str | _Unread:
    import pyarrow as pa

    try:
        files, folder = opened(location)
        with files.open_input_stream(f"{folder}/metadata") as stream:
            owner = json.loads(stream.read())["id"]
        if owner != query_id:
            return _Unread(f"it belongs to query {owner}")
        digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        with files.open_input_stream(f"{folder}/offsets/{batch}", compression=None) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        return _Unread(f"{type(error).__name__}: {error}")


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
    _, is_uri, rest = location.partition("://")
    if not is_uri:
        return text
    user, _, _ = rest.rpartition("@")
    _, _, password = user.partition(":")
    found = [password, *(value for _, value in _PARAMETER.findall(location))]
    for secret in filter(None, (form for each in found for form in (each, unquote(each)))):
        for before, after in ((":", "@"), ("=", "")):
            text = text.replace(f"{before}{secret}{after}", f"{before}{_HIDDEN}{after}")
        if len(secret) >= _TELLING_CHARACTERS:
            text = text.replace(secret, _HIDDEN)
    return text
