"""The writers of one topic: what the exactly-once rules decide, done to their rows."""

from __future__ import annotations

from collections.abc import Iterator

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.commands import AbortEpoch, CommitEpoch, ExpireEpoch, ExpireWriter, Stage
from raftlog.machines.digest import StateDigest
from raftlog.machines.epoch_rules import (
    Circumstances,
    CommitVerdict,
    Publish,
    RepeatStage,
    Replay,
    TakeStage,
    judge_commit,
    judge_stage,
)
from raftlog.machines.limits import STAGED_ENTRY_CHARGE_BYTES, TopicLimits
from raftlog.machines.outcomes import Refused, Staged
from raftlog.machines.writer_row import WriterRow, references_digest


class WriterTable:
    """The rows, at most `writers_max` of them, in order of first stage or commit."""

    __slots__ = ("_limits", "_rows", "_schema_version", "_topic")

    def __init__(self, *, topic: str, schema_version: int, limits: TopicLimits) -> None:
        self._topic = topic
        self._schema_version = schema_version
        self._limits = limits
        self._rows: dict[str, WriterRow] = {}

    # ------------------------------------------------------------ commands

    def stage(self, index: LogIndex, command: Stage, rules: int) -> Staged | Refused:
        """Store the stage, or say why not. The first one of an unseen run makes it current."""
        key = command.key
        row = self._rows.get(key.writer)
        verdict = judge_stage(row, command, self._facts(rules))
        if isinstance(verdict, Refused):
            return verdict
        row = self._touched(key.writer, index)
        if isinstance(verdict, RepeatStage):
            row.open_epochs[key.epoch].renewed_at = index
            return verdict.outcome
        assert isinstance(verdict, TakeStage)
        row.take_over(key.run)
        if key.streaming and key.epoch > 0 and not row.known:
            assert command.create_writer, "the rules let nobody else start above epoch 0"
            row.admitted = True
        attempt = row.open_attempt(key.epoch, command.attempt)
        assert attempt.entry_count == command.number, "only the stage that is due is stored"
        attempt.add(index, command.batch)
        row.open_epochs[key.epoch].renewed_at = index
        row.staged_bytes += command.batch.body_bytes + STAGED_ENTRY_CHARGE_BYTES
        assert row.staged_bytes <= self._limits.staged_bytes_per_writer_max
        return Staged(number=command.number, repeated=False)

    def judge_commit(self, command: CommitEpoch, rules: int) -> CommitVerdict:
        """What the CommitEpoch comes to. Changes nothing."""
        return judge_commit(self._rows.get(command.key.writer), command, self._facts(rules))

    def replayed(self, index: LogIndex, command: CommitEpoch, verdict: Replay, rules: int) -> None:
        """The epoch stands as it was; its replay's stages go, and those before it."""
        assert verdict.outcome.replayed
        row = self._touched(command.key.writer, index)
        row.take_over(command.key.run)
        if rules >= 2:
            row.note_fence(command.key)
        row.drop_epochs_to(command.key.epoch)

    def committed(
        self,
        index: LogIndex,
        command: CommitEpoch,
        verdict: Publish,
        start: Offset,
        end: Offset,
        rules: int,
    ) -> None:
        """The verdict's attempts lie at [start, end) now: the writer advances to the epoch."""
        key = command.key
        assert end - start == sum(attempt.record_count for attempt in verdict.attempts)
        row = self._touched(key.writer, index)
        row.take_over(key.run)
        row.remember_epoch(key.epoch, end - start)
        row.query_id = key.query_id
        row.last_run = key.run
        row.last_references = references_digest(command.attempts)
        row.last_start, row.last_end = start, end
        row.transient = command.transient_writer
        if rules >= 2:
            row.plan = command.plan
            row.stream = key.stream
            row.stream_batch = key.stream_batch if key.stream else -1
            row.note_fence(key)
        row.drop_epochs_to(key.epoch)

    def abort_epoch(self, command: AbortEpoch) -> int:
        """Forget the open attempts of exactly this (writer, run, epoch); how many they were."""
        key = command.key
        row = self._rows.get(key.writer)
        if row is None or row.run != key.run:
            return 0
        return row.drop_epoch(key.epoch)

    def expire_epoch(self, command: ExpireEpoch) -> bool:
        """Forget the open epoch unless a Stage renewed it since the leader looked."""
        row = self._rows.get(command.writer)
        if row is None or row.run != command.run:
            return False
        opened = row.open_epochs.get(command.epoch)
        if opened is None or opened.renewed_at != command.renewals:
            return False
        row.drop_epoch(command.epoch)
        return True

    def expire_writer(self, command: ExpireWriter) -> bool:
        """Forget the row if it may expire and stands as the leader saw it."""
        row = self._rows.get(command.writer)
        if row is None or not row.expirable or row.last_index != command.last_index:
            return False
        del self._rows[command.writer]
        return True

    # ------------------------------------------------------------ queries

    @property
    def staged_bytes(self) -> int:
        """The charge of all open attempts of all writers."""
        return sum(row.staged_bytes for row in self._rows.values())

    def open_epochs(self) -> Iterator[tuple[str, str, int, int]]:
        """(writer, run, epoch, renewals) of each open epoch.

        `renewals` is the index of the epoch's newest Stage, so the number of an epoch that was
        dropped and staged again never comes back.
        """
        for row in self._rows.values():
            for epoch, opened in row.open_epochs.items():
                yield row.name, row.run, epoch, opened.renewed_at

    def transient_writers(self) -> Iterator[tuple[str, LogIndex]]:
        """(writer, last_index) of each row that may expire.

        These are batch writers without txnAppId, and writers that never committed and have
        nothing open: their stages were aborted or expired.
        """
        return ((row.name, row.last_index) for row in self._rows.values() if row.expirable)

    def digest_into(self, digest: StateDigest, rules: int) -> None:
        """Write every row into `digest`, by writer."""
        digest.number(len(self._rows))
        for name in sorted(self._rows):
            self._rows[name].digest_into(digest, rules)

    # ------------------------------------------------------------ parts

    def _facts(self, rules: int) -> Circumstances:
        return Circumstances(
            rules=rules,
            topic=self._topic,
            schema_version=self._schema_version,
            room_for_writer=len(self._rows) < self._limits.writers_max,
            limits=self._limits,
        )

    def _touched(self, writer: str, index: LogIndex) -> WriterRow:
        """The writer's row, made now if there is none, as of entry `index`."""
        row = self._rows.get(writer)
        if row is None:
            assert len(self._rows) < self._limits.writers_max
            row = self._rows[writer] = WriterRow(writer)
        assert index > row.last_index
        row.last_index = index
        return row
