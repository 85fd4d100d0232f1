"""One member at one moment, as checkers and tests see it from outside."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.leadership import FollowerView
from raftlog.core.ready import Role
from raftlog.core.types import LogIndex, NodeId, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """What `Raft.status` says; nothing that happens later changes it."""

    node: NodeId
    role: Role
    term: Term
    vote: NodeId
    """Whom it voted for in its term; NOBODY: it still may."""
    leader: NodeId
    """Who leads its term, as far as it knows; NOBODY: unknown or lost."""
    base_index: LogIndex
    """The entry before the first one in its log; 0: none was dropped."""
    last_index: LogIndex
    last_term: Term
    durable_index: LogIndex
    commit_index: LogIndex
    commit_term: Term
    last_applied: LogIndex
    quiesced: bool
    elapsed_ticks: int
    """Ticks since it heard a leader or last acted; no leader counts them."""
    timeout_ticks: int
    """It tries to lead once `elapsed_ticks` is as high; a slow disk makes it wait longer."""
    votes_granted: tuple[NodeId, ...]
    """Who has said yes to its present pre-vote or election, by id; () in any other role."""
    votes_refused: tuple[NodeId, ...]
    pending_reads: int
    """Linearizable reads that await their round."""
    followers: tuple[FollowerView, ...]
    """As `Raft.followers` says."""
