"""No order of events breaks a promise, and each broken rule is shown by a short history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raftlog.core.membership import Memberships
from raftlog.core.messages import VoteReply, VoteRequest
from raftlog.core.outbox import Outbox
from raftlog.core.ready import Ready
from tests.explorer.events import CHANGE, Change, Cost
from tests.explorer.explorer import Broken, Explorer, Scenario
from tests.explorer.scenarios import ONE_LEADS, SCENARIOS, voters_and_others
from tests.simulation.planted import BUGS
from tests.simulation.planting import replaced


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_nearest_situations_keep_all_promises(name: str) -> None:
    explorer = Explorer(SCENARIOS[name]())
    assert not explorer.walk(2_000), "a scenario is larger than this"
    assert len(explorer.seen) >= 2_000


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("situations", [15_000, pytest.param(50_000, marks=pytest.mark.soak)])
def test_many_situations_keep_all_promises(name: str, situations: int) -> None:
    """CHECKLIST 18, 73 to 75."""
    explorer = Explorer(SCENARIOS[name]())
    explorer.walk(situations)
    assert len(explorer.seen) >= situations


@pytest.mark.slow
def test_every_order_of_one_election_is_walked_to_its_end() -> None:
    """Some of them elect a leader, and some do not."""
    scenario = Scenario(members=voters_and_others(sync=True), allowed=Cost(elections=1))
    explorer = Explorer(scenario)
    assert explorer.walk(1_000_000), "all of it"
    assert explorer.leaders_met == {1, 2, 3}


@pytest.mark.slow
def test_every_order_of_a_voter_s_replacement_is_walked_to_its_end() -> None:
    """CHECKLIST 73, 74."""
    explorer = Explorer(replace(SCENARIOS["changes"](), allowed=Cost(changes=1)))
    assert explorer.walk(1_000_000), "all of it"
    assert ((1, 2, 4), False) in explorer.memberships_met


@pytest.mark.slow
def test_every_order_of_a_leader_s_removal_beside_an_election_is_walked_to_its_end() -> None:
    """CHECKLIST 75: the leader of two leaves, and whoever is elected meanwhile goes on with it."""
    scenario = Scenario(
        members=voters_and_others(logs=((), ()), sync=True),
        allowed=Cost(changes=1, elections=1),
        events=(Change(CHANGE, (2,), (1,)),),
        prelude=ONE_LEADS[:2],
    )
    explorer = Explorer(scenario)
    assert explorer.walk(1_000_000), "all of it"
    assert explorer.leaders_met == {1, 2}
    assert {((1, 2), False), ((2,), True), ((2,), False)} <= explorer.memberships_met


@pytest.mark.slow
def test_a_walk_is_the_same_each_time() -> None:
    one, other = (Explorer(SCENARIOS["changes"]()) for _ in range(2))
    one.walk(3_000)
    other.walk(3_000)
    assert one.seen == other.seen


def leaves_at_once(kind: type) -> Any:
    """Messages of this kind do not wait for what they depend on."""
    original = Outbox.drain

    def drain(self: Outbox, **given: Any) -> Ready:
        ready = original(self, **given)
        early = tuple(
            each
            for each in ready.messages_after_persist
            if isinstance(each, kind) and each.to != each.sender
        )
        late = tuple(each for each in ready.messages_after_persist if each not in early)
        if not early:
            return ready
        return replace(ready, messages=(*ready.messages, *early), messages_after_persist=late)

    return replaced(Outbox, "drain", drain)


@pytest.mark.parametrize(
    ("kind", "scenario"), [(VoteReply, "former_terms"), (VoteRequest, "elections")]
)
def test_what_leaves_before_it_is_durable_is_noticed(kind: type, scenario: str) -> None:
    begin = SCENARIOS[scenario]()
    for member in begin.members:
        member.sync = False
    with leaves_at_once(kind), pytest.raises(Broken, match="that is not durable"):
        Explorer(begin).walk(100_000)


@pytest.mark.slow
def test_a_membership_that_outlives_its_entry_is_noticed() -> None:
    """CHECKLIST 76."""
    with (
        replaced(Memberships, "truncate_from", lambda self, index: None),
        pytest.raises(Broken, match="the last membership of its log does not decide"),
    ):
        Explorer(SCENARIOS["shrinking"]()).walk(100_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "scenario", "promise"),
    [
        ("own_entries_counted_before_fsync", "writes", "majority of durable copies"),
        ("two_votes_in_a_term", "former_terms", "a vote has left that is not durable"),
        ("duplicated_vote_counted_twice", "shrinking", "Election Safety"),
        ("old_term_committed_by_counting", "former_terms", "older term's entry"),
        ("previous_entry_unverified", "former_terms", "Log Matching"),
        ("heartbeat_vouches_for_too_much", "shrinking", "AcknowledgedEntriesLost"),
        ("truncate_always", "shrinking", "PeerProtocolViolation"),
        ("match_index_regresses", "shrinking", "match_index fell"),
        ("new_voters_decide_alone", "shrinking", "majority of durable copies"),
    ],
)
def test_a_planted_bug_is_shown_by_a_short_history(bug: str, scenario: str, promise: str) -> None:
    with BUGS[bug](), pytest.raises(Broken, match=promise) as broken:
        Explorer(SCENARIOS[scenario]()).walk(50_000)
    assert len(broken.value.history) <= 12
    assert "1. member " in str(broken.value)
