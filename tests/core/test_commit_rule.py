"""When an entry is committed, and what happens then (Raft sections 5.3, 5.4.2, 8)."""

from __future__ import annotations

import pytest

from raftlog.core.messages import AppendRequest
from raftlog.core.types import EntryKind, RaftTiming
from raftlog.errors import NotLeader, Overloaded
from tests.core.member import TIMING, Member, acceptance, append_request, heartbeat, payload
from tests.core.network import Network


def test_leader_never_commits_prior_term_entry_by_counting() -> None:
    """CHECKLIST 10: it becomes committed with the first entry of the leader's own term."""
    leader = Member(1, terms=[1, 2, 2]).lead()
    assert leader.terms == [1, 2, 2, 3]
    leader.step(acceptance(leader, 2, 3), acceptance(leader, 3, 3))
    assert leader.raft.commit_index == 0
    leader.step(acceptance(leader, 3, 4))
    assert leader.raft.commit_index == 4
    assert leader.applied == leader.log


def test_a_term_begins_with_a_no_op() -> None:
    """CHECKLIST 11: it is the first entry of the term and carries nothing."""
    leader = Member(1, terms=[1, 1]).lead()
    first = leader.log[2]
    assert (first.kind, first.payload, first.term) == (EntryKind.NOOP, (b"", b""), 2)


def test_the_no_op_is_committed_before_the_term_s_first_proposal() -> None:
    """CHECKLIST 11: the order of the log ensures it."""
    leader = Member(1, terms=[1]).lead()
    span = leader.propose("first")
    assert leader.log[span.first - 2].kind is EntryKind.NOOP
    leader.step(acceptance(leader, 2, span.first))
    assert leader.applied == leader.log


def test_one_round_trip_commits_and_a_slow_minority_does_not_matter() -> None:
    """CHECKLIST 14: request out, answers in, committed; the others never answer."""
    network = Network.of(5)
    leader = network.elect(1)
    network.isolate(4, 5)
    span = leader.propose("x")
    requests = leader.take(AppendRequest)
    for request in requests:
        if request.to in (2, 3):
            network[request.to].step(request)
    for node in (2, 3):
        leader.step(*network[node].take())
    assert leader.raft.commit_index == span.last


def test_a_leader_counts_its_own_entry_only_once_it_is_durable() -> None:
    """It sends while its own write is in flight."""
    leader = Member(1, terms=[1]).lead()
    leader.sync = False
    leader.take()
    span = leader.propose("x")
    assert [request.to for request in leader.take(AppendRequest)] == [2, 3]
    leader.step(acceptance(leader, 2, span.last))
    assert leader.raft.commit_index < span.last
    leader.persist()
    assert leader.raft.commit_index == span.last


def test_followers_may_commit_what_their_leader_has_not_synced() -> None:
    """CHECKLIST 14: the slow disk may be the leader's."""
    leader = Member(1, terms=[1]).lead()
    leader.sync = False
    span = leader.propose("x")
    leader.step(acceptance(leader, 2, span.last), acceptance(leader, 3, span.last))
    assert leader.raft.commit_index == span.last


def test_a_notice_of_persistence_about_a_truncated_entry_is_stale() -> None:
    """The entry that has the index now is not durable yet."""
    member = Member(1, term=1, sync=False)
    member.step(append_request(member, 2, term=1, terms=[1, 1, 1]))
    member.step(append_request(member, 3, term=2, terms=[2, 2, 2]))
    member.raft.persisted(1)
    assert member.raft.durable_index == 0
    member.raft.persisted(2)
    assert member.raft.durable_index == 3
    member.raft.persisted(1)
    assert member.raft.durable_index == 3, "an older notice takes nothing back"


def test_truncating_an_entry_takes_its_durability_back() -> None:
    member = Member(1, terms=[1, 1, 1], term=1, sync=False)
    assert member.raft.durable_index == 3
    member.step(append_request(member, 3, term=2, prev=(1, 1), terms=[2, 2, 2]))
    assert member.raft.durable_index == 1


def test_committed_entries_are_handed_out_in_order_and_once() -> None:
    """CHECKLIST 17: the driver in these tests asserts it for every output."""
    leader = Member(1, terms=[1]).lead()
    spans = [leader.propose(f"{n}") for n in range(4)]
    for span in [spans[2], spans[0], spans[3], spans[3]]:
        leader.step(acceptance(leader, 2, span.last))
    handed = [output.committed for output in leader.outputs if output.committed is not None]
    assert handed == [(1, 5), (6, 6)]
    assert leader.applied == leader.log


def test_last_applied_follows_what_was_handed_out_and_never_passes_it() -> None:
    """CHECKLIST 17."""
    member = Member(1, terms=[1, 1, 1], term=1)
    raft = member.raft
    raft.step(heartbeat(member, 2, term=1, commit_index=2))
    with pytest.raises(AssertionError, match="handed out"):
        raft.applied(1)
    assert raft.ready().committed == (1, 2)
    raft.applied(1)
    raft.applied(2)
    assert raft.last_applied == 2
    with pytest.raises(AssertionError, match="handed out"):
        raft.applied(3)
    with pytest.raises(AssertionError, match="goes forward"):
        raft.applied(1)


def test_a_proposal_elsewhere_names_the_leader() -> None:
    """CHECKLIST 27, the part of the core."""
    member = Member(1, term=2)
    with pytest.raises(NotLeader) as unknown:
        member.raft.propose([payload("x")])
    assert (unknown.value.group, unknown.value.leader, unknown.value.address) == (7, 0, "")
    member.step(heartbeat(member, 3, term=2))
    with pytest.raises(NotLeader) as known:
        member.raft.propose([payload("x")])
    assert known.value.leader == 3


def test_proposals_beyond_the_bound_are_refused_whole_until_entries_are_applied() -> None:
    timing = RaftTiming(election_ticks_min=10, unapplied_entries_max=4)
    leader = Member(1, voters=3, timing=timing).lead()
    leader.propose("a", "b")
    with pytest.raises(Overloaded) as refused:
        leader.propose("c", "d")
    assert (refused.value.queue, refused.value.limit) == ("raft.unapplied_entries_max", 4)
    assert leader.raft.log.last_index == 3, "nothing of it was accepted"
    leader.step(acceptance(leader, 2, 3))
    assert leader.propose("c", "d") == (4, 5)


def test_proposals_between_two_outputs_share_one_request() -> None:
    """CHECKLIST 58: what is pending leaves together."""
    leader = Member(1, terms=[1]).lead()
    leader.take()
    for n in range(5):
        leader.raft.propose([payload(f"{n}")])
    ready = leader.raft.ready()
    assert [message.span for message in ready.messages] == [(3, 7), (3, 7)]
    assert len(ready.entries) == 5


def test_the_timing_of_these_tests_is_a_legal_one() -> None:
    assert 2 * TIMING.heartbeat_ticks <= TIMING.election_ticks_min
