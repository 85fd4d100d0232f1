"""Do the replicas of a group have the same? They compare digests while they run.

Replicas apply the same entries, so what they make of them can differ only by a defect: a rule that
depends on more than the log, a program that was changed, memory that lies. Two things are compared,
each by a `Comparison` of its own:

- *states*: every `STATES_COMPARED_EVERY` entries each replica keeps its state hash;
- *histories*: at each snapshot point that it has compacted, each replica has the digest of all its
  records in history (`raftlog.image.history_digest`).

The leader asks for the digest at one point in its heartbeats. The one that a majority of all voters
holds is the agreed one, and every heartbeat tells it, so each replica judges itself. A new leader
repeats nothing that another one said, but asks again: one that lies is believed no longer than it
leads. A replica is:

- trusted: nothing is known against it;
- diverged: a majority agrees on another digest. It votes and acknowledges, because its log is as
  good as any, but serves no read and gives no image. If more than one node's word says so, it does
  not lead either (`outvoted`). One leader may lie: once it is gone such a replica campaigns, later
  than the others, and as a leader it asks again;
- disputed: digests differ and none has a majority. What came after the last agreed point is not
  served until one has.

A digest is of everything up to its point, so the newest point says it all: a state hash is chained,
and that of a history is of all that is retained. What is known against a state is forgotten at a
restart, which replays the log. A history is on disk, and so is what is known against it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from raftlog.core.membership import Membership
from raftlog.core.messages import Heartbeat, HeartbeatReply
from raftlog.core.quorum import is_quorum
from raftlog.core.types import FIRST_OFFSET, NO_INDEX, NO_NODE, LogIndex, NodeId, Offset

STATES_COMPARED_EVERY = 1024
"""Entries from one comparison of states to the next. Nodes need not have the same number: what a
node is asked and does not have, it does not answer."""

_POINTS_KEPT_MAX = 16
_QUESTION_POINTS_MAX = 4
"""A question that is open for so many points gives way to a newer one: a follower that was away may
have passed its point already."""


class Trust(Enum):
    """What a replica knows of its own state, or of its history."""

    TRUSTED = "trusted"
    DIVERGED = "diverged"
    DISPUTED = "disputed"


class Question(NamedTuple):
    """What a leader asks and tells of one comparison."""

    point: LogIndex = NO_INDEX
    """At which entry the receiver's digest is asked for; 0: at none."""
    agreed_index: LogIndex = NO_INDEX
    """The latest entry at which a majority's digests are known to agree; 0: none."""
    agreed_digest: bytes = b""
    disputed: bool = False


class Answer(NamedTuple):
    """What a follower says of it."""

    point: LogIndex = NO_INDEX
    """The entry that was asked for, if the follower has a digest there; 0: it has none."""
    digest: bytes = b""
    diverged: bool = False
    """A majority is known to have another digest than the follower."""


class _Point(NamedTuple):
    digest: bytes
    mark: Offset


class Comparison:
    """One replica's part in it: it answers as a follower and asks as a leader."""

    def __init__(
        self, node: NodeId, *, diverged: bool = False, agreed_mark: Offset = FIRST_OFFSET
    ) -> None:
        """`diverged` and `agreed_mark`: what was known before this process started."""
        self._node = node
        self._points: dict[LogIndex, _Point] = {}
        """The latest ones, in order."""
        self._asked = NO_INDEX
        """Whose digest the leader asks for; 0: none."""
        self._question = NO_INDEX
        """What this replica asks for, or asked for last, as a leader; open above `agreed_index`."""
        self._answers: dict[NodeId, bytes] = {}
        self._outvoted: set[NodeId] = set()
        """The followers that say that they have diverged."""
        self._agreed_digest = b""
        self._agreed_by = NO_NODE
        """The leader that said so; this replica itself, if it has counted the answers."""
        self._diverged = diverged
        self._diverged_at = NO_INDEX
        """The latest point at which it is known to differ: an agreement at an older one says
        nothing. 0: not since this process started."""
        self._accusers: set[NodeId] = set()
        """Those by which it has diverged."""
        self._disputed = False
        self._told = Trust.TRUSTED
        self.agreed_index = NO_INDEX
        """The latest point at which a majority agrees, as far as is known here; 0: none."""
        self.agreed_mark = agreed_mark
        """The mark of the latest point at which this replica agreed with a majority."""

    @property
    def trust(self) -> Trust:
        """What is known now of this replica."""
        if self._diverged:
            return Trust.DIVERGED
        return Trust.DISPUTED if self._disputed else Trust.TRUSTED

    def outvoted(self, membership: Membership) -> bool:
        """Has it diverged by its own count of answers, or by the word of a majority's leaders?"""
        counted = self._node in self._accusers
        return self._diverged and (counted or is_quorum(membership, self._accusers))

    @property
    def has_news(self) -> bool:
        """Whether `news` would give any."""
        return self._told is not self.trust

    def news(self) -> Trust | None:
        """The trust, if it is another one than at the last call; at first it is trusted."""
        before, self._told = self._told, self.trust
        return None if self._told is before else self._told

    def reached(self, index: LogIndex, digest: bytes, mark: Offset) -> None:
        """The replica has this digest at a point of comparison. While a majority agrees with it,
        records below `mark` are sound whatever is found at later points."""
        self._points[index] = _Point(digest, mark)
        if len(self._points) > _POINTS_KEPT_MAX:
            del self._points[next(iter(self._points))]
        if index == self.agreed_index:
            self._judge()

    # ------------------------------------------------------------ as a leader

    @property
    def is_undecided(self) -> bool:
        """Has it got beyond the latest point at which a majority agrees?"""
        return next(reversed(self._points), NO_INDEX) > self.agreed_index

    def lead(self) -> None:
        """This replica leads from now on: it asks again for what another leader said, and tells
        only what it has counted itself. If it has diverged by that word, it asks for the same
        point, where the word counts as its sender's own answer."""
        self._question = NO_INDEX
        self._disputed = False
        if self._agreed_by not in (NO_NODE, self._node):
            own = self._points.get(self.agreed_index)
            if self._diverged and own is not None:
                self._question = self.agreed_index
                self._answers = {self._node: own.digest, self._agreed_by: self._agreed_digest}
            self._forget_agreed()

    def ask(self) -> Question:
        """What this leader asks and tells in its next heartbeat."""
        is_open = self._question > self.agreed_index
        if self.is_undecided and (not is_open or self._question_is_old()):
            self._question = latest = next(reversed(self._points))
            self._answers = {self._node: self._points[latest].digest}
            is_open = True
        return Question(
            point=self._question if is_open else NO_INDEX,
            agreed_index=self.agreed_index,
            agreed_digest=self._agreed_digest,
            disputed=self._disputed,
        )

    def _question_is_old(self) -> bool:
        newer = sum(1 for index in self._points if index > self._question)
        return newer >= _QUESTION_POINTS_MAX

    def answered(self, sender: NodeId, answer: Answer, membership: Membership) -> None:
        """A follower has answered this leader; it says nothing if it is older or not there yet.

        Those that know themselves outvoted dispute nothing: they differ at every later point, which
        says nothing about the others.
        """
        if answer.diverged:
            self._outvoted.add(sender)
        else:
            self._outvoted.discard(sender)
        if answer.point != self._question or self._question <= self.agreed_index:
            return
        self._answers[sender] = answer.digest
        voters = membership.all_voters
        answers = {voter: self._answers[voter] for voter in voters if voter in self._answers}
        if not answers:
            return
        digest, _ = Counter(answers.values()).most_common(1)[0]
        if is_quorum(membership, {voter for voter in answers if answers[voter] == digest}):
            self._disputed = False
            self._learn(self._question, digest, self._node)
        elif len({answers[voter] for voter in answers if voter not in self._outvoted}) > 1:
            self._disputed = True

    # ------------------------------------------------------------ as a follower

    def heard(self, question: Question, leader: NodeId) -> None:
        """The leader has spoken. One that is older asks and tells nothing."""
        self._asked = question.point
        self._disputed = question.disputed
        if self.agreed_index > next(reversed(self._points), NO_INDEX):
            self._forget_agreed()  # it was only a leader's word, and each heartbeat repeats it
        if question.agreed_index:
            self._learn(question.agreed_index, question.agreed_digest, leader)

    def answer(self) -> Answer:
        """The digest that the leader asks for, if this replica has it."""
        point = self._points.get(self._asked)
        if point is None:
            return Answer(diverged=self._diverged)
        return Answer(self._asked, point.digest, self._diverged)

    # ------------------------------------------------------------ trust

    def _learn(self, index: LogIndex, digest: bytes, by: NodeId) -> None:
        if index >= self.agreed_index:
            self.agreed_index = index
            self._agreed_digest, self._agreed_by = digest, by
            self._judge()

    def _forget_agreed(self) -> None:
        self.agreed_index, self._agreed_digest, self._agreed_by = NO_INDEX, b"", NO_NODE

    def _judge(self) -> None:
        """Compare with what is agreed, once this replica has got there."""
        point = self._points.get(self.agreed_index)
        if point is None:
            return
        if point.digest != self._agreed_digest:
            self._diverged, self._diverged_at = True, self.agreed_index
            self._accusers.add(self._agreed_by)
        elif self.agreed_index >= self._diverged_at:
            self._diverged = False
            self._accusers.clear()
            self.agreed_mark = point.mark


# ---------------------------------------------------------------- in heartbeats


def asking(heartbeat: Heartbeat, states: Question, histories: Question) -> Heartbeat:
    """The heartbeat with what its sender asks and tells."""
    return replace(
        heartbeat,
        hash_index=states.point,
        agreed_index=states.agreed_index,
        agreed_hash=states.agreed_digest,
        disputed=states.disputed,
        history_index=histories.point,
        agreed_history_index=histories.agreed_index,
        agreed_history_digest=histories.agreed_digest,
        history_disputed=histories.disputed,
    )


def questions(heartbeat: Heartbeat) -> tuple[Question, Question]:
    """What it asks and tells, of states and of histories."""
    states = Question(
        heartbeat.hash_index,
        heartbeat.agreed_index,
        heartbeat.agreed_hash,
        heartbeat.disputed,
    )
    histories = Question(
        heartbeat.history_index,
        heartbeat.agreed_history_index,
        heartbeat.agreed_history_digest,
        heartbeat.history_disputed,
    )
    return states, histories


def answering(reply: HeartbeatReply, states: Answer, histories: Answer) -> HeartbeatReply:
    """The reply with what its sender answers."""
    return replace(
        reply,
        hash_index=states.point,
        state_hash=states.digest,
        diverged=states.diverged,
        history_index=histories.point,
        history_digest=histories.digest,
        history_diverged=histories.diverged,
    )


def answers(reply: HeartbeatReply) -> tuple[Answer, Answer]:
    """What it answers, of states and of histories."""
    states = Answer(reply.hash_index, reply.state_hash, reply.diverged)
    histories = Answer(reply.history_index, reply.history_digest, reply.history_diverged)
    return states, histories
