"""A member that comes back: what it knows, what it forgot, and what its restart may not lose."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.log_view import LogView
from raftlog.core.membership import Membership, MembershipAt, Memberships
from raftlog.core.messages import VoteReply
from raftlog.core.raft import Raft
from raftlog.core.ready import Role
from raftlog.core.types import NO_INDEX, NO_NODE, GroupId, HardState, NodeId, RaftTiming, Term
from raftlog.errors import AcknowledgedEntriesLost
from tests.core.member import TIMING, Member, append_request, heartbeat, vote_request
from tests.core.network import Network


def test_commit_index_is_forgotten_and_learnt_again_from_the_leader() -> None:
    """CHECKLIST 24: nothing is applied before it is known committed again."""
    member = Member(1, terms=[1, 1, 1], term=1)
    assert (member.raft.commit_index, member.raft.last_applied) == (0, 0)
    member.step(heartbeat(member, 2, term=1, commit_index=2))
    assert [entry.index for entry in member.applied] == [1, 2]


def test_the_high_water_mark_survives_the_leader_s_loss() -> None:
    """CHECKLIST 24: what was committed is committed again under the next leader."""
    network = Network.of(3)
    old = network.elect(1)
    span = old.propose("a", "b", "c")
    network.settle()
    assert old.raft.commit_index == span.last
    network.crash(1)
    new = network.elect_any()
    network.tick(3)
    assert new.raft.commit_index > span.last
    assert [m.raft.commit_index >= span.last for m in network.up] == [True, True]


def test_a_whole_group_that_restarts_keeps_every_acknowledged_entry() -> None:
    """CHECKLIST 21, 24: even if every disk lost what was not synced."""
    network = Network.of(3)
    leader = network.elect(1)
    span = leader.propose("kept")
    network.settle()
    assert leader.raft.commit_index == span.last
    for member in network.up:
        member.sync = False
    leader.propose("not acknowledged")
    network.settle()
    for node in (1, 2, 3):
        network.crash(node)
    for node in (1, 2, 3):
        network.restart(node)
        network[node].sync = True
    new = network.elect_any()
    network.tick(3)
    commands = [entry.payload.command for entry in new.applied]
    assert b"kept" in commands


def test_a_follower_that_lost_its_unsynced_tail_gets_it_again() -> None:
    """CHECKLIST 13: what it never acknowledged it may lose."""
    network = Network.of(3)
    leader = network.elect(1)
    network.tick(2)
    network[3].sync = False
    span = leader.propose("a", "b")
    network.settle()
    assert len(network[3].log) == span.last
    network.crash(3)
    network.restart(3)
    assert len(network[3].log) < span.last
    network[3].sync = True
    network.tick_until(lambda: network[3].log == leader.log)


def test_a_term_that_was_not_synced_before_its_entries_is_taken_from_them() -> None:
    """Log and hard state are different files; so so no vote of that term can have left."""
    member = Member(1, terms=[1, 4], term=2, vote=3)
    assert (member.raft.term, member.raft.vote) == (4, NO_NODE)
    assert member.raft.ready().hard_state == HardState(4, NO_NODE)


def test_a_restarted_leader_of_the_term_does_not_believe_it_still_leads() -> None:
    """CHECKLIST 30, 60: late answers to its earlier role are dropped."""
    network = Network.of(3)
    leader = network.elect(1)
    leader.propose("x")
    requests = leader.take()
    network.crash(1)
    network.restart(1)
    assert leader.raft.role is Role.FOLLOWER
    for request in requests:
        network.deliver(request)
    network.settle()
    assert leader.raft.commit_index == 0
    network.elect_any()
    assert network.leader.raft.term > 1


def test_a_heartbeat_after_a_restart_in_the_same_term_is_believed() -> None:
    """CHECKLIST 12: what the leader knows to match was durable."""
    member = Member(1, term=1)
    member.step(append_request(member, 2, term=1, terms=[1, 1]))
    member.start()
    member.step(heartbeat(member, 2, term=1, commit_index=2))
    assert len(member.applied) == 2


def test_a_member_that_lost_acknowledged_entries_gives_no_vote_until_it_has_them_again() -> None:
    """Only a lying disk causes this. It must not help to elect a leader without the entries."""
    member = Member(1, terms=[1], term=1)
    with pytest.raises(AcknowledgedEntriesLost) as told:
        member.step(heartbeat(member, 2, term=1, commit_index=5))
    assert (told.value.peer, told.value.last, told.value.committed) == (2, 1, 5)
    assert member.raft.commit_index == 0
    assert member.raft.incomplete
    member.settle()
    member.leader_lost(2, 1)

    def votes(last: tuple[int, int]) -> bool:
        member.take()
        term = member.raft.term + 1
        member.step(vote_request(member, 3, term=term, last=last, pre=True))
        return any(each.granted for each in member.take(VoteReply))

    member.tick(100 * member.timing.election_ticks_min)
    assert (member.raft.role, votes((1, 2))) == (Role.FOLLOWER, False)
    assert not member.raft.campaign()
    member.step(append_request(member, 3, term=2, prev=(1, 1), terms=[1, 1, 1]))
    assert not member.raft.campaign(), "one of them is still missing"
    member.step(append_request(member, 3, term=2, prev=(1, 4), terms=[1]))
    member.settle()
    member.leader_lost(3, 2)
    member.tick(2 * member.timing.election_ticks_min)
    assert votes((1, 5))
    assert not member.raft.incomplete


def test_a_log_above_a_base_starts_committed_at_the_base() -> None:
    raft = Raft(
        node=NodeId(1),
        group=GroupId(0),
        memberships=Memberships(MembershipAt(NO_INDEX, Membership((NodeId(1), NodeId(2))))),
        timing=RaftTiming(),
        hard_state=HardState(Term(3), NO_NODE),
        log=LogView.restore(base_index=10, base_term=2, terms=[(11, 3)], sizes=[5]),
        random=Random(1),
    )
    assert (raft.commit_index, raft.last_applied, raft.log.last_index) == (10, 10, 11)
    assert not raft.ready()


def test_a_clone_decides_the_same_and_is_independent() -> None:
    """A copy is hashable, and equal to the original after equal inputs."""
    network = Network.of(3, seed=4)
    leader = network.elect_any()
    leader.propose("x")
    for member in network.up:
        clone = member.raft.clone()
        assert clone.fingerprint() == member.raft.fingerprint()
        untouched = clone.fingerprint()
        for _ in range(5 * TIMING.election_ticks_min):
            member.raft.tick()
        assert clone.fingerprint() == untouched
        for _ in range(5 * TIMING.election_ticks_min):
            clone.tick()
        assert clone.fingerprint() == member.raft.fingerprint()
        assert clone.ready() == member.raft.ready()


def test_equal_histories_give_equal_fingerprints_and_different_ones_do_not() -> None:
    prints = []
    for text in ("same", "same", "other"):
        leader = Member(1, terms=[1]).lead()
        leader.raft.propose([append_request(leader, 1, term=2, terms=[2]).entries[0].payload])
        leader.propose(text * (2 if text == "other" else 1))
        prints.append(leader.raft.fingerprint())
    assert prints[0] == prints[1] != prints[2]
