"""An independent judge of a topic's history: it keeps every event and scans them all each time.

It knows no rows, bounds or packing, only the sentences of the rules. It says which kind of
outcome a command must have, and which batches must be visible in which order.
"""

from __future__ import annotations

from typing import NamedTuple

from raftlog.checksum import chain
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    AttemptReference,
    CommitEpoch,
    EpochKey,
    Expire,
    Stage,
    TopicCommand,
)
from raftlog.machines.limits import FENCED_RUNS_KEPT


class Event(NamedTuple):
    """Something that took effect: staged, published, replayed or dropped."""

    kind: str
    key: EpochKey
    attempt: str = ""
    number: int = 0
    crc: int = 0
    records: int = 0
    named: frozenset[AttemptReference] = frozenset()
    plan: str = ""


class Oracle:
    """Predicts the outcome of each command in turn, and remembers its effect."""

    def __init__(self) -> None:
        self.now_us = 0
        """Log time."""
        self.events: list[Event] = []
        self.visible: list[tuple[int, int]] = []
        self.appends: dict[str, list[int]] = {}
        self.forgotten: set[str] = set()
        self.appended_us: dict[str, int] = {}
        self.staged_us: dict[tuple[str, str, int], int] = {}

    def outcome(self, command: TopicCommand) -> str:
        """The kind of outcome that the next entry must have."""
        if isinstance(command, Append):
            return self._append(command)
        if isinstance(command, Stage):
            return self._stage(command)
        if isinstance(command, CommitEpoch):
            return self._commit_epoch(command)
        if isinstance(command, AbortEpoch):
            count = len(self.open_attempts(command.key))
            self.events.append(Event("dropped", command.key))
            return f"aborted {count}"
        assert isinstance(command, Expire)
        return self._expire(command)

    # ------------------------------------------------------------ what the history says

    def of_writer(self, writer: str) -> list[Event]:
        return [event for event in self.events if event.key.writer == writer]

    def runs(self, writer: str) -> list[str]:
        """Every run in the order it wrote; the last one is current."""
        wrote = [e.key.run for e in self.of_writer(writer) if e.kind != "dropped"]
        return [run for i, run in enumerate(wrote) if i == 0 or wrote[i - 1] != run]

    def is_fenced(self, key: EpochKey) -> bool:
        *before, current = self.runs(key.writer)[-1 - FENCED_RUNS_KEPT :] or [""]
        return key.run in before and key.run != current

    def published(self, writer: str) -> list[Event]:
        return [event for event in self.of_writer(writer) if event.kind == "published"]

    def open_attempts(self, key: EpochKey) -> dict[str, list[Event]]:
        """What the current run has staged for the epoch since anything last dropped it."""
        found: dict[str, list[Event]] = {}
        for event in self.of_writer(key.writer):
            other_run = event.kind != "dropped" and event.key.run != key.run
            passed = event.kind in ("published", "replayed") and event.key.epoch >= key.epoch
            this = (event.key.run, event.key.epoch) == (key.run, key.epoch)
            if other_run or passed or (event.kind == "dropped" and this):
                found = {}
            elif event.kind == "staged" and this:
                found.setdefault(event.attempt, []).append(event)
        return found

    # ------------------------------------------------------------ the outcome of a command

    def _append(self, command: Append) -> str:
        known = self.appends.setdefault(command.producer, [])
        if command.producer in self.forgotten:
            return "UnknownProducer"
        if command.sequence > len(known):
            return "SequenceGap" if known else "UnknownProducer"
        if command.sequence < len(known):
            same = known[command.sequence] == command.batch.crc
            return "repeated append" if same else "SequenceReused"
        known.append(command.batch.crc)
        self.now_us = max(self.now_us, command.timestamp_us)
        self.appended_us[command.producer] = self.now_us
        self.visible.append((command.batch.crc, command.batch.record_count))
        return "appended"

    def _stage(self, command: Stage) -> str:
        key = command.key
        published = self.published(key.writer)
        passed = bool(published) and key.epoch <= published[-1].key.epoch
        if passed and self.is_other_query(published[-1].key, key):
            return "CheckpointReset"
        if self.is_fenced(key):
            return "RunFenced"
        if passed:
            mistake = self._mistake(key, published)
            if mistake:
                return mistake
        staged = self.open_attempts(key).get(command.attempt, [])
        if command.number < len(staged):
            if staged[command.number].crc != command.batch.crc:
                return "EpochIncomplete"
            self._renew(command)
            return "repeated stage"
        if key.streaming and key.epoch > 0 and not published:
            return "UnknownWriter"
        if command.number > len(staged):
            return "StageGap"
        crc, records = command.batch.crc, command.batch.record_count
        self.events.append(Event("staged", key, command.attempt, command.number, crc, records))
        self._renew(command)
        return "staged"

    def _renew(self, command: Stage) -> None:
        self.now_us = max(self.now_us, command.timestamp_us)
        self.staged_us[command.key.writer, command.key.run, command.key.epoch] = self.now_us

    def _commit_epoch(self, command: CommitEpoch) -> str:
        key, named = command.key, frozenset(command.attempts)
        published = self.published(key.writer)
        if published and key.epoch <= published[-1].key.epoch:
            return self._repeated(command, published)
        if self.is_fenced(key):
            return "RunFenced"
        if key.streaming and key.epoch > 0 and not published:
            return "UnknownWriter"
        opened = self.open_attempts(key)
        for wanted in command.attempts:
            if _described(wanted.attempt, opened.get(wanted.attempt, [])) != wanted:
                return "EpochIncomplete"
        staged = [event for wanted in command.attempts for event in opened[wanted.attempt]]
        records = sum(event.records for event in staged)
        self.now_us = max(self.now_us, command.timestamp_us)
        self.events.append(Event("published", key, records=records, named=named, plan=command.plan))
        if command.overwrite:
            self.visible = []
        self.visible += [(event.crc, event.records) for event in staged]
        return f"published {records}"

    def _repeated(self, command: CommitEpoch, published: list[Event]) -> str:
        key, last = command.key, published[-1]
        if self.is_other_query(last.key, key):
            return "CheckpointReset"
        own = (key.run, key.epoch) == (last.key.run, last.key.epoch)
        if own and frozenset(command.attempts) == last.named:
            return f"replayed {last.records}"
        if self.is_fenced(key):
            return "RunFenced"
        if own:
            return "EpochReferencesMismatch"
        mistake = self._mistake(key, published)
        if mistake:
            return mistake
        before = next(event for event in published if event.key.epoch == key.epoch)
        records = sum(wanted.record_count for wanted in command.attempts)
        same = records == before.records
        if before is last and last.plan and command.plan:
            same = last.plan == command.plan
        if not same and not command.keep_on_mismatch:
            return "EpochContentMismatch"
        self.now_us = max(self.now_us, command.timestamp_us)
        self.events.append(Event("replayed", key))
        return f"{'replayed' if same else 'kept'} {before.records}"

    def is_other_query(self, last: EpochKey, key: EpochKey) -> bool:
        both_in_streams = last.stream and key.stream
        return last.query_id != key.query_id or bool(both_in_streams and last.stream != key.stream)

    def _mistake(self, key: EpochKey, published: list[Event]) -> str:
        """What is wrong with a key at a passed epoch that its own query brings, or ""."""
        last = published[-1].key
        if key.streaming and key.epoch < last.epoch:
            return "CheckpointRewound"
        if key.stream and last.stream and key.stream_batch != last.stream_batch:
            is_older = key.stream_batch < last.stream_batch
            return "CheckpointRewound" if is_older else "VersionReused"
        done = [
            event.key
            for event in self.of_writer(key.writer)
            if event.kind in ("published", "replayed") and event.key.stream_run
        ]
        latest = done[-1] if done else None
        if latest is not None and latest.stream_run == key.stream_run:
            itself = (key.run, key.epoch) == (latest.run, latest.epoch)
            if key.epoch <= latest.epoch and not itself:
                return "VersionReused"
        known = any(event.key.epoch == key.epoch for event in published)
        return "" if known else "EpochTooOld"

    def _expire(self, command: Expire) -> str:
        """End what was silent for its lease by the later of log time and the command's time."""
        by_us = max(self.now_us, command.timestamp_us)
        opened = [
            (self.staged_us[event.key.writer, event.key.run, event.key.epoch], event.key)
            for event in self.events
            if event.kind == "staged" and self.open_attempts(event.key)
        ]
        epochs = {
            (key.writer, key.run, key.epoch): (staged_us, key)
            for staged_us, key in opened
            if staged_us + command.epoch_lease_us <= by_us
        }
        producers = {
            name: appended_us
            for name, appended_us in self.appended_us.items()
            if name not in self.forgotten and appended_us + command.producer_lease_us <= by_us
        }
        for staged_us, key in epochs.values():
            self.events.append(Event("dropped", key))
            self.now_us = max(self.now_us, staged_us + command.epoch_lease_us)
        for name, appended_us in producers.items():
            self.forgotten.add(name)
            self.now_us = max(self.now_us, appended_us + command.producer_lease_us)
        return f"expired {len(epochs)} epochs, {len(producers)} producers"


def _described(attempt: str, staged: list[Event]) -> AttemptReference:
    chained = 0
    for event in staged:
        chained = chain(chained, event.crc)
    return AttemptReference(
        attempt=attempt,
        entry_count=len(staged),
        record_count=sum(event.records for event in staged),
        chained_crc=chained,
    )
