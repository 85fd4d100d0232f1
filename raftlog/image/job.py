"""What a compaction is asked to do, and what it answers: values, and their JSON.

The work is done by `raftlog.compaction`, on files only, in a process of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from raftlog.core.types import GroupId, LogIndex, Term
from raftlog.errors import CorruptFile, RaftlogError, from_wire
from raftlog.image.manifest import Image, decode_image, encode_image

IDLE_EXIT = 75
"""The exit code of a process that ended because no job came for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """Make the image at snapshot point `index` out of `image` and the log.

    The entries up to `index` are committed and durable here. No other snapshot point lies between
    `image.index` and `index`, so every replica cuts its history at the same places.
    """

    folder: str
    """The group's folder in the data folder."""
    group: GroupId
    image: Image
    index: LogIndex
    term: Term
    state_hash: bytes
    """The replica's state hash at `index`, which the replay must reach as well."""
    urgent: bool
    """So much waits behind it that it does not rest, and takes its share of the processors."""
    kept: frozenset[str]
    """Files of former images that stay, because other nodes are fetching them."""


Reply = Image | RaftlogError
"""The new image, whose files are durable and which no manifest names yet; or why there is none."""


def encode_job(job: CompactionJob) -> bytes:
    """The job as one line of JSON."""
    table = {
        "folder": job.folder,
        "group": job.group,
        "image": encode_image(job.image).decode(),
        "index": job.index,
        "term": job.term,
        "state_hash": job.state_hash.hex(),
        "urgent": job.urgent,
        "kept": sorted(job.kept),
    }
    return json.dumps(table).encode() + b"\n"


def decode_job(line: bytes) -> CompactionJob:
    """The job that `encode_job` described."""
    table = json.loads(line)
    return CompactionJob(
        folder=table["folder"],
        group=table["group"],
        image=decode_image(table["image"].encode(), "a job"),
        index=table["index"],
        term=table["term"],
        state_hash=bytes.fromhex(table["state_hash"]),
        urgent=table["urgent"],
        kept=frozenset(table["kept"]),
    )


def encode_reply(reply: Reply) -> bytes:
    """The reply as one line of JSON."""
    if isinstance(reply, Image):
        table: dict[str, object] = {"image": encode_image(reply).decode()}
    else:
        code, values = reply.to_wire()
        table = {"error": code, "values": values}
    return json.dumps(table).encode() + b"\n"


def decode_reply(line: bytes) -> Reply:
    """The reply that `encode_reply` described; an error if the line is cut short."""
    try:
        table = json.loads(line)
    except ValueError:
        problem = f"the compaction process answered {line[:100]!r}"
        return CorruptFile(file="compaction", position=0, problem=problem)
    if "image" in table:
        return decode_image(table["image"].encode(), "a reply")
    return from_wire(table["error"], table["values"])
