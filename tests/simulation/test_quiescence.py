"""Idle groups quiesce, and are awake again when it matters. A cluster of real `MultiRaft`s with one
fault each: a quiesced replica must notice the loss of what it relies on as soon as an awake one
would. The swarm's groups quiesce for short times as well; only here does a node stay away for long,
so that nothing but the wake-up can help.
"""

from __future__ import annotations

import pytest

from raftlog.core.types import CONTROLLER_GROUP, GroupId, Payload
from raftlog.errors import TopicRecreated
from raftlog.machines.commands import DeleteTopic, TopicInfo
from raftlog.multiraft.awake import AwakeReplicas
from raftlog.wire.codec import encode_command
from tests.simulation.calm import CalmCluster
from tests.simulation.node import Failed

SEEDS = range(2)


@pytest.fixture(params=SEEDS, ids=lambda seed: f"{seed}")
def quiesced_cluster(request: pytest.FixtureRequest) -> CalmCluster:
    cluster = CalmCluster(request.param)
    cluster.quiesce()
    return cluster


def test_a_quiesced_cluster_stays_quiesced_and_holds_no_election(
    quiesced_cluster: CalmCluster,
) -> None:
    terms = quiesced_cluster.terms()
    quiesced_cluster.pass_timeouts(20)
    assert quiesced_cluster.all_quiesced()
    assert quiesced_cluster.terms() == terms


def test_quiesced_groups_send_no_messages_of_their_own(quiesced_cluster: CalmCluster) -> None:
    """Whatever their number, the nodes send one heartbeat to each peer an interval, no more."""
    quiesced_cluster.pass_timeouts(1)
    before = quiesced_cluster.simulator.events
    quiesced_cluster.pass_timeouts(10)
    settings = quiesced_cluster.settings
    ticks = 10 * settings.election_us / (settings.tick_us * (1 - settings.tick_drift))
    # A tick is one event; a frame is two: it arrives, and it is handled.
    events_max = 3 * ticks + 3 * 2 * 2 * ticks / settings.timing.heartbeat_ticks
    assert quiesced_cluster.simulator.events - before <= events_max + 20


@pytest.mark.slow
@pytest.mark.parametrize("how", ["paused", "cut off", "deaf", "mute"])
def test_a_silent_leader_s_groups_elect_another(quiesced_cluster: CalmCluster, how: str) -> None:
    """Nothing tells the followers: no connection is reset."""
    gone = quiesced_cluster.leader(quiesced_cluster.groups[-1])
    assert gone is not None
    match how:
        case "paused":
            quiesced_cluster.nodes[gone].pause()
        case "cut off":
            quiesced_cluster.cut_off(gone)
        case "deaf":
            quiesced_cluster.cut_off(gone, outbound=False)
        case "mute":
            quiesced_cluster.cut_off(gone, inbound=False)
    quiesced_cluster.wait(lambda: quiesced_cluster.has_other_leaders(gone))


def test_the_planted_bug_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wake-up on silence the groups of a paused leader wait for ever."""
    monkeypatch.setattr(AwakeReplicas, "_wake_relying_on", lambda self, peer: None)
    cluster = CalmCluster(0)
    cluster.quiesce()
    gone = cluster.leader(cluster.groups[-1])
    assert gone is not None
    cluster.nodes[gone].pause()
    with pytest.raises(AssertionError, match="not in time"):
        cluster.wait(lambda: cluster.has_other_leaders(gone))


@pytest.mark.slow
def test_a_quiesced_leader_cut_off_steps_down_and_follows_when_healed(
    quiesced_cluster: CalmCluster,
) -> None:
    group = quiesced_cluster.groups[-1]
    old = quiesced_cluster.leader(group)
    assert old is not None
    quiesced_cluster.cut_off(old)
    quiesced_cluster.wait(lambda: not quiesced_cluster.nodes[old].leads(group), timeouts=3)
    quiesced_cluster.wait(lambda: quiesced_cluster.has_other_leaders(old))
    quiesced_cluster.network.heal()
    quiesced_cluster.quiesce()
    assert len({local.replica.raft.leader for local in quiesced_cluster.replicas(group)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_node_that_restarts_unnoticed_is_brought_up_to_date(
    quiesced_cluster: CalmCluster, role: str
) -> None:
    """Its power fails and is back before any timeout; only its boot id shows the restart."""
    group = quiesced_cluster.groups[-1]
    leader = quiesced_cluster.leader(group)
    assert leader is not None
    victim = leader if role == "leader" else next(n for n in quiesced_cluster.nodes if n != leader)
    quiesced_cluster.nodes[victim].end(power=True)
    quiesced_cluster.nodes[victim].start()
    if role == "follower":
        follower = quiesced_cluster.local(victim, group).replica.raft
        quiesced_cluster.wait_heartbeats(4, lambda: follower.leader == leader)
    quiesced_cluster.wait(
        lambda: all(
            local.replica.applied_index == local.replica.raft.log.last_index
            and local.replica.raft.leader != 0
            for each in quiesced_cluster.groups
            for local in quiesced_cluster.replicas(each)
        )
    )
    quiesced_cluster.quiesce()


@pytest.mark.slow
def test_groups_quiesce_without_a_node_that_is_down_and_tell_it_everything_when_it_is_back(
    quiesced_cluster: CalmCluster,
) -> None:
    away = next(
        node for node in quiesced_cluster.nodes if node != quiesced_cluster.leader(GroupId(0))
    )
    quiesced_cluster.nodes[away].end(power=True)
    down = quiesced_cluster.nodes.pop(away)
    quiesced_cluster.wait(lambda: quiesced_cluster.has_other_leaders(away))
    quiesced_cluster.create_topic("while-away")
    quiesced_cluster.quiesce()
    quiesced_cluster.nodes[away] = down
    down.start()
    quiesced_cluster.quiesce()
    for group in quiesced_cluster.groups:
        ends = {local.replica.applied_index for local in quiesced_cluster.replicas(group)}
        assert len(ends) == 1


def test_a_leader_shows_a_follower_as_silent_as_its_process_is(
    quiesced_cluster: CalmCluster,
) -> None:
    group = quiesced_cluster.groups[-1]
    leader = quiesced_cluster.leader(group)
    assert leader is not None
    away = next(node for node in quiesced_cluster.nodes if node != leader)
    quiesced_cluster.nodes[away].pause()
    quiesced_cluster.pass_timeouts(2)
    seen = {
        view.node: view.contact_ticks for view in quiesced_cluster.nodes[leader].followers(group)
    }
    assert seen[away] > quiesced_cluster.settings.timing.election_ticks_min
    assert all(ticks < seen[away] for node, ticks in seen.items() if node != away)


def test_a_write_wakes_only_its_group(quiesced_cluster: CalmCluster) -> None:
    quiesced_cluster.create_topic("another")
    awake = [
        group
        for group in quiesced_cluster.groups[1:-1]
        for local in quiesced_cluster.replicas(group)
        if not local.replica.raft.quiesced
    ]
    assert awake == []


def test_a_quiesced_leader_cut_off_confirms_no_read(quiesced_cluster: CalmCluster) -> None:
    """Safety depends only on the round of heartbeats, never on a replica being quiesced."""
    group = quiesced_cluster.groups[-1]
    leader = quiesced_cluster.leader(group)
    assert leader is not None
    quiesced_cluster.cut_off(leader)
    answers: list[object] = []
    quiesced_cluster.nodes[leader].read_barrier(group, answers.append)
    quiesced_cluster.wait(lambda: bool(answers))
    assert isinstance(answers[0], Failed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS, ids=str)
def test_a_quiesced_leader_asks_its_followers_again_now_and_then(seed: int) -> None:
    cluster = CalmCluster(seed, quiesce_refresh_ticks=40)
    cluster.quiesce()
    terms = cluster.terms()
    cluster.pass_timeouts(20)
    assert cluster.simulator.counts["a quiesced leader asked again"] >= len(cluster.groups)
    assert cluster.terms() == terms
    cluster.quiesce()


@pytest.mark.parametrize("seed", SEEDS, ids=str)
def test_a_follower_left_quiesced_by_mistake_looks_for_a_leader_in_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on what was not foreseen: here, that the wake-up on silence is missing."""
    monkeypatch.setattr(AwakeReplicas, "_wake_relying_on", lambda self, peer: None)
    cluster = CalmCluster(seed, quiesce_refresh_ticks=40)
    cluster.quiesce()
    gone = cluster.leader(cluster.groups[-1])
    assert gone is not None
    cluster.nodes[gone].pause()
    cluster.wait(lambda: cluster.has_other_leaders(gone), timeouts=20)


def test_a_deleted_group_s_replica_accepts_nothing_more(quiesced_cluster: CalmCluster) -> None:
    """A caller that holds it would wait for ever, and it would be ticked for ever."""
    cluster = quiesced_cluster
    group = cluster.groups.pop()
    leader = cluster.leader(group)
    assert leader is not None
    local, multiraft = cluster.local(leader, group), cluster.nodes[leader]._running_multiraft
    assert isinstance(local.info, TopicInfo)
    command = DeleteTopic(name=local.info.name, incarnation=local.info.incarnation)
    cluster.write(CONTROLLER_GROUP, Payload(encode_command(command, None), b""))
    cluster.wait(lambda: cluster.nodes[leader].local(group) is None)
    answers: list[object] = []
    with pytest.raises(TopicRecreated):
        multiraft.propose(local, Payload(b"late", b""), answers.append)
    with pytest.raises(TopicRecreated):
        multiraft.read_barrier(local, answers.append)
    assert not answers
    cluster.wait(cluster.all_quiesced)
