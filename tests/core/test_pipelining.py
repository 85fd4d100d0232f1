"""Many requests in flight per follower; loss, repetition and reordering do no harm (source J)."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from raftlog.core.messages import AppendRequest
from raftlog.core.types import RaftTiming
from tests.core.member import (
    TIMING,
    Member,
    acceptance,
    heartbeat_reply,
    rejection,
)
from tests.core.network import Network

WINDOW = RaftTiming(election_ticks_min=10, resend_ticks=6, inflight_requests_max=3)


def _to(member: Member, node: int) -> list[tuple[int, int]]:
    """What it sent to `node`: (previous index, number of entries)."""
    sent = member.take(AppendRequest, to=node)
    return [(message.prev_index, len(message.entries)) for message in sent]


def _matched_leader(timing: RaftTiming = TIMING, voters: int = 3) -> Member:
    """A leader whose followers hold everything: one entry."""
    leader = Member(1, voters=voters, timing=timing).lead()
    leader.step(*[acceptance(leader, node, 1) for node in range(2, voters + 1)])
    leader.take()
    return leader


def test_requests_leave_without_waiting_and_next_index_moves_on_send() -> None:
    """CHECKLIST 58."""
    leader = _matched_leader()
    for n in range(3):
        leader.propose(f"{n}")
    assert _to(leader, 2) == [(1, 1), (2, 1), (3, 1)]
    assert leader.next_index[2] == 5
    assert leader.match_index[2] == 1


def test_the_window_bounds_what_is_in_flight_and_an_answer_opens_it() -> None:
    """CHECKLIST 58."""
    leader = _matched_leader(WINDOW)
    for n in range(6):
        leader.propose(f"{n}")
    assert _to(leader, 2) == [(1, 1), (2, 1), (3, 1)]
    leader.step(acceptance(leader, 2, 2))
    assert _to(leader, 2) == [(4, 3)], "what was pending leaves as one request"


def test_a_request_holds_a_bounded_number_of_entries_and_bytes() -> None:
    timing = RaftTiming(election_ticks_min=10, append_entries_max=3, append_bytes_max=10)
    leader = _matched_leader(timing)
    leader.propose("a", "b", "c", "d", "x" * 20, "eeeee", "fffff", "g")
    assert _to(leader, 2) == [(1, 3), (4, 1), (5, 1), (6, 2), (8, 1)]


@pytest.mark.parametrize("order", list(permutations([2, 3, 4])))
def test_answers_in_any_order_give_the_same_result(order: tuple[int, ...]) -> None:
    """CHECKLIST 59, 60: match_index is cumulative and never falls."""
    leader = _matched_leader()
    for n in range(3):
        leader.propose(f"{n}")
    highest = 0
    for match_index in order:
        leader.step(acceptance(leader, 2, match_index))
        highest = max(highest, match_index)
        assert leader.match_index[2] == highest
        assert leader.raft.commit_index == highest
    leader.take()
    leader.tick(TIMING.resend_ticks + 1)
    assert _to(leader, 2) == [], "nothing is unanswered"


def test_repeated_and_old_answers_change_nothing() -> None:
    """CHECKLIST 60."""
    leader = _matched_leader()
    leader.propose("a")
    leader.step(acceptance(leader, 2, 2))
    before = (leader.match_index, leader.next_index, leader.raft.commit_index)
    leader.step(acceptance(leader, 2, 1), acceptance(leader, 2, 2))
    leader.step(rejection(leader, 2, 1, conflict=(0, 1)))
    leader.step(rejection(leader, 2, 7, conflict=(0, 1)))
    assert (leader.match_index, leader.next_index, leader.raft.commit_index) == before


def test_answers_of_another_term_are_dropped() -> None:
    """CHECKLIST 60."""
    leader = _matched_leader()
    leader.propose("a")
    term = leader.raft.term
    leader.step(acceptance(leader, 2, 2, term=term - 1))
    leader.step(rejection(leader, 3, 1, conflict=(0, 1), term=term - 1))
    assert leader.match_index == {1: 2, 2: 1, 3: 1}
    assert leader.raft.commit_index == 1
    leader.step(acceptance(leader, 8, 2), acceptance(leader, 9, 2))
    assert leader.raft.commit_index == 1, "strangers do not count"


def test_a_failure_at_the_front_rewinds_once() -> None:
    """CHECKLIST 61: what was sent behind it fails too, and moves nothing further back."""
    leader = _matched_leader()
    for n in range(4):
        leader.propose(f"{n}")
    leader.take()
    for prev_index in (2, 3, 4):
        leader.step(rejection(leader, 2, prev_index, conflict=(0, 2)))
    assert _to(leader, 2) == [(1, 0)], "one check"
    leader.step(acceptance(leader, 2, 1))
    assert _to(leader, 2) == [(1, 4)]
    assert leader.match_index[2] == 1


def test_a_probe_goes_by_the_answer_to_its_own_check_only() -> None:
    """CHECKLIST 60, 61: a late rejection at an earlier index does not move it further back."""
    leader = Member(1, terms=[1] * 6).lead()
    leader.step(rejection(leader, 2, 6, conflict=(0, 5)))
    assert leader.next_index[2] == 5
    leader.step(rejection(leader, 2, 3, conflict=(0, 2)))
    assert leader.next_index[2] == 5
    leader.step(rejection(leader, 2, 4, conflict=(0, 3)))
    assert leader.next_index[2] == 3


def test_a_lost_request_is_noticed_by_the_one_after_it() -> None:
    """CHECKLIST 61, 62: the follower rejects the gap, writes nothing, and gets all again."""
    network = Network.of(3)
    leader = network.elect(1)
    network.tick(2)
    leader.take()
    leader.propose("lost")
    leader.take()
    leader.propose("next")
    (request,) = [m for m in leader.take(AppendRequest) if m.to == 2]
    length = len(network[2].log)
    network[2].step(request)
    assert len(network[2].log) == length
    network.settle()
    assert network[2].log == leader.log


def test_a_lost_last_request_is_noticed_by_heartbeats() -> None:
    """CHECKLIST 61: the answer's last_index shows that the follower lacks it."""
    leader = _matched_leader()
    leader.propose("lost")
    leader.take()
    for _ in range(TIMING.heartbeat_ticks * 2):
        leader.tick()
        leader.step(heartbeat_reply(leader, 2, last_index=1))
    assert _to(leader, 2) == [(2, 0)]
    leader.step(rejection(leader, 2, 2, conflict=(0, 2)))
    assert _to(leader, 2) == [(1, 0)]
    leader.step(acceptance(leader, 2, 1))
    assert _to(leader, 2) == [(1, 1)]


def test_a_follower_that_took_only_the_first_entries_of_a_request_gets_the_rest() -> None:
    leader = _matched_leader()
    leader.propose("first", "second")
    leader.take()
    leader.step(acceptance(leader, 2, 2))
    for _ in range(TIMING.heartbeat_ticks * 2):
        leader.tick()
        leader.step(heartbeat_reply(leader, 2, last_index=2))
    assert _to(leader, 2) == [(3, 0)]
    leader.step(rejection(leader, 2, 3, conflict=(0, 3)))
    assert _to(leader, 2) == [(2, 0)]
    leader.step(acceptance(leader, 2, 2))
    assert _to(leader, 2) == [(2, 1)]


def test_a_follower_with_a_slow_disk_gets_nothing_twice() -> None:
    """It holds the entries and will confirm them: the leader only asks."""
    leader = _matched_leader()
    leader.propose("slow")
    leader.take()
    for _ in range(3 * TIMING.resend_ticks):
        leader.tick()
        leader.step(heartbeat_reply(leader, 2, last_index=2))
    asked = _to(leader, 2)
    assert asked == [(2, 0)] * 3


def test_a_lost_answer_is_asked_for_again() -> None:
    """CHECKLIST 61: the follower's repeated answer confirms all that is in flight."""
    network = Network.of(3)
    leader = network.elect(1)
    network.cut |= {(2, 1), (3, 1)}
    span = leader.propose("a", "b")
    network.settle()
    assert network[2].log == leader.log
    assert leader.raft.commit_index < span.last
    network.heal()
    network.tick(TIMING.resend_ticks)
    assert leader.raft.commit_index == span.last


def test_a_silent_follower_is_asked_for_ever_and_costs_no_bulk() -> None:
    """CHECKLIST 13: even after the clients have all their answers."""
    leader = _matched_leader(voters=3)
    leader.propose("x" * 1000)
    leader.step(acceptance(leader, 2, 2))
    leader.take()
    for _ in range(50):
        for _ in range(TIMING.resend_ticks):
            leader.tick()
            leader.step(heartbeat_reply(leader, 2, last_index=2))
        assert _to(leader, 3) == [(2, 0)]


def test_a_follower_that_was_down_for_long_converges() -> None:
    """CHECKLIST 13, 25."""
    network = Network.of(3, timing=WINDOW)
    leader = network.elect(1)
    network.crash(3)
    for n in range(40):
        leader.propose(f"{n}")
        network.settle()
    network.tick(50 * WINDOW.resend_ticks)
    assert leader.raft.commit_index == leader.raft.log.last_index
    network.restart(3)
    ticks = network.tick_until(lambda: network[3].applied == leader.log)
    assert ticks <= 2 * WINDOW.resend_ticks


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_lost_repeated_and_shuffled_traffic_converges_to_one_log(seed: int) -> None:
    """CHECKLIST 13, 60, 61, 62."""
    print(f"replay: .venv/bin/pytest tests/core/test_pipelining.py -k 'shuffled and {seed}]'")
    random = Random(seed)
    network = Network.of(3, timing=WINDOW, seed=seed)
    leader = network.elect(1)
    for n in range(60):
        if n < 40:
            leader.propose(f"{n}")
        for member in network.up:
            member.tick()
        network.collect()
        random.shuffle(network.waiting)
        arriving, network.waiting = network.waiting[:4], network.waiting[4:]
        for message in arriving:
            if random.random() < 0.8:
                network.deliver(message)
            if random.random() < 0.2:
                network.waiting.append(message)
    network.tick_until(lambda: network.leader is not None)
    network.tick_until(lambda: all(m.log == m.applied == network.leader.log for m in network.up))
