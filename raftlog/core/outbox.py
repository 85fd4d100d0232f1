"""What was decided and not handed out yet: it fills step by step and is drained by `ready()`."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.core.messages import OutMessage
from raftlog.core.ready import NOTHING, ReadState, Ready, SoftState
from raftlog.core.state import Part
from raftlog.core.types import Entry, HardState, LogIndex, Span


class Outbox(Part):
    """Mutable. Remembers what was handed out last, so that a `Ready` carries only what is new."""

    __slots__ = (
        "_committed_to",
        "_entries",
        "_hard_state",
        "_soft_state",
        "_stored_to",
        "_truncate_from",
        "_writes",
        "after_persist",
        "messages",
        "reads",
        "reads_dropped",
    )

    def __init__(
        self,
        *,
        soft_state: SoftState,
        hard_state: HardState,
        commit_index: LogIndex,
        last_index: LogIndex,
    ) -> None:
        """Everything given is known outside already: `last_index` ends the log in storage."""
        self.messages: list[OutMessage] = []
        self.after_persist: list[OutMessage] = []
        self.reads: list[ReadState] = []
        self.reads_dropped: list[int] = []
        self._soft_state = soft_state
        self._hard_state = hard_state
        self._committed_to = commit_index
        self._stored_to: int = last_index
        self._truncate_from: int | None = None
        self._entries: list[Entry] = []
        self._writes = WriteLedger()

    @property
    def committed_to(self) -> LogIndex:
        """The last index that was handed out as committed."""
        return self._committed_to

    def truncate(self, index: LogIndex) -> None:
        """The log lost `index` and all after it; storage hears of it if it has any of that."""
        self._entries = [entry for entry in self._entries if entry.index < index]
        if index <= self._stored_to:
            self._truncate_from = index
            self._stored_to = index - 1
            self._writes.truncate(index)

    def append(self, entries: Sequence[Entry]) -> None:
        """The log gained entries at its end."""
        self._entries.extend(entries)

    def persisted(self, write_number: int) -> int:
        """That write and all before it are durable: up to which index does the log keep of them
        what they brought? 0 if that is no news."""
        return self._writes.persisted(write_number)

    def drain(
        self, *, soft_state: SoftState, hard_state: HardState, commit_index: LogIndex
    ) -> Ready:
        """Everything new, once; `NOTHING` itself if there is nothing."""
        if not (
            self.messages
            or self._entries
            or self.after_persist
            or commit_index > self._committed_to
            or self.reads
            or self.reads_dropped
            or self._truncate_from is not None
            or soft_state != self._soft_state
            or hard_state != self._hard_state
        ):
            return NOTHING
        committed = None
        if commit_index > self._committed_to:
            committed = Span(LogIndex(self._committed_to + 1), commit_index)
        cut = self._truncate_from
        if self._entries:
            self._stored_to = self._entries[-1].index
        has_write = bool(self._entries) or cut is not None
        ready = Ready(
            soft_state=soft_state if soft_state != self._soft_state else None,
            hard_state=hard_state if hard_state != self._hard_state else None,
            write_number=self._writes.begin(self._stored_to) if has_write else 0,
            truncate_from=LogIndex(cut) if cut is not None else None,
            entries=tuple(self._entries),
            committed=committed,
            reads=tuple(self.reads),
            reads_dropped=tuple(self.reads_dropped),
            messages=tuple(self.messages),
            messages_after_persist=tuple(self.after_persist),
        )
        self._soft_state = soft_state
        self._hard_state = hard_state
        self._committed_to = commit_index
        self._truncate_from = None
        self._entries = []
        self.messages.clear()
        self.after_persist.clear()
        self.reads.clear()
        self.reads_dropped.clear()
        return ready


class WriteLedger(Part):
    """Which writes of the log were handed out and are not known to be durable, and what of them
    still counts.

    Index and term do not identify a write: a follower may truncate an entry for a leader of a
    later term and get the very same again from a leader of a still later one. The write that
    brought it first says nothing of the second copy, which stands behind the truncation. So a
    truncation lowers what earlier writes reach to, and nothing raises it again.
    """

    __slots__ = ("_latest", "_reach")

    def __init__(self) -> None:
        self._latest = 0
        """The number of the latest write handed out."""
        self._reach: list[tuple[int, int]] = []
        """(number, last index that it makes durable), rising in both: a write that reaches no
        further than an earlier one adds nothing."""

    def begin(self, last_index: int) -> int:
        """Number a write after which the log ends at `last_index`."""
        self._latest += 1
        if not self._reach or self._reach[-1][1] < last_index:
            self._reach.append((self._latest, last_index))
        return self._latest

    def truncate(self, index: int) -> None:
        """The log lost `index` and all after it."""
        first = 0
        while self._reach and self._reach[-1][1] >= index:
            first, _ = self._reach.pop()
        if first and (not self._reach or self._reach[-1][1] < index - 1):
            self._reach.append((first, index - 1))

    def persisted(self, number: int) -> int:
        """The last index that the writes up to `number` have made durable; 0: no news."""
        assert 0 < number <= self._latest, "only what was handed out can be durable"
        done = 0
        while done < len(self._reach) and self._reach[done][0] <= number:
            done += 1
        if not done:
            return 0
        _, last_index = self._reach[done - 1]
        del self._reach[:done]
        return last_index
