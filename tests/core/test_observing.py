"""A replica that is no member of its group takes what others say is committed, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import PulledEntries
from raftlog.core.raft import Raft
from raftlog.core.types import (
    NO_INDEX,
    NO_NODE,
    Entry,
    EntryKind,
    GroupId,
    HardState,
    LogIndex,
    NodeId,
    Payload,
    RaftTiming,
    Span,
    Term,
)
from raftlog.errors import PeerProtocolViolation


def observer(terms: Sequence[int] = (), applied: int = 0) -> Raft:
    runs = [(at, term) for at, term in enumerate(terms, 1) if at == 1 or term != terms[at - 2]]
    return Raft(
        node=NodeId(9),
        group=GroupId(1),
        memberships=Memberships(MembershipAt(NO_INDEX, Membership())),
        timing=RaftTiming(),
        hard_state=HardState(Term(max(terms, default=0)), NO_NODE),
        log=LogView.restore(terms=runs, sizes=[1] * len(terms)),
        random=random.Random(1),
        applied_index=LogIndex(applied),
    )


def entries(first: int, *terms: int) -> tuple[Entry, ...]:
    payload = Payload(b"x", b"")
    return tuple(
        Entry(LogIndex(index), Term(term), EntryKind.COMMAND, payload)
        for index, term in enumerate(terms, first)
    )


def pulled(prev: tuple[int, int] = (0, 0), *terms: int, **others: Any) -> PulledEntries:
    last = prev[0] + len(terms)
    values: dict[str, Any] = {"term": 3, "leader": 2, "base_index": 0, "commit_index": last}
    return PulledEntries(
        group=GroupId(1), sender=NodeId(1), to=NodeId(9), held=True,
        prev_index=LogIndex(prev[0]), prev_term=Term(prev[1]),
        entries=entries(prev[0] + 1, *terms), **values | others,
    )  # fmt: skip


def test_what_is_pulled_is_committed_at_once_and_names_the_leader() -> None:
    """CHECKLIST 54."""
    raft = observer()
    raft.observe(pulled((0, 0), 1, 1, 3))
    ready = raft.ready()
    assert ready.committed == Span(LogIndex(1), LogIndex(3))
    assert [entry.term for entry in ready.entries] == [1, 1, 3]
    assert ready.truncate_from is None
    assert (raft.term, raft.leader) == (3, 2)
    assert ready.hard_state is not None, "an image of this term may be published"


def test_an_answer_that_comes_twice_or_late_changes_nothing() -> None:
    raft = observer()
    raft.observe(pulled((0, 0), 1, 1))
    for late in (pulled((0, 0), 1, 1), pulled((1, 1), 1), pulled((5, 2), 2)):
        raft.observe(late)
    assert raft.log.last_index == raft.commit_index == 2


@pytest.mark.parametrize(
    "wrong",
    [
        pulled((2, 1), 1, 1, commit_index=3),
        pulled((2, 2), 2),
        pulled((2, 1), 4),
        pulled((2, 1), 0),
        pulled((2, 1), term=1, leader=5),
        pulled((2, 1), leader=9),
        pulled((2, 1), commit_index=1 << 63),
    ],
    ids=["uncommitted", "conflict", "later term", "no term", "two leaders", "itself", "range"],
)
def test_what_no_honest_parent_sends_is_refused_and_changes_nothing(wrong: PulledEntries) -> None:
    """CHECKLIST 54, 23."""
    raft = observer()
    raft.observe(pulled((0, 0), 1, 1, term=1, leader=2))
    raft.ready()
    with pytest.raises(PeerProtocolViolation):
        raft.observe(wrong)
    assert (raft.log.last_index, raft.commit_index, raft.term, raft.leader) == (2, 2, 1, 2)
    assert not raft.ready()


def test_a_parent_that_is_behind_commits_nothing_here() -> None:
    raft = observer((1, 1, 2))
    raft.observe(pulled((0, 0), commit_index=2))
    assert raft.commit_index == 0, "what this log holds beyond it may be anybody's, as it seems"
    raft.observe_log()
    assert raft.commit_index == 3


def test_it_never_campaigns_however_long_nobody_is_heard() -> None:
    """CHECKLIST 53."""
    raft = observer()
    raft.observe(pulled((0, 0), 1, 1))
    raft.ready()
    for _ in range(1_000):
        raft.tick()
        assert not raft.ready().messages
    assert raft.term == 3
