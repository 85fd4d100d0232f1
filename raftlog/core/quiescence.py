"""How a group that has nothing to do stops: no heartbeats, no timers, nothing to tick.

A leader whose group was asked for nothing for a while, and whose followers hold all it has and know
all of it committed, asks them in its heartbeats to quiesce. A follower agrees, and is quiesced,
only if its log ends exactly at that commit_index; once all that are in contact have agreed the
leader is quiesced, too. The host loop does not tick a quiesced member. It watches the process of
its leader (or, for a leader, those of its followers) instead, once for all groups, and wakes the
member when they fall silent. Any message of the group that says something new wakes it as well; the
last heartbeat of a leader that steps down while its process lives on is one.

No promise rests on this. A quiesced leader needs a round of heartbeats for each read, and it
appends and commits like any other. The rules for votes do not change: a quiesced follower counts
as one that hears its leader, until a silence wakes it. A member that is quiesced or awake by
mistake costs time, nothing else.
"""

from __future__ import annotations

from raftlog.core.messages import Heartbeat, HeartbeatReply, RaftMessage
from raftlog.core.state import Part
from raftlog.core.types import LogIndex, NodeId, Term


def keeps_quiesced(
    message: RaftMessage, *, leader: NodeId, term: Term, commit_index: LogIndex, own_round: int
) -> bool:
    """Does a message say only what a quiesced member knows, so that it may stay quiesced?

    That is its leader asking again, and a follower's late answer to `own_round`, the round by which
    the leader itself quiesced (0 for a follower).
    """
    if message.term != term:
        return False
    match message:
        case Heartbeat(sender=sender, quiesce_round=asked) if asked > 0:
            return sender == leader and message.commit_index == commit_index
        case HeartbeatReply(quiesce_round=answered):
            return answered == own_round > 0
        case _:
            return False


class Quiescence(Part):
    """A leader's way to quiesce: how long nothing was asked of it, and who has agreed.

    Rounds of asking are numbered, so that a late answer to an earlier round does not count for this
    one. Mutable; it begins and ends with a leadership.
    """

    __slots__ = ("_after_ticks", "_agreed", "_idle_ticks", "round")

    def __init__(self, after_ticks: int) -> None:
        """Ask after so many idle ticks; 0: never."""
        self.round = 0
        """The number of the latest round; 0: none yet."""
        self._after_ticks = after_ticks
        self._idle_ticks = 0
        self._agreed: set[NodeId] | None = None
        """Who agreed in the present round; None: there is none."""

    @property
    def due(self) -> bool:
        """Was nothing asked of the leader for long enough?"""
        return 0 < self._after_ticks <= self._idle_ticks

    def tick(self) -> None:
        """One more idle tick."""
        self._idle_ticks += 1

    def disturbed(self) -> None:
        """Something was asked: the present round is given up, the wait begins again."""
        self._idle_ticks = 0
        self._agreed = None

    def ask(self) -> int:
        """The round in which a heartbeat asks: the present one, or a new one."""
        assert self.due, "no follower is asked to quiesce while there is something to do"
        if self._agreed is None:
            self.round += 1
            self._agreed = set()
        return self.round

    def give_up(self) -> None:
        """The group is not idle after all: answers to what was asked count no more."""
        self._agreed = None

    def ask_again(self) -> None:
        """A quiesced leader asks its followers again, at once, whether all is as it was."""
        self._idle_ticks = max(1, self._after_ticks)
        self._agreed = None

    def agreed(self, follower: NodeId, in_round: int) -> None:
        """The follower is quiesced, as it was asked in that round."""
        if self._agreed is not None and in_round == self.round:
            self._agreed.add(follower)

    def disagrees(self, follower: NodeId) -> None:
        """The follower is awake, whatever it said before."""
        if self._agreed is not None:
            self._agreed.discard(follower)

    def has_agreed(self, follower: NodeId) -> bool:
        """Has the follower agreed in the present round?"""
        return self._agreed is not None and follower in self._agreed

    @property
    def asking(self) -> bool:
        """Is there a round now?"""
        return self._agreed is not None
