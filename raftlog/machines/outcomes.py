"""What applying a command came to: a closed set of frozen values, refusals included.

An outcome is part of the state hash, so every node must reach the same one. The server turns a
`Refused` into the error of the same name (`raftlog.errors`), so a refusal carries that error's
code and values.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import Offset
from raftlog.machines.commands import TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Records lie at [start, end); `repeated`: an earlier entry put them there (a resend).

    A resend so late that its offsets are no longer remembered has -1 for both.
    """

    start: Offset
    end: Offset
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The attempt's stage `number` is in the log; `repeated`: it was before."""

    number: int
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCommitted:
    """The epoch's records lie at [start, end).

    `replayed`: an earlier commit put as many records there, this one made nothing visible: a lost
    reply or a replay (then start and end are -1 unless it was the writer's last epoch). `kept`:
    its size differs and onReplayMismatch=keep let the first commit stand.
    """

    start: Offset
    end: Offset
    record_count: int
    replayed: bool
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAborted:
    """How many open attempts were dropped; 0 is no error."""

    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Whether there was still something to expire."""

    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredByAge:
    """How many open epochs, transient writers and producers an `Expire` ended."""

    epochs: int
    writers: int
    producers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRemoved:
    """Whether there was a row; `staged_bytes` is what it had open."""

    known: bool
    staged_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    known_before: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    topic: TopicInfo
    existed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    topic: TopicInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesApplied:
    """The version that the entries after this one are applied under: the higher of old and new."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A typed no-op. `values` are the error's own, sorted by name."""

    code: str
    values: tuple[tuple[str, str | int], ...]


TopicOutcome = (
    Appended
    | Staged
    | EpochCommitted
    | EpochAborted
    | Expired
    | ExpiredByAge
    | WriterRemoved
    | RulesApplied
    | Refused
)
ControllerOutcome = NodeRegistered | TopicCreated | TopicDeleted | RulesApplied | Refused
Outcome = TopicOutcome | ControllerOutcome


def refused(code: str, **values: str | int) -> Refused:
    """A refusal that becomes the error named `code` with these values."""
    return Refused(code=code, values=tuple(sorted(values.items())))
