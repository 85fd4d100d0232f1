"""The manifest of a group's image: which files belong to it. Written twice, read as one.

An image at S holds everything that applying the entries up to S has come to: snapshots of the
machine, the stages that are open at S, and the records visible at S in history files. The log goes
on from there. Only files that the manifest names exist for a reader; others are left over from a
crash and are removed (`leftovers`).

The manifest has two copies with the same text, each replaced atomically, one after the other. A
crash in between leaves an older one, which its generation tells; a damaged one is written again
from the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

from raftlog.core.types import COUNT_MAX, FIRST_OFFSET, LogIndex, Offset, Term
from raftlog.errors import CorruptFile, FormatUnsupported
from raftlog.image.history_digest import HISTORY_DIGEST_BYTES, digest_sum
from raftlog.image.limits import (
    FILE_BYTES_MIN,
    RECEIVED_FILES_MAX,
    RECEIVED_MANIFEST_BYTES_MAX,
    RECEIVED_SNAPSHOT_BYTES_MAX,
)
from raftlog.state_hash import STATE_HASH_FIRST
from raftlog.storage.checked_file import TEXT, read_checked, write_checked
from raftlog.storage.contract import FileSystem
from raftlog.storage.prefix import NO_BASE, Base

MANIFEST_COPIES = ("image.1", "image.2")
"""In the order in which they are written."""

SMALL_FILE_BYTES = 16 * 1024 * 1024
"""A history file whose records had fewer bytes in the log is written again together with the next
records. The same on every replica, or their row groups would differ. A record is written about
eight times on its way into a file of 16 MiB if a snapshot point comes every MiB, and compressed to
a sixth or so."""

SNAPSHOT_PREFIX = "snapshot-"
STAGES_PREFIX = "stages-"
HISTORY_PREFIX = "history-"
_PROBLEM_SHOWN_MAX = 300
_PREFIXES = (SNAPSHOT_PREFIX, STAGES_PREFIX, HISTORY_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInfo:
    """A snapshot of the machine after applying `index`."""

    index: LogIndex
    term: Term
    """The term of entry `index`."""
    mark: Offset
    """The high-water mark of a topic's machine there; 0 for the controller."""
    state_hash: bytes
    """The replica's state hash there: the chain goes on from it."""

    @property
    def name(self) -> str:
        return f"{SNAPSHOT_PREFIX}{self.index:020}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesInfo:
    """Entries in [first, last] that were open stages at snapshot point `last`."""

    first: LogIndex
    last: LogIndex
    byte_count: int
    chain: int
    """The chain of the file's frames: together with `byte_count` it says where the file ends."""

    @property
    def name(self) -> str:
        return f"{STAGES_PREFIX}{self.last:020}-{self.chain:08x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryInfo:
    """Records [start, end) of the topic in one history file."""

    start: Offset
    end: Offset
    record_bytes: int
    """Body bytes of the records as they lay in the log: what retention counts."""
    byte_count: int
    file_id: int
    """The random id in the file's header."""
    footer_crc: int
    digest: bytes
    """Equal on two replicas if their records are (`raftlog.image.history_digest`)."""

    @property
    def name(self) -> str:
        return history_name(self.start, self.file_id)


def history_name(start: Offset, file_id: int) -> str:
    """The name of the history file whose first record is `start`.

    No other file of any node has it: one that comes from another node replaces nothing here.
    """
    return f"{HISTORY_PREFIX}{start:020}-{file_id:016x}"


FileInfo = SnapshotInfo | StagesInfo | HistoryInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What belongs to a group besides its log. A new one replaces it as a whole."""

    generation: int = 0
    """Counts the manifests of this replica; 0: there is none yet."""
    base: Base = NO_BASE
    """Of the log: it begins directly after this."""
    snapshots: tuple[SnapshotInfo, ...] = ()
    """The newest last."""
    stages: tuple[StagesInfo, ...] = ()
    history: tuple[HistoryInfo, ...] = ()
    """In offset order, without a gap, up to `history_end`."""
    fresh_log: int = 0
    """The id of the segment with which the log began afresh at this image, which another node gave
    (`raftlog.storage.fresh`); 0: the log went on."""
    agreed_mark: Offset = FIRST_OFFSET
    """Records in history below it were found to be what a majority has, and no compaction has
    written them again since."""

    def __post_init__(self) -> None:
        assert bool(self.snapshots) == (self.generation > 0), "an image is at a snapshot"
        assert all(a.index < b.index for a, b in pairwise(self.snapshots)), "snapshots rise"
        assert all(a.last < b.first for a, b in pairwise(self.stages)), "stages rise"
        assert all(a.end == b.start for a, b in pairwise(self.history)), "history has no gap"
        assert all(each.start < each.end for each in self.history), "no history file is empty"
        assert not self.history or self.history[-1].end == self.history_end, "history ends at S"
        assert not self.snapshots or self.base[0] <= self.snapshots[-1].index, "no gap to S"
        assert not self.stages or self.stages[-1].last <= self.index, "stages are open at S"

    @property
    def index(self) -> LogIndex:
        """S, the newest snapshot point; 0 before the first."""
        return self.snapshots[-1].index if self.snapshots else LogIndex(0)

    @property
    def history_end(self) -> Offset:
        """The first offset that is not in history."""
        return self.snapshots[-1].mark if self.snapshots else Offset(0)

    @property
    def settled(self) -> Offset:
        """Records below it are in files that no later compaction writes again."""
        if self.history and self.history[-1].record_bytes < SMALL_FILE_BYTES:
            return self.history[-1].start
        return self.history_end

    @property
    def history_start(self) -> Offset:
        """The first offset in history; `history_end` if there is none."""
        return self.history[0].start if self.history else self.history_end

    @property
    def history_bytes(self) -> int:
        """The size of all history files."""
        return sum(each.byte_count for each in self.history)

    @property
    def history_digest(self) -> bytes:
        """Of all records in history."""
        return digest_sum([each.digest for each in self.history])

    def names(self) -> frozenset[str]:
        """The names of all its files."""
        return frozenset(each.name for each in self.files())

    def files(self) -> Iterator[FileInfo]:
        """All its files."""
        yield from self.snapshots
        yield from self.stages
        yield from self.history


NO_IMAGE = Image()


class Found(NamedTuple):
    """What `read_image` found."""

    image: Image
    damaged: CorruptFile | FormatUnsupported | None
    """Why one copy of the manifest cannot be read. Write the image again."""


def write_image(fs: FileSystem, folder: str, image: Image) -> None:
    """Make `image` the group's. Its files must be durable. Durable when this returns.

    Raises `DiskFull` (then either the former image or this one holds; call it again) and
    `DiskFailed`.
    """
    text = [encode_image(image)]
    for name in MANIFEST_COPIES:
        write_checked(fs, f"{folder}/{name}", TEXT, text)


def read_image(fs: FileSystem, folder: str) -> Found:
    """The group's image; `NO_IMAGE` if it never had one.

    Raises `CorruptFile` if neither copy can be read, `FormatUnsupported`.
    """
    first, second = (f"{folder}/{name}" for name in MANIFEST_COPIES)
    images: list[Image] = []
    damaged: CorruptFile | FormatUnsupported | None = None
    if not fs.exists(first) and not fs.exists(second):
        return Found(NO_IMAGE, None)
    for path in (first, second):
        if path == second and images and images[0].generation == 1 and not fs.exists(second):
            break  # a crash came between the copies of the first image
        try:
            images.append(decode_image(read_checked(fs, path, TEXT), fs.location(path)))
        except (CorruptFile, FormatUnsupported) as error:
            damaged = damaged or error  # the first: the second may never have been written
    if not images:
        assert damaged is not None, "each copy was read or is damaged"
        raise damaged
    return Found(max(images, key=lambda image: image.generation), damaged)


def leftovers(fs: FileSystem, folder: str, image: Image) -> list[str]:
    """The paths of image files that a crash left and no manifest names.

    They may be removed only when the manifest was read whole.
    """
    kept = image.names()
    return [
        f"{folder}/{name}"
        for name in fs.list(folder)
        if name.startswith(_PREFIXES) and name not in kept
    ]


def remove_earlier_tries(
    fs: FileSystem, folder: str, prefix: str, kept: frozenset[str] = frozenset()
) -> None:
    """Remove files of this name that a compaction made which could not end, for want of room, say.

    Their names differ in an id, so another try does not replace them. Those in `kept` stay.
    """
    for name in fs.list(folder):
        if name.startswith(prefix) and name not in kept:
            fs.remove(f"{folder}/{name}")


def kept_snapshots(snapshots: Sequence[SnapshotInfo]) -> tuple[SnapshotInfo, ...]:
    """The snapshots to keep: the two newest, and of the older ones ever fewer.

    Of those whose distance from the newest has equally many bits the oldest stays, so their number
    grows with the logarithm of the log.
    """
    newest = snapshots[-1].index
    oldest: dict[int, SnapshotInfo] = {}
    for each in snapshots[:-2]:
        oldest.setdefault((newest - each.index).bit_length(), each)
    return (*oldest.values(), *snapshots[-2:])


# ---------------------------------------------------------------- text


def encode_image(image: Image) -> bytes:
    """The image as the text of a manifest."""
    table = {
        "generation": image.generation,
        "base": image.base,
        "snapshots": [
            [each.index, each.term, each.mark, each.state_hash.hex()] for each in image.snapshots
        ],
        "stages": [
            [each.first, each.last, each.byte_count, each.chain]
            for each in image.stages
        ],
        "history": [
            [each.start, each.end, each.record_bytes, each.byte_count, each.file_id,
             each.footer_crc, each.digest.hex()]
            for each in image.history
        ],
        "fresh_log": image.fresh_log,
        "agreed_mark": image.agreed_mark,
    }  # fmt: skip
    return json.dumps(table, separators=(",", ":")).encode()


_Random = Annotated[int, Field(ge=0, lt=1 << 64)]
_Number = Annotated[int, Field(ge=0, lt=1 << 62)]
"""Indexes, terms, offsets and sizes: counting on from one still fits 64 bits."""
_Digest = Annotated[str, Field(max_length=128)]


_Row = TypeVar("_Row")
_Rows = Annotated[list[_Row], FailFast()]
"""The first bad row ends it: an error for each of millions would fill the memory."""


class _Text(BaseModel):
    """What `encode_image` writes. Another node may send any bytes in its place."""

    model_config = ConfigDict(strict=True, extra="forbid")

    generation: _Number
    base: tuple[_Number, _Number]
    snapshots: _Rows[tuple[_Number, _Number, _Number, _Digest]]
    stages: _Rows[tuple[_Number, _Number, _Number, _Random]]
    history: _Rows[tuple[_Number, _Number, _Number, _Number, _Random, _Random, _Digest]]
    fresh_log: _Random
    agreed_mark: _Number


def decode_image(text: bytes, location: str) -> Image:
    """The image that `encode_image` described. Raises `CorruptFile`, which names `location`."""
    try:
        found = _Text.model_validate_json(text)
        index, term = found.base
        return Image(
            generation=found.generation,
            base=(LogIndex(index), Term(term)),
            snapshots=tuple(_snapshots(found.snapshots)),
            stages=tuple(_stages(found.stages)),
            history=tuple(_history(found.history)),
            fresh_log=found.fresh_log,
            agreed_mark=Offset(found.agreed_mark),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        what = f"{first['msg']} at {first['loc']}"
    except (ValueError, AssertionError) as error:
        what = repr(error)
    problem = f"it is not the manifest of an image: {what[:_PROBLEM_SHOWN_MAX]}"
    raise CorruptFile(file=location, position=0, problem=problem)


def received_image(text: bytes, snapshot_bytes: int, location: str, *, of_topic: bool) -> Image:
    """Another node's image, which has a snapshot: its newest is a file of `snapshot_bytes`. That of
    a group that is no topic's has nothing else.

    Raises `CorruptFile`, which names `location`.
    """
    if len(text) > RECEIVED_MANIFEST_BYTES_MAX:
        problem = f"it has {len(text)} bytes; {RECEIVED_MANIFEST_BYTES_MAX} are allowed"
        raise CorruptFile(file=location, position=0, problem=problem)
    most = {b"[": RECEIVED_FILES_MAX, b",": 7 * RECEIVED_FILES_MAX, b":": len(_Text.model_fields)}
    for mark, count_max in most.items():  # values take far more memory than their text
        if text.count(mark) > count_max:
            problem = f"it has more than {count_max} times {mark.decode()!r}"
            raise CorruptFile(file=location, position=0, problem=problem)
    image = decode_image(text, location)
    files: list[StagesInfo | HistoryInfo] = [*image.stages, *image.history]
    record_bytes = sum(each.record_bytes for each in image.history)
    if not image.snapshots:
        problem = "it has no snapshot"
    elif snapshot_bytes > RECEIVED_SNAPSHOT_BYTES_MAX:
        limit = RECEIVED_SNAPSHOT_BYTES_MAX
        problem = f"its snapshot has {snapshot_bytes} bytes; {limit} are allowed"
    elif not of_topic and (files or image.history_end):
        problem = "its group is no topic's, and it has records or stages"
    elif any(each.byte_count < FILE_BYTES_MIN for each in files):
        problem = f"one of its files has fewer than {FILE_BYTES_MIN} bytes"
    elif max(image.index, record_bytes) > COUNT_MAX:
        problem = f"it is at entry {image.index}, with {record_bytes} bytes of records"
    else:
        return image
    raise CorruptFile(file=location, position=0, problem=problem)


def _snapshots(rows: Iterable[Any]) -> Iterable[SnapshotInfo]:
    for index, term, mark, state_hash in rows:
        yield SnapshotInfo(
            index=index,
            term=term,
            mark=mark,
            state_hash=_digest(state_hash, len(STATE_HASH_FIRST)),
        )


def _stages(rows: Iterable[Any]) -> Iterable[StagesInfo]:
    for first, last, byte_count, chain in rows:
        yield StagesInfo(first=first, last=last, byte_count=byte_count, chain=chain)


def _history(rows: Iterable[Any]) -> Iterable[HistoryInfo]:
    for start, end, record_bytes, byte_count, file_id, footer_crc, digest in rows:
        yield HistoryInfo(
            start=start,
            end=end,
            record_bytes=record_bytes,
            byte_count=byte_count,
            file_id=file_id,
            footer_crc=footer_crc,
            digest=_digest(digest, HISTORY_DIGEST_BYTES),
        )


def _digest(text: str, length: int) -> bytes:
    found = bytes.fromhex(text)
    if len(found) != length:
        raise ValueError(f"a digest has {len(found)} bytes, and not {length}")
    return found
