"""The writers of one topic: what the exactly-once rules decide, done to their rows.

From rules 2 on there are two kinds of rows, each with its own bound. *Lasting* ones are those of
streams and named batch writers that committed or have stages open: they never leave by
themselves, and a new one is refused where there are too many. *Transient* ones are those of
anonymous batch writes, and of whoever never committed and has nothing open: they leave by age, and
the longest silent first when their own bound is reached, with whatever they have open. So no crowd
of one kind locks out the other, and anonymous writes never lock out one another.

A transient row that had committed leaves its name behind: a late Stage or CommitEpoch of it is
refused (`WriterForgotten`), not taken for a new writer's. One that had not committed leaves
nothing: its stages went with it, so a late CommitEpoch that names them is `EpochIncomplete`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.ages import ByAge, Ended, Forgotten, LogClock
from raftlog.machines.commands import (
    AbortEpoch,
    CommitEpoch,
    EpochKey,
    ExpireEpoch,
    ExpireWriter,
    Stage,
)
from raftlog.machines.digest import StateDigest
from raftlog.machines.epoch_rules import (
    CommitVerdict,
    Publish,
    RepeatStage,
    Replay,
    RuleContext,
    TakeStage,
    judge_commit,
    judge_stage,
)
from raftlog.machines.limits import STAGED_ENTRY_CHARGE_BYTES, TopicLimits
from raftlog.machines.outcomes import Refused, Staged, WriterRemoved, refused
from raftlog.machines.writer_row import OpenEpoch, WriterRow, references_digest


class WriterTable:
    """The rows, bounded by `limits`. `clock` is the machine's: what it says is log time."""

    __slots__ = (
        "_clock", "_forgotten", "_limits", "_open", "_rows", "_schema_version", "_topic",
        "_transient", "dead_bytes",
    )  # fmt: skip

    def __init__(
        self, *, topic: str, schema_version: int, limits: TopicLimits, clock: LogClock
    ) -> None:
        self._topic = topic
        self._schema_version = schema_version
        self._limits = limits
        self._clock = clock
        self._rows: dict[str, WriterRow] = {}
        self._transient: ByAge[str] = ByAge()
        """The transient rows; empty under rules 1."""
        self._open: ByAge[tuple[str, int]] = ByAge()
        """Writer and number of each open epoch, by its newest Stage; empty under rules 1."""
        self._forgotten = Forgotten(limits.transient_writers_max)
        """Transient writers that had committed; empty under rules 1."""
        self.dead_bytes = 0
        """Body bytes of stages that were dropped: they lie in the log for nothing."""

    # ------------------------------------------------------------ commands

    def stage(self, index: LogIndex, command: Stage, rules: int) -> Staged | Refused:
        """Store the stage, or say why not. The first one of an unseen run makes it current."""
        key = command.key
        if key.writer in self._forgotten:
            return refused("WriterForgotten", writer=key.writer)
        row = self._rows.get(key.writer)
        if row is None or row.last_epoch < 0:
            anonymous = key.anonymous
        else:
            anonymous = row.transient
        verdict = judge_stage(row, command, self._context(rules, key.writer, anonymous))
        if isinstance(verdict, Refused):
            return verdict
        row = self._touched(key, index)
        if isinstance(verdict, RepeatStage):
            self._renew(row, index, command, rules)
            return verdict.outcome
        assert isinstance(verdict, TakeStage)
        self._take_over(row, key.run)
        if key.streaming and key.epoch > 0 and not row.known:
            assert command.create_writer, "the rules let nobody else start above epoch 0"
            row.admitted = True
        if rules >= 2 and row.last_epoch < 0:
            row.transient = key.anonymous
        attempt = row.open_attempt(key.epoch, command.attempt)
        assert attempt.entry_count == command.number, "only the stage that is due is stored"
        row.add_stage(attempt, index, command.batch)
        self._renew(row, index, command, rules)
        return Staged(number=command.number, repeated=False)

    def judge_commit(self, command: CommitEpoch, rules: int) -> CommitVerdict:
        """What the CommitEpoch comes to. Changes nothing."""
        writer = command.key.writer
        if writer in self._forgotten:
            return refused("WriterForgotten", writer=writer)
        row = self._rows.get(writer)
        may_leave = row is None or row.last_epoch < 0 or row.transient
        anonymous = command.transient_writer and may_leave
        return judge_commit(row, command, self._context(rules, writer, anonymous))

    def replayed(self, index: LogIndex, command: CommitEpoch, verdict: Replay, rules: int) -> None:
        """The epoch stands as it was; its replay's stages go, and those before it."""
        assert verdict.outcome.replayed
        row = self._touched(command.key, index)
        self._take_over(row, command.key.run)
        self._drop_epochs_to(row, command.key.epoch)
        if rules >= 2:
            row.note_fence(command.key)
            self._clock.advance(command.timestamp_us)
            self._settle(row)

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
        row = self._touched(key, index)
        self._take_over(row, key.run)
        # What has committed as a named writer stays one: a later replay must be recognised.
        may_leave = rules < 2 or row.last_epoch < 0 or row.transient
        row.transient = command.transient_writer and may_leave
        row.remember_epoch(key.epoch, end - start)
        row.query_id = key.query_id
        row.last_run = key.run
        row.last_references = references_digest(command.attempts)
        row.last_start, row.last_end = start, end
        self._drop_epochs_to(row, key.epoch)
        self.dead_bytes -= sum(attempt.body_bytes for attempt in verdict.attempts)
        assert self.dead_bytes >= 0, "what was published had been staged"
        if rules >= 2:
            row.plan = command.plan
            row.stream = key.stream
            row.stream_batch = key.stream_batch if key.stream else -1
            row.note_fence(key)
            self._settle(row)

    def abort_epoch(self, command: AbortEpoch, rules: int) -> int:
        """Forget the open attempts of exactly this (writer, run, epoch); how many they were."""
        key = command.key
        row = self._rows.get(key.writer)
        if row is None or row.run != key.run:
            return 0
        dropped = self._drop_epoch(row, key.epoch)
        if rules >= 2 and dropped:
            self._settle(row)
        return dropped

    def expire_epoch(self, command: ExpireEpoch, rules: int) -> bool:
        """Forget the open epoch unless a Stage renewed it since the leader looked."""
        row = self._rows.get(command.writer)
        if row is None or row.run != command.run:
            return False
        opened = row.open_epochs.get(command.epoch)
        if opened is None or opened.renewed_at != command.renewals:
            return False
        self._drop_epoch(row, command.epoch)
        if rules >= 2:
            self._settle(row)
        return True

    def expire_writer(self, command: ExpireWriter, rules: int) -> bool:
        """Forget the row if it may expire and stands as the leader saw it."""
        row = self._rows.get(command.writer)
        if row is None or not row.expirable or row.last_index != command.last_index:
            return False
        if rules >= 2:
            self._forget(row)
        else:
            del self._rows[row.name]
        return True

    def expire_epochs_by_age(self, lease_us: int, now_us: int, count_max: int) -> Ended:
        """Drop epochs that staged nothing for the lease, the oldest first."""
        number = newest_us = 0
        for (writer, epoch), active_us in self._open.silent_since(now_us - lease_us):
            if number == count_max:
                break
            number, newest_us = number + 1, active_us
            # The row's age begins when the epoch's ended, which is no later than now.
            self._clock.advance(active_us + lease_us)
            row = self._rows[writer]
            self._drop_epoch(row, epoch)
            self._settle(row)
        return Ended(number, newest_us)

    def expire_transient(self, lease_us: int, now_us: int, count_max: int) -> Ended:
        """Forget transient rows that were silent for the lease, the oldest first."""
        number = newest_us = 0
        for writer, active_us in self._transient.silent_since(now_us - lease_us):
            if number == count_max:
                break
            number, newest_us = number + 1, active_us
            self._forget(self._rows[writer])
        return Ended(number, newest_us)

    def remove(self, writer: str) -> WriterRemoved:
        """Forget the row whatever its kind."""
        row = self._rows.get(writer)
        if row is None:
            return WriterRemoved(known=False, staged_bytes=0)
        staged_bytes = row.staged_bytes
        self._forget(row)
        return WriterRemoved(known=True, staged_bytes=staged_bytes)

    def begin_ages(self) -> None:
        """Rules 2 begin: every row is as old as the log's time of now, in the order of the log."""
        for row in sorted(self._rows.values(), key=lambda row: row.last_index):
            if row.last_epoch < 0:
                row.transient = row.name == row.run and not row.streaming
            self._settle(row)
        opened = [
            (each.renewed_at, (row.name, epoch))
            for row in self._rows.values()
            for epoch, each in row.open_epochs.items()
        ]
        for _, epoch in sorted(opened):
            self._open.touch(epoch, self._clock.now_us)

    # ------------------------------------------------------------ queries

    @property
    def staged_bytes(self) -> int:
        """The charge of all open attempts of all writers."""
        return sum(row.staged_bytes for row in self._rows.values())

    def staged_bytes_with(self, command: Stage) -> int:
        """What the writer's run would have staged with this stage; 0 for one that it has."""
        key, row = command.key, self._rows.get(command.key.writer)
        more = command.batch.body_bytes + STAGED_ENTRY_CHARGE_BYTES
        if row is None or row.run != key.run:
            return more
        attempt = row.attempt(key.run, key.epoch, command.attempt)
        if attempt is not None and command.number < attempt.entry_count:
            return 0
        return row.staged_bytes + more

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

    def oldest_us(self) -> tuple[int | None, int | None]:
        """Log time of the longest silent open epoch, and of the longest silent transient row."""
        return self._open.oldest_us(), self._transient.oldest_us()

    def row(self, writer: str) -> WriterRow | None:
        """The writer's row, if there is one. Only to look at."""
        return self._rows.get(writer)

    def rows_after(self, writer: str, count_max: int) -> list[WriterRow]:
        """The first `count_max` rows by name of those above `writer`. Only to look at."""
        names = heapq.nsmallest(count_max, (name for name in self._rows if name > writer))
        return [self._rows[name] for name in names]

    def digest_into(self, digest: StateDigest, rules: int) -> None:
        """Write every row into `digest`, by writer, as far as version `rules` knows them."""
        digest.number(len(self._rows))
        for name in sorted(self._rows):
            self._rows[name].digest_into(digest, rules)
        if rules < 2:
            return
        digest.number(len(self._transient))
        for name in self._transient:
            digest.text(name)
        digest.number(len(self._open))
        for name, epoch in self._open:
            digest.text(name)
            digest.number(epoch)
        self._forgotten.digest_into(digest)

    # ------------------------------------------------------------ parts

    def _context(self, rules: int, writer: str, anonymous: bool) -> RuleContext:
        """The circumstances of a command that, if taken, leaves a row of that kind."""
        if rules < 2:
            room = writer in self._rows or len(self._rows) < self._limits.writers_max
        elif anonymous or (writer in self._rows and writer not in self._transient):
            room = True  # a transient row makes its own room
        else:
            room = len(self._rows) - len(self._transient) < self._limits.writers_max
        return RuleContext(
            rules=rules,
            topic=self._topic,
            schema_version=self._schema_version,
            room_for_writer=room,
            limits=self._limits,
        )

    def _touched(self, key: EpochKey, index: LogIndex) -> WriterRow:
        """The writer's row, made now if there is none, as of entry `index`."""
        row = self._rows.get(key.writer)
        if row is None:
            row = self._rows[key.writer] = WriterRow(key.writer)
        assert index > row.last_index
        row.last_index = index
        row.streaming = key.streaming
        return row

    def _renew(self, row: WriterRow, index: LogIndex, command: Stage, rules: int) -> None:
        """A Stage took effect: it renews its epoch's lease."""
        epoch = command.key.epoch
        row.open_epochs[epoch].renewed_at = index
        if rules < 2:
            self._clock.see(command.timestamp_us)
            return
        self._open.touch((row.name, epoch), self._clock.advance(command.timestamp_us))
        self._settle(row)

    def _settle(self, row: WriterRow) -> None:
        """The row was active now: give it its place among its kind (rules 2)."""
        row.active_us = self._clock.now_us
        if row.lasting:
            self._transient.drop(row.name)
            return
        self._transient.touch(row.name, row.active_us)
        while len(self._transient) > self._limits.transient_writers_max:
            self._forget(self._rows[self._transient.oldest()])

    def _forget(self, row: WriterRow) -> None:
        """Drop the row and what it has open (rules 2). A transient one that committed leaves its
        name."""
        for epoch in list(row.open_epochs):
            self._drop_epoch(row, epoch)
        del self._rows[row.name]
        self._transient.drop(row.name)
        if row.transient and row.last_epoch >= 0:
            self._forgotten.add(row.name)

    def _take_over(self, row: WriterRow, run: str) -> None:
        """Make `run` current; the stages of another one are dead."""
        if run == row.run:
            return
        before = dict(row.open_epochs)
        row.take_over(run)
        for epoch, opened in before.items():
            if epoch not in row.open_epochs:
                self._book(row, epoch, opened)

    def _drop_epochs_to(self, row: WriterRow, epoch: int) -> None:
        for each in [each for each in row.open_epochs if each <= epoch]:
            self._drop_epoch(row, each)

    def _drop_epoch(self, row: WriterRow, epoch: int) -> int:
        opened = row.open_epochs.get(epoch)
        if opened is not None:
            self._book(row, epoch, opened)
        return row.drop_epoch(epoch)

    def _book(self, row: WriterRow, epoch: int, opened: OpenEpoch) -> None:
        """The epoch's stages are open no more."""
        self._open.drop((row.name, epoch))
        self.dead_bytes += opened.body_bytes
