"""Bugs to plant: each breaks one rule in a real class, from outside, for as long as it lasts.

The product carries no switch for any of them. `BUGS` names them by the rule that they break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raftlog.core import replication
from raftlog.core.leadership import Leadership
from raftlog.core.messages import AppendRequest
from raftlog.core.progress import Progress
from raftlog.core.raft import Raft
from raftlog.core.types import LogIndex, Offset
from raftlog.machines import writers
from raftlog.machines.commands import AbortEpoch, CommitEpoch
from raftlog.machines.epoch_rules import Publish
from raftlog.machines.outcomes import Appended
from raftlog.machines.producers import ProducerTable
from raftlog.machines.topic import TopicMachine
from raftlog.machines.writers import WriterTable
from raftlog.replica import Replica
from raftlog.storage.hard_state import HardStateJournal
from raftlog.storage.memory import MemoryFile
from raftlog.storage.write import LogWrite

_FOR_EVER = 1 << 60


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    missing = object()
    original = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _constant(value: Any) -> property:
    """An attribute that says `value` whatever it is set to."""
    return property(lambda self: value, lambda self, ignored: None)


def acknowledge_before_fsync() -> Any:
    """Messages that wait for the log leave at once."""
    return _replaced(Replica, "_log_ticket_durable", _constant(_FOR_EVER))


def log_never_synced() -> Any:
    """A log's write ends before its sync."""
    original = MemoryFile.sync

    def sync(self: MemoryFile) -> None:
        if not self.path.endswith(".log"):
            original(self)

    return _replaced(MemoryFile, "sync", sync)


def vote_not_synced() -> Any:
    """Votes leave before the journal has them."""
    return _replaced(HardStateJournal, "durable_ticket", _constant(_FOR_EVER))


def old_term_committed_by_counting() -> Any:
    """Any entry that a majority holds is committed (Raft figure 8)."""

    def advance(self: Raft) -> None:
        if self._leadership is not None:
            index = self._leadership.agreed_index(self._durable_index)
            self._commit_index = max(self._commit_index, index)

    return _replaced(Raft, "_advance_commit_index", advance)


def commit_index_unverified() -> Any:
    """commit_index = min(leader's, last index): the last may be another term's."""
    original = Raft._on_append_request

    def on_append_request(self: Raft, request: AppendRequest) -> None:
        original(self, request)
        if request.term == self._term:
            self._learn_commit_index(LogIndex(min(request.commit_index, self._log.last_index)))

    return _replaced(Raft, "_on_append_request", on_append_request)


def truncate_always() -> Any:
    """What a request brings replaces the log's end, conflict or not."""
    return _replaced(replication, "first_difference", lambda log, entries: 0)


def match_index_regresses() -> Any:
    """The last confirmation counts, though an older one may come late."""
    original = Progress.accepted

    def accepted(self: Progress, match_index: LogIndex) -> bool:
        news = original(self, match_index)
        self.match_index = match_index
        return news

    return _replaced(Progress, "accepted", accepted)


def read_at_the_mark_plus_one() -> Any:
    """The mark is one record too high."""
    original = TopicMachine.high_water_mark
    assert isinstance(original, property)
    above = property(lambda self: Offset(original.fget(self) + 1))
    return _replaced(TopicMachine, "high_water_mark", above)


def read_before_the_noop() -> Any:
    """A new leader answers strong reads by a commit_index that may be old."""
    return _replaced(Leadership, "term_start", _constant(LogIndex(0)))


def abort_undoes_an_applied_epoch() -> Any:
    """An abort takes back that the epoch was committed."""
    original = WriterTable.abort_epoch

    def abort_epoch(self: WriterTable, command: AbortEpoch) -> int:
        row = self._rows.get(command.key.writer)
        if row is not None and row.last_epoch == command.key.epoch:
            row.last_epoch -= 1
        return original(self, command)

    return _replaced(WriterTable, "abort_epoch", abort_epoch)


def producers_not_deduplicated() -> Any:
    """A resent append is put behind the log's end again."""
    original = ProducerTable.judge

    def judge(self: ProducerTable, producer: str, sequence: int, crc: int) -> Any:
        answer = original(self, producer, sequence, crc)
        if isinstance(answer, Appended):
            self._producers[producer].next_sequence = sequence
            return None
        return answer

    return _replaced(ProducerTable, "judge", judge)


def epochs_not_whole() -> Any:
    """A CommitEpoch publishes all but the last of its attempts."""
    original = writers.judge_commit

    def judge_commit(row: Any, command: CommitEpoch, facts: Any) -> Any:
        verdict = original(row, command, facts)
        if isinstance(verdict, Publish) and len(verdict.attempts) > 1:
            return Publish(verdict.attempts[:-1])
        return verdict

    return _replaced(writers, "judge_commit", judge_commit)


def cut_not_done_before_the_append() -> Any:
    """After a conflict the old end of the log stays on disk."""
    return _replaced(LogWrite, "_run_cut", lambda self, cut: None)


BUGS: dict[str, Callable[[], Any]] = {
    bug.__name__: bug
    for bug in (
        acknowledge_before_fsync,
        log_never_synced,
        vote_not_synced,
        old_term_committed_by_counting,
        commit_index_unverified,
        truncate_always,
        match_index_regresses,
        read_at_the_mark_plus_one,
        read_before_the_noop,
        abort_undoes_an_applied_epoch,
        producers_not_deduplicated,
        epochs_not_whole,
        cut_not_done_before_the_append,
    )
}
