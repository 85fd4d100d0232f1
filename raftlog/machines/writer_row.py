"""What a topic remembers of one writer: its run, its open stages, its committed epochs."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from raftlog.checksum import chain
from raftlog.core.types import LogIndex, Offset
from raftlog.machines.columns import pack, unpack
from raftlog.machines.commands import AttemptReference, BatchSummary, CommitEpoch, EpochKey, Stage
from raftlog.machines.digest import StateDigest
from raftlog.machines.limits import (
    EPOCH_COUNT_BYTES,
    EPOCH_COUNTS_KEPT,
    FENCED_RUNS_KEPT,
    OPEN_ATTEMPT_BYTES,
    STAGED_ENTRY_BYTES,
    STAGED_ENTRY_CHARGE_BYTES,
    WRITER_BYTES_MIN,
    WRITER_NUMBERS_BYTES,
)
from raftlog.machines.state import (
    NO_FENCE,
    FencedWrite,
    OpenAttemptState,
    OpenEpochState,
    WriterRowState,
)


@dataclass(frozen=True, slots=True)
class StagedEntry:
    """One staged entry of the log."""

    index: LogIndex
    record_count: int
    body_bytes: int


class OpenAttempt:
    """The stages 0 to entry_count - 1 of one attempt, in order, in packed columns."""

    __slots__ = ("_bytes", "_counts", "_crcs", "_indexes", "chained_crc", "record_count")

    def __init__(self) -> None:
        self.record_count = 0
        self.chained_crc = 0
        self._indexes = array("q")
        self._counts = array("q")
        self._bytes = array("q")
        self._crcs = array("q")

    @classmethod
    def restore(cls, state: OpenAttemptState) -> OpenAttempt:
        """The attempt with this state."""
        restored = cls()
        restored.record_count = state.record_count
        restored.chained_crc = state.chained_crc
        restored._indexes = unpack(state.indexes)
        restored._counts = unpack(state.record_counts)
        restored._bytes = unpack(state.body_bytes)
        restored._crcs = unpack(state.crcs)
        return restored

    def state(self, attempt: str) -> OpenAttemptState:
        """The state of this attempt, whose name is `attempt`."""
        return OpenAttemptState(
            attempt=attempt,
            record_count=self.record_count,
            chained_crc=self.chained_crc,
            indexes=pack(self._indexes),
            record_counts=pack(self._counts),
            body_bytes=pack(self._bytes),
            crcs=pack(self._crcs),
        )

    @property
    def entry_count(self) -> int:
        """Stages so far, which is also the number due next."""
        return len(self._indexes)

    @property
    def body_bytes(self) -> int:
        """Body bytes of its stages in the log."""
        return sum(self._bytes)

    @property
    def charge(self) -> int:
        """Bytes that the attempt counts against its writer's limit."""
        return self.body_bytes + len(self._bytes) * STAGED_ENTRY_CHARGE_BYTES

    def add(self, index: LogIndex, batch: BatchSummary) -> None:
        """Append `batch` as the stage that is due."""
        self.record_count += batch.record_count
        self.chained_crc = chain(self.chained_crc, batch.crc)
        self._indexes.append(index)
        self._counts.append(batch.record_count)
        self._bytes.append(batch.body_bytes)
        self._crcs.append(batch.crc)

    def holds(self, number: int, batch: BatchSummary) -> bool:
        """Whether the known stage `number` is this batch."""
        return self._crcs[number] == batch.crc and self._counts[number] == batch.record_count

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """The values of a `StagedEntry` for each stage, by number."""
        return zip(self._indexes, self._counts, self._bytes, strict=True)

    def digest_into(self, digest: StateDigest) -> None:
        """Write all stages into `digest`; the count and the chained CRC follow from them."""
        for column in (self._indexes, self._counts, self._bytes, self._crcs):
            digest.column(column)


class OpenEpoch:
    """The attempts of an epoch that is not committed, or that a replay staged again."""

    __slots__ = ("attempts", "renewed_at")

    def __init__(self) -> None:
        self.attempts: dict[str, OpenAttempt] = {}
        self.renewed_at = LogIndex(0)
        """The index of its newest Stage, repeated ones included. The lease counts from there."""

    @classmethod
    def restore(cls, state: OpenEpochState) -> OpenEpoch:
        """The epoch with this state."""
        restored = cls()
        restored.renewed_at = state.renewed_at
        for attempt in state.attempts:
            restored.attempts[attempt.attempt] = OpenAttempt.restore(attempt)
        return restored

    def state(self, epoch: int) -> OpenEpochState:
        """The state of this epoch, whose number is `epoch`."""
        return OpenEpochState(
            epoch=epoch,
            renewed_at=self.renewed_at,
            attempts=tuple([each.state(name) for name, each in self.attempts.items()]),
        )

    @property
    def body_bytes(self) -> int:
        """Body bytes of all its stages in the log."""
        return sum(attempt.body_bytes for attempt in self.attempts.values())


def references_digest(attempts: Iterable[AttemptReference]) -> bytes:
    """A digest of the references as a set: order and repeats do not matter."""
    # A set of texts: Python's hash of them cannot be predicted. A caller who chooses numbers that
    # collide would make a set of references take minutes, at each replica and each start.
    lines = sorted(
        {
            f"{len(each.attempt)}:{each.attempt} {each.entry_count} {each.record_count} "
            f"{each.chained_crc}\n"
            for each in attempts
        }
    )
    return hashlib.blake2b("".join(lines).encode(), digest_size=16).digest()


_PLAIN = (
    "active_us", "admitted", "fenced", "last_end", "last_epoch", "last_index", "last_references",
    "last_run", "last_start", "owner", "plan", "query_id", "run", "stream", "stream_batch",
    "streaming", "transient",
)  # fmt: skip
"""The values of a row that its state has as they are."""


class WriterRow:
    """One writer. `last_epoch` is -1 until it has committed one.

    Only the current run has open epochs. A fenced run can never commit, so fencing it forgets its
    stages.
    """

    __slots__ = (
        "_counts",
        "_epochs",
        "active_us",
        "admitted",
        "fenced",
        "fenced_runs",
        "last_end",
        "last_epoch",
        "last_index",
        "last_references",
        "last_run",
        "last_start",
        "name",
        "name_bytes",
        "open_attempts",
        "open_epochs",
        "owner",
        "plan",
        "query_id",
        "run",
        "staged_bytes",
        "staged_entries",
        "stream",
        "stream_batch",
        "streaming",
        "transient",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.run = ""
        """The current run; empty until the row's first Stage or CommitEpoch takes effect."""
        self.fenced_runs: list[str] = []
        """Earlier runs, the one fenced last at the end, at most `FENCED_RUNS_KEPT`."""
        self.open_epochs: dict[int, OpenEpoch] = {}
        self.staged_bytes = 0
        """The charge of all open attempts."""
        self.staged_entries = 0
        """The stages of all open attempts."""
        self.open_attempts = 0
        self.name_bytes = 0
        """What all open attempts count besides their staged entries."""
        self.owner = ""
        """The principal that owns the row; "": none does."""
        self.streaming = False
        """Whether its last Stage or CommitEpoch was a stream's."""
        self.active_us = 0
        """Log time of its last activity."""
        self.admitted = False
        """Whether a Stage was allowed to start the row above epoch 0 (createTopic=always)."""
        self.transient = False
        """Whether this is a batch write without txnAppId, whose row may be removed. Known from its
        first Stage on."""
        self.last_index = LogIndex(0)
        """The entry of the last Stage or CommitEpoch that took effect."""
        self.query_id = ""
        """The query of the last committed epoch; a Stage does not change it."""
        self.last_epoch = -1
        self.last_run = ""
        self.last_references = b""
        self.last_start = Offset(-1)
        self.last_end = Offset(-1)
        self.plan = ""
        """The last committed epoch's plan."""
        self.stream = ""
        """The streaming query around the last committed batch write, if its tasks saw one."""
        self.stream_batch = -1
        self.fenced = NO_FENCE
        """The last write that was committed or taken for a replay, if its stream's run is known."""
        self._epochs = array("q")
        self._counts = array("q")

    @classmethod
    def restore(cls, state: WriterRowState) -> WriterRow:
        """The row with this state."""
        restored = cls(state.name)
        for name in _PLAIN:
            setattr(restored, name, getattr(state, name))
        restored.fenced_runs = list(state.fenced_runs)
        restored._epochs = unpack(state.epochs)
        restored._counts = unpack(state.record_counts)
        for each in state.open_epochs:
            opened = restored.open_epochs[each.epoch] = OpenEpoch.restore(each)
            attempts = opened.attempts.values()
            restored.staged_bytes += sum(attempt.charge for attempt in attempts)
            restored.staged_entries += sum(attempt.entry_count for attempt in attempts)
            restored.open_attempts += len(attempts)
            restored.name_bytes += _name_bytes(opened)
        return restored

    def state(self) -> WriterRowState:
        """The row's state."""
        return WriterRowState(
            name=self.name,
            fenced_runs=tuple(self.fenced_runs),
            epochs=pack(self._epochs),
            record_counts=pack(self._counts),
            open_epochs=tuple([each.state(epoch) for epoch, each in self.open_epochs.items()]),
            **{name: getattr(self, name) for name in _PLAIN},
        )

    @property
    def known(self) -> bool:
        """Whether the topic knows the writer: it committed, or was allowed to start late."""
        return self.last_epoch >= 0 or self.admitted

    @property
    def lasting(self) -> bool:
        """Whether the row is never removed automatically: it is of a stream or a named
        writer that committed or has stages open."""
        return not self.transient and (self.last_epoch >= 0 or bool(self.open_epochs))

    @property
    def kind(self) -> str:
        """The kind of the row in words, for people."""
        if not self.lasting:
            return "transient"
        return "stream" if self.streaming else "named batch"

    @property
    def open_bytes(self) -> int:
        """What the open attempts count against `TopicLimits.writer_bytes_max`."""
        return self.name_bytes + self.staged_entries * STAGED_ENTRY_BYTES

    @property
    def bytes_counted(self) -> int:
        """What the row counts against `TopicLimits.writer_bytes_max`. The epochs of a lasting row
        do not: it has to go on, and they are bounded by its number. O(1)."""
        counts = 0 if self.lasting else len(self._epochs) * EPOCH_COUNT_BYTES
        return self.text_bytes + self.open_bytes + counts

    @property
    def text_bytes(self) -> int:
        """What the texts count."""
        return self._bytes_of(self.owner, self.run, self.fenced_runs, self.fenced, self._last)

    def text_bytes_with(self, command: Stage | CommitEpoch, *, publishes: bool) -> int:
        """What the texts will count after this command. `publishes`: it makes an epoch visible;
        otherwise it is a stage or a replay."""
        key, fenced, last = command.key, self.fenced, self._last
        if isinstance(command, CommitEpoch):
            if key.stream_run:
                fenced = FencedWrite(key.stream_run, key.stream_batch, key.epoch, key.run)
            if publishes:
                last = (key.query_id, key.run, command.plan, key.stream)
        fenced_runs = self.fenced_runs
        if self.run and self.run != key.run:
            fenced_runs = [*fenced_runs, self.run][-FENCED_RUNS_KEPT:]
        return self._bytes_of(self.owner or command.owner, key.run, fenced_runs, fenced, last)

    def _bytes_of(
        self,
        owner: str,
        run: str,
        fenced_runs: Sequence[str],
        fenced: FencedWrite,
        last: tuple[str, str, str, str],
    ) -> int:
        texts = (self.name, owner, run, *fenced_runs, fenced.stream_run, fenced.run, *last)
        return max(WRITER_BYTES_MIN, WRITER_NUMBERS_BYTES + len("".join(texts).encode()))

    @property
    def _last(self) -> tuple[str, str, str, str]:
        return self.query_id, self.last_run, self.plan, self.stream

    def count_of(self, epoch: int) -> int | None:
        """Records of a committed epoch; None if it is not remembered."""
        row = bisect_left(self._epochs, epoch)
        if row < len(self._epochs) and self._epochs[row] == epoch:
            return self._counts[row]
        return None

    def is_fenced(self, run: str) -> bool:
        """Whether another run has taken over from this one."""
        return run != self.run and run in self.fenced_runs

    def taken_by(self, key: EpochKey) -> FencedWrite | None:
        """The write of the same stream run that has already reached this epoch, if it is another.

        A run does each batch once. So nothing that it wrote or replayed can come again, except the
        same write, whose reply was lost.
        """
        before = self.fenced
        if before == NO_FENCE or key.stream_run != before.stream_run:
            return None
        same = (key.epoch, key.run) == (before.epoch, before.run)
        return before if key.epoch <= before.epoch and not same else None

    def note_fence(self, key: EpochKey) -> None:
        """Remember the write's fence: the write was committed or is a replay."""
        if key.stream_run:
            self.fenced = FencedWrite(key.stream_run, key.stream_batch, key.epoch, key.run)

    def attempt(self, run: str, epoch: int, attempt: str) -> OpenAttempt | None:
        """The open attempt, if `run` is current and has it."""
        opened = self.open_epochs.get(epoch) if run == self.run else None
        return opened.attempts.get(attempt) if opened is not None else None

    def take_over(self, run: str) -> None:
        """Make `run` current. Another one is fenced, and its stages are forgotten."""
        assert not self.is_fenced(run), "a fenced run never comes back"
        if run == self.run:
            return
        if self.run:
            self.fenced_runs.append(self.run)
            del self.fenced_runs[:-FENCED_RUNS_KEPT]
        self.run = run
        self.open_epochs.clear()
        self.staged_bytes = self.staged_entries = self.open_attempts = self.name_bytes = 0

    def open_attempt(self, epoch: int, attempt: str) -> OpenAttempt:
        """The current run's attempt, opened now if it is not open."""
        opened = self.open_epochs.get(epoch)
        if opened is None:
            opened = self.open_epochs[epoch] = OpenEpoch()
        found = opened.attempts.get(attempt)
        if found is None:
            found = opened.attempts[attempt] = OpenAttempt()
            self.open_attempts += 1
            self.name_bytes += attempt_bytes(attempt)
        return found

    def add_stage(self, attempt: OpenAttempt, index: LogIndex, batch: BatchSummary) -> None:
        """Append `batch` as the stage that is due to an open attempt of this row."""
        attempt.add(index, batch)
        self.staged_entries += 1
        self.staged_bytes += batch.body_bytes + STAGED_ENTRY_CHARGE_BYTES

    def drop_epoch(self, epoch: int) -> int:
        """Forget one open epoch. Returns how many attempts it had."""
        opened = self.open_epochs.pop(epoch, None)
        if opened is None:
            return 0
        self.staged_bytes -= sum(attempt.charge for attempt in opened.attempts.values())
        self.staged_entries -= sum(attempt.entry_count for attempt in opened.attempts.values())
        self.open_attempts -= len(opened.attempts)
        self.name_bytes -= _name_bytes(opened)
        assert min(self.staged_bytes, self.staged_entries, self.open_attempts) >= 0
        assert self.name_bytes >= 0
        return len(opened.attempts)

    def remember_epoch(self, epoch: int, record_count: int) -> None:
        """Record a committed epoch, which must be above all before it."""
        assert epoch > self.last_epoch, "an epoch is committed once, and epochs rise"
        self.last_epoch = epoch
        self._epochs.append(epoch)
        self._counts.append(record_count)
        if len(self._epochs) > EPOCH_COUNTS_KEPT:
            del self._epochs[0]
            del self._counts[0]

    def digest_into(self, digest: StateDigest) -> None:
        """Write the whole row into `digest`."""
        digest.text(self.owner)
        digest.number(self.streaming)
        digest.number(self.active_us)
        for text in (self.name, self.run, self.query_id, self.last_run):
            digest.text(text)
        digest.number(len(self.fenced_runs))
        for run in self.fenced_runs:
            digest.text(run)
        for number in (
            self.staged_bytes, self.admitted, self.transient, self.last_index,
            self.last_epoch, self.last_start, self.last_end,
        ):  # fmt: skip
            digest.number(int(number))
        digest.raw(self.last_references)
        digest.column(self._epochs)
        digest.column(self._counts)
        digest.text(self.plan)
        digest.text(self.stream)
        digest.number(self.stream_batch)
        digest.text(self.fenced.stream_run)
        digest.number(self.fenced.stream_batch)
        digest.number(self.fenced.epoch)
        digest.text(self.fenced.run)
        digest.number(len(self.open_epochs))
        for epoch in sorted(self.open_epochs):
            opened = self.open_epochs[epoch]
            digest.number(epoch)
            digest.number(opened.renewed_at)
            digest.number(len(opened.attempts))
            for name in sorted(opened.attempts):
                digest.text(name)
                opened.attempts[name].digest_into(digest)


def attempt_bytes(attempt: str) -> int:
    """What an open attempt of this name counts besides its staged entries."""
    return len(attempt.encode()) + OPEN_ATTEMPT_BYTES


def _name_bytes(opened: OpenEpoch) -> int:
    return sum(map(attempt_bytes, opened.attempts))
