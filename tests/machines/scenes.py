"""A topic machine and its input: entries get their index, batches their identity."""

from __future__ import annotations

from raftlog.checksum import chain
from raftlog.core.types import GroupId, LogIndex, NodeId, Offset
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    AttemptReference,
    BatchSummary,
    CommitEpoch,
    EpochKey,
    Expire,
    Stage,
    TopicCommand,
    TopicInfo,
)
from raftlog.machines.limits import TopicLimits
from raftlog.machines.outcomes import EpochCommitted, Expired, Refused, TopicOutcome
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.schema import Field, Schema
from raftlog.machines.topic import TopicMachine

SCHEMA = Schema(version=1, fields=(Field(id=1, name="a", type='"long"', nullable=True),))

TOPIC = TopicInfo(
    name="flights",
    incarnation="0a" * 16,
    group=GroupId(1),
    schema=SCHEMA,
    voters=(NodeId(1), NodeId(2), NodeId(3)),
    created_us=1,
    rules=RULES_LATEST,
)


def key(
    epoch: int,
    *,
    writer: str = "w",
    run: str = "run-1",
    query_id: str = "query",
    streaming: bool = True,
) -> EpochKey:
    return EpochKey(writer=writer, query_id=query_id, run=run, epoch=epoch, streaming=streaming)


def batch(crc: int, records: int = 10, body_bytes: int = 1000, schema: int = 1) -> BatchSummary:
    return BatchSummary(record_count=records, schema_version=schema, body_bytes=body_bytes, crc=crc)


def reference(attempt: str, batches: list[BatchSummary]) -> AttemptReference:
    """The attempt as a task that staged `batches` describes it."""
    chained = 0
    for each in batches:
        chained = chain(chained, each.crc)
    return AttemptReference(
        attempt=attempt,
        entry_count=len(batches),
        record_count=sum(each.record_count for each in batches),
        chained_crc=chained,
    )


class Scene:
    """Applies commands at rising indexes. A batch's CRC is its identity throughout a scene."""

    def __init__(self, limits: TopicLimits | None = None, topic: TopicInfo = TOPIC) -> None:
        self.machine = TopicMachine(topic, limits)
        self.index = 0
        self.crc_at: dict[int, int] = {}
        self._crc = 0

    def new_batch(self, records: int = 10, body_bytes: int = 1000) -> BatchSummary:
        self._crc += 1
        return batch(self._crc, records, body_bytes)

    def apply(self, command: TopicCommand) -> TopicOutcome:
        self.index += 1
        if isinstance(command, Append | Stage):
            self.crc_at[self.index] = command.batch.crc
        return self.machine.apply(LogIndex(self.index), command)

    def append(
        self,
        sequence: int,
        data: BatchSummary,
        *,
        producer: str = "p",
        now_us: int = 0,
        owner: str = "",
    ) -> TopicOutcome:
        return self.apply(
            Append(
                producer=producer,
                sequence=sequence,
                timestamp_us=now_us,
                batch=data,
                owner=owner,
            )
        )

    def stage(
        self,
        of: EpochKey,
        attempt: str,
        number: int,
        data: BatchSummary,
        *,
        create_writer: bool = False,
        now_us: int = 0,
        owner: str = "",
    ) -> TopicOutcome:
        return self.apply(
            Stage(
                key=of,
                attempt=attempt,
                number=number,
                timestamp_us=now_us,
                batch=data,
                create_writer=create_writer,
                owner=owner,
            )
        )

    def stage_all(
        self,
        of: EpochKey,
        attempt: str,
        *sizes: int,
        create_writer: bool = False,
        now_us: int = 0,
        owner: str = "",
    ) -> AttemptReference:
        """Stage new batches of these record counts; each must be taken."""
        batches = [self.new_batch(size) for size in sizes]
        for number, data in enumerate(batches):
            outcome = self.stage(
                of,
                attempt,
                number,
                data,
                create_writer=create_writer,
                now_us=now_us,
                owner=owner,
            )
            assert not isinstance(outcome, Refused), outcome
        return reference(attempt, batches)

    def commit_epoch(
        self,
        of: EpochKey,
        *attempts: AttemptReference,
        keep: bool = False,
        create_writer: bool = False,
        transient: bool = False,
        schema: int = 1,
        now_us: int = 0,
        plan: str = "",
        overwrite: bool = False,
        owner: str = "",
        any_owner: bool = False,
    ) -> TopicOutcome:
        return self.apply(
            CommitEpoch(
                key=of,
                attempts=attempts,
                schema_version=schema,
                timestamp_us=now_us,
                keep_on_mismatch=keep,
                create_writer=create_writer,
                transient_writer=transient,
                plan=plan,
                overwrite=overwrite,
                owner=owner,
                any_owner=any_owner,
            )
        )

    def abort_epoch(self, of: EpochKey) -> TopicOutcome:
        return self.apply(AbortEpoch(key=of))

    def write_epoch(self, of: EpochKey, *sizes: int) -> TopicOutcome:
        """Stage one attempt named after run and epoch, and commit it."""
        return self.commit_epoch(of, self.stage_all(of, f"{of.run}/{of.epoch}", *sizes))

    def visible(self) -> list[tuple[int, int]]:
        """(batch identity, records) of every extent; asserts that offsets are dense."""
        machine = self.machine
        due = machine.log_start_offset
        seen = []
        for extent in machine.extents_between(due, machine.high_water_mark):
            assert extent.start == due, f"offset {due} is missing or duplicated"
            due = Offset(due + extent.count)
            seen.append((self.crc_at[extent.index], extent.count))
        assert due == machine.high_water_mark
        return seen


def transient_writers(machine: TopicMachine) -> list[str]:
    """The writers whose rows may be removed by age, by name."""
    return [row.name for row in machine.writers_after("", 1000) if not row.lasting]


def code(outcome: TopicOutcome) -> str:
    """The error that the outcome becomes, or the outcome's own kind."""
    return outcome.code if isinstance(outcome, Refused) else type(outcome).__name__


def values(outcome: object) -> dict[str, str | int]:
    """What the refusal says."""
    assert isinstance(outcome, Refused), outcome
    return dict(outcome.values)


def expire(now_us: int, lease_us: int) -> Expire:
    """The command of a leader whose clock is at `now_us`, with one lease for everything."""
    return Expire(
        timestamp_us=now_us,
        epoch_lease_us=lease_us,
        transient_writer_lease_us=lease_us,
        producer_lease_us=lease_us,
    )


def ended(epochs: int = 0, writers: int = 0, producers: int = 0) -> Expired:
    """The outcome of an `Expire` that ended these."""
    return Expired(epochs=epochs, writers=writers, producers=producers)


def committed(start: int, end: int) -> EpochCommitted:
    """The outcome of an epoch that took [start, end)."""
    return EpochCommitted(
        start=Offset(start), end=Offset(end), record_count=end - start, replayed=False, kept=False
    )


def replayed(start: int, end: int, count: int, *, kept: bool = False) -> EpochCommitted:
    """The outcome of an epoch that was committed before."""
    return EpochCommitted(
        start=Offset(start), end=Offset(end), record_count=count, replayed=True, kept=kept
    )
