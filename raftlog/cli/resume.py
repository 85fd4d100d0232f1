"""`raftlog produce --resume`: the rows of a file in a topic exactly once, however often it is run.

The file is a writer of the topic, named after its path. Each part of it is an epoch, and the
epoch's plan says where the part ends. So rows and position become visible by the same entry of the
log, and the writer row tells the next run where to go on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from raftlog.cli.row_files import Part
from raftlog.cli.text_blocks import line_count
from raftlog.core.types import Offset
from raftlog.errors import EpochContentMismatch, InvalidOption, WriterNotFound
from raftlog.machines.commands import EpochKey
from raftlog.machines.limits import TEXT_CHARACTERS_MAX

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo

_READ_BYTES = 1024 * 1024
"""A file is digested in pieces of this size."""

_FENCINGS_MAX = 3
"""So often another run's commit may come in between before this one gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a file is in a topic."""

    end: int = 0
    """As `Part.end`."""
    records: int = 0
    digest: str = ""
    """Of the file up to there; of the whole file if that is Parquet."""

    def plan(self) -> str:
        """The plan of the epoch that ends here."""
        return json.dumps([self.end, self.records, self.digest])

    @classmethod
    def of_plan(cls, plan: str) -> Place | None:
        """The place of that epoch; None if the text is none of ours: who may write to the topic may
        have begun the writer."""
        try:
            end, records, digest = json.loads(plan)
        except (ValueError, TypeError, RecursionError):
            return None
        numbers = [each for each in (end, records) if type(each) is int and 0 <= each < 2**63]
        if len(numbers) < 2 or not isinstance(digest, str):
            return None
        return cls(end=end, records=records, digest=digest)


class FileWriter:
    """Writes the parts of one file into a topic, each as an epoch. One thread at a time."""

    def __init__(
        self, client: LogClient, topic: TopicInfo, path: Path, source: BinaryIO, *, whole: bool
    ) -> None:
        self._client, self._topic = client, topic
        self._source = source
        self._size = path.stat().st_size if whole else None
        """The size of a file that counts as a whole; None: what comes after a part may change."""
        self._prefix = _Prefix(source)
        self.writer = f"produce:{path.resolve()}"
        if len(self.writer) > TEXT_CHARACTERS_MAX:
            raise InvalidOption(
                option="FILE",
                problem=f"has a path of more than {TEXT_CHARACTERS_MAX} characters, and --resume "
                "remembers a file by its path",
                advice="Move it to a folder with a shorter path.",
            )
        self._run = uuid.uuid4().hex
        self._epoch = 0
        self.place = Place()
        """What is in the topic for certain."""

    @property
    def lines(self) -> int:
        """The line ends of the file up to `place`."""
        return self._prefix.lines

    def begin(self) -> Place:
        """Fence every earlier run of this file, and find where it got to.

        An empty epoch does it: from then on nothing of the earlier runs can become visible. Raises
        `InvalidOption` if the file is not the one that they wrote.
        """
        for attempt in range(_FENCINGS_MAX):
            self._find()
            self._check_unchanged()
            try:
                self._client.commit_epoch(self._topic, self._key(), [], plan=self.place.plan())
                break
            except EpochContentMismatch:  # the run before got one more part in, meanwhile
                if attempt == _FENCINGS_MAX - 1:
                    raise
        self._epoch += 1
        return self.place

    def append(self, part: Part) -> Offset:
        """Make a part visible, together with the position after it. Returns the end offset."""
        key = self._key()
        attempt = self._client.attempt(self._topic, key)
        try:
            attempt.write(part.batch)
            staged = attempt.finish()
        finally:
            attempt.close()
        place = Place(
            end=part.end,
            records=self.place.records + part.batch.num_rows,
            digest=self._digest(part.end),
        )
        committed = self._client.commit_epoch(
            self._topic, key, [staged] if staged else [], plan=place.plan()
        )
        self._epoch, self.place = self._epoch + 1, place
        return committed.end

    def _key(self) -> EpochKey:
        return EpochKey(
            writer=self.writer,
            query_id=self.writer,
            run=self._run,
            epoch=self._epoch,
            streaming=True,
        )

    def _find(self) -> None:
        try:
            row = self._client.writers.describe(self._topic, self.writer)
        except WriterNotFound:
            return
        if row.last_epoch >= 0:
            place = Place.of_plan(row.plan)
            if place is None:
                raise InvalidOption(
                    option="--resume",
                    problem=f"cannot continue: writer {self.writer!r} of {self._topic.name}, "
                    "which is to remember the file's place, has an epoch of something else",
                    advice="Let the topic forget it: `raftlog writers remove "
                    f"{shlex.join([self._topic.name, self.writer])}`. The file is then appended "
                    "from its begin.",
                )
            self.place = place
            self._epoch = row.last_epoch + 1

    def _check_unchanged(self) -> None:
        place = self.place
        if place.end and (self._digest(place.end) != place.digest or self._continues_a_line()):
            raise InvalidOption(
                option="--resume",
                problem=f"cannot continue: the file was changed before the place up to which its "
                f"{place.records} records are in {self._topic.name}",
                advice="Restore it; what comes after that place may be changed. If it is another "
                "file under the same path, let the topic forget the former: `raftlog writers "
                f"remove {shlex.join([self._topic.name, self.writer])}`. It is then appended from "
                "its begin.",
            )

    def _continues_a_line(self) -> bool:
        """Whether the place is no longer the end of a line."""
        if self._size is not None:
            return False
        around = os.pread(self._source.fileno(), 2, self.place.end - 1)
        return len(around) == 2 and not set(around) & set(b"\r\n")

    def _digest(self, end: int) -> str:
        return self._prefix.digest(end if self._size is None else self._size)


class _Prefix:
    """What a file has up to a position that only grows."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._at = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines = 0

    def digest(self, end: int) -> str:
        """A digest of the file's bytes before `end`; shorter files have another."""
        # Not by reading on: the rows' reader has its own place in the file.
        while data := os.pread(self._source.fileno(), min(_READ_BYTES, end - self._at), self._at):
            self._hash.update(data)
            self._at += len(data)
            self.lines += line_count(data)
        return self._hash.hexdigest()
