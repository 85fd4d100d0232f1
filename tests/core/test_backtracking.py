"""Finding where two logs agree: one round trip per conflicting term at most (Raft section 5.3)."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.messages import AppendReply, AppendRequest
from raftlog.core.replication import (
    conflict_hint,
    next_index_after,
    previous_entry_matches,
)
from tests.core.member import Member, entries_of, log_of, rejection
from tests.core.network import Network


def _converge(leader_terms: list[int], follower_terms: list[int]) -> tuple[Network, int]:
    """Let member 1 lead by the vote of 3 only; return how many requests 2 rejected."""
    network = Network.of(3, logs=[leader_terms, follower_terms, leader_terms], term=9)
    network.cut |= {(1, 2), (2, 1)}
    leader = network.elect(1)
    network.heal()
    rejections = 0
    for _ in range(3):
        leader.tick(2)
        network.collect()
        while network.waiting:
            waiting, network.waiting = network.waiting, []
            rejections += sum(isinstance(m, AppendReply) and not m.accepted for m in waiting)
            for message in waiting:
                network.deliver(message)
            network.collect()
    return network, rejections


@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        ([1] * 50, []),
        ([1] * 50, [1] * 20),
        ([1] * 10 + [5] * 40, [1] * 10 + [2] * 30),
        ([1] * 5 + [4] * 5 + [5] * 5, [1] * 5 + [2] * 9 + [3] * 9),
        ([1] * 4 + [4] * 2 + [5] * 2 + [6] * 3, [1] * 3 + [2] * 3 + [3] * 5),
        ([1] * 9 + [6], [1] * 3 + [2, 2, 3, 3, 4, 4, 5, 5] * 1),
    ],
)
def test_one_round_trip_per_conflicting_term(leader: list[int], follower: list[int]) -> None:
    """CHECKLIST 7, 8: plus one to learn the follower's length, however long the terms are."""
    network, rejections = _converge(leader, follower)
    agree = next(
        (at for at, (one, other) in enumerate(zip(leader, follower, strict=False)) if one != other),
        min(len(leader), len(follower)),
    )
    conflicting = len(set(follower[agree:]))
    assert rejections <= conflicting + 1
    assert network[2].log == network[1].log


@pytest.mark.parametrize("seed", range(10))
def test_probing_never_passes_the_point_of_agreement_and_skips_a_term_at_a_time(seed: int) -> None:
    """CHECKLIST 7, 8: for logs that can arise, using only the answers of one and the moves of the
    other."""
    print(
        f"replay: .venv/bin/pytest tests/core/test_backtracking.py -k 'probing_never and {seed}]'"
    )
    random = Random(seed)
    for _ in range(50):
        shared = sorted(random.choices(range(1, 4), k=random.randrange(6)))
        # After the logs diverge no term is in both: its only leader wrote it to one of them.
        ours = sorted(random.choices([4, 6, 8], k=random.randrange(1, 8)))
        theirs = sorted(random.choices([5, 7, 9], k=random.randrange(8)))
        next_index, trips = _probe(shared + ours, shared + theirs)
        assert next_index == len(shared) + 1
        assert trips <= len(set(theirs)) + 1
        # Only what is committed is dropped, and that is in both. It changes no step.
        our_base, their_base = (random.randrange(len(shared) + 1) for _ in range(2))
        with_bases = _probe(shared + ours, shared + theirs, our_base, their_base)
        assert with_bases == (next_index, trips)


def _probe(
    ours: list[int], theirs: list[int], our_base: int = 0, their_base: int = 0
) -> tuple[int, int]:
    """Where a leader's probing of a follower's log ends, and after how many rejections."""
    leader = log_of(entries_of(ours), base=our_base)
    follower, member = log_of(entries_of(theirs), base=their_base), Member(1)
    next_index, trips = leader.last_index + 1, 0
    while True:
        prev = next_index - 1
        if previous_entry_matches(follower, prev_index=prev, prev_term=leader.term_at(prev)):
            return next_index, trips
        reply = rejection(member, 2, prev, conflict=conflict_hint(follower, prev_index=prev))
        earlier, next_index = next_index, next_index_after(leader, reply, match_index=0)
        assert next_index < earlier
        trips += 1


def test_next_index_starts_one_past_the_leader_s_log_and_moves_back_on_rejection() -> None:
    """CHECKLIST 7."""
    leader = Member(1, terms=[1, 1, 2, 2]).lead()
    assert [m.prev_index for m in leader.take(AppendRequest)] == [4, 4]
    leader.step(rejection(leader, 2, 4, conflict=(0, 3)))
    assert leader.next_index[2] == 3
    (check,) = leader.take(AppendRequest)
    assert (check.prev_index, check.prev_term, check.entries) == (2, 1, ())


def test_a_probe_sends_no_entries_before_the_logs_are_known_to_agree() -> None:
    """Entries are sent once, to a follower that can append them."""
    network = Network.of(3, logs=[[1] * 3 + [2] * 100, [1] * 50, [1] * 3 + [2] * 100], term=2)
    network.cut |= {(1, 2), (2, 1)}
    leader = network.elect(1)
    network.heal()
    sent: list[int] = []
    leader.tick(4)
    for _ in range(20):
        for message in leader.take(to=2):
            if isinstance(message, AppendRequest):
                sent.append(len(message.entries))
            network[2].step(message)
        for message in network[2].take(to=1):
            leader.step(message)
    assert network[2].log == leader.log
    assert [size for size in sent if size > 1] == [101]


def test_a_rejection_never_moves_next_index_to_what_is_matched() -> None:
    """CHECKLIST 8, 59."""
    leader = Member(1, terms=[1] * 5)
    assert next_index_after(
        log_of(leader.log), rejection(leader, 2, 5, conflict=(0, 1)), match_index=3
    ) == (4)
