"""What was done to a cluster and what it answered: the record on which a verdict is based.

A record carries one number that says where it came from: its origin, and its ordinal within the
origin. Every producer and every losing attempt of an epoch is an origin. Times are in seconds of
this process's monotonic clock: this one process saw everything that is compared.
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

ORIGIN_BITS = 32
"""How many low bits of a record's number hold its ordinal within its origin."""


def record_number(origin: int, ordinal: int) -> int:
    """The number of record `ordinal` of `origin`. Ordinals count from 0."""
    return origin << ORIGIN_BITS | ordinal


def origin_and_ordinal(number: int) -> tuple[int, int]:
    """The inverse of `record_number`."""
    return number >> ORIGIN_BITS, number & ((1 << ORIGIN_BITS) - 1)


class Fate(StrEnum):
    """What a writer was told about its write."""

    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    """No answer in time: it may be in the log or not."""
    NEVER = "never"
    """Staged and abandoned: no reader may ever see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records [first, first + count) of an origin, in one append or one epoch.

    If acknowledged, they are in order within the offsets [start, end). With `whole`, either all of
    them are visible, at consecutive offsets, or none.
    """

    topic: str
    origin: int
    first: int
    count: int
    begin_s: float
    end_s: float
    fate: Fate
    start: int = 0
    end: int = 0
    whole: bool = False
    patient: bool = False
    """Whether its writer waited longer than any fault lasts: then it must be acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRead:
    """A linearizable read of a topic's high-water mark that was answered. `asked` names the
    node."""

    topic: str
    asked: str
    begin_s: float
    end_s: float
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Records from offset `start` on, as one replica gave them below `mark`."""

    topic: str
    node: int
    mark: int
    start: int
    numbers: array[int]
    """The records' numbers, 8 bytes each: `array("q")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica's state after all faults had ended."""

    node: int
    applied_index: int
    state_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One or several faults, from their begin until all nodes had caught up again.

    `kinds` names the faults; `text` says what they hit. `elections` is the most terms in which any
    one group got a leader meanwhile.
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
    """Everything of one chaos test. Any thread may add to it; read it only afterwards."""

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
    """What no fault explains, such as a node that ended or did not heal."""
    _origins: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new_origin(self) -> int:
        """The number of a new origin."""
        with self._lock:
            self._origins += 1
            return self._origins

    def save(self, file: Path) -> None:
        """Write one JSON object per line, each kind in the order in which it was added."""
        with file.open("w") as out:
            for row in self._rows():
                out.write(json.dumps(row, default=list) + "\n")

    def _rows(self) -> Iterator[dict[str, Any]]:
        yield {"kind": "test", "began_s": self.began_s, "ended_s": self.ended_s}
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
