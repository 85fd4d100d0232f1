"""One task's attempts at its part of an epoch, one for each topic that its rows go to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import Attempt, AttemptReference, TopicInfo

ENTRIES_KEPT = 16
"""How much a task keeps in memory of rows that do not fill an entry yet, and as much of entries
that are not durable yet, in entries of `batch.bytes`. With fewer, the entries of a task with many
topics would be small; a task with one topic keeps less in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What a task staged for one topic. `reference` is None if it had no rows for it."""

    topic: TopicInfo
    reference: AttemptReference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A topic that a task stages rows for."""

    topic: TopicInfo
    names: Sequence[str | None]
    """For each column of the rows its name in the topic; None: it is not written."""
    attempt: Attempt


class Staging:
    """Stages each topic's rows as one new attempt. Memory is bounded, however many topics there
    are. One thread at a time."""

    def __init__(self, opens: Callable[[str], Opened], *, bytes_max: int, topics_max: int) -> None:
        self._opens = opens
        self._bytes_max = bytes_max
        self._topics_max = topics_max
        self._opened: dict[str, Opened] = {}

    def open(self, topic: str) -> Opened:
        """Begin an attempt for the topic, if there is none; also if it gets no rows."""
        found = self._opened.get(topic)
        if found is None:
            check_number(len(self._opened) + 1, self._topics_max)
            found = self._opened[topic] = self._opens(topic)
        return found

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        """Take rows of a topic, and stage those that fill an entry."""
        opened = self.open(topic)
        opened.attempt.write(_under(rows, opened.names))

    def make_room(self) -> None:
        """Bring what is kept down to the bound: the largest parts go first."""
        attempts = [opened.attempt for opened in self._opened.values()]
        _bring_down(
            attempts, lambda each: each.kept_bytes, lambda each: each.flush(), self._bytes_max
        )
        _bring_down(
            attempts, lambda each: each.pending_bytes, lambda each: each.settle(), self._bytes_max
        )

    def finish(self) -> tuple[Staged, ...]:
        """Stage all rows. On return every entry is replicated and none is visible."""
        for opened in self._opened.values():
            opened.attempt.flush()  # all are on their way before the first is waited for
        return tuple(
            Staged(topic=opened.topic, reference=opened.attempt.finish())
            for opened in self._opened.values()
        )

    def close(self) -> None:
        """Give up what is in flight. Changes nothing after `finish`."""
        for opened in self._opened.values():
            opened.attempt.close()


def check_number(topics: int, topics_max: int) -> None:
    """Refuse a batch for too many topics, before any of it is visible. Raises `InvalidOption`."""
    from raftlog.errors import InvalidOption

    if topics > topics_max:
        raise InvalidOption(
            option="maxTopicsPerBatch",
            problem=f"is {topics_max}, and the rows of one batch are for {topics} topics or more",
            advice="Check that the column topic holds names of topics and not some other value. "
            "If it does, raise the option, or write smaller batches.",
        )


def _bring_down(
    attempts: Sequence[Attempt],
    bytes_of: Callable[[Attempt], int],
    free: Callable[[Attempt], None],
    bytes_max: int,
) -> None:
    """Free the largest until all have no more than the bound."""
    total = sum(map(bytes_of, attempts))
    if total <= bytes_max:  # nearly always, and after each batch
        return
    for attempt in sorted(attempts, key=bytes_of, reverse=True):
        if total <= bytes_max:
            break
        total -= bytes_of(attempt)
        free(attempt)


def _under(batch: pa.RecordBatch, names: Sequence[str | None]) -> pa.RecordBatch:
    """The columns that have a name, under it."""
    assert batch.num_columns == len(names), f"{batch.schema} is not {names}"
    kept = [at for at, name in enumerate(names) if name is not None]
    own = batch if len(kept) == len(names) else batch.select(kept)
    return own.rename_columns([name for name in names if name is not None])
