"""Members come and go: joint consensus, learners, and what a log says of its members."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raftlog.core.membership import (
    Membership,
    MembershipAt,
    Memberships,
    changed,
    completed,
    decode_membership,
    encode_membership,
)
from raftlog.core.messages import Heartbeat
from raftlog.core.ready import Role
from raftlog.core.types import Entry, EntryKind, LastEntry, LogIndex, Payload, RaftTiming, Term
from raftlog.errors import ChangeUnderWay, MemberBehind, NotLeader, PeerProtocolViolation
from tests.core.member import (
    NOBODY_DECIDES,
    TIMING,
    Longest,
    Member,
    Shortest,
    acceptance,
    append_request,
    entries_of,
    heartbeat,
    log_of,
    node_ids,
    payload,
    vote_reply,
    vote_request,
)
from tests.core.network import Network

ABC = Membership(node_ids(1, 2, 3))
_IDS = range(2**63 - 3_001, 2**63 - 1)
LARGEST = Membership(node_ids(*_IDS[::3]), node_ids(*_IDS[1::3]), node_ids(*_IDS[2::3]))
"""A thousand members of each kind, with the longest ids."""


def network_of(*voters: int, others: tuple[int, ...] = (), timing: RaftTiming = TIMING) -> Network:
    """Members of a group with these voters, and `others` that nothing has named yet."""
    first = Membership(node_ids(*voters))
    return Network(
        Member(
            node,
            membership=first if node in voters else NOBODY_DECIDES,
            random=Shortest() if node == 1 else Longest(),
            timing=timing,
        )
        for node in (*voters, *others)
    )


def roles(network: Network) -> dict[int, Role]:
    return {node: member.raft.role for node, member in network.members.items()}


def change(network: Network, leader: int, *voters: int, learners: tuple[int, ...] = ()) -> None:
    network[leader].change(*voters, learners=learners)
    network.settle()


# ---------------------------------------------------------------- values


def test_a_change_of_voters_goes_through_both_sets_and_one_of_learners_does_not() -> None:
    """CHECKLIST 73."""
    joint = changed(ABC, Membership(node_ids(1, 4, 5), learners=node_ids(6)))
    assert joint == Membership(node_ids(1, 4, 5), ABC.voters, node_ids(6))
    assert joint.is_joint
    assert joint.all_voters == (1, 2, 3, 4, 5)
    assert joint.members == (1, 2, 3, 4, 5, 6)
    assert completed(joint) == Membership(node_ids(1, 4, 5), learners=node_ids(6))
    learning = changed(ABC, Membership(ABC.voters, learners=node_ids(4)))
    assert learning == Membership(ABC.voters, learners=node_ids(4))
    assert (learning.all_voters, learning.members) == ((1, 2, 3), (1, 2, 3, 4))
    assert (NOBODY_DECIDES.deciding, NOBODY_DECIDES.members) == ((), ())


def test_a_former_voter_may_become_a_learner() -> None:
    joint = changed(ABC, Membership(node_ids(1, 2), learners=node_ids(3)))
    assert joint.deciding == ((1, 2), (1, 2, 3))
    assert joint.members == (1, 2, 3)


@pytest.mark.parametrize(
    "membership",
    [ABC, NOBODY_DECIDES, Membership(node_ids(1), node_ids(1, 2), node_ids(2, 1 << 40), 7)],
)
def test_a_membership_is_read_as_it_was_written(membership: Membership) -> None:
    written = encode_membership(membership)
    assert decode_membership(written.command) == membership
    assert written.body == b""


@pytest.mark.parametrize(
    "command",
    [
        b"", b"\xff", b"[]", b"{}", b'{"voters":[1],"outgoing":[]}',
        b'{"voters":[1],"outgoing":[],"learners":[],"generation":0,"more":[]}',
        b'{"voters":1,"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":[true],"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":["1"],"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":[0],"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":[2,1],"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":[1,1],"outgoing":[],"learners":[],"generation":0}',
        b'{"voters":[],"outgoing":[1],"learners":[],"generation":0}',
        b'{"voters":[1],"outgoing":[],"learners":[1],"generation":0}',
        b'{"voters":[1],"outgoing":[],"learners":[],"generation":-1}',
        b'{"voters":[1],"outgoing":[],"learners":[],"generation":"1"}',
        b'{"voters":[1],"outgoing":[],"learners":[],"generation":1e999}',
        b'{"voters":[1],"outgoing":[],"learners":[],"generation":9223372036854775808}',
        b'{"voters":[9223372036854775808],"outgoing":[],"learners":[],"generation":1}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_membership_is_refused_before_it_changes_anything(command: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_membership(command)
    member = Member(2)
    entry = Entry(LogIndex(1), Term(1), EntryKind.CONFIGURATION, Payload(command, b""))
    request = replace(append_request(member, 1, term=1), entries=(entry,))
    with pytest.raises(PeerProtocolViolation, match="entry 1 is no membership"):
        member.step(request)
    assert member.raft.log.last_index == 0


def test_a_membership_is_not_parsed_beyond_its_bound() -> None:
    """Two bytes of JSON were a list of 56, so that one entry filled a follower's memory."""
    assert decode_membership(encode_membership(LARGEST).command) == LARGEST
    lists = b'{"voters":[' + b"[]," * 22_000
    with pytest.raises(ValueError, match="bytes; 65536 are allowed"):
        decode_membership(lists + b"what no parser reads")


def test_the_log_s_memberships_are_those_of_its_entries() -> None:
    """Compared with a list of all entries, of which any beginning is dropped and any end lost."""
    for seed in range(30):
        _memberships_are_those_of_a_list(seed)


def _memberships_are_those_of_a_list(seed: int) -> None:
    random = Random(seed)
    model: list[Membership | None] = []
    """Of each entry from the first one on: the membership that it brings."""
    base, held = 0, Memberships(MembershipAt(LogIndex(0), ABC))
    for _ in range(200):
        event = random.randrange(4)
        if event < 2:
            new = Membership(node_ids(*range(1, random.randrange(2, 9))))
            model.append(new if random.random() < 0.3 else None)
            index = LogIndex(len(model))
            brought = encode_membership(new) if model[-1] else payload("x")
            kind = EntryKind.CONFIGURATION if model[-1] else EntryKind.COMMAND
            held.grown([Entry(index, Term(1), kind, brought)])
        elif event == 2 and len(model) > base:
            index = LogIndex(random.randrange(base + 1, len(model) + 1))
            del model[index - 1 :]
            held.truncate_from(index)
        elif event == 3:
            base = random.randrange(base, len(model) + 1)
            held.drop_to(LogIndex(base))
        for at in range(base, len(model) + 1):
            brought_by = [i for i, each in enumerate(model[:at], 1) if each]
            expected = (brought_by[-1], model[brought_by[-1] - 1]) if brought_by else (0, ABC)
            assert held.at(LogIndex(at)) == MembershipAt(*expected)
        assert MembershipAt(held.latest_index, held.latest) == held.at(LogIndex(len(model)))


def test_what_a_snapshot_beyond_the_log_s_base_tells_stays() -> None:
    told = MembershipAt(LogIndex(9), Membership(node_ids(1, 4)))
    later = encode_membership(Membership(node_ids(1)))
    held = Memberships(told)
    held.grown([Entry(LogIndex(11), Term(1), EntryKind.CONFIGURATION, later)])
    for base in (3, 9, 10):
        held.drop_to(LogIndex(base))
        assert held.at(LogIndex(10)) == told


# ---------------------------------------------------------------- a change


def test_a_change_holds_when_it_is_written_and_needs_both_majorities() -> None:
    """CHECKLIST 73: of three old voters and two new ones, two and two."""
    network = network_of(1, 2, 3, others=(4, 5))
    leader = network.elect(1)
    change(network, 1, 1, 2, 3, learners=(4, 5))
    change(network, 1, 4, 5)
    assert leader.raft.membership == Membership(node_ids(4, 5)), "all of it in one go"
    network = network_of(1, 2, 3, others=(4, 5))
    leader = network.elect(1)
    change(network, 1, 1, 2, 3, learners=(4, 5))
    network.isolate(5)
    change(network, 1, 4, 5)
    begun = leader.raft.log.last_index
    joint = Membership(node_ids(4, 5), ABC.voters)
    assert [each.raft.membership for each in network.up[:4]] == [joint] * 4
    assert leader.raft.commit_index == begun - 1, "four of five hold it, but one of two"
    leader.propose("more")
    network.settle()
    assert leader.raft.commit_index == begun - 1
    network.heal()
    network.tick(2 * TIMING.resend_ticks)
    assert {each.raft.membership for each in network.up} == {Membership(node_ids(4, 5)), joint}
    assert network.elect_any().node in (4, 5)


def test_a_candidate_asks_both_sets_and_needs_both() -> None:
    """CHECKLIST 33, 73."""
    candidate = Member(1, membership=Membership(node_ids(4, 5), ABC.voters))
    candidate.tick()
    assert [request.to for request in candidate.take()] == [2, 3, 4, 5]
    for voters, role in (((2, 3, 4), Role.PRE_CANDIDATE), ((5,), Role.CANDIDATE)):
        candidate.step(*(vote_reply(candidate, voter, term=1, pre=True) for voter in voters))
        assert candidate.raft.role is role


def test_service_goes_on_at_every_step() -> None:
    """CHECKLIST 73: a record proposed at any moment of a change is committed."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network.elect(1)
    texts = []
    for voters, learners in (((1, 2, 3), (4,)), ((1, 2, 4), ()), ((1, 4), (3,)), ((1,), ())):
        leader.change(*voters, learners=learners)
        texts.append(f"while {voters}")
        leader.propose(texts[-1])
        network.settle()
        assert leader.raft.membership == Membership(node_ids(*voters), (), node_ids(*learners))
        assert leader.raft.commit_index == leader.raft.log.last_index
    applied = [entry.payload.command.decode() for entry in leader.applied]
    assert [text for text in applied if text.startswith("while")] == texts


def test_one_change_at_a_time_and_none_before_the_leader_s_first_entry() -> None:
    """CHECKLIST 44."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network[1].lead(votes=(2, 3))
    with pytest.raises(ChangeUnderWay) as refused:
        leader.change(1, 2)
    assert refused.value.index == 1
    network.settle()
    network.isolate(2, 3)
    leader.change(1, 2)
    for voters in ((1, 2), (1, 2, 3), (1,)):
        with pytest.raises(ChangeUnderWay) as refused:
            leader.change(*voters)
        assert refused.value.index == leader.raft.log.last_index
    network.heal()
    network.tick(TIMING.resend_ticks)
    assert leader.raft.membership == Membership(node_ids(1, 2))
    with pytest.raises(NotLeader):
        network[2].change(1)


def test_a_change_that_was_not_committed_is_undone_with_its_entry() -> None:
    """CHECKLIST 44, 76: the old membership holds again where another leader overwrites it."""
    network = network_of(1, 2, 3)
    leader = network.elect(1)
    network.isolate(1)
    leader.change(1)
    assert leader.raft.membership == Membership(node_ids(1), ABC.voters)
    network.tick_until(lambda: network.leader not in (None, leader))
    assert network.leader is not None
    network.leader.propose("instead")
    network.settle()
    network.heal()
    network.tick(TIMING.resend_ticks)
    assert leader.raft.role is Role.FOLLOWER
    assert [each.raft.membership for each in network.up] == [ABC] * 3


@pytest.mark.parametrize("dropped", [False, True])
def test_a_restart_finds_the_last_membership_of_the_log_or_the_one_before_it(
    dropped: bool,
) -> None:
    """CHECKLIST 76: also below the log's base."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network.elect(1)
    change(network, 1, 1, 2, 3, learners=(4,))
    change(network, 1, 1, 4)
    leader.propose("x")
    network.settle()
    expected = MembershipAt(leader.raft.memberships.latest_index, Membership(node_ids(1, 4)))
    if dropped:
        leader.drop_log_to(leader.raft.log.last_index)
        with pytest.raises(AssertionError, match="what was before the base is not known"):
            leader.raft.memberships.at(LogIndex(0))
    leader.start()
    assert leader.raft.memberships.at(leader.raft.log.last_index) == expected


@pytest.mark.parametrize("crash_at", ["written", "held", "committed", "completed"])
def test_a_change_that_others_hold_is_completed_by_whoever_leads_next(crash_at: str) -> None:
    """CHECKLIST 74: over the leader's crash at each step."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network.elect(1)
    change(network, 1, 1, 2, 3, learners=(4,))
    leader.change(2, 3, 4)
    joint = leader.raft.log.last_index
    network.collect()
    if crash_at == "held":
        for request in network.waiting:
            network.deliver(request)
    elif crash_at == "committed":
        while leader.raft.commit_index < joint:
            network.deliver(network.waiting.pop(0))
            network.collect()
        assert leader.raft.membership == Membership(node_ids(2, 3, 4))
    elif crash_at == "completed":
        network.settle()
    network.waiting.clear()
    assert network[2].raft.membership.is_joint == (crash_at in ("held", "committed"))
    network.crash(1)
    new = network.elect(2)
    network.tick(2 * TIMING.resend_ticks)
    if crash_at == "written":
        assert new.raft.membership == Membership(ABC.voters, learners=node_ids(4))
        return
    assert new.raft.membership == Membership(node_ids(2, 3, 4))
    assert new.raft.commit_index == new.raft.log.last_index
    network.restart(1)
    network.tick(4 * TIMING.election_ticks_min)
    assert network[1].raft.role is not Role.LEADER
    assert network.leader is new


def test_a_leader_that_takes_itself_out_counts_others_only_and_then_leaves() -> None:
    """CHECKLIST 75."""
    network = network_of(1, 2, 3)
    leader = network.elect(1)
    network.isolate(3)
    leader.change(2, 3)
    network.settle()
    assert leader.raft.membership.is_joint, "one of two new voters holds it"
    network.heal()
    network.tick_until(lambda: leader.raft.role is not Role.LEADER)
    assert leader.raft.membership == Membership(node_ids(2, 3))
    done = leader.raft.memberships.latest_index
    told = min(network[2].raft.commit_index, network[3].raft.commit_index)
    assert told >= done, "it told them"
    new = network.elect_any()
    assert new.node in (2, 3)
    term = new.raft.term
    network.tick(6 * TIMING.election_ticks_min)
    assert (new.raft.role, new.raft.term) == (Role.LEADER, term), "the removed one is no trouble"
    assert leader.raft.role is Role.FOLLOWER


def test_a_member_that_only_its_own_log_takes_out_still_campaigns() -> None:
    """Raft dissertation section 4.2.2: nobody else has the entry, and its vote is needed."""
    network = network_of(1, 2)
    leader = network.elect(1)
    leader.change(2)
    network.collect()
    while leader.raft.membership != Membership(node_ids(2)):
        network.deliver(network.waiting.pop(0))
        network.collect()
    network.waiting.clear()
    network.crash(1)
    network.restart(1)
    assert network[2].raft.membership.is_joint
    assert network[1].raft.status().timeout_ticks >= TIMING.election_ticks_min, "2 decides, not 1"
    network.tick_until(lambda: network[2].raft.role is Role.LEADER)
    assert network.checker.leaders[2] == 1, "1 led once more, to hand it over"
    assert network[2].raft.membership == Membership(node_ids(2))
    assert network[1].raft.role is Role.FOLLOWER


# ---------------------------------------------------------------- learners and strangers


def test_a_learner_gets_the_log_and_decides_nothing() -> None:
    """CHECKLIST 44: it neither campaigns nor counts, and its vote is not asked for."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network.elect(1)
    for number in range(20):
        leader.propose(f"{number}")
    change(network, 1, 1, 2, 3, learners=(4,))
    network.tick(TIMING.resend_ticks)
    assert network[4].log == leader.log
    views = {view.node: view.votes for view in leader.raft.followers()}
    assert views == {1: True, 2: True, 3: True, 4: False}
    network.isolate(2, 3)
    leader.propose("not committed")
    network.settle()
    assert network[4].raft.log.last_index == leader.raft.log.last_index
    assert leader.raft.commit_index < leader.raft.log.last_index
    network.crash(1)
    network.tick(6 * TIMING.election_ticks_min)
    assert roles(network)[4] is Role.FOLLOWER


def test_who_has_not_got_the_log_cannot_vote_yet() -> None:
    network = network_of(1, 2, 3, others=(4, 5))
    leader = network.elect(1)
    network.isolate(4)
    change(network, 1, 1, 2, 3, learners=(4,))
    for voter in (4, 5):
        with pytest.raises(MemberBehind) as refused:
            leader.change(1, 2, 3, voter)
        assert refused.value.node == voter
    network.heal()
    network.tick(TIMING.resend_ticks)
    change(network, 1, 1, 2, 3, 4)
    assert leader.raft.membership == Membership(node_ids(1, 2, 3, 4))


def test_a_learner_that_gets_a_lost_log_again_cannot_vote_yet() -> None:
    """It counts for nothing until a majority has confirmed its leader."""
    network = network_of(1, 2, 3, others=(4,))
    leader = network.elect(1)
    change(network, 1, 1, 2, 3, learners=(4,))
    network[4].lose_log()
    network.isolate(2, 3)
    network.tick(TIMING.resend_ticks)
    assert leader.match_index[4] == leader.raft.memberships.latest_index
    with pytest.raises(MemberBehind):
        leader.change(1, 2, 3, 4)


def test_a_member_that_nothing_has_named_neither_votes_nor_campaigns() -> None:
    """It may have had another log before. Being sent entries makes it a member."""
    member = Member(4, membership=NOBODY_DECIDES)
    member.tick(10 * TIMING.election_ticks_min)
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 0)
    member.take()
    for pre in (True, False):
        member.step(vote_request(member, 1, term=2, last=(1, 9), pre=pre))
        assert [reply.granted for reply in member.take()] == [False]
    network = network_of(1, others=(4,))
    network.elect(1)
    change(network, 1, 1, learners=(4,))
    change(network, 1, 1, 4)
    named = network[4]
    assert named.raft.membership == Membership(node_ids(1, 4))
    network.crash(1)
    network.tell_of_deaths()
    named.step(vote_request(named, 1, term=5, last=(4, 9)))
    assert [reply.granted for reply in named.take()] == [True]


def test_a_removed_member_that_comes_back_votes_no_second_time() -> None:
    """Its hard state outlives the removal."""
    network = network_of(1, 2, 3)
    network.elect(1)
    change(network, 1, 1, 2)
    gone = network[3]
    network.crash(3)
    network.restart(3)
    gone.take()
    for candidate, granted in ((1, True), (2, False)):
        gone.step(vote_request(gone, candidate, term=9, last=(8, 9)))
        assert [reply.granted for reply in gone.take()] == [granted]
        gone.start()


def test_answers_of_a_removed_member_change_nothing() -> None:
    network = network_of(1, 2, 3)
    leader = network.elect(1)
    change(network, 1, 1, 2)
    network.isolate(2)
    leader.propose("x")
    network.settle()
    leader.step(acceptance(leader, 3, leader.raft.log.last_index))
    assert leader.raft.commit_index < leader.raft.log.last_index


def test_a_leader_alone_answers_reads_though_learners_are_silent() -> None:
    network = network_of(1, others=(2,))
    leader = network.elect(1)
    change(network, 1, 1, learners=(2,))
    network.isolate(2)
    leader.read_index(7)
    leader.settle()
    assert [read.request_id for read in leader.reads] == [7]
    network.tick(4 * TIMING.election_ticks_min)
    assert leader.raft.role is Role.LEADER


def test_a_group_does_not_quiesce_while_somebody_who_learns_lacks_entries() -> None:
    """One that holds all of them is quiesced like the others."""
    timing = RaftTiming(
        election_ticks_min=10, heartbeat_ticks=2, resend_ticks=6, quiesce_after_ticks=4
    )
    network = network_of(1, 2, 3, others=(4,), timing=timing)
    leader = network.elect(1)
    network.isolate(4)
    change(network, 1, 1, 2, 3, learners=(4,))
    sent: list[Heartbeat] = []
    for _ in range(40):
        for member in network.up:
            member.tick()
        network.collect()
        sent += [each for each in network.waiting if isinstance(each, Heartbeat)]
        network.settle()
    assert sent
    assert not any(each.quiesce_round for each in sent)
    network.heal()
    for _ in range(40):
        for member in network.up:
            if not member.raft.quiesced:
                member.tick()
        network.settle()
    assert leader.raft.quiesced
    assert network[4].raft.quiesced


def test_a_message_of_a_leader_that_a_member_does_not_know_yet_is_taken() -> None:
    """Its log may not name it yet: the entry that does comes with it."""
    member = Member(2, terms=[1])
    member.step(heartbeat(member, 9, term=2))
    assert member.raft.leader == 9


def test_voters_that_came_with_a_snapshot_are_of_a_term_as_well() -> None:
    """An older log may be longer, and end in a term before theirs."""
    entries = entries_of([1] * 7 + [2] * 3 + [3])
    for base, term in ((0, 2), (11, 3)):
        memberships = Memberships(MembershipAt(LogIndex(8), Membership(node_ids(2, 3, 4))))
        memberships.date_base(log_of(entries, base=base))
        assert memberships.voters_at is not None
        assert memberships.voters_at.term == term
        assert memberships.voters_at.lacks(LastEntry(Term(term - 1), LogIndex(40)))
        assert not memberships.voters_at.lacks(LastEntry(Term(term), LogIndex(8)))
