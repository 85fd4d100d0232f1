"""Source J, parallel replication: next_index, match_index and rep_start_index of one follower.

A leader sends without waiting, so requests and answers overtake one another. next_index moves when
a request is sent, match_index only when everything before is confirmed too, and rep_start_index,
the first entry in flight, is one past match_index here.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from raftlog.core.messages import AppendReply, AppendRequest, RaftMessage
from tests.core.member import TIMING, Longest, Member
from tests.core.network import Network

ENTRIES = ("a", "b", "c")


def _three_in_flight() -> tuple[Network, list[RaftMessage]]:
    """Member 1 leads two members, and three requests to member 2 are on their way."""
    network = Network.of(2, random=Longest())
    leader = network.elect(1)
    network.tick(TIMING.heartbeat_ticks)
    for text in ENTRIES:
        leader.propose(text)
    requests = leader.take(AppendRequest, to=2)
    assert [len(each.entries) for each in requests if isinstance(each, AppendRequest)] == [1, 1, 1]
    return network, requests


def _place(leader: Member) -> tuple[int, int]:
    return leader.match_index[2], leader.next_index[2]


def _texts(member: Member) -> list[str]:
    return [entry.payload.command.decode() for entry in member.log[1:]]


def test_next_index_moves_when_a_request_is_sent_and_match_index_when_it_is_answered() -> None:
    """CHECKLIST 58, 59: three round trips share one delay."""
    network, requests = _three_in_flight()
    leader, follower = network[1], network[2]
    assert _place(leader) == (1, 5)
    follower.step(*requests)
    answers = follower.take(AppendReply)
    for number, answer in enumerate(answers, 1):
        leader.step(answer)
        assert _place(leader) == (1 + number, 5)
    assert leader.raft.commit_index == 4


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_answers_in_any_order_give_the_same_result(order: tuple[int, ...]) -> None:
    """CHECKLIST 60: match_index never says more than all that is confirmed, and never falls."""
    network, requests = _three_in_flight()
    leader, follower = network[1], network[2]
    follower.step(*requests)
    answers = follower.take(AppendReply)
    seen = 1
    for position in order:
        leader.step(answers[position])
        seen = max(seen, 2 + position)
        assert _place(leader) == (seen, 5)
    assert leader.raft.commit_index == 4


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_requests_in_any_order_give_the_same_log(order: tuple[int, ...]) -> None:
    """CHECKLIST 61, 62: one that came too early is refused, and sent again from where it failed."""
    network, requests = _three_in_flight()
    leader, follower = network[1], network[2]
    refused = 0
    for position in order:
        follower.step(requests[position])
        answers = follower.take(AppendReply)
        refused += sum(not each.accepted for each in answers if isinstance(each, AppendReply))
        leader.step(*answers)
    assert (refused > 0) == (order != (0, 1, 2))
    network.settle()
    network.tick(2 * TIMING.resend_ticks)
    assert _texts(follower) == _texts(leader) == list(ENTRIES)
    assert leader.raft.commit_index == 4


@pytest.mark.parametrize("lost", range(3))
def test_a_failure_goes_back_to_the_first_entry_in_flight_and_no_further(lost: int) -> None:
    """CHECKLIST 61: what is confirmed is not sent again."""
    network, requests = _three_in_flight()
    leader, follower = network[1], network[2]
    follower.step(*(each for position, each in enumerate(requests) if position != lost))
    leader.step(*follower.take(AppendReply))
    assert leader.match_index[2] == 1 + lost
    sent_again: list[int] = []
    for _ in range(2 * TIMING.resend_ticks):
        leader.tick()
        network.collect()
        while network.waiting:
            message = network.waiting.pop(0)
            if isinstance(message, AppendRequest):
                sent_again += [entry.index for entry in message.entries]
            network.deliver(message)
            network.collect()
    assert sent_again == list(range(2 + lost, 5))
    assert _texts(follower) == list(ENTRIES)


def test_answers_of_another_term_are_dropped() -> None:
    """CHECKLIST 60."""
    network, requests = _three_in_flight()
    leader, follower = network[1], network[2]
    follower.step(*requests)
    late = follower.take(AppendReply)
    network.crash(1)
    network.restart(1)
    again = network[1].lead()
    before = again.match_index
    again.step(*late)
    assert again.match_index == before
    assert leader is again
