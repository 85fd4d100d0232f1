"""Replicas compare what they have: what each concludes, as values and without a network."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from raftlog.comparison import (
    Answer,
    Comparison,
    Question,
    Trust,
    answering,
    answers,
    asking,
    questions,
)
from raftlog.core.membership import Membership
from raftlog.core.types import LogIndex, NodeId, Offset
from tests.core.member import heartbeat, heartbeat_reply
from tests.multiraft.test_diverged_replica import Driver

EVERY = 10
POINTS_KEPT = 16
GOOD, BAD, WORSE = b"good", b"bad", b"worse"
TRUSTED, DIVERGED, DISPUTED = Trust.TRUSTED, Trust.DIVERGED, Trust.DISPUTED


class Group:
    """The comparisons of a group whose replica 1 leads unless a test says otherwise."""

    def __init__(self, voters: int, *, older: Collection[int] = ()) -> None:
        self.voters = [NodeId(node) for node in range(1, voters + 1)]
        self.older = older
        self.replicas = {node: Comparison(node) for node in self.voters}
        self.leader = 1

    def reach(self, index: int, **states: bytes) -> None:
        """Replicas n1, n2, ... reach the point with these states; the mark is twice the point."""
        for name, state in states.items():
            replica = self.replicas[NodeId(int(name[1:]))]
            replica.reached(LogIndex(index), state, Offset(2 * index))

    def heartbeat(self, leader: int = 1, *, to: Collection[int] | None = None) -> Question:
        """One question to each follower and its answer; what was asked and told."""
        sent = None
        asker = self.replicas[NodeId(leader)]
        if leader != self.leader:
            self.leader = leader
            asker.lead()
        for follower in self.voters:
            if follower == leader or (to is not None and follower not in to):
                continue
            sent = asker.ask()
            answer = Answer()
            if follower not in self.older:
                self.replicas[follower].heard(sent, NodeId(leader))
                answer = self.replicas[follower].answer()
            asker.answered(follower, answer, Membership(tuple(self.voters)))
        assert sent is not None
        return sent

    @property
    def trust(self) -> list[Trust]:
        return [self.replicas[node].trust for node in self.voters]


def test_no_hash_is_sent_before_the_first_point_nor_after_agreement() -> None:
    group = Group(3)
    assert group.heartbeat() == Question()
    group.reach(10, n1=GOOD, n2=GOOD, n3=GOOD)
    assert group.heartbeat(to=[2]).point == 10
    sent = group.heartbeat()
    assert (sent.point, sent.agreed_index, sent.agreed_digest) == (0, 10, GOOD)
    assert group.trust == [TRUSTED] * 3
    assert [replica.agreed_mark for replica in group.replicas.values()] == [20] * 3


@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("odd", [1, 2])
def test_a_replica_that_differs_from_a_majority_knows_it_whether_or_not_it_leads(
    voters: int, odd: int
) -> None:
    group = Group(voters)
    states = {f"n{node}": BAD if node == odd else GOOD for node in group.voters}
    group.reach(10, **states)
    for _ in range(2):
        group.heartbeat()
    assert group.trust == [DIVERGED if node == odd else TRUSTED for node in group.voters]


def test_a_group_of_one_has_no_replica_to_differ_from() -> None:
    """Its leader sends no heartbeats."""
    group = Group(1)
    group.reach(10, n1=GOOD)
    assert group.trust == [TRUSTED]


def test_with_no_majority_the_state_is_disputed_until_there_is_one() -> None:
    group = Group(3)
    group.reach(10, n1=GOOD, n2=GOOD, n3=GOOD)
    group.heartbeat()
    group.reach(20, n1=GOOD, n2=BAD, n3=WORSE)
    for _ in range(2):
        group.heartbeat()
    assert group.trust == [DISPUTED] * 3
    assert {replica.agreed_mark for replica in group.replicas.values()} == {20}
    # Replica 3 starts again, replays its log, and reaches another state.
    group.replicas[NodeId(3)] = Comparison(NodeId(3))
    group.reach(20, n3=BAD)
    for _ in range(2):
        group.heartbeat()
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]


def test_two_that_differ_are_disputed_while_the_third_is_away() -> None:
    group = Group(3)
    group.reach(10, n1=GOOD, n2=BAD)
    for _ in range(2):
        group.heartbeat(to=[2])
    assert group.trust[:2] == [DISPUTED] * 2
    group.reach(10, n3=BAD)
    group.heartbeat()
    group.heartbeat()
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]


@pytest.mark.parametrize("asker", [2, 3])
def test_one_that_was_outvoted_disputes_nothing_while_another_is_away(asker: int) -> None:
    """Whether or not this leader found it out."""
    group = Group(3)
    group.reach(10, n1=BAD, n2=GOOD, n3=GOOD)
    for _ in range(2):
        group.heartbeat(2)
    away = 5 - asker
    group.heartbeat(asker, to=[1])
    group.reach(20, n1=BAD, **{f"n{asker}": GOOD})
    group.heartbeat(asker, to=[1])
    assert group.replicas[NodeId(asker)].trust is TRUSTED
    group.reach(20, **{f"n{away}": WORSE})
    for _ in range(2):
        group.heartbeat(asker)
    assert group.replicas[NodeId(asker)].trust is DISPUTED


def test_two_equal_ones_of_three_agree_without_the_third() -> None:
    group = Group(3)
    group.reach(10, n1=GOOD, n2=GOOD)
    group.heartbeat(to=[2])
    assert group.replicas[NodeId(1)].agreed_index == 10
    # The third comes back and learns from a heartbeat that it is wrong, once it gets there.
    group.heartbeat()
    assert group.trust == [TRUSTED] * 3
    group.reach(10, n3=BAD)
    assert group.trust == [TRUSTED, TRUSTED, DIVERGED]


def test_an_older_peer_neither_asks_nor_answers_nor_counts() -> None:
    """Half of an upgrade: two of three compare states. They can agree, but neither outvotes one."""
    group = Group(3, older=[3])
    group.reach(10, n1=GOOD, n2=GOOD)
    group.heartbeat()
    assert group.replicas[NodeId(1)].agreed_index == 10
    group.reach(20, n1=GOOD, n2=BAD)
    group.heartbeat()
    group.heartbeat()
    assert group.trust[:2] == [DISPUTED] * 2
    group = Group(3, older=[2, 3])
    group.reach(10, n1=BAD)
    group.heartbeat()
    assert group.trust == [TRUSTED] * 3


def test_the_next_leader_keeps_asking_and_ignores_older_agreement() -> None:
    group = Group(3)
    group.reach(10, n1=GOOD, n2=GOOD, n3=GOOD)
    group.heartbeat()
    group.heartbeat()
    group.reach(20, n1=BAD, n2=GOOD, n3=GOOD)
    for _ in range(2):
        group.heartbeat(2)
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]
    assert group.replicas[NodeId(1)].agreed_index == 20
    stale = group.replicas[NodeId(3)].ask()
    group.replicas[NodeId(1)].heard(stale, NodeId(3))
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]


def test_a_question_that_a_follower_has_passed_gives_way_to_a_newer_one() -> None:
    """Replica 2 is away, then so far ahead that it has forgotten the point; 3 never answers."""
    group = Group(3)
    group.reach(10, n1=GOOD)
    assert group.heartbeat(to=[3]).point == 10
    for index in range(20, 50, EVERY):
        group.reach(index, n1=GOOD)
    assert group.heartbeat(to=[3]).point == 10
    for index in range(50, 300, EVERY):
        group.reach(index, n1=GOOD, n2=GOOD)
    assert group.heartbeat(to=[2]).point == 290
    assert group.replicas[NodeId(1)].agreed_index == 290


def test_only_the_latest_points_are_kept_to_answer_for() -> None:
    comparison = Comparison(NodeId(1))
    points = [LogIndex(EVERY * number) for number in range(1, POINTS_KEPT + 3)]
    for point in points:
        comparison.reached(point, GOOD, Offset(point))
    for point in points:
        comparison.heard(Question(point=point), NodeId(2))
        kept = point in points[-POINTS_KEPT:]
        assert comparison.answer() == (Answer(point, GOOD) if kept else Answer())


def test_a_replica_that_agrees_again_is_trusted_again() -> None:
    """The others were wrong, and right after a restart."""
    group = Group(3)
    group.reach(10, n1=GOOD, n2=BAD, n3=BAD)
    group.heartbeat()
    group.heartbeat()
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]
    for node in (2, 3):
        group.replicas[NodeId(node)] = Comparison(NodeId(node))
    group.reach(20, n1=GOOD, n2=GOOD, n3=GOOD)
    for _ in range(2):
        group.heartbeat(2)
    assert group.trust == [TRUSTED] * 3


def test_what_was_known_before_a_restart_holds_until_a_majority_says_otherwise() -> None:
    """A restart makes no history better. While nobody speaks, nothing is served from it."""
    group = Group(3)
    group.replicas[NodeId(3)] = Comparison(NodeId(3), diverged=True, agreed_mark=Offset(7))
    odd = group.replicas[NodeId(3)]
    assert (odd.trust, odd.agreed_mark) == (DIVERGED, 7)
    assert odd.news() is DIVERGED
    group.reach(20, n3=BAD)
    assert odd.trust is DIVERGED
    group.reach(20, n1=GOOD, n2=GOOD)
    group.heartbeat()
    group.heartbeat()
    assert (odd.trust, odd.agreed_mark) == (DIVERGED, 7)
    group.reach(30, n1=GOOD, n2=GOOD, n3=GOOD)
    group.heartbeat()
    group.heartbeat()
    assert (odd.trust, odd.agreed_mark) == (TRUSTED, 60)
    assert odd.news() is TRUSTED
    assert odd.news() is None


def test_heartbeats_carry_what_is_asked_and_answered_of_both_comparisons() -> None:
    states = Question(LogIndex(3), LogIndex(2), b"two", disputed=True)
    histories = Question(LogIndex(30), LogIndex(20), b"twenty")
    replica = Driver().replica
    plain = heartbeat(replica, 2, term=1)
    assert questions(plain) == (Question(), Question())
    assert questions(asking(plain, states, histories)) == (states, histories)
    reply = heartbeat_reply(replica, 2, last_index=1)
    both = Answer(LogIndex(3), b"three"), Answer(LogIndex(30), b"thirty", diverged=True)
    assert answers(reply) == (Answer(), Answer())
    assert answers(answering(reply, *both)) == both


def test_a_leader_that_claims_an_agreement_far_ahead_ends_no_comparison() -> None:
    replica = Comparison(NodeId(1))
    replica.reached(LogIndex(10), GOOD, Offset(20))
    replica.heard(Question(agreed_index=LogIndex(1 << 61), agreed_digest=BAD), NodeId(2))
    assert replica.trust is TRUSTED
    replica.heard(Question(agreed_index=LogIndex(10), agreed_digest=BAD), NodeId(3))
    assert replica.trust is DIVERGED, "the next leader is heard"


@pytest.mark.parametrize("disputed", [False, True])
@pytest.mark.parametrize("claimed", [0, 10, 20, 30, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("honest", [1, 2, 3])
def test_what_a_leader_that_lies_has_said_ends_with_its_leadership(
    honest: int, claimed: int, *, disputed: bool
) -> None:
    """Replica 3 lies once. Then another leads, or 3 again, which has restarted."""
    group = Group(3)
    group.reach(10, n1=GOOD, n2=GOOD, n3=GOOD)
    for _ in range(2):
        group.heartbeat()
    group.reach(20, n1=GOOD, n2=GOOD, n3=GOOD)
    lie = Question(LogIndex(0), LogIndex(claimed), BAD if claimed else b"", disputed)
    for node in (1, 2):
        group.replicas[NodeId(node)].heard(lie, NodeId(3))
    group.leader = 3
    group.replicas[NodeId(3)] = Comparison(NodeId(3))
    group.reach(20, n3=GOOD)
    for _ in range(2):
        sent = group.heartbeat(honest)
    assert (sent.agreed_index, sent.agreed_digest, sent.disputed) == (20, GOOD, False)
    assert group.trust == [TRUSTED] * 3
    group.reach(30, n1=GOOD, n2=BAD, n3=GOOD)
    for _ in range(2):
        group.heartbeat(honest)
    assert group.trust == [TRUSTED, DIVERGED, TRUSTED], "states are still compared"


def test_a_claimed_dispute_ends_with_its_leader_where_there_is_no_point_to_ask_for() -> None:
    group = Group(3)
    for node in (1, 2):
        group.replicas[NodeId(node)].heard(Question(disputed=True), NodeId(3))
    assert group.trust == [DISPUTED, DISPUTED, TRUSTED]
    assert group.heartbeat(2, to=[1]) == Question()
    assert group.trust == [TRUSTED] * 3


def test_a_dispute_is_found_again_by_the_next_leader() -> None:
    group = Group(3)
    group.reach(10, n1=GOOD, n2=BAD, n3=WORSE)
    for _ in range(2):
        group.heartbeat()
    for _ in range(2):
        assert group.heartbeat(2).agreed_index == 0
    assert group.trust == [DISPUTED] * 3


def test_a_new_leader_asks_for_its_newest_point_though_another_has_counted_it() -> None:
    group = Group(3)
    for index, leader in ((10, 1), (20, 2)):
        group.reach(index, n1=GOOD, n2=GOOD, n3=GOOD)
        group.heartbeat(leader)
        assert group.heartbeat(leader).agreed_index == index
    sent = group.heartbeat(1, to=[2])
    assert (sent.point, sent.agreed_index) == (20, 0)
    assert group.heartbeat(1).agreed_index == 20


def test_an_outvoted_replica_stays_so_though_the_next_leader_agrees_at_an_older_point() -> None:
    """Replica 3 has not compacted any further, and 1 has not got to the latest agreement."""
    group = Group(3)
    group.reach(10, n1=GOOD, n2=GOOD, n3=GOOD)
    group.reach(20, n1=BAD, n2=GOOD, n3=GOOD)
    group.heartbeat(2)
    group.heartbeat(2)
    group.replicas[NodeId(3)] = Comparison(NodeId(3))
    group.reach(10, n3=GOOD)
    ahead = Question(agreed_index=LogIndex(30), agreed_digest=GOOD)
    group.replicas[NodeId(1)].heard(ahead, NodeId(2))
    for _ in range(2):
        assert group.heartbeat(3).agreed_index in (0, 10)
    assert group.trust == [DIVERGED, TRUSTED, TRUSTED]
