"""A member that has lost its log counts for nothing until it has all that it may have confirmed;
but it votes, if it knows where that log ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from raftlog.core.membership import Membership
from raftlog.core.messages import AppendReply, Heartbeat, HeartbeatReply, RaftMessage, VoteReply
from raftlog.core.ready import Role
from raftlog.core.recovery import begun, is_recovering, next_recovery
from raftlog.core.types import Entry, HardState, LastEntry, LogIndex, NodeId, Term, VotersAt
from raftlog.errors import AcknowledgedEntriesLost
from tests.core.member import (
    NOBODY_DECIDES,
    TIMING,
    Member,
    append_request,
    heartbeat,
    log_of,
    node_ids,
    vote_request,
)
from tests.core.network import Network


def recovering_member() -> Member:
    """It voted for 2 in term 3, and has lost the three entries that it had."""
    member = Member(1, terms=[1, 2, 3], vote=2)
    member.lose_log()
    return member


def network_that_lost(node: int, *, committed: int = 3, knows_end: bool = False) -> Network:
    """Member 1 leads, all have its entries, and then `node` loses its log while it is down."""
    network = Network.of(3)
    leader = network.elect(1)
    leader.propose(*[f"entry {number}" for number in range(committed)])
    network.tick(2 * TIMING.heartbeat_ticks)
    assert all(member.raft.commit_index == committed + 1 for member in network.up)
    network.crash(node)
    network.members[node].lose_log(knows_end=knows_end)
    return network


def view(leader: Member, node: int):
    return next(each for each in leader.raft.followers() if each.node == node)


def has_recovered(network: Network, node: int) -> bool:
    member, leader = network[node], network.leader
    return leader is not None and not member.raft.recovering and not view(leader, node).recovering


def test_recoveries_are_numbered_and_odd_while_they_last() -> None:
    assert [next_recovery(number) for number in (0, 1, 2, 3)] == [1, 3, 3, 5]
    assert [is_recovering(number) for number in (0, 1, 2, 3)] == [False, True, False, True]


@pytest.mark.parametrize(("sender", "term"), [(2, 3), (3, 4)])
@pytest.mark.parametrize("pre", [False, True])
def test_it_gives_no_vote_not_even_again(sender: int, term: int, pre: bool) -> None:
    member = recovering_member()
    member.step(vote_request(member, sender, term=term, last=(2, 9), pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]


def test_it_does_not_campaign() -> None:
    member = recovering_member()
    member.tick(10 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 3)
    assert not member.take()


def test_it_gets_the_log_again_and_is_a_voter_again() -> None:
    network = network_that_lost(3)
    network.restart(3)
    assert network[3].raft.recovering
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=40)
    assert network[3].log == network[1].log
    assert network[3].disk_hard_state.recovery == 2
    network.crash(2)
    network[1].propose("with its copy")
    network.tick(3 * TIMING.heartbeat_ticks)
    assert network[3].raft.commit_index == 5
    network.crash(1)
    network.restart(2)
    network.elect(3)


def test_it_is_not_counted_before_that() -> None:
    """Not for commit, and not for reads; but its leader goes on: it gets the log from it."""
    network = network_that_lost(3)
    network.crash(2)
    network.restart(3)
    leader = network[1]
    leader.propose("without a majority")
    leader.read_index(1)
    network.tick(TIMING.election_ticks_min - 1)
    assert network[3].log == leader.log, "it is sent what it lacks all the same"
    assert leader.raft.commit_index == 4
    assert not leader.reads
    network.tick(2 * TIMING.election_ticks_min)
    assert leader.raft.role is Role.LEADER
    assert leader.raft.commit_index == 4
    assert network[3].raft.recovering


def test_a_leader_that_a_majority_without_it_does_not_confirm_does_not_end_the_recovery() -> None:
    """Its first contact may be deposed, and not know what was committed since."""
    network = network_that_lost(3)
    network.isolate(2)
    network.restart(3)
    network.tick(TIMING.election_ticks_min - 1)
    assert network[3].log == network[1].log
    assert view(network[1], 3).match_index == 4
    assert network[3].raft.recovering
    network.heal()
    network.tick_until(lambda: not network[3].raft.recovering, ticks_max=100)


def test_a_round_that_was_under_way_before_its_first_contact_proves_nothing() -> None:
    network = network_that_lost(3)
    leader = network[1]
    leader.read_index(1)
    leader.settle()
    (before,) = leader.take(Heartbeat, to=2)
    network.restart(3)
    network.cut |= {(1, 2), (2, 1)}
    network.tick(4)
    assert view(leader, 3).recovering
    network[2].step(before)
    for late in network[2].take(HeartbeatReply):
        leader.step(late)
    assert [read.request_id for read in leader.reads] == [1]
    network.tick(4)
    assert network[3].raft.recovering


def test_what_it_said_before_the_loss_counts_no_more() -> None:
    network = network_that_lost(3)
    leader = network[1]
    network.crash(2)
    leader.propose("only here")
    said_before = AppendReply(
        group=leader.raft.group,
        sender=NodeId(3),
        to=NodeId(1),
        term=leader.raft.term,
        accepted=True,
        prev_index=leader.raft.log.last_index,
        match_index=leader.raft.log.last_index,
        conflict_term=0,
        conflict_index=0,
        last_index=leader.raft.log.last_index,
    )
    network.restart(3)
    network.cut |= {(1, 3)}
    network[3].step(heartbeat(network[3], 1, term=leader.raft.term))
    network.settle()
    assert view(leader, 3).recovering
    leader.step(said_before)
    assert leader.raft.commit_index == 4
    assert view(leader, 3).match_index == 0


def test_a_leader_that_does_not_know_of_the_loss_does_not_end_the_member() -> None:
    member = recovering_member()
    member.step(heartbeat(member, 2, term=3, commit_index=3))
    assert (member.raft.commit_index, member.raft.recovering) == (0, True)


def recovered_in_memory(network: Network, node: int) -> Member:
    """It was told that its recovery has ended, and its disk does not sync."""
    member = network[node]
    network.isolate(2)
    network.restart(node)
    network.tick(4)
    assert view(network[1], node).match_index == len(network[1].log)
    member.sync = False
    network.heal()
    network.tick_until(lambda: not member.raft.recovering, ticks_max=40)
    return member


def test_that_it_recovered_counts_only_once_it_is_durable() -> None:
    network = network_that_lost(3)
    leader, member = network[1], recovered_in_memory(network, 3)
    network.tick(TIMING.resend_ticks)
    assert view(leader, 3).recovering
    member.sync = True
    member.persist()
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=40)


def test_a_crash_before_that_is_durable_is_no_harm() -> None:
    network = network_that_lost(3)
    member = recovered_in_memory(network, 3)
    network.crash(3)
    member.sync = True
    network.restart(3)
    assert member.raft.recovering
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)


def test_a_member_that_loses_its_log_again_begins_again() -> None:
    network = network_that_lost(3)
    network.restart(3)
    network.tick(4)
    network.crash(3)
    network[3].lose_log()
    network.restart(3)
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)
    assert network[3].disk_hard_state.recovery in (4, 6)
    assert network[3].log == network[1].log


def test_a_new_leader_counts_one_that_recovered_before() -> None:
    network = network_that_lost(3)
    network.restart(3)
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=100)
    network.crash(1)
    leader = network.elect(2)
    leader.propose("with its copy")
    network.tick(3 * TIMING.heartbeat_ticks)
    assert leader.raft.commit_index == leader.raft.log.last_index


# ------------------------------------------------------------ where the lost log ended is known


def last(term: int, index: int) -> LastEntry:
    return LastEntry(Term(term), LogIndex(index))


def test_what_was_lost_first_counts_while_a_recovery_lasts() -> None:
    before = HardState(Term(3), NodeId(2))
    first = begun(before, last(2, 9))
    assert first == HardState(Term(3), NodeId(2), 1, last(2, 9))
    assert begun(first, last(1, 1)) == HardState(Term(3), NodeId(2), 3, last(2, 9))
    assert begun(begun(before, None), last(2, 9)).lost is None


def test_a_term_that_only_the_lost_log_knew_is_not_forgotten() -> None:
    assert begun(HardState(Term(3), NodeId(2)), last(4, 9)) == HardState(
        Term(4), NodeId(0), 1, last(4, 9)
    )


@pytest.mark.parametrize(
    ("candidate", "granted"),
    [((3, 3), True), ((3, 4), True), ((4, 1), True), ((3, 2), False), ((2, 9), False)],
)
@pytest.mark.parametrize("pre", [False, True])
def test_it_votes_for_who_is_as_up_to_date_as_its_lost_log(
    candidate: tuple[int, int], granted: bool, pre: bool
) -> None:
    member = Member(1, terms=[1, 2, 3])
    member.lose_log(knows_end=True)
    member.step(vote_request(member, 2, term=5, last=candidate, pre=pre))
    assert [reply.granted for reply in member.take(VoteReply)] == [granted]
    member.tick(10 * TIMING.election_ticks_min)
    assert member.raft.role is Role.FOLLOWER, "it does not campaign"


def network_that_lost_two() -> Network:
    """Member 1 led; members 2 and 3 have lost their logs, and all are down."""
    network = network_that_lost(3, knows_end=True)
    network.crash(1)
    network.crash(2)
    network[2].lose_log(knows_end=True)
    return network


def test_two_of_three_elect_the_third_and_get_their_logs_from_it() -> None:
    network = network_that_lost_two()
    for node in (1, 2, 3):
        network.restart(node)
    network.tick_until(
        lambda: has_recovered(network, 2) and has_recovered(network, 3), ticks_max=200
    )
    assert network.leader is network[1]
    network[1].propose("with their copies")
    network.tick(3 * TIMING.heartbeat_ticks)
    assert network[2].log == network[3].log == network[1].log
    assert network[1].raft.commit_index == network[1].raft.log.last_index
    assert network[2].disk_hard_state.lost is None


def test_the_third_is_not_elected_if_it_lacks_what_they_had() -> None:
    network = network_that_lost_two()
    network[1].disk_log = network[1].disk_log[:-1]
    for node in (1, 2, 3):
        network.restart(node)
    network.tick(200)
    assert network.leader is None


@pytest.mark.parametrize(
    ("lost_terms", "sent_terms"),
    [([1, 2, 3], [1, 2, 3]), ([1, 2, 3], [1, 4]), ([1, 2, 3, 3], [1, 2, 3, 4])],
)
def test_it_counts_once_its_log_is_durably_as_up_to_date_as_the_lost_one(
    lost_terms: list[int], sent_terms: list[int]
) -> None:
    member = Member(1, terms=lost_terms)
    member.lose_log(knows_end=True)
    most = sent_terms[:-1]
    member.step(append_request(member, 2, term=5, terms=most))
    assert member.raft.recovering
    member.sync = False
    prev = (most[-1], len(most))
    member.step(append_request(member, 2, term=5, prev=prev, terms=sent_terms[-1:]))
    assert member.raft.recovering, "what is not durable counts for nothing"
    member.sync = True
    member.persist()
    assert not member.raft.recovering
    assert member.disk_hard_state == HardState(Term(5), NodeId(0), 2)
    member.step(append_request(member, 2, term=5, prev=(sent_terms[-1], len(sent_terms))))
    assert member.take(AppendReply)[-1].recovery == 2


def test_a_longer_log_of_an_earlier_term_does_not_end_the_recovery() -> None:
    member = Member(1, terms=[1, 2, 3])
    member.lose_log(knows_end=True)
    member.step(append_request(member, 2, term=5, terms=[1, 2, 2, 2, 2]))
    assert member.raft.recovering
    assert member.take(AppendReply)[-1].recovery == 1


def test_a_log_that_ends_before_the_lost_one_does_not_end_the_recovery_at_a_start() -> None:
    member = Member(1, terms=[1, 2, 3])
    member.lose_log(knows_end=True)
    member.step(append_request(member, 2, term=3, terms=[1, 2]))
    member.start()
    assert member.raft.recovering
    member.step(append_request(member, 2, term=3, prev=(2, 2), terms=[3]))
    assert not member.raft.recovering


def others_have_all(network: Network, node: int) -> bool:
    """Does another member hold, durably, all that any one held, had `node` lost its log as well?"""
    ends = {
        each.node: log_of(each.disk_log).last_entry
        for each in network.members.values()
        if not is_recovering(each.disk_hard_state.recovery)
    }
    lost = [each.disk_hard_state.lost for each in network.members.values()]
    most = max([*ends.values(), *(each for each in lost if each is not None)])
    return any(end >= most for holder, end in ends.items() if holder != node)


def lost_an_older_log(*terms: int, voters: VotersAt | None = None) -> Member:
    """A member whose log, with entries of these terms, was damaged and may have been a copy."""
    member = Member(1, terms=list(terms), term=2)
    member.disk_hard_state = member.disk_hard_state._replace(voters=voters)
    member.lose_log(knows_end=True)
    return member


def votes_for(member: Member, *last: int) -> bool:
    member.leader_lost(2, member.raft.term)
    member.take()
    member.step(vote_request(member, 3, term=member.raft.term + 1, last=(last[0], last[1])))
    return any(reply.granted for reply in member.take(VoteReply))


def test_of_a_damaged_log_a_leader_may_know_a_later_term_though_no_higher_index() -> None:
    """The copy ends with entries of term 1 that were never committed."""
    member = lost_an_older_log(*10 * [1])
    member.step(heartbeat(member, 2, term=2, commit_index=5, commit_term=1))
    assert not member.raft.incomplete, "that was in it"
    with pytest.raises(AcknowledgedEntriesLost):
        member.step(heartbeat(member, 2, term=2, commit_index=5, commit_term=2))
    member.settle()
    assert not votes_for(member, 2, 3)


@pytest.mark.parametrize("held", [True, False])
def test_of_a_damaged_log_the_journal_may_know_later_voters(held: bool) -> None:
    voters = VotersAt(LogIndex(5), node_ids(1, 2, 3), held=held, term=Term(1))
    assert votes_for(lost_an_older_log(1, 1, voters=voters), 1, 4) is not held
    assert votes_for(lost_an_older_log(1, 1, 1, 1, 1, voters=voters), 1, 5)


def test_voters_that_were_never_committed_are_forgotten_with_a_later_term() -> None:
    voters = VotersAt(LogIndex(13), node_ids(1, 2), held=True, term=Term(1))
    member = Member(1, membership=Membership(node_ids(1, 2, 3)), terms=[1, 1], term=2)
    member.disk_hard_state = member.disk_hard_state._replace(voters=voters)
    member.start()
    assert member.raft.incomplete
    assert member.raft.membership.voters == (1, 2)
    member.step(append_request(member, 3, term=2, prev=(1, 2), terms=[2]))
    assert not member.raft.incomplete
    assert member.raft.membership.voters == (1, 2, 3)


def test_a_loss_within_a_recovery_is_told_to_the_leader_that_knows_of_this_one() -> None:
    member = lost_an_older_log(1, 1, 2)
    assert member.raft.recovering
    numbers = []
    for known in (0, 1, 1, 3, 2**61):
        member.step(heartbeat(member, 2, term=2, commit_index=2, commit_term=1, recovery=known))
        numbers += [reply.recovery for reply in member.take(HeartbeatReply)]
    assert numbers == [1, 3, 3, 5, 7]
    assert member.raft.recovering


def test_no_leader_hears_a_number_before_it_is_durable() -> None:
    """Else it would take what the next process says for what was said before a loss."""
    member = Member(1, terms=[1], term=1)
    raft = member.raft
    with pytest.raises(AcknowledgedEntriesLost):
        raft.step(heartbeat(member, 2, term=1, commit_index=5))
    for _ in range(2):
        output = raft.ready()
        assert not [each for each in output.messages if isinstance(each, HeartbeatReply)]
        [answer] = output.messages_after_persist
        assert isinstance(answer, HeartbeatReply)
        assert answer.recovery == 2
        raft.step(heartbeat(member, 2, term=1, recovery=2))
    raft.step(append_request(member, 2, term=1, prev=(1, 1), terms=[1]))
    raft.persisted(raft.ready().write_number)
    raft.step(heartbeat(member, 2, term=1, recovery=2))
    assert [type(each) for each in raft.ready().messages] == [HeartbeatReply]


def test_another_recovery_forgets_nothing_of_what_the_last_one_lost() -> None:
    lost = [LastEntry(Term(1), LogIndex(index)) for index in (2, 4)]
    first = begun(HardState(Term(1), NodeId(0)), lost[0])
    assert begun(first, lost[1]).lost == lost[1], "a leader has said that it was more"
    assert begun(begun(first, lost[1]), lost[0]).lost == lost[1]
    assert begun(begun(HardState(Term(1), NodeId(0)), None), lost[1]).lost is None


class Unnoticed(Network):
    """Members go on after they were told that they have lost what they acknowledged."""

    def __init__(self, seed: int) -> None:
        super().__init__(Network.of(3, seed=seed).members.values())

    def deliver(self, message: RaftMessage) -> None:
        with suppress(AcknowledgedEntriesLost):
            super().deliver(message)


SEEDS = [
    *range(5),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 60)),
    *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(60, 500)),
]


def endure(network: Network, random: Random, lose: Callable[[Member], object]) -> None:
    """Writes, cuts and crashes, with logs lost by some of these. The checks are the network's:
    election safety, leader completeness, log matching."""
    for _ in range(120):
        node = random.randint(1, 3)
        match random.choice(["tick", "tick", "tick", "tick", "propose", "lose", "crash", "cut"]):
            case "tick":
                network.tick(random.randint(1, 10))
            case "propose" if network.leader is not None and not network.leader.raft.quiesced:
                network.leader.propose(f"{random.random()}")
            case "lose" | "crash" as what:
                if node not in network.down:
                    network.crash(node)
                    if what == "lose":
                        lose(network[node])
                    network.restart(node)
            case "cut":
                network.heal() if random.random() < 0.5 else network.isolate(node)
    network.heal()

    def settled() -> bool:
        logs = {tuple(each.log) for each in network.up}
        recovering = [each for each in network.up if each.raft.recovering]
        return network.leader is not None and len(logs) == 1 and not recovering

    network.tick_until(settled)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_loses_what_log_when_nothing_committed_is_lost(seed: int) -> None:
    network = Network.of(3, seed=seed)

    def lose(member: Member) -> None:
        if others_have_all(network, member.node):
            member.lose_log(knows_end=True)

    endure(network, Random(seed), lose)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_has_an_older_log_while_the_others_hold_all_nothing_committed_is_lost(
    seed: int,
) -> None:
    """Nothing shows the member that its log was cut, or is an older copy: of one that was longer,
    it may be, and had entries that were never committed."""
    network, random = Unnoticed(seed), Random(seed)
    copies: dict[int, list[Entry]] = {}

    def lose(member: Member) -> None:
        older = copies.pop(member.node, None)
        copies[member.node] = list(member.disk_log)
        others = [each for node, each in network.members.items() if node != member.node]
        known = [log_of(each.disk_log).last_entry for each in others]
        if min(known) >= max(*known, log_of(member.disk_log).last_entry):
            cut = member.disk_log[: random.randint(0, len(member.disk_log))]
            member.disk_log[:] = older if older is not None and random.random() < 0.5 else cut

    endure(network, random, lose)


def test_what_a_member_held_before_it_counted_is_committed_as_soon_as_it_counts() -> None:
    network = network_that_lost(3, knows_end=True)
    leader, member = network[1], network[3]
    network.crash(2)
    leader.propose("needs the member")
    lost = LastEntry(leader.raft.term, LogIndex(leader.raft.log.last_index))
    member.disk_hard_state = member.disk_hard_state._replace(lost=lost)
    network.restart(3)
    network.tick_until(lambda: has_recovered(network, 3), ticks_max=TIMING.election_ticks_min)
    assert leader.raft.commit_index == leader.raft.log.last_index


# ---------------------------------------------------------------- who decides


ALONE = Membership(node_ids(1))


def grown_from_one() -> Network:
    """Member 1 was the only voter; now all three are."""
    network = Network(
        Member(node, membership=ALONE if node == 1 else NOBODY_DECIDES) for node in (1, 2, 3)
    )
    network.elect(1)
    network[1].change(1, learners=(2, 3))
    network.settle()
    network[1].change(1, 2, 3)
    network.settle()
    return network


def test_who_lost_the_end_of_its_log_unnoticed_does_not_decide_by_what_is_left() -> None:
    """A cut that left whole frames, or an older copy: the journal still knows who voted later."""
    since = grown_from_one()[1].raft.memberships.latest_index
    for kept in range(since):
        network = grown_from_one()
        network.crash(1)
        del network[1].disk_log[kept:]
        network.isolate(1)
        network.restart(1)
        network.tick(20 * TIMING.election_ticks_min)
        assert network[1].raft.role is not Role.LEADER, f"it kept {kept} entries"
        assert network[1].raft.incomplete
        assert network[1].raft.memberships.voters_at == network[1].disk_hard_state.voters
        leader = network.elect_any()
        leader.propose("without it")
        network.settle()
        assert leader.raft.commit_index == leader.raft.log.last_index


def test_who_lost_its_log_knows_the_latest_voters_until_its_log_has_them_again() -> None:
    """Refilled from the beginning it passes by former memberships, and decides by none of them."""
    network = grown_from_one()
    since = network[1].raft.memberships.latest_index
    network.isolate(1)
    network[1].lose_log(knows_end=True)
    lost = network[1].raft.memberships
    assert (lost.latest.voters, lost.latest_index) == ((1, 2, 3), since)
    assert lost.at(LogIndex(0)).membership == ALONE, "what it has of the log is older"
    entries = network[2].log
    lost.grown(entries[: since - 1])
    assert lost.latest.voters == (1, 2, 3)
    lost.grown(entries[since - 1 :])
    assert lost.latest == network[2].raft.membership
    assert lost.voters_at == network[2].raft.memberships.voters_at


@pytest.mark.parametrize("earlier_losses", [0, 1])
def test_a_leader_that_stays_sends_again_what_was_lost_unnoticed(earlier_losses: int) -> None:
    """The second time from an older copy: what it says has a number that the leader knows of it."""
    network = Network.of(3)
    leader = network.elect(1)
    copy = list(network[2].disk_log), network[2].disk_hard_state
    leader.propose("a", "b")
    network.tick(2 * TIMING.heartbeat_ticks)
    for _ in range(1 + earlier_losses):
        network.crash(2)
        network[2].disk_log[:], network[2].disk_hard_state = copy
        network.restart(2)
        with pytest.raises(AcknowledgedEntriesLost):
            network.tick(TIMING.heartbeat_ticks)
        for _ in range(10):
            with suppress(AcknowledgedEntriesLost):
                network.tick(TIMING.heartbeat_ticks)
        assert network[2].log == leader.log
    network.crash(3)
    leader.propose("c")
    network.tick(2 * TIMING.heartbeat_ticks)
    assert network.leader is leader
    assert network[2].raft.commit_index == leader.raft.commit_index == 4


@pytest.mark.parametrize(("ghosts", "later"), [(1, 5), (3, 2), (3, 3), (8, 0), (8, 4), (8, 8)])
def test_an_older_log_that_ends_otherwise_is_taken_for_no_other(ghosts: int, later: int) -> None:
    """It has entries that were never committed, where others were committed since."""
    network = Network.of(3)
    former = network.elect(2)
    former.propose("before")
    network.tick(2 * TIMING.heartbeat_ticks)
    network.isolate(2)
    for _ in range(ghosts):
        former.propose("never committed")
    network.settle()
    network.crash(2)
    older = list(former.disk_log)
    network.heal()
    leader = network.elect(1)
    for _ in range(later):
        leader.propose("committed")
    network.restart(2)
    network.tick(20)
    assert network[2].log == leader.log
    network.crash(2)
    former.disk_log[:] = older
    network.restart(2)
    for _ in range(20):
        with suppress(AcknowledgedEntriesLost):
            network.tick(TIMING.heartbeat_ticks)
    assert network[2].log == leader.log
    assert network[2].raft.commit_index == leader.raft.commit_index
    assert network.leader is leader


def told_of_a_loss() -> Member:
    """Its log ends at entry 1, and a leader of term 1 has said that it acknowledged entry 5."""
    member = Member(1, terms=[1], term=1)
    with pytest.raises(AcknowledgedEntriesLost):
        member.step(heartbeat(member, 2, term=1, commit_index=5))
    member.settle()
    member.take()
    return member


def test_an_incomplete_member_votes_for_no_candidate_that_a_leader_names_either() -> None:
    member = told_of_a_loss()
    member.step(vote_request(member, 3, term=2, last=(1, 4), transfer=True))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]


def test_a_replica_that_takes_the_place_of_an_incomplete_one_is_incomplete() -> None:
    member = told_of_a_loss()
    acknowledged = member.raft.acknowledged
    member.start()
    assert not member.raft.incomplete, "what a leader says, which may lie, is not on disk"
    member.raft.note_acknowledged(acknowledged)
    assert member.raft.incomplete
    member.step(append_request(member, 3, term=2, prev=(1, 1), terms=[1, 1, 1, 1, 2]))
    assert not member.raft.incomplete


def test_a_recovering_member_that_acknowledged_more_than_it_knows_of_gives_no_vote() -> None:
    """An older copy of the log, which is damaged besides."""
    member = Member(1, terms=[1, 1], term=1)
    member.lose_log(knows_end=True)
    member.step(heartbeat(member, 2, term=1, commit_index=2))
    assert not member.raft.incomplete, "it knows of that"
    with pytest.raises(AcknowledgedEntriesLost):
        member.step(heartbeat(member, 2, term=1, commit_index=3))
    member.settle()
    assert member.raft.recovering
    assert member.raft.incomplete
    member.leader_lost(2, 1)
    member.take()
    member.step(vote_request(member, 3, term=2, last=(1, 2)))
    assert [reply.granted for reply in member.take(VoteReply)] == [False]
