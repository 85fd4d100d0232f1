"""What clients were told, and what must therefore be true: the promises as seen from outside.

Every record carries a label that is used once: its producer, sequence and place, or its writer,
epoch, place and attempt. So what is read shows by itself whether a record was lost, duplicated or
moved, whether an epoch is whole, and who wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import GroupId
from raftlog.machines.outcomes import Appended, EpochCommitted
from raftlog.machines.schema import Schema
from raftlog.machines.settings import TopicSetting
from tests.simulation.checkers import Checker
from tests.simulation.promises import Promise, Violation
from tests.simulation.records import SCHEMA, Batch, Label, Row, batch_of


class AppendKey(NamedTuple):
    producer: str
    sequence: int


class EpochName(NamedTuple):
    writer: str
    epoch: int


def append_labels(key: AppendKey, count: int) -> list[Label]:
    return [Label("append", key.producer, key.sequence, place, "") for place in range(count)]


class TopicHistory:
    """All that clients of one topic asked and were told."""

    def __init__(self, group: GroupId, checker: Checker) -> None:
        self.group = group
        self._truth = checker.group(group)
        self.floor = 0
        """No later read of the mark may be below it: some client knows that it was this high."""
        self.start_floor = 0
        """No later read of the log start may be below it: some client knows of a trim up to there.
        """
        self.acknowledged_records = 0
        self.schema = SCHEMA
        """The latest that some client knows."""
        self._places: dict[Label, int] = {}
        self._appends: dict[AppendKey, int] = {}
        """Every append that was tried, with its record count."""
        self._acked_appends: dict[AppendKey, tuple[int, int]] = {}
        self._attempts: dict[str, list[Label]] = {}
        self._proposals: dict[EpochName, set[tuple[str, ...]]] = {}
        self._acked_epochs: dict[EpochName, tuple[int, int]] = {}
        self._plans: dict[EpochName, str] = {}
        self._first_commits: set[EpochName] = set()
        """Epochs for which a client was told that its CommitEpoch was the one that counted."""

    def fail(self, promise: Promise, what: str) -> None:
        raise Violation(promise, f"topic of group {self.group}: {what}")

    def is_deposed(self, raft: Raft) -> bool:
        """Whether it believes that it leads although a later term has a leader."""
        return raft.role is Role.LEADER and raft.term < max(self._truth.leaders)

    def lines(self) -> list[str]:
        """What clients were told, in that order: for the folder of a failure."""
        appends = [f"{key} at {place}" for key, place in self._acked_appends.items()]
        epochs = [f"{name} at {place}" for name, place in self._acked_epochs.items()]
        return [*appends, *epochs, f"highest mark known to a client: {self.floor}"]

    # ------------------------------------------------------------ writing

    def append_tried(self, key: AppendKey, count: int) -> None:
        assert self._appends.setdefault(key, count) == count, "a resend is the same append"

    def append_acknowledged(self, key: AppendKey, outcome: Appended) -> None:
        count = self._appends[key]
        self.acknowledged_records += count
        if outcome.start == -1:
            # The resend came so late that its offsets are forgotten: the append is there, once.
            self._acked_appends[key] = (-1, -1)
            return
        if outcome.end - outcome.start != count:
            self.fail(
                Promise.NOTHING_LOST,
                f"{key} of {count} records was put at [{outcome.start}, {outcome.end})",
            )
        self._acked_appends[key] = (outcome.start, outcome.end)
        self._known_to_be_visible(outcome.end)

    def staged(self, attempt: str, labels: Sequence[Label]) -> None:
        """All that the attempt has staged, in order."""
        self._attempts[attempt] = list(labels)

    def epoch_tried(self, name: EpochName, attempts: Sequence[str]) -> None:
        self._proposals.setdefault(name, set()).add(tuple(attempts))

    def epoch_acknowledged(
        self, name: EpochName, plan: str, outcome: EpochCommitted, *, overwrites: bool
    ) -> None:
        if self._plans.setdefault(name, plan) != plan:
            self.fail(
                Promise.NOTHING_LOST,
                f"{name} was acknowledged as {self._plans[name]} and as {plan}, which are other "
                "rows",
            )
        counts = {
            sum(len(self._attempts[attempt]) for attempt in attempts)
            for attempts in self._proposals[name]
        }
        if outcome.record_count not in counts:
            self.fail(
                Promise.EPOCHS_WHOLE,
                f"{name} was tried with {counts} records, committed {outcome.record_count}",
            )
        if not outcome.replayed:
            if name in self._first_commits:
                self.fail(Promise.EPOCHS_WHOLE, f"{name} was committed twice: {outcome}")
            self._first_commits.add(name)
            self.acknowledged_records += outcome.record_count
        if outcome.start == -1:
            self._acked_epochs.setdefault(name, (-1, -1))
            return
        place = (outcome.start, outcome.end)
        known = self._acked_epochs.get(name, (-1, -1))
        if known not in ((-1, -1), place):
            self.fail(Promise.EPOCHS_WHOLE, f"{name} lies at {known} and at {place}")
        self._acked_epochs[name] = place
        self._known_to_be_visible(outcome.end)
        if overwrites:
            self._log_start_seen(outcome.start)
            self.start_floor = max(self.start_floor, outcome.start)

    def _known_to_be_visible(self, end: int) -> None:
        if end > self._truth.mark:
            self.fail(
                Promise.NOTHING_LOST,
                f"{end} was acknowledged, the committed log ends at {self._truth.mark}",
            )
        self.floor = max(self.floor, end)

    def schema_altered(self, schema: Schema) -> None:
        """A client was told that the topic has this schema."""
        if schema.version > self.schema.version:
            self.schema = schema

    def encoded(self, labels: list[Label], padding: int, version: int, *, arrow: bool) -> Batch:
        """The labels as a client encodes them for a version that some client knows."""
        return batch_of(
            labels,
            padding,
            arrow=arrow,
            schema=self.schema.at(version),
            columns=self._truth.columns,
        )

    def trim_tried(self, offset: int) -> None:
        self._truth.retention.trim_asked = max(self._truth.retention.trim_asked, offset)

    def configured(self, settings: tuple[TopicSetting, ...]) -> None:
        """The topic is to have these settings from now on."""
        self._truth.retention.configured(settings)

    def group_at(self, group: str, offset: int) -> None:
        """A reader group publishes this position."""
        positions = self._truth.retention.positions
        positions.append({**positions[-1], group: offset})

    def trim_acknowledged(self, least: int, log_start: int) -> None:
        """`least`: what the trim must have removed at least."""
        if log_start < least:
            self.fail(Promise.TRIMS, f"a trim up to {least} left a log start of {log_start}")
        self._log_start_seen(log_start)
        self.start_floor = max(self.start_floor, log_start)

    def _log_start_seen(self, log_start: int) -> None:
        if log_start > self._truth.log_start:
            self.fail(
                Promise.TRIMS,
                f"a log start of {log_start}, that of the committed log is {self._truth.log_start}",
            )

    # ------------------------------------------------------------ reading

    def log_start_read(self, floor_before: int, log_start: int) -> None:
        """A strong read of the log start, as `mark_read`."""
        if log_start < floor_before:
            self.fail(
                Promise.LINEARIZABLE_MARKS,
                f"a strong read says that the log starts at {log_start}, a trim up to "
                f"{floor_before} was known before it began",
            )
        self._log_start_seen(log_start)
        self.start_floor = max(self.start_floor, log_start)

    def read_refused(self, start: int, log_start: int) -> None:
        """A replica has refused to read from `start` because its log starts above it."""
        if log_start <= start:
            self.fail(Promise.TRIMS, f"a read from {start} was refused, the log start {log_start}")
        self._log_start_seen(log_start)

    def mark_read(self, floor_before: int, mark: int) -> None:
        """A strong read of the mark; `floor_before` is the floor when it was asked for."""
        if mark < floor_before:
            self.fail(
                Promise.LINEARIZABLE_MARKS,
                f"a strong read says {mark}, {floor_before} was known before it began",
            )
        if mark > self._truth.mark:
            self.fail(
                Promise.LINEARIZABLE_MARKS,
                f"a strong read says {mark}, the committed log ends at {self._truth.mark}",
            )
        self.floor = max(self.floor, mark)

    def rows_read(self, start: int, end: int, mark: int, rows: Sequence[Row]) -> None:
        """Every record in [start, end), as some replica gave them that had reached the mark."""
        if end > self._truth.mark:
            self.fail(
                Promise.READS_BELOW_THE_MARK,
                f"records up to {end} were read, the mark is {self._truth.mark}",
            )
        if start < end and start < self._truth.overwritten_to(mark):
            self.fail(
                Promise.OVERWRITES,
                f"[{start}, {end}) was read where {mark} was visible, and is overwritten up to "
                f"{self._truth.overwritten_to(mark)}",
            )
        if [row.offset for row in rows] != list(range(start, end)):
            self.fail(
                Promise.READS_BELOW_THE_MARK,
                f"a read of [{start}, {end}) gave offsets {[row.offset for row in rows]}",
            )
        for row in rows:
            self._truth.records.read(row)
            label = Label.parse(row.text)
            once = label._replace(attempt="")
            if self._places.setdefault(once, row.offset) != row.offset:
                self.fail(
                    Promise.NOTHING_LOST,
                    f"{row.text} is at {self._places[once]} and at {row.offset}",
                )

    # ------------------------------------------------------------ at the end

    def check_whole(self, start: int, labels: Sequence[Label]) -> None:
        """The topic from its log start to its mark, after everything has ended.

        The first append or epoch may have lost its beginning to a trim, and what came before it is
        not known any more.
        """
        if start + len(labels) != self._truth.mark:
            self.fail(
                Promise.NOTHING_LOST,
                f"{len(labels)} records are readable of [{start}, {self._truth.mark})",
            )
        self._check_acknowledged(start, labels)
        position = 0
        next_sequence: dict[str, int] = {}
        last_epoch: dict[str, int] = {}
        while position < len(labels):
            first, cut = labels[position], start > 0 and position == 0
            if first.kind == "append":
                promise = Promise.NOTHING_LOST
                key = AppendKey(first.source, first.number)
                expected = _from_first(
                    append_labels(key, self._appends.get(key, 0)), first, cut=cut
                )
                due = next_sequence.get(key.producer, key.sequence if start else 0)
                if due != key.sequence:
                    self.fail(promise, f"{key} comes where sequence {due} is due")
                next_sequence[key.producer] = key.sequence + 1
            else:
                promise = Promise.EPOCHS_WHOLE
                name = EpochName(first.source, first.number)
                expected = self._epoch_at(name, labels, position, cut=cut)
                if last_epoch.get(name.writer, -1) >= name.epoch:
                    self.fail(promise, f"{name} comes after epoch {last_epoch[name.writer]}")
                last_epoch[name.writer] = name.epoch
            if not expected or list(labels[position : position + len(expected)]) != expected:
                self.fail(
                    promise,
                    f"at offset {start + position}, {first.text()} is not whole, or out of order",
                )
            position += len(expected)

    def _epoch_at(
        self, name: EpochName, labels: Sequence[Label], position: int, *, cut: bool
    ) -> list[Label]:
        """The tried content of the epoch that is there: all of it or nothing."""
        for attempts in sorted(self._proposals.get(name, ())):
            content = [label for attempt in attempts for label in self._attempts[attempt]]
            content = _from_first(content, labels[position], cut=cut)
            if content and list(labels[position : position + len(content)]) == content:
                return content
        return []

    def _check_acknowledged(self, log_start: int, labels: Sequence[Label]) -> None:
        present = {(label.source, label.number) for label in labels}
        for key, (start, end) in self._acked_appends.items():
            if start == -1:
                lost = log_start == 0 and tuple(key) not in present
            else:
                kept = slice(max(0, start - log_start), max(0, end - log_start))
                due = append_labels(key, self._appends[key])[max(0, log_start - start) :]
                lost = list(labels[kept]) != due
            if lost:
                self.fail(
                    Promise.NOTHING_LOST, f"{key}, acknowledged at [{start}, {end}), is not there"
                )
        for name, (start, end) in self._acked_epochs.items():
            if start == -1 or start == end or end <= log_start:
                continue
            found = labels[max(0, start - log_start) : end - log_start]
            if {(label.source, label.number) for label in found} != {tuple(name)}:
                self.fail(
                    Promise.NOTHING_LOST, f"{name}, acknowledged at [{start}, {end}), is not there"
                )


def _from_first(content: list[Label], first: Label, *, cut: bool) -> list[Label]:
    """The content; if a trim may have `cut` it, what is left of it from `first` on."""
    return content[content.index(first) :] if cut and first in content else content
