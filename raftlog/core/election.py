"""Who deserves a vote: read-only judgements and the count of a tally.

Nothing here changes a member's state; `raftlog.core.member` asks, then acts.
"""

from __future__ import annotations

from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership
from raftlog.core.messages import RaftMessage, TimeoutNow, VoteReply, VoteRequest
from raftlog.core.quorum import VoteResult, vote_result
from raftlog.core.ready import Role
from raftlog.core.state import Part
from raftlog.core.types import NO_NODE, GroupId, LastEntry, NodeId, Term

PATIENCE = 4
"""Election timeouts that a member waits before it campaigns while another should lead, because its
disk is slow or its state is in doubt."""


def log_is_up_to_date(request: VoteRequest, last: LastEntry | None) -> bool:
    """Is the candidate's log at least as complete as one that ends with `last`? None: with an
    unknown entry. (Raft section 5.4.1)"""
    return last is not None and LastEntry(request.last_term, request.last_index) >= last


def grants_vote(
    request: VoteRequest,
    *,
    term: Term,
    vote: NodeId,
    leader: NodeId,
    last: LastEntry | None,
    withheld: bool = False,
) -> bool:
    """The verdict on a real vote in our own term (Raft section 5.2), repeatable for its holder.

    While votes are `withheld` for a lease, only one that the leader has asked for is given.
    """
    if request.term != term or last is None:
        return False
    if vote == request.sender:
        return True
    if withheld and not request.transfer:
        return False
    return vote == NO_NODE and leader == NO_NODE and log_is_up_to_date(request, last)


def grants_pre_vote(
    request: VoteRequest, *, term: Term, vote: NodeId, hears_leader: bool, last: LastEntry | None
) -> bool:
    """Would we vote for it in its term? (pre-vote, Raft dissertation section 9.6)

    Never while a leader is heard: a node that was cut off comes back without an election.
    """
    if hears_leader or not log_is_up_to_date(request, last):
        return False
    return request.term > term or (request.term == term and vote in (NO_NODE, request.sender))


def moves_term(message: RaftMessage, *, needs_no_other: bool) -> bool:
    """Does a message of a later term bring us there, or is it only about one that might be?

    A member that still hears a leader `needs_no_other` (dissertation section 4.2.3), unless that
    leader has handed its role over.
    """
    match message:
        case VoteRequest(pre=True) | VoteReply(pre=True, granted=True):
            return False
        case VoteRequest():
            return message.transfer or not needs_no_other
        case _:
            return True


def answers(reply: VoteReply, *, role: Role, term: Term) -> bool:
    """Does the reply answer what a member of that role in that term has asked?

    A vote may answer a pre-candidate, too, whose election in that term ran out of time: votes bind
    for their whole term. It counts only if that member asked for it in this run (`VoteTally`).
    """
    if not reply.pre:
        return role in (Role.CANDIDATE, Role.PRE_CANDIDATE) and reply.term == term
    asked = reply.term == term + 1 if reply.granted else reply.term <= term
    return role is Role.PRE_CANDIDATE and asked


def outranks(request: VoteRequest, *, node: NodeId, log: LogView) -> bool:
    """Of two pre-votes that cross, does the other's go first? Exactly one of the two does.

    The better log wins, then the lower id. Only speed depends on it: two survivors of a leader
    that both hear of its death at once need not split the vote and wait for another timeout.
    """
    theirs = (request.last_term, request.last_index, -request.sender)
    return theirs > (log.last_term, log.last_index, -node)


def vote_request(
    group: GroupId, node: NodeId, term: Term, log: LogView, *, pre: bool, transfer: bool = False
) -> VoteRequest:
    """What a candidate asks, addressed to itself."""
    return VoteRequest(
        group=group,
        sender=node,
        to=node,
        term=term,
        last_index=log.last_index,
        last_term=log.last_term,
        pre=pre,
        transfer=transfer,
    )


class VoteTally(Part):
    """The answers to one election or pre-vote, each voter counted once however often it answers.

    A pre-vote that follows on an election of the same term keeps that election's votes. Where a
    majority's disks take longer than an election timeout, no election would succeed otherwise.
    """

    __slots__ = ("_membership", "_pre_votes", "_votes", "handed_over")

    def __init__(
        self, membership: Membership, *, election: bool, handed_over: TimeoutNow | None = None
    ) -> None:
        self._membership = membership
        self.handed_over = handed_over
        """What began the election; None: a pre-vote did."""
        self._votes: dict[NodeId, bool] | None = {} if election else None
        """None: this member has not asked for votes, at least not with the log it has now."""
        self._pre_votes: dict[NodeId, bool] = {}

    def start_pre_vote(self) -> None:
        """A pre-vote begins."""
        self._pre_votes = {}

    def record(self, reply: VoteReply) -> VoteResult:
        """Count an answer, and say what comes of the pre-vote or election that it belongs to.

        A vote given is never taken back by a late refusal.
        """
        votes = self._pre_votes if reply.pre else self._votes
        if votes is None:
            return VoteResult.PENDING
        votes[reply.sender] = reply.granted or votes.get(reply.sender, False)
        return vote_result(self._membership, votes)

    def answers(self, *, pre: bool, granted: bool) -> tuple[NodeId, ...]:
        """Who has granted, or refused, what the pre-vote or the election asked; by id."""
        votes = self._pre_votes if pre else self._votes or {}
        return tuple(node for node in self._membership.all_voters if votes.get(node) is granted)
