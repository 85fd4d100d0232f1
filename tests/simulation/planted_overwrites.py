"""Bugs to plant in epochs that overwrite a topic; see `planted`."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.commands import CommitEpoch
from raftlog.machines.epoch_rules import Publish
from raftlog.machines.outcomes import EpochCommitted, Refused
from raftlog.machines.topic import TopicMachine
from tests.simulation.planting import replaced


def _publishing(publish: Any) -> Any:
    """`publish` in place of what a topic does with an epoch, the original as its first argument."""
    original = TopicMachine._publish

    def instead(
        self: TopicMachine, index: LogIndex, command: CommitEpoch, decision: Publish
    ) -> EpochCommitted:
        found: EpochCommitted = publish(original, self, index, command, decision)
        return found

    return replaced(TopicMachine, "_publish", instead)


def overwrite_keeps_what_was_there() -> Any:
    """An epoch that overwrites is appended."""
    return _publishing(
        lambda original, self, index, command, decision: original(
            self, index, replace(command, overwrite=False), decision
        )
    )


def overwrite_keeps_the_last_record() -> Any:
    """The log start moves to the last record before the epoch's first."""

    def publish(original: Any, self: TopicMachine, *rest: Any) -> Any:
        before = self.log_start_offset
        index, command, decision = rest
        end = self.high_water_mark
        outcome = original(self, index, replace(command, overwrite=False), decision)
        if command.overwrite:
            self._extents.trim(Offset(max(before, end - 1)))
        return outcome

    return _publishing(publish)


def overwrite_removes_its_own_records() -> Any:
    """The log start moves to the end of the epoch."""

    def publish(original: Any, self: TopicMachine, *rest: Any) -> Any:
        outcome = original(self, *rest)
        if rest[1].overwrite:
            self._extents.trim(outcome.end)
        return outcome

    return _publishing(publish)


def empty_overwrite_keeps_what_was_there() -> Any:
    """An epoch without records overwrites nothing."""

    def publish(original: Any, self: TopicMachine, index: Any, command: Any, decision: Any) -> Any:
        there = any(attempt.record_count for attempt in decision.attempts)
        overwrite = command.overwrite and there
        return original(self, index, replace(command, overwrite=overwrite), decision)

    return _publishing(publish)


def overwrite_outside_the_log() -> Any:
    """Whether an epoch overwrites depends on what else its process did."""
    calls = count()

    def publish(original: Any, self: TopicMachine, index: Any, command: Any, decision: Any) -> Any:
        overwrite = command.overwrite and next(calls) % 5 < 4
        return original(self, index, replace(command, overwrite=overwrite), decision)

    return _publishing(publish)


def _committing(overwrites_too: Any) -> Any:
    """An epoch overwrites as well if its outcome is such a one."""
    original = TopicMachine._commit_epoch

    def commit_epoch(self: TopicMachine, index: LogIndex, command: CommitEpoch) -> Any:
        outcome = original(self, index, command)
        if command.overwrite and overwrites_too(outcome):
            self._extents.trim(self.high_water_mark)
        return outcome

    return replaced(TopicMachine, "_commit_epoch", commit_epoch)


def replay_overwrites_again() -> Any:
    """An epoch that comes a second time removes what was written since."""
    return _committing(lambda found: isinstance(found, EpochCommitted) and found.replayed)


def refused_epoch_overwrites() -> Any:
    """An epoch that is refused has emptied the topic before."""
    return _committing(lambda found: isinstance(found, Refused))


OVERWRITE_BUGS = (
    overwrite_keeps_what_was_there,
    overwrite_keeps_the_last_record,
    overwrite_removes_its_own_records,
    empty_overwrite_keeps_what_was_there,
    overwrite_outside_the_log,
    replay_overwrites_again,
    refused_epoch_overwrites,
)
