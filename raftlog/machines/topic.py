"""The state machine of one topic: which records are visible, and at which offset.

Appends are visible once applied. Stages are not, until a CommitEpoch that names their attempts
makes all of them visible at once, in its order; then what was staged takes its offsets. Nothing
else takes one: offsets are dense from 0. A record's timestamp is that of the entry that made it
visible, and never falls along the offsets. No-ops, aborted and displaced work leave no trace here.

The rules of exactly once are in `raftlog.machines.epoch_rules`, of producers in
`raftlog.machines.producers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    CommitEpoch,
    ExpireEpoch,
    ExpireProducer,
    ExpireWriter,
    Rules,
    Stage,
    TopicCommand,
    TopicInfo,
)
from raftlog.machines.digest import StateDigest
from raftlog.machines.epoch_rules import Answer, Publish, Replay
from raftlog.machines.extents import Extent, ExtentIndex
from raftlog.machines.limits import TopicLimits
from raftlog.machines.outcomes import (
    Appended,
    EpochAborted,
    EpochCommitted,
    Expired,
    Refused,
    RulesApplied,
    Staged,
    TopicOutcome,
    refused,
)
from raftlog.machines.producers import ProducerTable
from raftlog.machines.rules import RULES_FIRST, known_rules, next_rules
from raftlog.machines.validity import (
    malformed,
    problem_of_abort,
    problem_of_append,
    problem_of_commit,
    problem_of_stage,
)
from raftlog.machines.writers import WriterTable


class TopicMachine:
    """One incarnation of one topic.

    `limits` decide what is applied: every replica passes the same, for ever (see
    `raftlog.machines.limits`). A refused command changes nothing.
    """

    def __init__(self, info: TopicInfo, limits: TopicLimits | None = None) -> None:
        self.info = info
        self.rules = known_rules(info.rules, group=info.group, index=LogIndex(0))
        """The version that the next entry is applied under."""
        limits = limits or TopicLimits()
        self._extents = ExtentIndex()
        self._producers = ProducerTable(topic=info.name, producers_max=limits.producers_max)
        self._writers = WriterTable(
            topic=info.name, schema_version=info.schema.version, limits=limits
        )
        self._last_index = LogIndex(0)
        self._last_timestamp_us = 0

    # ------------------------------------------------------------ commands

    def apply(self, index: LogIndex, command: TopicCommand) -> TopicOutcome:
        """Apply the command of entry `index`, which is above every one before it."""
        assert index > self._last_index, f"entry {index} after entry {self._last_index}"
        mark = self._extents.high_water_mark
        outcome = self._apply(index, command)
        assert self._extents.high_water_mark >= mark, "the high-water mark never retreats"
        self._last_index = index
        return outcome

    def _apply(self, index: LogIndex, command: TopicCommand) -> TopicOutcome:
        match command:
            case Append():
                return self._append(index, command)
            case Stage():
                return self._stage(index, command)
            case CommitEpoch():
                return self._commit_epoch(index, command)
            case AbortEpoch():
                return self._abort_epoch(command)
            case ExpireEpoch():
                return Expired(done=self._writers.expire_epoch(command))
            case ExpireProducer():
                done = self._producers.expire(command.producer, command.next_sequence)
                return Expired(done=done)
            case ExpireWriter():
                return Expired(done=self._writers.expire_writer(command))
            case Rules():
                self.rules = next_rules(
                    self.rules, command.version, group=self.info.group, index=index
                )
                return RulesApplied(version=self.rules)
            case _:
                assert_never(command)

    def _append(self, index: LogIndex, command: Append) -> Appended | Refused:
        problem = problem_of_append(command)
        if problem is not None:
            return malformed("Append", problem)
        batch = command.batch
        known = self._producers.judge(command.producer, command.sequence, batch.crc)
        if known is not None:
            return known
        latest = self.info.schema.version
        if not 1 <= batch.schema_version <= latest:
            return refused("UnknownSchemaVersion", version=batch.schema_version, latest=latest)
        start = self._extents.high_water_mark
        self._extents.append(
            count=batch.record_count,
            index=index,
            timestamp_us=self._time(command.timestamp_us),
            body_bytes=batch.body_bytes,
        )
        end = self._extents.high_water_mark
        self._producers.record(command.producer, command.sequence, start, end, batch.crc)
        return Appended(start=start, end=end, repeated=False)

    def _stage(self, index: LogIndex, command: Stage) -> Staged | Refused:
        problem = problem_of_stage(command, self.rules)
        if problem is not None:
            return malformed("Stage", problem)
        return self._writers.stage(index, command, self.rules)

    def _commit_epoch(self, index: LogIndex, command: CommitEpoch) -> EpochCommitted | Refused:
        problem = problem_of_commit(command, self.rules)
        if problem is not None:
            return malformed("CommitEpoch", problem)
        verdict = self._writers.judge_commit(command, self.rules)
        match verdict:
            case Refused():
                return verdict
            case Answer():
                return verdict.outcome
            case Replay():
                self._writers.replayed(index, command, verdict, self.rules)
                return verdict.outcome
            case Publish():
                return self._publish(index, command, verdict)
            case _:
                assert_never(verdict)

    def _publish(self, index: LogIndex, command: CommitEpoch, verdict: Publish) -> EpochCommitted:
        """Make the attempts visible, in the command's order, each in the order of its stages."""
        start = self._extents.high_water_mark
        timestamp_us = self._time(command.timestamp_us)
        for attempt in verdict.attempts:
            for entry in attempt.entries():
                self._extents.append(
                    count=entry.record_count,
                    index=entry.index,
                    timestamp_us=timestamp_us,
                    body_bytes=entry.body_bytes,
                    epoch=command.key.epoch,
                    writer=command.key.writer,
                )
        end = self._extents.high_water_mark
        self._writers.committed(index, command, verdict, start, end, self.rules)
        return EpochCommitted(
            start=start, end=end, record_count=end - start, replayed=False, kept=False
        )

    def _abort_epoch(self, command: AbortEpoch) -> EpochAborted | Refused:
        problem = problem_of_abort(command)
        if problem is not None:
            return malformed("AbortEpoch", problem)
        return EpochAborted(attempts=self._writers.abort_epoch(command))

    def _time(self, timestamp_us: int) -> int:
        """The leader's clock, kept from falling behind an earlier record's."""
        self._last_timestamp_us = max(self._last_timestamp_us, timestamp_us)
        return self._last_timestamp_us

    # ------------------------------------------------------------ queries

    @property
    def high_water_mark(self) -> Offset:
        """The first offset that is not readable yet."""
        return self._extents.high_water_mark

    @property
    def log_start_offset(self) -> Offset:
        """The first offset still kept."""
        return self._extents.log_start_offset

    @property
    def record_bytes(self) -> int:
        """Body bytes of the records at [log_start_offset, high_water_mark)."""
        return self._extents.record_bytes

    @property
    def staged_bytes(self) -> int:
        """What the open epochs of all writers count against their limits (`machines.limits`)."""
        return self._writers.staged_bytes

    def extents_between(self, start: Offset, end: Offset) -> Iterator[Extent]:
        """The extents that meet [start, end), whole, in offset order.

        The range lies within [log_start_offset, high_water_mark]. Entries may be applied while
        the iterator is used; what they make visible is not in it.
        """
        return self._extents.between(start, end)

    def split(
        self, start: Offset, end: Offset, pieces_max: int
    ) -> tuple[tuple[Offset, ...], tuple[int, ...]]:
        """(offsets, body_bytes): [start, end) cut at extents into at most `pieces_max` >= 1
        pieces of about equal bytes; see `raftlog.wire.calls.SizesReply`. An empty range has the
        one offset and no piece.
        """
        return self._extents.split(start, end, pieces_max)

    def open_epochs(self) -> list[tuple[str, str, int, int]]:
        """(writer, run, epoch, renewals) of each open epoch, as `ExpireEpoch` names it."""
        return list(self._writers.open_epochs())

    def transient_writers(self) -> list[tuple[str, LogIndex]]:
        """(writer, last_index) of each row that may expire, as `ExpireWriter` names it."""
        return list(self._writers.transient_writers())

    def producers(self) -> list[tuple[str, int]]:
        """(producer, next_sequence) of each producer, as `ExpireProducer` names it."""
        return list(self._producers.rows())

    def fingerprint(self) -> bytes:
        """A digest of the whole state; a refused command leaves it as it was. O(state)."""
        digest = StateDigest()
        if self.rules > RULES_FIRST:
            digest.number(self.rules)
        digest.text(self.info.incarnation)
        digest.number(self.info.schema.version)
        digest.number(self._last_timestamp_us)
        self._extents.digest_into(digest)
        self._producers.digest_into(digest)
        self._writers.digest_into(digest, self.rules)
        return digest.finish()
