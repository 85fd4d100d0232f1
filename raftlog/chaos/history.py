"""What was done to a cluster and what came back: the record that a verdict is based on.

A record carries one number that tells where it came from: its source and its place in it. Every
producer, every epoch's losing attempt is a source of its own. Times are of this process's monotonic
clock, in seconds: everything that is compared was seen by this one process.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

SOURCE_BITS = 32
"""How many low bits of a record's number count within its source."""


def record_number(source: int, place: int) -> int:
    """The number of the record at `place`, from 0, of `source`."""
    return source << SOURCE_BITS | place


def source_and_place(number: int) -> tuple[int, int]:
    """The inverse of `record_number`."""
    return number >> SOURCE_BITS, number & ((1 << SOURCE_BITS) - 1)


class Fate(StrEnum):
    """What a writer was told of its write."""

    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    """No answer in time: it may be in the log or not."""
    NEVER = "never"
    """Staged and given up: no reader may ever see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records [first, first + count) of a source, in one append or one epoch.

    If acknowledged they lie, in order, within the offsets [start, end). With `whole` they are
    visible all or none, side by side.
    """

    topic: str
    source: int
    first: int
    count: int
    begin_s: float
    end_s: float
    fate: Fate
    start: int = 0
    end: int = 0
    whole: bool = False
    patient: bool = False
    """Its writer waited longer than any fault lasts: it must have been acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRead:
    """A linearizable read of a topic's high-water mark that was answered, by whom: `asked`."""

    topic: str
    asked: str
    begin_s: float
    end_s: float
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Records from `start` on as one replica gave them below `mark`."""

    topic: str
    node: int
    mark: int
    start: int
    numbers: array[int]
    """Of 8 bytes each: `array("q")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica's state when all faults were over."""

    node: int
    applied_index: int
    state_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One fault, or several at once, from its begin to when all nodes had caught up again.

    `kinds` names its faults; `text` says what was hit. `elections` is the most terms in which one
    group got a leader meanwhile.
    """

    number: int
    kinds: tuple[str, ...]
    text: str
    begin_s: float
    end_s: float
    healed_s: float
    elections: int = 0


@dataclass(slots=True, kw_only=True)
class History:
    """Everything of one run. Adding is thread-safe; looking is for afterwards."""

    began_s: float
    ended_s: float = 0.0
    writes: list[Write] = field(default_factory=list)
    marks: list[MarkRead] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    logs: dict[str, dict[int, list[Read]]] = field(default_factory=dict)
    """By topic and node: the whole log, as each replica gave it at the end."""
    replicas: dict[str, list[Replica]] = field(default_factory=dict)
    """By topic, at the end."""
    troubles: list[str] = field(default_factory=list)
    """What the harness met that no fault explains: a node that ended, one that did not heal."""
    _sources: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new_source(self) -> int:
        """A source's number, never given before."""
        with self._lock:
            self._sources += 1
            return self._sources

    def save(self, file: Path) -> None:
        """One JSON object a line; the order within each kind is that in which it came."""
        with file.open("w") as out:
            for row in self._rows():
                out.write(json.dumps(row, default=list) + "\n")

    def _rows(self) -> Iterator[dict[str, Any]]:
        yield {"kind": "run", "began_s": self.began_s, "ended_s": self.ended_s}
        for kind, values in (
            ("episode", self.episodes),
            ("write", self.writes),
            ("mark", self.marks),
            ("read", self.reads),
        ):
            for value in values:
                yield {"kind": kind, **asdict(value)}
        for topic, logs in self.logs.items():
            for reads in logs.values():
                yield from ({"kind": "log", **asdict(read)} for read in reads)
            for replica in self.replicas.get(topic, []):
                yield {"kind": "replica", "topic": topic, **asdict(replica)}
        yield from ({"kind": "trouble", "text": text} for text in self.troubles)
