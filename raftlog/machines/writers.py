"""The writer rows of one topic. Carries out what the exactly-once rules decide.

There are two kinds of rows, each with its own bound.

*Lasting* rows are those of streams and named batch writers that committed or have stages open. They
are never removed automatically; a new one is refused if there are too many.

*Transient* rows are those of anonymous batch writes, and of writers that never committed and have
nothing open. They are removed by age and, when their own bound is reached, the longest silent row
of the owner with the most, with everything it has open. So a crowd of one kind does not lock out
the other, anonymous writes never lock out one another, and one principal does not remove the rows
of others.

A transient row that had committed leaves its name behind: a late Stage or CommitEpoch of the same
anonymous write is refused (`WriterForgotten`) and not taken for a new writer's. A stream or a named
writer of that name is another writer. One that had not committed leaves nothing. Its stages went
with it, so a late CommitEpoch that names them is `EpochIncomplete`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import starmap

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.ages import ByAge, Ended, Forgotten, LogClock, Shares
from raftlog.machines.commands import (
    AbortEpoch,
    CommitEpoch,
    EpochKey,
    Stage,
)
from raftlog.machines.digest import StateDigest
from raftlog.machines.epoch_rules import (
    CommitDecision,
    Publish,
    RepeatStage,
    Replay,
    RuleContext,
    TakeStage,
    judge_commit,
    judge_stage,
    refusal_of_owner,
)
from raftlog.machines.limits import (
    EPOCHS_OF_WRITER,
    STAGED_ENTRY_BYTES,
    STAGED_ENTRY_CHARGE_BYTES,
    TopicLimits,
)
from raftlog.machines.outcomes import (
    EpochAborted,
    Refused,
    Staged,
    WriterOwnerSet,
    WriterRemoved,
    refused,
)
from raftlog.machines.state import WritersState
from raftlog.machines.writer_row import (
    OpenEpoch,
    StagedEntry,
    WriterRow,
    attempt_bytes,
    references_digest,
)


class WriterTable:
    """The rows, bounded by `limits`. `clock` is the machine's and gives log time."""

    __slots__ = (
        "_clock", "_forgotten", "_lasting", "_limits", "_names", "_open", "_rows", "_shares",
        "_staged", "_topic", "_transient", "dead_bytes", "schema_version",
    )  # fmt: skip

    def __init__(
        self, *, topic: str, schema_version: int, limits: TopicLimits, clock: LogClock
    ) -> None:
        self._topic = topic
        self.schema_version = schema_version
        """The latest version of the topic's schema."""
        self._limits = limits
        self._clock = clock
        self._rows: dict[str, WriterRow] = {}
        self._names: list[str] = []
        """Those of the rows, sorted."""
        self._transient: ByAge[str] = ByAge()
        """The transient rows."""
        self._shares: Shares[str] = Shares()
        """The same rows by owner."""
        self._lasting: Shares[str] = Shares()
        """All other rows by owner."""
        self._open: ByAge[tuple[str, int]] = ByAge()
        """Writer and epoch of each open epoch, by its newest Stage."""
        self._staged: Shares[str] = Shares()
        """The rows with open epochs by owner, with the charge of these."""
        self._forgotten = Forgotten(limits.transient_writers_max)
        """Transient writers that had committed."""
        self.dead_bytes = 0
        """Body bytes of stages that were dropped and will never be read."""

    def restore(self, state: WritersState) -> None:
        """Fill the empty table with a state."""
        assert not self._rows
        for row in state.rows:
            self._rows[row.name] = WriterRow.restore(row)
        self._names = sorted(self._rows)
        self._transient.restore(list(self._rows), state.transient)
        for name in self._transient:
            self._count(self._shares, self._rows[name])
        for name, restored in self._rows.items():
            self._count_staged(restored)
            if name not in self._transient:
                self._count(self._lasting, restored)
        self._open.restore(self._open_keys(), state.open_epochs)
        self._forgotten = Forgotten(self._limits.transient_writers_max, state.forgotten)
        self.dead_bytes = state.dead_bytes

    def state(self) -> WritersState:
        """The table's state."""
        return WritersState(
            rows=tuple([row.state() for row in self._rows.values()]),
            transient=self._transient.state(self._rows),
            open_epochs=self._open.state(self._open_keys()),
            forgotten=self._forgotten.names(),
            dead_bytes=self.dead_bytes,
        )

    # ------------------------------------------------------------ commands

    def stage(self, index: LogIndex, command: Stage) -> Staged | Refused:
        """Store the stage, or say why not. The first stage of a new run makes the run current."""
        key = command.key
        if key.anonymous and key.writer in self._forgotten:
            return refused("WriterForgotten", writer=key.writer)
        row = self._rows.get(key.writer)
        if row is None or row.last_epoch < 0:
            anonymous = key.anonymous
        else:
            anonymous = row.transient
        decision = refusal_of_owner(row, command, self._topic) or judge_stage(
            row, command, self._context(command, anonymous)
        )
        if isinstance(decision, Refused):
            return decision
        row = self._touched(key, index, command.owner)
        if isinstance(decision, RepeatStage):
            self._renew(row, index, command)
            return decision.outcome
        assert isinstance(decision, TakeStage)
        self._take_over(row, key.run)
        if key.streaming and key.epoch > 0 and not row.known:
            assert command.create_writer, "only create_writer permits a start above epoch 0"
            row.admitted = True
        if row.last_epoch < 0:
            row.transient = key.anonymous
        attempt = row.open_attempt(key.epoch, command.attempt)
        assert attempt.entry_count == command.number, "only the stage that is due is stored"
        row.add_stage(attempt, index, command.batch)
        self._renew(row, index, command)
        return Staged(number=command.number, repeated=False)

    def judge_commit(self, command: CommitEpoch) -> CommitDecision:
        """The decision on the CommitEpoch. Changes nothing."""
        writer = command.key.writer
        if command.key.anonymous and writer in self._forgotten:
            return refused("WriterForgotten", writer=writer)
        row = self._rows.get(writer)
        may_leave = row is None or row.last_epoch < 0 or row.transient
        anonymous = command.transient_writer and may_leave
        decision = refusal_of_owner(row, command, self._topic) or judge_commit(
            row, command, self._context(command, anonymous)
        )
        if isinstance(decision, Replay):
            lasts = writer in self._lasting
            return self._no_bytes(command, transient=not lasts, publishes=False) or decision
        return decision

    def replayed(self, index: LogIndex, command: CommitEpoch, decision: Replay) -> None:
        """Keep the epoch as it was. Drop the stages of its replay, and those before it."""
        assert decision.outcome.replayed
        row = self._touched(command.key, index, command.owner)
        self._take_over(row, command.key.run)
        self._drop_epochs_to(row, command.key.epoch)
        row.note_fence(command.key)
        self._clock.advance(command.timestamp_us)
        self._settle(row)

    def committed(
        self,
        index: LogIndex,
        command: CommitEpoch,
        decision: Publish,
        start: Offset,
        end: Offset,
    ) -> None:
        """Record that the decision's attempts are at [start, end) and advance the writer."""
        key = command.key
        assert end - start == sum(attempt.record_count for attempt in decision.attempts)
        row = self._touched(key, index, command.owner)
        self._take_over(row, key.run)
        # A writer that once committed as a named one stays one: its replays must be recognised.
        may_leave = row.last_epoch < 0 or row.transient
        row.transient = command.transient_writer and may_leave
        row.remember_epoch(key.epoch, end - start)
        row.query_id = key.query_id
        row.last_run = key.run
        row.last_references = references_digest(command.attempts)
        row.last_start, row.last_end = start, end
        self._drop_epochs_to(row, key.epoch)
        self.dead_bytes -= sum(attempt.body_bytes for attempt in decision.attempts)
        assert self.dead_bytes >= 0, "what was published had been staged"
        row.plan = command.plan
        row.stream = key.stream
        row.stream_batch = key.stream_batch if key.stream else -1
        row.note_fence(key)
        self._settle(row)

    def abort_epoch(self, command: AbortEpoch) -> EpochAborted | Refused:
        """Forget the open attempts of exactly this (writer, run, epoch), or say why not."""
        row = self._rows.get(command.key.writer)
        refusal = refusal_of_owner(row, command, self._topic)
        return refusal or EpochAborted(attempts=self._drop_open(row, command.key))

    def _drop_open(self, row: WriterRow | None, key: EpochKey) -> int:
        if row is None or row.run != key.run:
            return 0
        dropped = self._drop_epoch(row, key.epoch)
        if dropped:
            self._settle(row)
        return dropped

    def expire_epochs_by_age(self, lease_us: int, now_us: int, count_max: int) -> Ended:
        """Drop at most `count_max` epochs that staged nothing for the lease, oldest first."""
        number = newest_us = 0
        for (writer, epoch), active_us in self._open.silent_since(now_us - lease_us):
            if number == count_max:
                break
            number, newest_us = number + 1, active_us
            # The row's age begins when the epoch's lease ended, which is no later than now.
            self._clock.advance(active_us + lease_us)
            row = self._rows[writer]
            self._drop_epoch(row, epoch)
            self._settle(row)
        return Ended(number, newest_us)

    def expire_transient(self, lease_us: int, now_us: int, count_max: int) -> Ended:
        """Forget at most `count_max` transient rows silent for the lease, oldest first."""
        number = newest_us = 0
        for writer, active_us in self._transient.silent_since(now_us - lease_us):
            if number == count_max:
                break
            number, newest_us = number + 1, active_us
            self._forget(self._rows[writer])
        return Ended(number, newest_us)

    def remove(self, writer: str) -> WriterRemoved:
        """Forget the row, whatever its kind."""
        row = self._rows.get(writer)
        if row is None:
            return WriterRemoved(known=False, staged_bytes=0)
        staged_bytes = row.staged_bytes
        self._forget(row)
        return WriterRemoved(known=True, staged_bytes=staged_bytes)

    def set_owner(self, writer: str, owner: str) -> WriterOwnerSet:
        """Give the row to the owner. What it has open stays. A transient one counts as active."""
        row = self._rows.get(writer)
        if row is None:
            return WriterOwnerSet(known=False, former="")
        former, row.owner = row.owner, owner
        if writer in self._transient:
            self._settle(row)
        else:
            self._count(self._lasting, row)
            self._count_staged(row)
        return WriterOwnerSet(known=True, former=former)

    # ------------------------------------------------------------ queries

    @property
    def staged_bytes(self) -> int:
        """The charge of all open attempts of all writers. O(1)."""
        return self._staged.byte_count

    def staged_bytes_of(self, owner: str) -> int:
        """The same of the owner's writers. O(1)."""
        return self._staged.share_of(owner)[1]

    def staged_bytes_with(self, command: Stage) -> int:
        """What the writer's run would have staged with this stage; 0 if it is staged already."""
        key, row = command.key, self._rows.get(command.key.writer)
        more = command.batch.body_bytes + STAGED_ENTRY_CHARGE_BYTES
        if row is None or row.run != key.run:
            return more
        attempt = row.attempt(key.run, key.epoch, command.attempt)
        if attempt is not None and command.number < attempt.entry_count:
            return 0
        return row.staged_bytes + more

    @property
    def open_epoch_count(self) -> int:
        """How many epochs are open. O(1)."""
        return len(self._open)

    def open_epochs(self) -> Iterator[tuple[str, str, int]]:
        """(writer, run, epoch) of each open epoch."""
        for name, epoch in self._open:
            yield name, self._rows[name].run, epoch

    def open_stages(self) -> Iterator[StagedEntry]:
        """All open stages by index. The table must not change meanwhile."""
        attempts = (
            attempt.entries()
            for row in self._rows.values()
            for opened in row.open_epochs.values()
            for attempt in opened.attempts.values()
        )
        return starmap(StagedEntry, heapq.merge(*attempts))

    def oldest_us(self) -> tuple[int | None, int | None]:
        """Log times of the longest silent open epoch and transient row; None if there is none."""
        return self._open.oldest_us(), self._transient.oldest_us()

    def row(self, writer: str) -> WriterRow | None:
        """The writer's row, or None. The caller must not change it."""
        return self._rows.get(writer)

    def rows_after(self, writer: str, count_max: int) -> list[WriterRow]:
        """The first `count_max` rows with names above `writer`, by name. Must not be changed."""
        first = bisect_right(self._names, writer)
        return [self._rows[name] for name in self._names[first : first + count_max]]

    def digest_into(self, digest: StateDigest) -> None:
        """Write every row into `digest`, by writer, and the tables of ages and forgotten names."""
        digest.number(len(self._rows))
        for name in self._names:
            self._rows[name].digest_into(digest)
        digest.number(len(self._transient))
        for name in self._transient:
            digest.text(name)
        digest.number(len(self._open))
        for name, epoch in self._open:
            digest.text(name)
            digest.number(epoch)
        self._forgotten.digest_into(digest)

    # ------------------------------------------------------------ parts

    def _open_keys(self) -> list[tuple[str, int]]:
        return [(row.name, epoch) for row in self._rows.values() for epoch in row.open_epochs]

    def _context(self, command: Stage | CommitEpoch, anonymous: bool) -> RuleContext:
        """The context of a command that leaves a row of that kind if it is taken."""
        publishes = isinstance(command, CommitEpoch)
        # A new transient row removes another one.
        no_room = self._no_epoch(command.key) or (None if anonymous else self._no_row(command))
        return RuleContext(
            schema_version=self.schema_version,
            no_room=no_room or self._no_bytes(command, transient=anonymous, publishes=publishes),
            limits=self._limits,
        )

    def _no_row(self, command: Stage | CommitEpoch) -> Refused | None:
        """Why there is no room for another lasting row of this owner. An owner may have half of
        them at most: they stay, and one principal must not keep all others out."""
        most = self._limits.writers_max
        if command.key.writer in self._lasting:
            return None
        if len(self._lasting) >= most:
            return refused("TooManyWriters", topic=self._topic, limit=most)
        row = self._rows.get(command.key.writer)
        owner = row.owner if row is not None and row.owner else command.owner
        share = max(1, most // 2)
        if owner and self._lasting.share_of(owner)[0] >= share:
            return refused("TooManyWriters", topic=self._topic, limit=share, owner=owner)
        return None

    def _no_epoch(self, key: EpochKey) -> Refused | None:
        """Why there is no room for another open epoch of a writer with several."""
        row, most = self._rows.get(key.writer), self._limits.epochs_max
        if len(self._open) < most or row is None or row.run != key.run:
            return None
        if key.epoch in row.open_epochs or len(row.open_epochs) < EPOCHS_OF_WRITER:
            return None
        what = f"The writers of topic {self._topic!r}"
        return refused("TooMany", what=what, limit=most, unit="open epochs")

    def _no_bytes(
        self, command: Stage | CommitEpoch, *, transient: bool, publishes: bool
    ) -> Refused | None:
        """Why there is no room for the bytes that the row has more after this command. An owner
        may have half of those of lasting rows, and one transient row half of theirs."""
        if transient and isinstance(command, CommitEpoch):
            return None
        key, most = command.key, self._limits.writer_bytes_max
        row = self._rows.get(key.writer) or WriterRow(key.writer)
        needed = row.text_bytes_with(command, publishes=publishes)
        needed += row.open_bytes if row.run == key.run else 0
        if isinstance(command, Stage):
            needed += STAGED_ENTRY_BYTES
            if row.attempt(key.run, key.epoch, command.attempt) is None:
                needed += attempt_bytes(command.attempt)
        share = max(1, most // 2)
        if transient:
            what = f"Writer {key.writer!r}"
            return _too_many_bytes(what, share) if needed > share else None
        needed -= self._lasting.bytes_of(key.writer)
        if needed <= 0:
            return None
        owner = row.owner or command.owner
        if self._lasting.byte_count + needed > most:
            return _too_many_bytes(f"The writers of topic {self._topic!r}", most)
        if owner and self._lasting.share_of(owner)[1] + needed > share:
            return _too_many_bytes(f"The writers of {owner!r} in topic {self._topic!r}", share)
        return None

    def _touched(self, key: EpochKey, index: LogIndex, owner: str) -> WriterRow:
        """The writer's row, created if there is none, as of entry `index`. If it has no owner,
        it belongs to `owner` from then on."""
        row = self._rows.get(key.writer)
        if row is None:
            row = self._rows[key.writer] = WriterRow(key.writer)
            insort(self._names, key.writer)
        assert index > row.last_index
        row.last_index = index
        row.streaming = key.streaming
        row.owner = row.owner or owner
        return row

    def _renew(self, row: WriterRow, index: LogIndex, command: Stage) -> None:
        """Renew the lease of the epoch whose Stage took effect."""
        epoch = command.key.epoch
        row.open_epochs[epoch].renewed_at = index
        self._open.touch((row.name, epoch), self._clock.advance(command.timestamp_us))
        self._settle(row)

    def _settle(self, row: WriterRow) -> None:
        """Record that the row is active now, among rows of its kind."""
        row.active_us = self._clock.now_us
        self._count_staged(row)
        if row.lasting:
            self._transient.drop(row.name)
            self._shares.drop(row.name)
            self._count(self._lasting, row)
            return
        self._lasting.drop(row.name)
        self._transient.touch(row.name, row.active_us)
        self._count(self._shares, row)
        limits = self._limits
        while (
            first := self._shares.first_to_go(limits.transient_writers_max, limits.writer_bytes_max)
        ) is not None:
            self._forget(self._rows[first])

    def _count(self, shares: Shares[str], row: WriterRow) -> None:
        shares.touch(row.name, row.owner, row.bytes_counted)

    def _count_staged(self, row: WriterRow) -> None:
        if row.open_epochs:
            self._staged.touch(row.name, row.owner, row.staged_bytes)
        else:
            self._staged.drop(row.name)

    def _forget(self, row: WriterRow) -> None:
        """Remove the row and what it has open. Remember the name of a transient one that
        committed."""
        for epoch in list(row.open_epochs):
            self._drop_epoch(row, epoch)
        del self._rows[row.name]
        del self._names[bisect_left(self._names, row.name)]
        self._transient.drop(row.name)
        self._shares.drop(row.name)
        self._lasting.drop(row.name)
        self._staged.drop(row.name)
        if row.transient and row.last_epoch >= 0:
            self._forgotten.add(row.name)

    def _take_over(self, row: WriterRow, run: str) -> None:
        """Make `run` current. The stages of the run before it are dead bytes."""
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
        """Count the epoch's stages as dead: the epoch is no longer open."""
        self._open.drop((row.name, epoch))
        self.dead_bytes += opened.body_bytes


def _too_many_bytes(what: str, limit: int) -> Refused:
    return refused("TooMany", what=what, limit=limit, unit="bytes of names and open stages")
