"""Replication as a follower sees it: check, skip, truncate, write, acknowledge (Raft section
5.3)."""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.messages import AppendReply, AppendRequest, Heartbeat, HeartbeatReply
from raftlog.core.ready import Role
from raftlog.errors import PeerProtocolViolation
from tests.core.member import TIMING, Member, acceptance, append_request, entries_of, heartbeat
from tests.core.network import Network


def _reply(member: Member) -> AppendReply:
    (reply,) = member.take(AppendReply)
    return reply


@pytest.mark.parametrize(
    ("prev", "conflict"),
    [
        ((2, 4), (0, 4)),  # the log is too short
        ((2, 9), (0, 4)),
        ((2, 2), (1, 1)),  # another term there
        ((1, 3), (2, 3)),
    ],
)
def test_a_gap_or_a_mismatch_before_the_entries_is_rejected_and_nothing_written(
    prev: tuple[int, int], conflict: tuple[int, int]
) -> None:
    """CHECKLIST 4: the rejection says what is there instead."""
    member = Member(1, terms=[1, 1, 2], term=3)
    member.step(append_request(member, 2, term=3, prev=prev, terms=[3, 3], commit_index=9))
    reply = _reply(member)
    assert (reply.accepted, reply.prev_index) == (False, prev[1])
    assert (reply.conflict_term, reply.conflict_index) == conflict
    assert reply.last_index == 3
    assert member.terms == [1, 1, 2]
    assert member.raft.commit_index == 0


def test_entries_follow_directly_on_the_checked_one() -> None:
    """CHECKLIST 1, 4, 15."""
    member = Member(1, terms=[1], term=1)
    member.step(append_request(member, 2, term=2, prev=(1, 1), terms=[1, 2]))
    reply = _reply(member)
    assert (reply.accepted, reply.match_index, reply.last_index, reply.term) == (True, 3, 3, 2)
    assert member.disk_log == entries_of([1, 1, 2])


def test_a_late_or_repeated_request_never_truncates_a_matching_tail() -> None:
    """CHECKLIST 5: what exists is skipped; the acknowledgement covers only what was verified."""
    member = Member(1, terms=[1, 1, 1, 1], term=1)
    for prev, terms in [((0, 0), [1]), ((1, 1), [1, 1]), ((1, 2), []), ((0, 0), [])]:
        member.step(append_request(member, 2, term=1, prev=prev, terms=terms))
        assert _reply(member).match_index == prev[1] + len(terms)
        assert member.terms == [1, 1, 1, 1]
        assert all(output.truncate_from is None for output in member.outputs)


def test_a_conflicting_term_truncates_the_log_from_there_and_only_from_there() -> None:
    """CHECKLIST 5."""
    member = Member(1, terms=[1, 1, 2, 2, 2], term=3)
    member.step(append_request(member, 2, term=3, prev=(1, 1), terms=[1, 2, 3]))
    assert member.terms == [1, 1, 2, 3]
    assert member.disk_log == entries_of([1, 1, 2, 3])
    assert [o.truncate_from for o in member.outputs if o.truncate_from is not None] == [4]


def test_several_conflicts_between_two_outputs_leave_the_log_of_the_last() -> None:
    """CHECKLIST 5: storage is told of one truncation, at the lowest index."""
    member = Member(1, terms=[1, 1, 1], term=1)
    raft = member.raft
    raft.step(append_request(member, 2, term=2, prev=(1, 2), terms=[2, 2]))
    raft.step(append_request(member, 3, term=3, prev=(1, 1), terms=[3, 3, 3]))
    raft.step(append_request(member, 2, term=4, prev=(3, 2), terms=[4]))
    ready = raft.ready()
    assert ready.truncate_from == 2
    assert [entry.term for entry in ready.entries] == [3, 4]
    assert [m.term for m in ready.messages_after_persist] == [4]


def test_storage_is_not_told_to_truncate_what_was_never_handed_out() -> None:
    """CHECKLIST 5."""
    member = Member(1, terms=[1], term=1)
    raft = member.raft
    raft.step(append_request(member, 2, term=2, prev=(1, 1), terms=[2, 2]))
    raft.step(append_request(member, 3, term=3, prev=(1, 1), terms=[3]))
    ready = raft.ready()
    assert ready.truncate_from is None
    assert [entry.term for entry in ready.entries] == [3]


def test_what_is_committed_is_never_truncated() -> None:
    """CHECKLIST 18: no correct leader sends such a request, so it is refused."""
    member = Member(1, terms=[1, 1], term=1)
    member.step(heartbeat(member, 2, term=1, commit_index=2))
    with pytest.raises(PeerProtocolViolation, match="conflicts with a committed one"):
        member.step(append_request(member, 3, term=3, prev=(1, 1), terms=[3]))


def test_an_acknowledgement_waits_until_the_entries_are_durable() -> None:
    """CHECKLIST 21, the part of the core."""
    member = Member(1, term=1, sync=False)
    member.step(append_request(member, 2, term=1, terms=[1, 1]))
    assert member.take() == []
    member.persist()
    assert _reply(member).match_index == 2
    assert member.disk_log == entries_of([1, 1])


def test_a_heartbeat_s_answer_does_not_wait_for_the_disk() -> None:
    member = Member(1, term=1, sync=False)
    member.step(append_request(member, 2, term=1, terms=[1]), heartbeat(member, 2, term=1))
    (reply,) = member.take()
    assert isinstance(reply, HeartbeatReply)
    assert reply.last_index == 1


def test_a_request_of_an_earlier_term_is_refused_and_its_sender_steps_down() -> None:
    """CHECKLIST 15, 16: entries and heartbeats alike."""
    member = Member(1, terms=[1], term=5)
    member.step(append_request(member, 2, term=4, prev=(1, 1), terms=[4], commit_index=1))
    reply = _reply(member)
    assert (reply.accepted, reply.term) == (False, 5)
    assert (member.terms, member.raft.commit_index) == ([1], 0)
    member.step(heartbeat(member, 2, term=4, commit_index=1, read_round=3))
    (beat,) = member.take()
    assert (beat.term, beat.read_round, member.raft.commit_index) == (5, 0, 0)
    for answer in (reply, beat):
        old = Member(2, terms=[1]).lead()
        old.step(answer)
        assert (old.raft.role, old.raft.term) == (Role.FOLLOWER, 5)


def test_commit_index_is_learnt_only_as_far_as_this_request_verified() -> None:
    """CHECKLIST 12 and the errata: min(leader's, last index) would commit a wrong tail."""
    member = Member(1, terms=[1, 1, 2, 2], term=3)
    member.step(append_request(member, 2, term=3, prev=(1, 1), terms=[1], commit_index=4))
    assert member.raft.commit_index == 2
    member.step(append_request(member, 2, term=3, prev=(1, 2), terms=[3, 3], commit_index=4))
    assert member.raft.commit_index == 4
    assert [entry.term for entry in member.applied] == [1, 1, 3, 3]


def test_commit_index_never_falls() -> None:
    """CHECKLIST 12."""
    member = Member(1, terms=[1, 1, 1], term=1)
    member.step(heartbeat(member, 2, term=1, commit_index=3))
    member.step(heartbeat(member, 2, term=1, commit_index=1))
    member.step(append_request(member, 2, term=1, prev=(1, 1), commit_index=2))
    assert member.raft.commit_index == 3
    assert len(member.applied) == 3


def test_an_idle_follower_learns_commit_index_from_a_heartbeat() -> None:
    """CHECKLIST 12, 24: no other kind of message is needed."""
    network = Network.of(3)
    leader = network.elect(1)
    span = leader.propose("x")
    network.settle()
    assert leader.raft.commit_index == span.last
    network.tick(TIMING.heartbeat_ticks)
    assert [member.raft.commit_index for member in network.up] == [span.last] * 3


def test_a_heartbeat_s_commit_index_never_exceeds_what_its_receiver_holds() -> None:
    """CHECKLIST 12."""
    member = Member(1, voters=3, terms=[1]).lead()
    member.propose("a", "b")
    member.step(acceptance(member, 2, 4))
    assert member.raft.commit_index == 4
    member.take()
    member.tick(TIMING.heartbeat_ticks)
    beats = {m.to: m.commit_index for m in member.take(Heartbeat)}
    assert beats == {2: 4, 3: 0}


def test_commit_index_travels_on_every_request() -> None:
    """CHECKLIST 12."""
    member = Member(1, terms=[1]).lead()
    member.step(acceptance(member, 2, 2))
    member.take()
    member.propose("a")
    assert [m.commit_index for m in member.take(AppendRequest)] == [2, 2]


def test_a_leader_never_truncates_its_own_log() -> None:
    """CHECKLIST 2: no message of its own term makes it do so, and it only ever appends."""
    member = Member(1, terms=[1, 1]).lead()
    member.propose("a", "b")
    log = list(member.log)
    term = member.raft.term
    member.step(append_request(member, 2, term=term - 1, prev=(0, 0), terms=[1]))
    member.step(acceptance(member, 2, 3), acceptance(member, 3, 5))
    member.tick(3)
    assert member.log == log
    assert all(output.truncate_from is None for output in member.outputs)


def test_requests_in_any_order_any_number_of_times_give_the_same_log() -> None:
    """CHECKLIST 3, 5, 62: a follower's log is always a prefix of what arrived, then all of it."""
    for seed in range(30):
        _any_order_gives_the_same_log(seed)


def _any_order_gives_the_same_log(seed: int) -> None:
    random = Random(seed)
    terms = sorted(random.choices([1, 2, 3], k=8))
    follower = Member(1, terms=[1, 1, 1, 2, 2][: random.randrange(6)], term=4)
    requests = [
        append_request(
            follower, 2, term=4, prev=(terms[at - 1] if at else 0, at), terms=terms[at : at + size]
        )
        for at in range(8)
        for size in (0, 1, 3)
    ]
    for _ in range(6):
        random.shuffle(requests)
        follower.step(*requests)
    in_order = sorted(requests, key=lambda request: request.prev_index)
    follower.step(*in_order)
    assert follower.terms[:8] == terms
    verified = max(reply.match_index for reply in follower.take(AppendReply))
    assert verified == 8
