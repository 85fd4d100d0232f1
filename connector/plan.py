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
from typing import TYPE_CHECKING, NamedTuple

from raftlog.redaction import shown_location
from raftlog.spark.checkpoint_files import Unread, ask, content

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
    "Give checkpointLocation as an option and with its scheme (`raftlog docs SPARK`).",
)
IN_FOREACH_BATCH = Asking(
    "the write in foreachBatch has no option checkpointLocation",
    "Give that write the query's checkpointLocation as an option, with its scheme (`raftlog docs "
    "SPARK`).",
)

DIGEST_BYTES = 16
"""The length of the digest, which replays compare, so it is no setting."""

_METADATA_BYTES_MAX = 4096
_ID_CHARACTERS_MAX = 80
"""Spark's file has some fifty bytes; another one may have been put there."""

_unread_said: set[tuple[int, Asking]] = set()
"""(process id, kind of write) of the warnings that a plan cannot be read."""


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
    the timeout is asked again with a later batch.
    """
    outcome = (
        ask(location, lambda files, folder: _digest(files, folder, query_id, batch), timeout_s)
        if location
        else Unread(asking.without_location)
    )
    if isinstance(outcome, str):
        return outcome
    if (os.getpid(), asking) not in _unread_said:
        _unread_said.add((os.getpid(), asking))
        log.warning(
            "The checkpoint%s of query %s cannot be read here: %s. So a replay of its last batch "
            "is known only by the record count, and other rows of the same count are NOT "
            "written. %s",
            f" {shown_location(location)!r}" if location else "",
            query_id,
            outcome.problem,
            asking.advice,
        )
    return ""


def _digest(files: FileSystem, folder: str, query_id: str, batch: int) -> str | Unread:
    owner = json.loads(content(files, f"{folder}/metadata")[:_METADATA_BYTES_MAX])["id"]
    if owner != query_id:
        return Unread(f"it belongs to query {str(owner)[:_ID_CHARACTERS_MAX]!r}")
    data = content(files, f"{folder}/offsets/{batch}")
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
