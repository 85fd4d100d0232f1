"""One member at one moment, as checkers and tests see it from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftlog.core.leadership import FollowerView
from raftlog.core.membership import Membership
from raftlog.core.reads import PendingRead
from raftlog.core.ready import Role
from raftlog.core.types import LogIndex, NodeId, Term

if TYPE_CHECKING:
    from raftlog.core.raft import Raft


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """What `Raft.status` says; nothing that happens later changes it."""

    node: NodeId
    membership: Membership
    membership_index: LogIndex
    """The entry that it came with; 0: it came with the group."""
    role: Role
    term: Term
    vote: NodeId
    """The node that it voted for in its term; NO_NODE: none yet."""
    leader: NodeId
    """Who leads its term, as far as it knows; NO_NODE: unknown or lost."""
    base_index: LogIndex
    """The entry before the first one in its log; 0: none was dropped."""
    first_index: LogIndex
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
    handed_over: bool
    """Its present election began because the leader handed its role over."""
    transferring_to: NodeId
    """The node to which this leader transfers its role; NO_NODE: none."""
    pending_reads: tuple[PendingRead, ...]
    """Linearizable reads that await their round, in the order in which they came."""
    followers: tuple[FollowerView, ...]
    """As `Raft.followers` says."""


def status_of(raft: Raft) -> RaftStatus:
    """The member as it is now."""
    pre, tally = raft.role is Role.PRE_CANDIDATE, raft.tally
    return RaftStatus(
        node=raft.node,
        membership=raft.membership,
        membership_index=raft.memberships.latest_index,
        role=raft.role,
        term=raft.term,
        vote=raft.vote,
        leader=raft.leader,
        base_index=raft.log.base_index,
        first_index=raft.log.first_index,
        last_index=raft.log.last_index,
        last_term=raft.log.last_term,
        durable_index=raft.durable_index,
        commit_index=raft.commit_index,
        commit_term=raft.log.term_at(raft.commit_index),
        last_applied=raft.last_applied,
        quiesced=raft.quiesced,
        elapsed_ticks=raft.timer.elapsed_ticks,
        timeout_ticks=raft.timer.timeout_ticks,
        votes_granted=tally.answers(pre=pre, granted=True) if tally is not None else (),
        votes_refused=tally.answers(pre=pre, granted=False) if tally is not None else (),
        handed_over=tally is not None and tally.handed_over is not None,
        transferring_to=raft.transferring_to,
        pending_reads=raft.pending_reads(),
        followers=raft.followers(),
    )
