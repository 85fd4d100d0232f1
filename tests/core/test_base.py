"""A member whose log begins after a base: what it answers, what it sends, and where it starts.

What a log has dropped was committed and is in a snapshot on the member's disk.
"""

from __future__ import annotations

import pytest

from raftlog.core.messages import AppendReply, AppendRequest
from raftlog.core.ready import Role
from raftlog.errors import PeerProtocolViolation
from tests.core.member import (
    Member,
    acceptance,
    append_request,
    heartbeat,
    heartbeat_reply,
    rejection,
    vote_request,
)
from tests.core.network import Network


def _view(leader: Member, node: int):
    return next(view for view in leader.raft.followers() if view.node == node)


def _checks(leader: Member, to: int) -> list[tuple[int, int]]:
    """Previous index and number of entries of each request to a follower."""
    return [(each.prev_index, len(each.entries)) for each in leader.take(AppendRequest, to)]


# ------------------------------------------------------------ starting


def test_a_member_starts_committed_and_applied_where_its_snapshot_is() -> None:
    member = Member(1, terms=[1] * 6, base=2, snapshot=4)
    assert (member.raft.log.base_index, member.raft.commit_index, member.raft.last_applied) == (
        2,
        4,
        4,
    )
    member.step(heartbeat(member, 2, term=1, commit_index=6))
    assert member.outputs[-1].committed == (5, 6), "nothing is applied twice"
    assert [entry.index for entry in member.applied] == [1, 2, 3, 4, 5, 6]


def test_a_snapshot_below_the_base_counts_no_less_than_the_base() -> None:
    raft = Member(1, terms=[1] * 6, base=3).raft
    assert (raft.commit_index, raft.last_applied) == (3, 3)


def test_a_snapshot_beyond_the_log_is_refused() -> None:
    with pytest.raises(AssertionError, match="gone from this log"):
        Member(1, terms=[1, 1], snapshot=3)


def test_a_log_without_entries_votes_by_the_term_of_its_base() -> None:
    member = Member(1, terms=[1, 3, 3], base=3, term=3)
    assert (member.raft.log.last_index, member.raft.status().last_term) == (3, 3)
    member.step(vote_request(member, 2, term=4, last=(2, 9)))
    assert not member.take()[0].granted
    member.step(vote_request(member, 3, term=4, last=(3, 3)))
    assert member.take()[0].granted


def test_it_wins_an_election_and_leads_with_nothing_but_a_base() -> None:
    network = Network.of(3, logs=[[1, 1]] * 3, term=1)
    network[1].disk_base = network[1].disk_snapshot = 2
    network[1].start()
    leader = network.elect(1)
    leader.propose("x")
    network.settle()
    network.tick(4)
    assert [member.log for member in network.up] == [leader.log] * 3
    assert [len(member.applied) for member in network.up] == [4, 4, 4]


def test_only_what_is_applied_and_durable_is_dropped_and_only_forward() -> None:
    member = Member(1, terms=[1] * 5, term=1)
    member.step(heartbeat(member, 2, term=1, commit_index=4))
    with pytest.raises(AssertionError, match="a snapshot holds"):
        member.raft.drop_log_to(5)
    member.drop_log_to(3)
    member.drop_log_to(3)
    with pytest.raises(AssertionError, match="base never falls"):
        member.raft.drop_log_to(2)
    late = Member(1, sync=False)
    late.step(append_request(late, 2, term=1, terms=[1, 1], commit_index=2))
    assert late.raft.last_applied == 2
    with pytest.raises(AssertionError, match="a snapshot holds"):
        late.raft.drop_log_to(2)


def test_a_drop_changes_nothing_else() -> None:
    member = Member(1, terms=[1, 1, 2], term=2)
    member.step(heartbeat(member, 2, term=2, commit_index=3))
    before = member.raft.status()
    member.take()
    member.drop_log_to(2)
    after = member.raft.status()
    assert (before.base_index, after.base_index) == (0, 2)
    assert not member.outgoing
    for name in ("term", "role", "last_index", "last_term", "commit_index", "durable_index"):
        assert getattr(before, name) == getattr(after, name)


# ------------------------------------------------------------ a follower


def test_a_request_that_ends_below_the_base_is_acknowledged_up_to_the_base() -> None:
    """An earlier one that arrives again, or late: everything up to the base is committed."""
    member = Member(1, terms=[1] * 6, base=4)
    member.step(append_request(member, 2, term=1, prev=(1, 1), terms=[1, 1]))
    (reply,) = member.take(AppendReply)
    assert (reply.accepted, reply.match_index, reply.last_index) == (True, 4, 6)
    assert member.terms == [1] * 6


def test_a_request_over_the_base_is_answered_for_the_rest_of_it() -> None:
    member = Member(1, terms=[1] * 6, base=4)
    member.step(append_request(member, 2, term=2, prev=(1, 2), terms=[1, 1, 1, 2]))
    (reply,) = member.take(AppendReply)
    assert (reply.accepted, reply.match_index) == (True, 6)
    assert member.terms == [1, 1, 1, 1, 1, 2], "what conflicts above the base is truncated"
    written = [ready for ready in member.outputs if ready.write_number]
    assert [ready.truncate_from for ready in written] == [6]


def test_nothing_at_or_below_the_base_is_ever_truncated() -> None:
    """What was dropped cannot be compared, and a conflict with the base is a broken peer."""
    member = Member(1, terms=[1] * 6, base=4)
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2, 2]))
    (reply,) = member.take(AppendReply)
    assert (reply.accepted, reply.match_index, member.terms) == (True, 4, [1] * 6)
    with pytest.raises(PeerProtocolViolation, match="conflicts with a committed one"):
        member.raft.step(append_request(member, 2, term=2, prev=(2, 4), terms=[2]))


@pytest.mark.parametrize("terms", [[1], [1, 1], [1, 1, 1, 3], [2, 4]])
def test_an_entry_of_another_term_than_the_base_is_refused(terms: list[int]) -> None:
    """What follows it would be of an earlier term than the base (Raft section 5.3)."""
    member = Member(1, terms=[1, 1, 3, 3], base=3)
    with pytest.raises(PeerProtocolViolation, match="entry 3 conflicts with a committed one"):
        member.raft.step(append_request(member, 2, term=9, prev=(1, 2), terms=terms))
    assert member.raft.term == 3
    member.step(append_request(member, 2, term=9, prev=(1, 2), terms=[3, 3, 9]))
    assert member.terms == [1, 1, 3, 3, 9]


def test_a_rejection_names_no_entry_that_was_dropped() -> None:
    member = Member(1, terms=[1, 1, 1, 1, 1], base=2)
    member.step(append_request(member, 2, term=3, prev=(2, 5)))
    (reply,) = member.take(AppendReply)
    assert (reply.conflict_term, reply.conflict_index) == (1, 3)


# ------------------------------------------------------------ a leader


def _leader() -> Member:
    """It leads term 2 with entries 1 to 7, all committed by follower 3."""
    leader = Member(1, terms=[1] * 6).lead()
    leader.step(acceptance(leader, 3, 7))
    assert leader.raft.commit_index == 7
    leader.take()
    return leader


def test_a_follower_that_lacks_the_base_is_asked_now_and_then_and_sent_nothing() -> None:
    leader = _leader()
    leader.drop_log_to(5)
    assert leader.next_index == {2: 8, 3: 8}
    leader.step(rejection(leader, 2, 6, conflict=(0, 4)))
    assert (leader.next_index[2], _view(leader, 2).behind_base) == (6, False)
    assert _checks(leader, 2) == [(5, 0)], "the base itself can still be checked"
    asked = 0
    for _ in range(60):
        leader.step(rejection(leader, 2, 5, conflict=(0, 4)))
        view = _view(leader, 2)
        assert (view.behind_base, view.probing, view.next_index) == (True, True, 6)
        leader.propose("more")
        leader.tick()
        leader.step(heartbeat_reply(leader, 2, last_index=3), heartbeat_reply(leader, 3))
        sent = _checks(leader, 2)
        assert all(each == (5, 0) for each in sent), "only checks of the base"
        asked += len(sent)
    assert 60 // leader.timing.resend_ticks <= asked <= 30, "neither silent nor at once each time"
    assert leader.raft.role is Role.LEADER
    assert not _view(leader, 3).behind_base


def test_a_follower_behind_the_base_goes_on_once_it_holds_the_base() -> None:
    leader = _leader()
    leader.drop_log_to(5)
    leader.step(rejection(leader, 2, 5, conflict=(0, 4)))
    assert _view(leader, 2).behind_base
    leader.take()
    leader.step(acceptance(leader, 2, 3))
    assert _view(leader, 2).behind_base, "it holds more, but not enough"
    leader.step(acceptance(leader, 2, 5))
    view = _view(leader, 2)
    assert (view.behind_base, view.probing, view.match_index) == (False, False, 5)
    assert _checks(leader, 2) == [(5, 2)]


def test_a_follower_that_was_not_sent_the_dropped_entries_is_asked_for_the_base() -> None:
    leader = _leader()
    leader.step(rejection(leader, 2, 6, conflict=(0, 2)))
    assert (leader.next_index[2], _checks(leader, 2)) == (2, [(1, 0)])
    leader.drop_log_to(5)
    view = _view(leader, 2)
    assert (view.next_index, view.probing, view.behind_base) == (6, True, False)
    assert _checks(leader, 2) == [(5, 0)]
    leader.step(rejection(leader, 2, 1, conflict=(0, 2)))
    assert not _view(leader, 2).behind_base, "that answers what is no longer asked"
    leader.step(rejection(leader, 2, 5, conflict=(0, 2)))
    assert _view(leader, 2).behind_base


@pytest.mark.parametrize("conflict", [(0, 2), (1, 1)])
@pytest.mark.parametrize("prev_index", [1, 2, 3, 5, 6])
def test_a_rejection_of_what_was_sent_before_the_drop_leads_no_further_back_than_the_base(
    prev_index: int, conflict: tuple[int, int]
) -> None:
    leader = _leader()
    leader.drop_log_to(5)
    leader.step(rejection(leader, 2, prev_index, conflict=conflict))
    assert leader.next_index[2] == 6
    leader.tick(10)
    assert {prev for prev, _ in _checks(leader, 2)} == {5}


@pytest.mark.parametrize("match_index", [3, 5, 6])
def test_an_acceptance_of_what_was_sent_before_the_drop_counts(match_index: int) -> None:
    leader = _leader()
    leader.drop_log_to(5)
    leader.step(acceptance(leader, 2, match_index))
    assert (leader.match_index[2], leader.next_index[2]) == (match_index, 8)


def test_a_conflict_in_a_term_that_reaches_below_the_base_ends_at_the_base() -> None:
    """The follower's term began before the leader's base: the leader cannot go there."""
    leader = Member(1, terms=[1, 1, 1, 2, 2, 2], term=4, base=3)
    leader.lead()
    leader.take()
    leader.step(rejection(leader, 2, 6, conflict=(1, 1)))
    assert (leader.next_index[2], _checks(leader, 2)) == (4, [(3, 0)])


def test_a_member_that_is_behind_every_base_neither_leads_nor_stops_the_others() -> None:
    network = Network.of(3)
    leader = network.elect(1)
    network.isolate(3)
    leader.propose("a", "b", "c")
    network.tick(3)
    for node in (1, 2):
        network[node].drop_log_to(network[node].raft.last_applied)
    network.heal()
    network.tick(40)
    leader = network.leader
    assert leader is not None
    assert leader.node != 3
    assert _view(leader, 3).behind_base
    leader.propose("d")
    network.tick(3)
    assert leader.raft.commit_index == leader.raft.log.last_index
    assert len(network[3].log) < leader.raft.log.base_index
    assert network[3].raft.leader == leader.node, "it hears the leader and campaigns no more"
