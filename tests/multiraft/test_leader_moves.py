"""Which node leads a group: preferred leaders, nodes that are drained or stop. CHECKLIST 71, 72."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest

from raftlog.core.leadership import FollowerView
from raftlog.core.messages import TimeoutNow
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, NO_NODE, GroupId, LogIndex, NodeId, Payload
from raftlog.errors import DiskFull, NotLeader, TransferRefused
from raftlog.machines.cluster_nodes import KnownNode
from raftlog.machines.commands import RegisterNode, Rules, SetDuty
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.leader_moves import (
    LeaderLimits,
    able_followers,
    better_leader,
    by_preference,
)
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.wire.codec import encode_command
from tests.multiraft.leading import TIMING, LeadingNode
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.node import Failed, SimulatedNode
from tests.simulation.watched import WatchedRaft

ONE, TWO, THREE = VOTERS
LAST = LogIndex(100)
NODES = {node: KnownNode("s", "a", 4) for node in VOTERS}
STAYS = LeaderLimits(spread=False)
SOON = LeaderLimits(delay_ticks=5, look_ticks=5)


def view(node: NodeId, match: int = LAST, **others: object) -> FollowerView:
    sound = FollowerView(
        node=node,
        match_index=LogIndex(match),
        contact_ticks=0,
        next_index=LogIndex(match + 1),
        probing=False,
        behind_base=False,
        may_lead=True,
    )
    return sound._replace(**others)


def able(*views: FollowerView, nodes: dict[NodeId, KnownNode] = NODES) -> frozenset[NodeId]:
    return able_followers(views, nodes, last_index=LAST, patience_ticks=10)


# ---------------------------------------------------------------- pure


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_voter_is_preferred_by_an_equal_share_of_the_groups(count: int) -> None:
    voters = VOTERS[:count] if count <= 3 else tuple(map(NodeId, range(1, count + 1)))
    first = Counter(by_preference(GroupId(group), voters)[0] for group in range(count * 40))
    assert first == dict.fromkeys(voters, 40)
    assert all(sorted(by_preference(GroupId(group), voters)) == list(voters) for group in range(20))
    assert by_preference(GroupId(1), ()) == ()


def test_a_pattern_of_placements_favours_no_voter() -> None:
    """Every third of the groups is on the same three of nine nodes."""
    first = Counter(by_preference(GroupId(group), VOTERS)[0] for group in range(0, 90, 3))
    assert first == dict.fromkeys(VOTERS, 10)


def test_only_a_sound_voter_that_has_nearly_all_of_the_log_can_lead() -> None:
    assert able(view(TWO), view(THREE)) == {TWO, THREE}
    assert able(view(TWO, LAST - 64)) == {TWO}
    assert not able(view(TWO, LAST - 65))
    assert not able(view(TWO, may_lead=False))
    assert not able(view(TWO, votes=False))
    assert not able(view(TWO, recovery=1))
    assert not able(view(TWO, contact_ticks=10))
    drained = NODES | {TWO: NODES[TWO]._replace(draining=True)}
    assert able(view(TWO), view(THREE), nodes=drained) == {THREE}


def test_the_first_in_order_leads_and_one_that_leaves_gives_way_to_anybody() -> None:
    order = (TWO, ONE, THREE)
    assert better_leader(ONE, order, {TWO, THREE}, leaves=False) == TWO
    assert better_leader(ONE, order, {THREE}, leaves=False) is None
    assert better_leader(ONE, order, {THREE}, leaves=True) == THREE
    assert better_leader(TWO, order, {ONE, THREE}, leaves=False) is None
    assert better_leader(ONE, order, set(), leaves=True) is None


# ---------------------------------------------------------------- whole nodes


def cluster_of(limits: LeaderLimits) -> CalmCluster:
    cluster = CalmCluster(3, leaders=limits)
    cluster.wait(lambda: all(cluster.leader(group) for group in cluster.groups))
    return cluster


def leaders(cluster: CalmCluster) -> dict[GroupId, NodeId | None]:
    return {group: cluster.leader(group) for group in cluster.groups}


def preferred(cluster: CalmCluster) -> dict[GroupId, NodeId]:
    return {group: by_preference(group, VOTERS)[0] for group in cluster.groups}


def transfer(cluster: CalmCluster, group: GroupId, to: NodeId, *, wished: bool = False) -> None:
    """The leader hands over as soon as it may: it must have heard the follower first."""

    def done() -> bool:
        leader = cluster.leader(group)
        if leader == to:
            return True
        if leader is not None:
            local = cluster.local(leader, group)
            try:
                cluster.nodes[leader].multiraft.transfer_leadership(local, to, wished=wished)
            except (NotLeader, TransferRefused):
                pass
        return False

    cluster.wait(done)


def payload() -> Payload:
    return Payload(encode_command(Rules(version=RULES_LATEST), None), b"")


@pytest.mark.slow
def test_leaders_are_spread_over_the_nodes() -> None:
    cluster = cluster_of(SOON)
    cluster.wait(lambda: leaders(cluster) == preferred(cluster))
    assert len(set(preferred(cluster).values())) == 3


@pytest.mark.slow
def test_leaders_return_after_a_restart() -> None:
    """CHECKLIST 72."""
    cluster = cluster_of(SOON)
    cluster.wait(lambda: leaders(cluster) == preferred(cluster))
    cluster.nodes[TWO].end(power=False)
    cluster.wait(lambda: cluster.has_other_leaders(TWO))
    cluster.nodes[TWO].start()
    cluster.wait(lambda: leaders(cluster) == preferred(cluster))


def test_a_voter_is_preferred_only_once_it_could_have_led_for_a_while() -> None:
    cluster = cluster_of(replace(SOON, delay_ticks=10_000))
    group = cluster.groups[1]
    transfer(cluster, group, by_preference(group, VOTERS)[1])
    before = leaders(cluster)
    cluster.pass_timeouts(5)
    assert leaders(cluster) == before


def test_leaders_are_looked_at_only_once_in_so_many_ticks() -> None:
    cluster = cluster_of(replace(SOON, delay_ticks=0, look_ticks=1_000_000))
    group = cluster.groups[1]
    transfer(cluster, group, by_preference(group, VOTERS)[1])
    before = leaders(cluster)
    cluster.pass_timeouts(5)
    assert leaders(cluster) == before


def test_where_a_transfer_has_failed_another_voter_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one answers, says that it would lead, and does not."""
    cluster = cluster_of(STAYS)
    group = CONTROLLER_GROUP
    leader = cluster.leader(group)
    assert leader is not None
    first, second = [node for node in by_preference(group, VOTERS) if node != leader]
    follow = WatchedRaft._on_timeout_now

    def unless_first(self: WatchedRaft, message: TimeoutNow) -> None:
        if self.node != first:
            follow(self, message)

    monkeypatch.setattr(WatchedRaft, "_on_timeout_now", unless_first)
    cluster.pass_timeouts(1)
    cluster.nodes[leader].multiraft.leader_moves.stop()
    cluster.wait(lambda: cluster.leader(group) == second, timeouts=4)


def test_without_the_setting_leaders_stay_where_they_are() -> None:
    cluster = cluster_of(STAYS)
    before = leaders(cluster)
    terms = cluster.terms()
    cluster.pass_timeouts(20)
    assert (leaders(cluster), cluster.terms()) == (before, terms)


def test_few_groups_move_at_a_time() -> None:
    cluster = cluster_of(replace(SOON, look_ticks=40, moves_max=1))
    for group in cluster.groups[1:]:
        transfer(cluster, group, ONE)
    away = [g for g in cluster.groups if preferred(cluster)[g] != cluster.leader(g)]
    assert len(away) > 1
    under_way: list[int] = []

    def are_spread() -> bool:
        led = [cluster.local(ONE, each).raft for each in cluster.groups]
        under_way.append(sum(raft.transferring_to != NO_NODE for raft in led))
        return leaders(cluster) == preferred(cluster)

    cluster.wait(are_spread, timeouts=200)
    assert max(under_way) == 1


def test_one_that_somebody_asked_for_stays_though_another_is_preferred() -> None:
    cluster = cluster_of(SOON)
    group = cluster.groups[1]
    cluster.wait(lambda: leaders(cluster) == preferred(cluster))
    to = by_preference(group, VOTERS)[1]
    transfer(cluster, group, to, wished=True)
    cluster.pass_timeouts(10)
    assert cluster.leader(group) == to


@pytest.mark.parametrize("group", [CONTROLLER_GROUP, GroupId(1)])
def test_a_node_that_stops_hands_over_all_it_leads_and_leads_nothing_more(group: GroupId) -> None:
    cluster = cluster_of(STAYS)
    gone = cluster.leader(group)
    assert gone is not None
    moves = cluster.nodes[gone].multiraft.leader_moves
    moves.stop()
    cluster.wait_heartbeats(20, lambda: cluster.has_other_leaders(gone))
    cluster.wait(lambda: moves.under_way == 0)

    def is_left_alone() -> bool:
        leader = cluster.leader(group)
        assert leader is not None
        views = cluster.local(leader, group).raft.followers()
        return not any(view.may_lead for view in views if view.node == gone)

    cluster.wait(is_left_alone)


@pytest.mark.parametrize("drained", [False, True], ids=["stops", "is drained"])
def test_a_node_hands_over_however_many_groups_it_leads_some_at_a_time(drained: bool) -> None:
    node = LeadingNode(topics=40)
    groups = len(node.multiraft.replicas)
    moves = node.multiraft.leader_moves
    node.wait(lambda: moves.under_way == groups)
    if drained:
        for each in VOTERS:
            address = f"h{each}:1"
            node.write(
                RegisterNode(node=each, store_uuid=f"s{each}", address=address, rules=RULES_LATEST)
            )
        node.write(SetDuty(node=ONE, draining=True, leaving=False))
    else:
        moves.stop()
    at_once = []
    while moves.under_way:
        node.wait(lambda: node.led < moves.under_way)
        handed_over = node.take(TimeoutNow)
        at_once.append(len(handed_over))
        for each in handed_over:
            node.take_over(each)
    assert at_once == [32, groups - 32]
    assert {local.raft.leader for local in node.multiraft.replicas.values()} == {TWO}


@pytest.mark.parametrize("host", ["a", "b"])
def test_a_node_whose_disk_is_full_hands_over_to_one_on_another_machine(host: str) -> None:
    """Also where no follower is ahead: the reserve took all that was in flight."""
    node = LeadingNode(topics=3)
    nodes, disk = node.multiraft.replicas.nodes, node.multiraft._disk
    nodes._addresses |= {ONE: "a:1", TWO: f"{host}:2"}
    node.tick()
    node.take(TimeoutNow)
    disk._freed_for = DiskFull(file="a log")
    for _ in range(3 * TIMING.election_ticks_min):
        node.tick()
    handed_over = {each.group for each in node.take(TimeoutNow)}
    assert handed_over == (set(node.multiraft.replicas) if host == "b" else set())


def test_a_drained_node_with_a_full_disk_hands_over_to_its_own_host_as_well() -> None:
    node = LeadingNode(topics=3)
    for each in VOTERS:
        node.write(
            RegisterNode(node=each, store_uuid=f"s{each}", address=f"a:{each}", rules=RULES_LATEST)
        )
    node.take(TimeoutNow)
    node.multiraft._disk._freed_for = DiskFull(file="a log")
    node.write(SetDuty(node=ONE, draining=True, leaving=False))
    for _ in range(3 * TIMING.election_ticks_min):
        node.tick()
    assert {each.group for each in node.take(TimeoutNow)} == set(node.multiraft.replicas)


def candidate(cluster: CalmCluster) -> NodeId:
    """The controller's leader has handed over, and voted for who is to lead: that is not elected
    yet, and nobody leads."""
    leader = cluster.leader(CONTROLLER_GROUP)
    assert leader is not None
    to = next(node for node in VOTERS if node != leader)
    transferred, campaigning = (cluster.local(each, CONTROLLER_GROUP) for each in (leader, to))
    cluster.pass_timeouts(1)
    cluster.nodes[leader].multiraft.transfer_leadership(transferred, to)
    cluster.wait(lambda: transferred.raft.vote == to)
    assert campaigning.raft.role is Role.CANDIDATE
    return to


LESS_THAN_A_TIMEOUT = 8
"""Heartbeat intervals; `CalmCluster` has ten in the shortest election timeout."""


def test_a_node_that_stops_while_it_is_elected_leads_for_a_moment_and_hands_over() -> None:
    """The others have voted for it, and would wait for a timeout."""
    cluster = cluster_of(STAYS)
    gone = candidate(cluster)
    moves = cluster.nodes[gone].multiraft.leader_moves
    moves.stop()
    assert moves.under_way >= 1
    cluster.wait_heartbeats(LESS_THAN_A_TIMEOUT, lambda: cluster.has_other_leaders(gone))
    cluster.wait(lambda: moves.under_way == 0)


def test_a_candidate_that_is_cut_off_is_not_waited_for() -> None:
    cluster = cluster_of(STAYS)
    gone = candidate(cluster)
    cluster.cut_off(gone)
    moves = cluster.nodes[gone].multiraft.leader_moves
    moves.stop()
    cluster.wait(lambda: moves.under_way == 0, timeouts=2)


def test_the_death_of_who_was_to_lead_is_noticed_before_a_timeout() -> None:
    cluster = cluster_of(STAYS)
    gone = candidate(cluster)
    cluster.nodes[gone].end(power=False)
    for node in cluster.nodes.values():
        node.connection_lost(gone)
    cluster.wait_heartbeats(
        LESS_THAN_A_TIMEOUT,
        lambda: cluster.leader(CONTROLLER_GROUP) not in (None, gone),
    )


def test_nodes_that_all_stop_do_not_wait_for_one_another() -> None:
    cluster = cluster_of(STAYS)
    for node in cluster.nodes.values():
        node.multiraft.leader_moves.stop()
    cluster.wait(
        lambda: all(node.multiraft.leader_moves.under_way == 0 for node in cluster.nodes.values())
    )


class HandedOver(NamedTuple):
    """The controller's leader hands its role to `to`, and a write has come after that."""

    cluster: CalmCluster
    node: SimulatedNode
    local: LocalReplica
    to: NodeId
    answers: list[object]


def write_while_handing_over(*, cut_off: bool) -> HandedOver:
    """With `cut_off` nothing reaches the one that is to lead."""
    cluster = cluster_of(STAYS)
    leader = cluster.leader(CONTROLLER_GROUP)
    assert leader is not None
    to = next(node for node in VOTERS if node != leader)
    cluster.pass_timeouts(1)
    if cut_off:
        cluster.cut_off(to)
    node, local = cluster.nodes[leader], cluster.local(leader, CONTROLLER_GROUP)
    node.multiraft.transfer_leadership(local, to)
    answers: list[object] = []
    node.propose(CONTROLLER_GROUP, lambda _: payload(), answers.append)
    assert not answers
    return HandedOver(cluster, node, local, to, answers)


def test_a_write_waits_while_the_role_is_handed_over_and_is_told_the_new_leader() -> None:
    cluster, _, _, to, answers = write_while_handing_over(cut_off=False)
    cluster.wait(lambda: bool(answers))
    assert answers == [Failed(written=True, leader=to)]
    assert cluster.leader(CONTROLLER_GROUP) == to


def test_a_write_that_waited_for_a_transfer_that_failed_is_written() -> None:
    cluster, _, local, _, answers = write_while_handing_over(cut_off=True)
    cluster.wait(lambda: bool(answers), timeouts=2)
    assert not isinstance(answers[0], Failed)
    assert local.raft.role is Role.LEADER


def test_a_write_does_not_wait_for_a_process_that_is_gone() -> None:
    cluster, node, _, to, answers = write_while_handing_over(cut_off=True)
    node.connection_lost(to)
    cluster.wait_heartbeats(3, lambda: bool(answers))
    assert not isinstance(answers[0], Failed)


def test_a_write_that_waits_when_its_group_goes_is_answered() -> None:
    _, _, local, _, answers = write_while_handing_over(cut_off=True)
    local.abandon_all(NotLeader(group=CONTROLLER_GROUP))
    assert len(answers) == 1
