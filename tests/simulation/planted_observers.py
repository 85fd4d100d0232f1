"""Planted bugs of observers and their parents: see `tests.simulation.planted`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raftlog.core.raft import Raft
from raftlog.core.types import LogIndex, Span
from raftlog.multiraft.pull_answers import PullAnswers
from tests.simulation.planting import both, replaced


def parent_gives_what_is_not_committed() -> Any:
    """A parent takes the end of its log for its commit index."""
    pulled = PullAnswers._pulled

    def span(self: Any, answer: Any, local: Any, row: Any) -> Span | None:
        log = local.raft.log
        if row.index >= log.last_index:
            return None
        return Span(LogIndex(row.index + 1), log.last_index)

    def all_is_committed(self: Any, local: Any, *rest: Any) -> Any:
        found = pulled(self, local, *rest)
        return replace(found, commit_index=local.raft.log.last_index)

    return both(
        replaced(PullAnswers, "_span", span), replaced(PullAnswers, "_pulled", all_is_committed)
    )


def observer_takes_what_does_not_follow() -> Any:
    """An answer that came late is written at the end of the log, whatever it follows on."""

    def observe(self: Any, pulled: Any, *, term_max: Any) -> None:
        first = self.log.last_index + 1
        rows = enumerate(pulled.entries, first)
        entries = [replace(entry, index=LogIndex(index)) for index, entry in rows]
        if pulled.term > self.term:
            self._enter_term(pulled.term)
        if entries and entries[0].term >= self.log.last_term:
            self._write(entries)
        self._learn_commit_index(self.log.last_index)

    return replaced(Raft, "observe", observe)


OBSERVER_BUGS = (parent_gives_what_is_not_committed, observer_takes_what_does_not_follow)
