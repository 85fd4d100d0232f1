"""The state machine of one topic: which records are visible, and at which offset.

Appends are visible once applied. Stages are not: a CommitEpoch that names their attempts makes all
of them visible at once, in its order, and gives them their offsets. Nothing else takes an offset,
so offsets are dense from 0. A record has the timestamp of the entry that made it visible;
timestamps never fall along the offsets. No-ops and aborted or fenced work take no offset.

`raftlog.machines.epoch_rules` has the rules of exactly once, `raftlog.machines.producers` those of
producers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, assert_never, get_args

from raftlog.core.types import NO_INDEX, LogIndex, Offset
from raftlog.machines.ages import LogClock
from raftlog.machines.byte_index import ByteIndex
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    CommitEpoch,
    Configure,
    Expire,
    RemoveWriter,
    Rules,
    SetSchema,
    SetWriterOwner,
    SnapshotPoint,
    Stage,
    TopicCommand,
    TopicInfo,
    Trim,
)
from raftlog.machines.digest import StateDigest
from raftlog.machines.epoch_rules import Answer, Publish, Replay
from raftlog.machines.evolution import digest_schema
from raftlog.machines.extents import Extent, ExtentIndex
from raftlog.machines.limits import EXPIRED_AT_ONCE_MAX, TopicLimits
from raftlog.machines.outcomes import (
    Appended,
    Configured,
    EpochAborted,
    EpochCommitted,
    Expired,
    Refused,
    RulesApplied,
    SchemaSet,
    SnapshotPointApplied,
    Staged,
    TopicOutcome,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
    refused,
)
from raftlog.machines.producers import ProducerTable
from raftlog.machines.rules import known_rules, next_rules
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting, digest_settings
from raftlog.machines.state import TopicState
from raftlog.machines.validity import (
    malformed,
    problem_of_abort,
    problem_of_append,
    problem_of_commit,
    problem_of_configure,
    problem_of_expire,
    problem_of_owner,
    problem_of_removal,
    problem_of_set_schema,
    problem_of_snapshot_point,
    problem_of_stage,
    problem_of_trim,
)
from raftlog.machines.writer_row import StagedEntry, WriterRow
from raftlog.machines.writers import WriterTable


class TopicMachine:
    """One incarnation of one topic.

    `limits` decide what is applied: every replica must pass the same ones, always (see
    `raftlog.machines.limits`). A refused command changes nothing.
    """

    commands: ClassVar[frozenset[type]] = frozenset(get_args(TopicCommand))

    def __init__(self, info: TopicInfo, limits: TopicLimits | None = None) -> None:
        self.info = dataclasses.replace(info, schema=info.schema.at(1))
        """The topic, with the schema that its own log has."""
        self.rules = known_rules(info.rules, group=info.group, index=LogIndex(0))
        """The version under which the next entry is applied."""
        self.settings: tuple[TopicSetting, ...] = ()
        """The settings that are not the default, as the topic's own log has them."""
        self.settings_version = NO_INDEX
        """The entry of the controller's log that they come from; 0: nothing was ever set."""
        limits = limits or TopicLimits()
        self._extents = ExtentIndex()
        self._clock = LogClock()
        self._producers = ProducerTable(limits=limits, clock=self._clock)
        self._writers = WriterTable(
            topic=info.name,
            schema_version=1,
            limits=limits,
            clock=self._clock,
        )
        self._last_index = LogIndex(0)
        self._unused_bytes = 0
        """Body bytes of entries that were refused or repeated."""

    @classmethod
    def restore(
        cls, info: TopicInfo, state: TopicState, limits: TopicLimits | None = None
    ) -> TopicMachine:
        """The machine with this state, after entry `state.last_index`. It holds no extents:
        `extents_start` is the high-water mark.

        `info` and `limits` are as for a new machine. `raftlog.machines.state_validity` has checked
        the state. Raises `LogFromNewerVersion` if this program does not know the state's rules.
        """
        machine = cls(info, limits)
        machine.rules = known_rules(state.rules, group=info.group, index=state.last_index)
        machine._clock.advance(state.now_us)
        machine._extents = ExtentIndex.restore(state.extents)
        machine._producers.restore(state.producers)
        machine._writers.restore(state.writers)
        machine._last_index = state.last_index
        machine._unused_bytes = state.unused_bytes
        machine.settings = state.settings
        machine.settings_version = state.settings_version
        for schema in state.schemas:
            machine._take_schema(schema)
        return machine

    def state(self) -> TopicState:
        """The whole logical state, without the extents. O(state)."""
        return TopicState(
            rules=self.rules,
            last_index=self._last_index,
            now_us=self._clock.now_us,
            extents=self._extents.state(),
            producers=self._producers.state(),
            writers=self._writers.state(),
            unused_bytes=self._unused_bytes,
            settings=self.settings,
            settings_version=self.settings_version,
            schemas=(self.info.schema,) if self.info.schema.version > 1 else (),
        )

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
            case Expire():
                return self._expire(command)
            case RemoveWriter():
                return self._remove_writer(command)
            case SetWriterOwner():
                return self._set_writer_owner(command)
            case Trim():
                return self._trim(command)
            case Configure():
                return self._configure(command)
            case SetSchema():
                return self._set_schema(command)
            case Rules():
                return self._raise_rules(index, command)
            case SnapshotPoint():
                return self._snapshot_point(command)
            case _:
                assert_never(command)

    def _append(self, index: LogIndex, command: Append) -> Appended | Refused:
        problem = problem_of_append(command)
        if problem is not None:
            return malformed("Append", problem)
        batch = command.batch
        known = self._producers.judge(command.producer, command.sequence, batch.crc)
        if known is not None:
            self._unused_bytes += batch.body_bytes
            return known
        latest = self.info.schema.version
        if not 1 <= batch.schema_version <= latest:
            self._unused_bytes += batch.body_bytes
            return refused("UnknownSchemaVersion", version=batch.schema_version, latest=latest)
        start = self._extents.high_water_mark
        self._extents.append(
            count=batch.record_count,
            index=index,
            timestamp_us=self._clock.advance(command.timestamp_us),
            body_bytes=batch.body_bytes,
        )
        end = self._extents.high_water_mark
        self._producers.record(command, start, end)
        return Appended(start=start, end=end, repeated=False)

    def _stage(self, index: LogIndex, command: Stage) -> Staged | Refused:
        problem = problem_of_stage(command)
        if problem is not None:
            return malformed("Stage", problem)
        outcome = self._writers.stage(index, command)
        if isinstance(outcome, Refused) or outcome.repeated:
            self._unused_bytes += command.batch.body_bytes
        return outcome

    def _commit_epoch(self, index: LogIndex, command: CommitEpoch) -> EpochCommitted | Refused:
        problem = problem_of_commit(command)
        if problem is not None:
            return malformed("CommitEpoch", problem)
        decision = self._writers.judge_commit(command)
        match decision:
            case Refused():
                return decision
            case Answer():
                return decision.outcome
            case Replay():
                self._writers.replayed(index, command, decision)
                return decision.outcome
            case Publish():
                return self._publish(index, command, decision)
            case _:
                assert_never(decision)

    def _publish(self, index: LogIndex, command: CommitEpoch, decision: Publish) -> EpochCommitted:
        """Make the attempts visible, in the command's order, each in the order of its stages. If
        it overwrites the topic, nothing else stays visible."""
        start = self._extents.high_water_mark
        timestamp_us = self._clock.advance(command.timestamp_us)
        if command.overwrite:  # before the records, whose bytes are counted exactly then
            self._extents.trim(start)
        for attempt in decision.attempts:
            self._extents.extend(
                attempt.entries(),
                timestamp_us=timestamp_us,
                epoch=command.key.epoch,
                writer=command.key.writer,
            )
        end = self._extents.high_water_mark
        self._writers.committed(index, command, decision, start, end)
        return EpochCommitted(
            start=start, end=end, record_count=end - start, replayed=False, kept=False
        )

    def _abort_epoch(self, command: AbortEpoch) -> EpochAborted | Refused:
        problem = problem_of_abort(command)
        if problem is not None:
            return malformed("AbortEpoch", problem)
        return self._writers.abort_epoch(command)

    def _expire(self, command: Expire) -> Expired | Refused:
        """End what outlived its lease by the later of log time and the command's time.

        ! Log time advances only to the end of the youngest lease that ended. So a leader whose
        clock is a year ahead ends leases early, but does not leave a year in which nothing ages.
        Writer rows go before epochs: one whose last open epoch ends here first gets a lease of its
        own.
        """
        problem = problem_of_expire(command)
        if problem is not None:
            return malformed("Expire", problem)
        now_us = max(self._clock.now_us, command.timestamp_us)
        room = EXPIRED_AT_ONCE_MAX
        counts = []
        for expire, lease_us in (
            (self._writers.expire_transient, command.transient_writer_lease_us),
            (self._writers.expire_epochs_by_age, command.epoch_lease_us),
            (self._producers.expire_by_age, command.producer_lease_us),
        ):
            count, active_us = expire(lease_us, now_us, room)
            if count:
                self._clock.advance(active_us + lease_us)
            counts.append(count)
            room -= count
        writers, epochs, producers = counts
        return Expired(epochs=epochs, writers=writers, producers=producers)

    def _remove_writer(self, command: RemoveWriter) -> WriterRemoved | Refused:
        problem = problem_of_removal(command)
        if problem is not None:
            return malformed("RemoveWriter", problem)
        return self._writers.remove(command.writer)

    def _set_writer_owner(self, command: SetWriterOwner) -> WriterOwnerSet | Refused:
        problem = problem_of_owner(command)
        if problem is not None:
            return malformed("SetWriterOwner", problem)
        return self._writers.set_owner(command.writer, command.owner)

    def _trim(self, command: Trim) -> Trimmed | Refused:
        problem = problem_of_trim(command)
        if problem is not None:
            return malformed("Trim", problem)
        self._extents.trim(command.offset)
        return Trimmed(log_start_offset=self._extents.log_start_offset)

    def _configure(self, command: Configure) -> Configured | Refused:
        problem = problem_of_configure(command)
        if problem is not None:
            return malformed("Configure", problem)
        if command.version > self.settings_version:
            self.settings, self.settings_version = command.settings, command.version
        return Configured(version=self.settings_version)

    def _set_schema(self, command: SetSchema) -> SchemaSet | Refused:
        problem = problem_of_set_schema(command, self.info.schema)
        if problem is not None:
            return malformed("SetSchema", problem)
        if command.schema.version > self.info.schema.version:
            self._take_schema(command.schema)
        return SchemaSet(version=self.info.schema.version)

    def _take_schema(self, schema: Schema) -> None:
        self.info = dataclasses.replace(self.info, schema=schema)
        self._writers.schema_version = schema.version

    def _snapshot_point(self, command: SnapshotPoint) -> SnapshotPointApplied | Refused:
        problem = problem_of_snapshot_point(command)
        if problem is not None:
            return malformed("SnapshotPoint", problem)
        return SnapshotPointApplied(keep_from=command.keep_from)

    def _raise_rules(self, index: LogIndex, command: Rules) -> RulesApplied:
        self.rules = next_rules(self.rules, command.version, group=self.info.group, index=index)
        return RulesApplied(version=self.rules)

    # ------------------------------------------------------------ local

    def drop_extents_before(self, offset: Offset) -> None:
        """Forget the extents that end at or before `offset`: their records are in history files.

        Not logged, and no part of the state: replicas may drop at different times. An extent that
        `offset` divides stays, and so do iterators over what is dropped.
        """
        self._extents.drop_before(offset)

    # ------------------------------------------------------------ queries

    @property
    def high_water_mark(self) -> Offset:
        """The first offset that is not readable yet."""
        return self._extents.high_water_mark

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that was not trimmed."""
        return self._extents.log_start_offset

    @property
    def extents_start(self) -> Offset:
        """The first offset whose extent this machine holds; the high-water mark if it holds none.
        It may be below the log start: an extent that a trim divided stays."""
        return self._extents.extents_start

    @property
    def record_bytes(self) -> int:
        """Body bytes of the records at [log_start_offset, high_water_mark). Exact for a topic that
        was never trimmed. A trim makes it inexact by at most an extent and 64 KiB, or an extent and
        a thousandth of what was kept before."""
        return self._extents.record_bytes

    def offset_before_last(self, byte_count: int) -> Offset:
        """An offset at or above `log_start_offset` from which at least the last `byte_count` body
        bytes follow; as far up as this machine can tell."""
        return self._extents.offset_before_last(byte_count)

    @property
    def staged_bytes(self) -> int:
        """What the open epochs of all writers count against their limits (`machines.limits`).
        O(1)."""
        return self._writers.staged_bytes

    def staged_bytes_of(self, owner: str) -> int:
        """The same of the owner's writers. O(1)."""
        return self._writers.staged_bytes_of(owner)

    @property
    def open_epoch_count(self) -> int:
        """How many epochs are open. O(1)."""
        return self._writers.open_epoch_count

    @property
    def dead_bytes(self) -> int:
        """Body bytes in the log that no reader will ever see: dropped stages (losing, aborted,
        fenced, expired), and entries that were refused or repeated. For people, and not part of
        the fingerprint: a refusal counts here although it changes nothing."""
        return self._writers.dead_bytes + self._unused_bytes

    def staged_bytes_with(self, command: Stage) -> int:
        """What the open epochs of the writer's run would count with this stage; 0 for a repeat."""
        return self._writers.staged_bytes_with(command)

    def writer(self, name: str) -> WriterRow | None:
        """The writer row, or None. The caller must not change it."""
        return self._writers.row(name)

    def writers_after(self, writer: str, count_max: int) -> list[WriterRow]:
        """At most `count_max` writer rows with names above `writer`, by name; not to be changed."""
        return self._writers.rows_after(writer, count_max)

    def is_due(self, command: Expire) -> bool:
        """Whether the command would end anything if it were applied now. O(1)."""
        now_us = max(self._clock.now_us, command.timestamp_us)
        epoch_us, writer_us = self._writers.oldest_us()
        return any(
            oldest_us is not None and oldest_us + lease_us <= now_us
            for oldest_us, lease_us in (
                (epoch_us, command.epoch_lease_us),
                (writer_us, command.transient_writer_lease_us),
                (self._producers.oldest_us(), command.producer_lease_us),
            )
        )

    def extents_between(self, start: Offset, end: Offset) -> Iterator[Extent]:
        """The extents that overlap [start, end), whole, in offset order.

        The range must begin at or above both `log_start_offset` and `extents_start`, and end at or
        below `high_water_mark`. Entries may be applied and extents dropped while the iterator is
        used: that changes nothing about it.
        """
        return self._extents.between(start, end)

    def offset_at(self, timestamp_us: int) -> Offset:
        """The first offset, at or above both `log_start_offset` and `extents_start`, whose record
        has this timestamp or a later one; the high-water mark if there is none. O(log extents).
        """
        return self._extents.offset_at(timestamp_us)

    def byte_index(self, start: Offset) -> ByteIndex:
        """Where the bytes of the extents lie, from the one that holds `start` on. It may
        be kept: extents that come or are dropped change nothing about those before.

        `start` must be in [extents_start, high_water_mark].
        """
        return self._extents.byte_index(start)

    def open_epochs(self) -> list[tuple[str, str, int]]:
        """(writer, run, epoch) of each open epoch."""
        return list(self._writers.open_epochs())

    def open_stages(self) -> Iterator[StagedEntry]:
        """The stages of all open epochs by index. No entry may be applied while the iterator is
        used."""
        return self._writers.open_stages()

    def progress(self) -> dict[str, int]:
        """See `StateMachine.progress`."""
        return {
            "rules": self.rules,
            "last_index": self._last_index,
            "now_us": self._clock.now_us,
            "high_water_mark": self.high_water_mark,
            "log_start_offset": self.log_start_offset,
            "settings_version": self.settings_version,
            "schema_version": self.info.schema.version,
        }

    def fingerprint(self) -> bytes:
        """A digest of the whole state; a refused command leaves it as it was. O(state)."""
        digest = StateDigest()
        digest.number(self.rules)
        digest.text(self.info.incarnation)
        digest.number(self.info.schema.version)
        digest.number(self._clock.now_us)
        self._extents.digest_into(digest)
        self._producers.digest_into(digest)
        self._writers.digest_into(digest)
        digest_settings(digest, self.settings_version, self.settings)
        if self.info.schema.version > 1:
            digest_schema(digest, self.info.schema)
        return digest.finish()
