"""What can be found of a checkpoint and the log, and the exit code that it means. Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from raftlog.errors import ExitCode


class Kind(StrEnum):
    """What a finding is. Scripts may rely on the values."""

    SAFE = "safe"
    REPLAY_IS_NO_OP = "replay-is-no-op"
    NOT_BEGUN = "not-begun"
    NOT_JUDGED = "not-judged"
    NO_CHECKPOINT = "no-checkpoint"
    DAMAGED = "damaged"
    OLDER_COPY = "older-copy"
    OTHER_PLAN = "other-plan"
    LOG_BEHIND = "log-behind"
    CHECKPOINT_RESET = "checkpoint-reset"
    UNKNOWN_WRITER = "unknown-writer"
    ANOTHER_RUN = "another-run"
    OTHER_CLUSTER = "other-cluster"
    TOPIC_GONE = "topic-gone"
    TOPIC_RECREATED = "topic-recreated"
    TRIMMED = "trimmed"
    TOPIC_SHORTER = "topic-shorter"


_EXIT_CODES = {
    Kind.SAFE: ExitCode.OK,
    Kind.REPLAY_IS_NO_OP: ExitCode.OK,
    Kind.NOT_BEGUN: ExitCode.OK,
    Kind.NOT_JUDGED: ExitCode.FAILED,
    Kind.NO_CHECKPOINT: ExitCode.NOT_FOUND,
    Kind.OLDER_COPY: ExitCode.REFUSED,
    Kind.OTHER_PLAN: ExitCode.REFUSED,
    Kind.CHECKPOINT_RESET: ExitCode.REFUSED,
    Kind.UNKNOWN_WRITER: ExitCode.REFUSED,
    Kind.ANOTHER_RUN: ExitCode.REFUSED,
    Kind.OTHER_CLUSTER: ExitCode.REFUSED,
    Kind.DAMAGED: ExitCode.DATA_LOSS,
    Kind.LOG_BEHIND: ExitCode.DATA_LOSS,
    Kind.TOPIC_GONE: ExitCode.DATA_LOSS,
    Kind.TOPIC_RECREATED: ExitCode.DATA_LOSS,
    Kind.TRIMMED: ExitCode.DATA_LOSS,
    Kind.TOPIC_SHORTER: ExitCode.DATA_LOSS,
}

_WORST_FIRST = (
    ExitCode.DATA_LOSS,
    ExitCode.REFUSED,
    ExitCode.NOT_FOUND,
    ExitCode.OK,
    ExitCode.FAILED,
)
"""Of several findings the first of these decides. What is not judged counts only by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that holds for a checkpoint and the log."""

    kind: Kind
    about: str
    """The file, source or writer."""
    cause: str
    remedy: str = ""
    commands: tuple[str, ...] = ()
    """What to run, or which options to give the query, for the way out that the remedy names."""
    error: str = ""
    """The name of the error that the query would end with."""

    @property
    def harmless(self) -> bool:
        """Whether it does not keep the query from being started."""
        return _EXIT_CODES[self.kind] in (ExitCode.OK, ExitCode.FAILED)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """OK if the query can be started; else what the worst of the findings means."""
    codes = {_EXIT_CODES[each.kind] for each in findings}
    return next(code for code in _WORST_FIRST if code in codes)
