"""What the files of a query's checkpoint say: its query, its last batches, and what is damaged.

Spark keeps a folder of small files, which `pyarrow.fs` reads wherever the folder is:

    metadata      {"id": "<query id>"}
    offsets/N     planned: "v1", a line of settings, a line for each source; "-" if it has none
    commits/N     done: "v1", a line
    .NAME.crc     beside a local file: Hadoop's checksums of it, without which Spark reads it too

Spark starts from the highest of `offsets` and the one before it. A file that cannot be read is
damage that has a name; it is never taken for one that is missing, and neither for a query that has
not begun.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raftlog.errors import DataLoss, InvalidOption
from raftlog.redaction import shown_location, without_secrets
from raftlog.spark import offsets
from raftlog.spark.checkpoint_files import Unreadable, content, is_batch, opened
from raftlog.spark.plan import DIGEST_BYTES

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem, FileType

_VERSIONS = ("v1", "v2")
"""Of `offsets/N`. In the second, a line begins with the name of its source and a colon."""
_CRC_MAGIC = b"crc\0"
_CRC_HEAD_BYTES, _CRC_BYTES = 8, 4
_PARTS_MAX = 500_000
"""Lines, commas and brackets of a file: a few bytes can become an object of a hundred. The offsets
of 100,000 topics have fewer."""
_SOURCES_MAX = 1_000
"""Each is compared with those of the batch before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file of the checkpoint that is not as Spark writes it."""

    file: str
    """Below the checkpoint's folder."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The position of one of a query's sources, as JSON that Spark does not look into."""

    name: str
    """Its number in the query, from 0, or the name that Spark gave it."""
    text: str
    ours: Mapping[str, Any] | None
    """The offset of a raftlog source; None for another kind, and for one without a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The end of a batch, as `offsets/N` has it."""

    batch: int
    plan: str
    """The digest of the file, by which the log knows a replay (`raftlog.spark.plan`)."""
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as found. Nothing in it is certain while `damages` is not empty."""

    location: str
    """Without the secrets of a URI."""
    exists: bool
    """Whether the folder has any of a checkpoint's files."""
    query_id: str
    """"": its `metadata` is missing or damaged."""
    last: Planned | None = None
    """The highest of `offsets`; None if there is none, or it is damaged."""
    before: Planned | None = None
    """The one before it."""
    last_planned: int = -1
    """The number of the highest of `offsets`, also of a damaged one; -1: there is none."""
    last_done: int = -1
    """The number of the highest of `commits`, likewise."""
    damages: tuple[Damage, ...] = ()
    checkpoints_below: tuple[str, ...] = ()
    """Folders in this one that have a `metadata`, if this one is no checkpoint."""

    @property
    def replays(self) -> bool:
        """Whether a start repeats the batch that was planned last."""
        return self.last_planned > self.last_done

    @property
    def next_batch(self) -> int:
        """The batch that a start begins with: the last one again, or the one after it."""
        return self.last_planned if self.replays else self.last_planned + 1


def read_checkpoint(location: str) -> Checkpoint:
    """The checkpoint at a local path or a URI. Raises `InvalidOption` if nothing can be read there.

    A folder that does not exist, or is empty, is a checkpoint that does not exist.
    """
    import pyarrow as pa

    shown = shown_location(location)
    try:
        files, folder = opened(location)
        return _Reader(files, folder).checkpoint(shown)
    except (OSError, ValueError, pa.ArrowException) as error:
        problem = without_secrets(str(error), location)
        raise InvalidOption(
            option="CHECKPOINT",
            problem=f"is {shown!r}, which cannot be read: {problem}",
            advice="Give the folder of a query's checkpoint as Spark knows it: a local path, or "
            "with its scheme (file:, s3:, gs:, hdfs:).",
        ) from error


class _Reader:
    """Reads one checkpoint and notes what is damaged. Errors of the storage pass through."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._damages: list[Damage] = []
        self._listed: dict[str, dict[str, FileType]] = {}

    def checkpoint(self, location: str) -> Checkpoint:
        names = self._names("")
        planned, done = self._batches("offsets"), self._batches("commits")
        exists = "metadata" in names or bool(planned) or bool(done)
        if not exists:
            below = self._checkpoints_below(names)
            return Checkpoint(location=location, exists=False, query_id="", checkpoints_below=below)
        query_id = self._query_id(found="metadata" in names)
        last_planned, last_done = max(planned, default=-1), max(done, default=-1)
        last = self._planned(last_planned) if planned else None
        before = None
        if last_planned > 0 and last_planned - 1 not in planned:
            self._damage(f"offsets/{last_planned - 1}", "it is missing, and Spark needs it")
        elif last_planned > 0:
            before = self._planned(last_planned - 1)
        if last is not None and before is not None and len(last.sources) != len(before.sources):
            counts = (
                f"{len(last.sources)} sources, and offsets/{before.batch} {len(before.sources)}"
            )
            self._damage(f"offsets/{last.batch}", f"it has the positions of {counts}")
        if done:
            self._check_done(last_done, last_planned)
        return Checkpoint(
            location=location,
            exists=True,
            query_id=query_id,
            last=last,
            before=before,
            last_planned=last_planned,
            last_done=last_done,
            damages=tuple(self._damages),
        )

    def _damage(self, file: str, problem: str) -> None:
        self._damages.append(Damage(file=file, problem=problem))

    def _names(self, below: str) -> dict[str, FileType]:
        """What a folder of the checkpoint holds, and of which kind it is."""
        from pyarrow.fs import FileSelector

        if below not in self._listed:
            folder = f"{self._folder}/{below}".rstrip("/")
            found = self._files.get_file_info(FileSelector(folder, allow_not_found=True))
            self._listed[below] = {info.base_name: info.type for info in found}
        return self._listed[below]

    def _batches(self, folder: str) -> set[int]:
        """The numbers of a folder's files. Others are checksums, or were never finished."""
        from pyarrow.fs import FileType

        kinds = self._names(folder).items()
        return {int(name) for name, kind in kinds if is_batch(name) and kind != FileType.Directory}

    def _checkpoints_below(self, names: Mapping[str, FileType]) -> tuple[str, ...]:
        from pyarrow.fs import FileType

        folders = sorted(name for name, kind in names.items() if kind == FileType.Directory)
        paths = [f"{self._folder}/{name}/metadata" for name in folders]
        found = self._files.get_file_info(paths) if paths else []
        kinds = zip(folders, found, strict=True)
        return tuple(name for name, info in kinds if info.type == FileType.File)

    def _query_id(self, *, found: bool) -> str:
        if not found:
            self._damage("metadata", "it is missing, and batches are there")
            return ""
        try:
            value = _json(self._bytes("metadata").decode())
            query_id = value.get("id") if isinstance(value, dict) else None
            if not isinstance(query_id, str) or not query_id:
                raise Unreadable("it names no query")
            return query_id
        except (Unreadable, UnicodeDecodeError) as error:
            self._damage("metadata", _reason(error))
            return ""

    def _planned(self, batch: int) -> Planned | None:
        file = f"offsets/{batch}"
        try:
            data = self._bytes(file)
            plan = hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
            return Planned(batch=batch, plan=plan, sources=tuple(sources_of(data.decode())))
        except (Unreadable, UnicodeDecodeError) as error:
            self._damage(file, _reason(error))
            return None

    def _check_done(self, last_done: int, last_planned: int) -> None:
        file = f"commits/{last_done}"
        if last_done > last_planned:
            self._damage(f"offsets/{last_done}", f"it is missing, and {file} is there")
        try:
            version, *rest = self._bytes(file).decode().split("\n")
            if version not in _VERSIONS:
                raise Unreadable(f"it begins with {version[:20]!r} and not with v1")
            if not rest or not isinstance(_json(rest[0]), dict):
                raise Unreadable("it ends after its first line")
        except (Unreadable, UnicodeDecodeError) as error:
            self._damage(file, _reason(error))

    def _bytes(self, file: str) -> bytes:
        """A file's content, compared with its checksums if Hadoop wrote some."""
        data = self._content(file)
        if not data:
            raise Unreadable("it is empty")
        if sum(map(data.count, b"\n,[{")) > _PARTS_MAX:
            raise Unreadable(f"it has more than {_PARTS_MAX} lines, commas and brackets")
        parent, _, name = file.rpartition("/")
        checksums = f"{parent}/.{name}.crc" if parent else f".{name}.crc"
        if f".{name}.crc" in self._names(parent):
            check_hadoop_checksums(data, self._content(checksums), checksums)
        return data

    def _content(self, file: str) -> bytes:
        return content(self._files, f"{self._folder}/{file}")


def sources_of(text: str) -> Iterator[Source]:
    """The sources' positions in `offsets/N`. Raises `Unreadable`."""
    lines = text.removesuffix("\n").split("\n")  # what splitlines splits at was not counted
    if lines[0] not in _VERSIONS:
        raise Unreadable(f"it begins with {lines[0][:20]!r} and not with v1")
    if len(lines) < 3:
        raise Unreadable(f"it ends after {len(lines)} of at least 3 lines")
    if len(lines) > 2 + _SOURCES_MAX:
        raise Unreadable(f"it has the positions of more than {_SOURCES_MAX} sources")
    if not isinstance(_json(lines[1]), dict):
        raise Unreadable("its second line has no settings")
    for number, line in enumerate(lines[2:]):
        name, position = str(number), line
        if lines[0] == "v2":
            name, colon, position = line.partition(":")
            if not colon:
                raise Unreadable(f"its line {number + 3} names no source")
        yield Source(name=name, text=position, ours=_ours(position))


def check_hadoop_checksums(data: bytes, checksums: bytes, name: str) -> None:
    """Compare a file with the CRC-32s of its pieces. Raises `Unreadable`, as Spark fails."""
    piece_bytes = int.from_bytes(checksums[4:8], "big")
    if checksums[:4] != _CRC_MAGIC or not piece_bytes:
        return  # written by something else than Hadoop's local file system
    starts = range(0, len(data), piece_bytes)
    sums = range(_CRC_HEAD_BYTES, len(checksums), _CRC_BYTES)
    if len(starts) * _CRC_BYTES != len(checksums) - _CRC_HEAD_BYTES or any(
        zlib.crc32(data[start : start + piece_bytes]).to_bytes(_CRC_BYTES, "big")
        != checksums[at : at + _CRC_BYTES]
        for start, at in zip(starts, sums, strict=True)
    ):
        raise Unreadable(f"it does not fit its checksums in {name}: it was changed, or cut off")


def _ours(position: str) -> Mapping[str, Any] | None:
    """The offset if a raftlog source wrote it. Raises `Unreadable` for half a JSON object."""
    if position in ("", "-"):
        if not position:
            raise Unreadable("a source's line is empty")
        return None
    if not position.startswith("{"):
        return None  # a number, as the rate source's; other sources may write any text
    value = _json(position)
    topics = value.get("topics") if isinstance(value, dict) else None
    if not isinstance(topics, dict) or not isinstance(value.get("v"), int):
        return None
    try:
        offsets.parse(value)
    except DataLoss as error:
        # Of a later version: there are words for that where offsets are used.
        if value["v"] == offsets.VERSION:
            raise Unreadable(f"{position[:40]!r} is no offset of raftlog's") from error
    return value  # type: ignore[no-any-return]


def _json(text: str) -> Any:
    try:
        found = json.loads(text)
        if "\\u" in text:  # half a character that an escape stands for could not be sent or shown
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise Unreadable(f"{text[:40]!r} is too deeply nested") from None
    except ValueError as error:
        raise Unreadable(f"{text[:40]!r} is no whole JSON text: {error}") from error


def _reason(error: Exception) -> str:
    return "it is no UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
