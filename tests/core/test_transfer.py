"""A leader hands its role to a follower: Raft dissertation section 3.10. CHECKLIST 71."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.membership import Membership
from raftlog.core.messages import AppendRequest, Heartbeat, RaftMessage, TimeoutNow, VoteRequest
from raftlog.core.ready import Role
from raftlog.core.types import NO_NODE, NodeId, RaftTiming, Term
from raftlog.errors import (
    NotLeader,
    PeerProtocolViolation,
    TransferRefused,
    TransferUnderWay,
)
from tests.core.member import (
    GROUP,
    TIMING,
    Longest,
    Member,
    acceptance,
    heartbeat,
    heartbeat_reply,
    node_ids,
    vote_request,
)
from tests.core.network import Network


def led(count: int = 3, timing: RaftTiming = TIMING) -> Network:
    """Member 1 leads, everybody holds its log, and it has heard from all of them."""
    network = Network.of(count, timing=timing, random=Longest())
    network.elect(1)
    network.tick(3 * timing.heartbeat_ticks)
    return network


def timeout_now(to: Member, sender: int, *, term: int, wished: bool = False) -> TimeoutNow:
    return TimeoutNow(
        group=GROUP, sender=NodeId(sender), to=to.node, term=Term(term), wished=wished
    )


def hold_back(network: Network, kind: type[RaftMessage]) -> list[RaftMessage]:
    """Deliver all that is in flight but messages of that kind, which are returned."""
    held: list[RaftMessage] = []
    network.collect()
    while network.waiting:
        waiting, network.waiting = network.waiting, []
        for message in waiting:
            if isinstance(message, kind):
                held.append(message)
            else:
                network.deliver(message)
        network.collect()
    return held


def lone_leader(timing: RaftTiming = TIMING) -> Member:
    """Member 1 leads term 1 of three; members 2 and 3 have answered, and hold its log."""
    member = Member(1, timing=timing).lead()
    for node in (2, 3):
        member.step(acceptance(member, node, 1), heartbeat_reply(member, node, last_index=1))
    member.take()
    return member


# ---------------------------------------------------------------- it succeeds


def test_the_follower_leads_at_once_and_the_former_leader_follows_it() -> None:
    network = led()
    term = network[1].raft.term
    network[1].transfer(2)
    network.settle()  # not a tick passes
    assert [m.raft.role for m in network.members.values()] == [
        Role.FOLLOWER,
        Role.LEADER,
        Role.FOLLOWER,
    ]
    assert {m.raft.term for m in network.members.values()} == {term + 1}
    assert {m.raft.leader for m in network.members.values()} == {2}
    network[2].propose("after")
    network.settle()
    assert network[1].log[-1].payload.command == b"after"


def test_a_follower_that_lacks_entries_gets_them_first() -> None:
    network = led()
    network[1].propose("late")
    held = hold_back(network, AppendRequest)
    network[1].transfer(2)
    assert not network[1].take(TimeoutNow)
    network.waiting += held
    network.settle()
    assert network[2].raft.role is Role.LEADER
    assert network[2].applied[1].payload.command == b"late"


def test_voters_that_hear_the_leader_grant_the_vote_only_because_it_was_handed_over() -> None:
    network = led()
    voter, term = network[3], network[1].raft.term
    log = network[1].raft.log
    asked = vote_request(voter, 2, term=term + 1, last=(log.last_term, log.last_index))
    voter.step(asked)
    assert (voter.raft.term, voter.raft.vote) == (term, 1)
    voter.step(replace(asked, transfer=True))
    assert (voter.raft.term, voter.raft.vote) == (term + 1, 2)


def test_a_follower_that_was_told_asks_for_no_pre_vote_and_says_why_it_campaigns() -> None:
    network = led()
    network[2].step(timeout_now(network[2], 1, term=network[1].raft.term))
    requests = network[2].take(VoteRequest)
    assert [(each.pre, each.transfer) for each in requests] == [(False, True)] * 2


def test_only_the_first_election_after_the_message_bears_the_mark_of_a_transfer() -> None:
    network = led()
    network.isolate(2)
    network[2].step(timeout_now(network[2], 1, term=network[1].raft.term))
    network[2].take()
    network[2].tick(4 * TIMING.election_ticks_min)
    assert {(each.pre, each.transfer) for each in network[2].take(VoteRequest)} == {(True, False)}


def test_a_message_that_got_lost_is_sent_again() -> None:
    network = led()
    network[1].transfer(2)
    assert len(hold_back(network, TimeoutNow)) == 1
    assert network[1].raft.role is Role.LEADER
    network.tick(TIMING.heartbeat_ticks)
    assert network[2].raft.role is Role.LEADER


def test_a_quiesced_group_wakes_for_it() -> None:
    network = led(timing=replace(TIMING, quiesce_after_ticks=5))
    while not all(member.raft.quiesced for member in network.members.values()):
        for member in network.members.values():
            if not member.raft.quiesced:
                member.tick()
        network.settle()
    network[1].transfer(3)
    network.settle()
    assert network[3].raft.role is Role.LEADER


def test_a_wish_for_a_leader_is_remembered_as_long_as_it_leads() -> None:
    network = led()
    network[1].transfer(2, wished=True)
    network.settle()
    assert network[2].raft.is_wished
    network[2].transfer(3)
    network.settle()
    assert network[3].raft.role is Role.LEADER
    assert not any(member.raft.is_wished for member in network.members.values())


# ---------------------------------------------------------------- meanwhile, and if it fails


def test_nothing_is_written_meanwhile() -> None:
    member = lone_leader()
    member.propose("before")
    member.transfer(2)
    with pytest.raises(TransferUnderWay, match="handing its role to node 2"):
        member.propose("meanwhile")
    with pytest.raises(TransferUnderWay):
        member.change(1, 2, 3, learners=[4])
    member.read_index(1)  # reads go on
    assert member.raft.status().transferring_to == 2
    assert len(member.log) == 2


def test_a_leader_does_not_quiesce_before_a_transfer_has_ended() -> None:
    """It would never end: a quiesced leader is not ticked."""
    member = lone_leader(replace(TIMING, quiesce_after_ticks=1))
    member.transfer(2)
    member.take()
    member.tick(6)
    assert {each.quiesce_round for each in member.take(Heartbeat)} == {0}
    member.step(heartbeat_reply(member, 2, last_index=1, may_lead=False))
    member.tick(TIMING.heartbeat_ticks)
    assert max(each.quiesce_round for each in member.take(Heartbeat)) > 0


def test_a_transfer_that_fails_gives_writes_back_within_an_election_timeout() -> None:
    network = led()
    network.isolate(2)
    network[1].transfer(2)
    ticks = network.tick_until(lambda: network[1].raft.transferring_to == NO_NODE)
    assert ticks <= TIMING.election_ticks_min
    network[1].propose("again")
    network.settle()
    assert network[3].log[-1].payload.command == b"again"
    network.heal()
    network.tick(2 * TIMING.election_ticks_min)
    assert network[1].raft.role is Role.LEADER


def test_a_tick_says_that_there_is_something_to_do_when_a_transfer_ends() -> None:
    """So whoever waits to write is looked at. No heartbeat is due at that tick."""
    timing = replace(TIMING, election_ticks_min=9, heartbeat_ticks=4)
    member = lone_leader(timing)
    member.transfer(2)
    ticks = 0
    while member.raft.transferring_to != NO_NODE:
        due = member.raft.tick()
        member.raft.ready()
        ticks += 1
        assert due or member.raft.transferring_to != NO_NODE
    assert due
    assert ticks == timing.election_ticks_min


def test_a_follower_that_would_not_lead_ends_it_with_its_next_answer() -> None:
    member = lone_leader()
    member.propose("not there yet")
    member.transfer(2)
    assert member.raft.transferring_to == 2
    member.step(heartbeat_reply(member, 2, last_index=1, may_lead=False))
    assert member.raft.transferring_to == NO_NODE
    member.propose("again")


def test_one_whose_process_is_gone_ends_it_at_once() -> None:
    """Nobody waits for the timeout to write again."""
    member = lone_leader()
    member.transfer(2)
    member.raft.report_unreachable(3)
    member.raft.report_unreachable(4)
    member.settle()
    assert member.raft.transferring_to == 2
    member.raft.report_unreachable(2)
    member.settle()
    assert member.raft.transferring_to == NO_NODE
    member.propose("again")
    with pytest.raises(TransferRefused, match="could not lead now"):
        member.transfer(2)
    member.step(heartbeat_reply(member, 2, last_index=1))
    member.transfer(2)


def test_the_follower_is_asked_at_once_whether_it_would_lead() -> None:
    member = lone_leader()
    member.transfer(2)
    assert {each.to for each in member.take(Heartbeat)} == {2, 3}


def test_to_ask_for_the_same_again_changes_nothing_and_for_another_is_refused() -> None:
    member = lone_leader()
    member.transfer(2)
    member.tick(TIMING.election_ticks_min - 1)
    member.transfer(2)
    with pytest.raises(TransferRefused, match="node 2 is being given it"):
        member.transfer(3)
    member.step(heartbeat_reply(member, 2, last_index=1), heartbeat_reply(member, 3, last_index=1))
    member.tick()
    assert member.raft.transferring_to == NO_NODE


# ---------------------------------------------------------------- it is refused


@pytest.mark.parametrize(
    ("to", "problem"),
    [(1, "it leads already"), (4, "of its voters, 1, 2, 3, it is none")],
)
def test_only_another_voter_can_be_given_the_role(to: int, problem: str) -> None:
    with pytest.raises(TransferRefused, match=problem):
        lone_leader().transfer(to)


def test_a_follower_that_does_not_answer_is_refused() -> None:
    member = lone_leader()
    for _ in range(TIMING.election_ticks_min):
        member.step(heartbeat_reply(member, 3, last_index=1))
        member.tick()
    with pytest.raises(TransferRefused, match="it does not answer"):
        member.transfer(2)
    member.transfer(3)


def test_a_follower_that_said_it_would_not_lead_or_never_said_it_would_is_refused() -> None:
    """So is one whose program knows no transfer."""
    member = Member(1).lead()
    member.step(acceptance(member, 2, 1))
    with pytest.raises(TransferRefused, match="could not lead now"):
        member.transfer(2)
    member.step(heartbeat_reply(member, 2, may_lead=False))
    with pytest.raises(TransferRefused, match="could not lead now"):
        member.transfer(2)


def test_a_learner_is_refused_and_so_is_anybody_while_members_change() -> None:
    network = Network.of(3, others=1, random=Longest())
    network.elect(1)
    network.tick(2 * TIMING.heartbeat_ticks)
    network[1].change(1, 2, 3, learners=[4])
    network.settle()
    network.tick(2 * TIMING.heartbeat_ticks)
    with pytest.raises(TransferRefused, match="it is none"):
        network[1].transfer(4)
    network[1].change(1, 2, 4)
    with pytest.raises(TransferRefused, match="its members are changing"):
        network[1].transfer(2)


def test_who_does_not_lead_hands_nothing_over() -> None:
    with pytest.raises(NotLeader):
        Member(2).transfer(1)


# ---------------------------------------------------------------- the follower's side


def test_a_follower_says_whether_it_would_lead() -> None:
    member = Member(2)
    said = []
    for note in (
        lambda: None,
        lambda: member.raft.note_fitness(may_lead=False),
        lambda: member.raft.note_fitness(may_lead=True),
        lambda: member.raft.note_disk(keeps_up=False),
    ):
        note()
        member.step(heartbeat(member, 1, term=1))
        said += [reply.may_lead for reply in member.take() if hasattr(reply, "may_lead")]
    assert said == [True, False, True, False]


def test_one_that_cannot_lead_ignores_the_message() -> None:
    unfit, slow, learner = Member(2), Member(2), Member(4)
    unfit.raft.note_fitness(may_lead=False)
    slow.raft.note_disk(keeps_up=False)
    recovering = Member(2, terms=[1], term=1)
    recovering.lose_log()
    for member in (unfit, slow, learner, recovering):
        member.step(heartbeat(member, 1, term=1), timeout_now(member, 1, term=1))
        assert member.raft.role is Role.FOLLOWER
        assert not member.take(VoteRequest)


def test_an_old_message_changes_nothing() -> None:
    member = Member(2, term=3)
    before = member.raft.fingerprint()
    member.step(timeout_now(member, 1, term=2))
    assert member.raft.fingerprint() == before


def test_a_new_leader_is_not_disturbed_by_its_predecessor_s_message() -> None:
    network = led()
    term = network[1].raft.term
    network[1].transfer(2)
    (held,) = hold_back(network, TimeoutNow)
    network.deliver(held)
    network.settle()
    network.deliver(held)
    network.settle()
    assert (network[2].raft.role, network[2].raft.term) == (Role.LEADER, term + 1)


def test_who_does_not_lead_the_term_cannot_tell_anybody_to_campaign() -> None:
    member = Member(2)
    member.step(heartbeat(member, 1, term=1))
    with pytest.raises(PeerProtocolViolation, match="node 1 leads term 1"):
        member.step(timeout_now(member, 3, term=1))
    with pytest.raises(PeerProtocolViolation, match="a pre-vote is asked for"):
        member.step(replace(vote_request(member, 3, term=2, last=(0, 0), pre=True), transfer=True))


def test_a_vote_of_a_transfer_needs_an_up_to_date_log_like_any_other() -> None:
    network = led()
    network.isolate(2)
    network[1].propose("committed without it")
    network.settle()
    network.heal()
    network[2].step(timeout_now(network[2], 1, term=network[1].raft.term))
    network.settle()
    assert network[2].raft.role is not Role.LEADER
    network.tick_until(lambda: network.leader is not None)
    network.settle()  # the checker of the network looks for what is missing


# ---------------------------------------------------------------- leaders that leave


def test_a_leader_that_must_not_lead_any_more_names_the_follower_with_most_of_the_log() -> None:
    network = led()
    network.isolate(2)
    network[1].propose("not at 2")
    network.settle()
    network.heal()
    network[1].raft.note_fitness(may_lead=False)
    network[1].settle()
    network.settle()
    assert network[3].raft.role is Role.LEADER  # not a tick has passed


def test_a_leader_outside_the_new_configuration_hands_over_when_it_leaves() -> None:
    """CHECKLIST 75: no election timeout passes."""
    network = led()
    network[1].change(2, 3)
    network.settle()
    assert network[1].raft.role is Role.FOLLOWER
    assert network.leader is not None
    assert network.leader.raft.membership == Membership(node_ids(2, 3))
    assert network.leader.node in (2, 3)


def test_a_leader_that_was_cut_off_tells_nobody_to_campaign() -> None:
    """It would raise the term where no majority is, and that term would depose a leader later."""
    network = led(5)
    network.cut |= {(a, b) for a in (3, 4, 5) for b in (1, 2)}
    network.cut |= {(b, a) for a in (3, 4, 5) for b in (1, 2)}
    network.tick_until(lambda: network[1].raft.role is not Role.LEADER)
    assert network[2].raft.term == 1
    assert network[2].raft.role is not Role.CANDIDATE
