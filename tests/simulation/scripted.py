"""Cases that chance meets too seldom, written down step by step; each breaks under one planted bug.

Two are dialogues of a few cores, with the messages between them as values; one is a cluster of
simulated nodes without any weather. The checkers are those of tests.core.network and of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from raftlog.core.messages import Heartbeat, HeartbeatReply
from raftlog.core.types import CONTROLLER_GROUP, LogIndex, NodeId
from raftlog.machines.commands import DeleteTopic, TopicInfo
from tests.core.member import acceptance
from tests.core.network import Network
from tests.simulation.cluster import Run
from tests.simulation.node import SimulatedNode
from tests.simulation.swarm import SECOND, draw
from tests.simulation.workload import Sleep, Task


def stale_acknowledgement() -> None:
    """A follower acknowledged an entry, lost it to another leader, and the word of it comes late.

    S1 led term 2 and wrote index 2, which S5 acknowledged; S4 led term 3, and S5 alone took its
    entry at index 2 instead. S1 leads term 4 when the acknowledgement of term 2 arrives.
    """
    network = Network.of(5, logs=[[1, 2], [1], [1], [1], [1, 3]], term=3)
    network.isolate(5)
    leader = network.elect(1)
    assert leader.terms == [1, 2, 4]
    assert leader.raft.commit_index == 3
    leader.step(acceptance(leader, 5, 2, term=2))
    network.heal()
    network.tick(4 * leader.timing.election_ticks_min)
    assert network[5].log == leader.log
    assert network[5].raft.commit_index >= 3


def read_after_the_heartbeats_left() -> None:
    """A strong read comes while a round of heartbeats is under way, answered before it was asked.

    S2 has answered S1's round, and its answer is under way. Then S2 makes S3 the leader, which
    commits an entry; then S1 is asked; then the answer arrives.
    """
    network = Network.of(3)
    deposed = network.elect(1)
    network.tick(2)
    deposed.read_index(1)
    network.gather()
    network.waiting = [each for each in network.waiting if each.to == 2]
    for message in network.waiting:
        network.deliver(message)
    network.waiting = []
    answers = network[2].take(HeartbeatReply)
    assert answers, "S2 has answered the round"
    network.isolate(1)
    for node in (2, 3):  # their connections to S1 are reset
        network[node].leader_lost(1, deposed.raft.term)
    winner = network.elect(3)
    winner.propose("news")
    network.settle()
    assert winner.raft.commit_index > deposed.raft.commit_index
    deposed.read_index(2)
    deposed.step(*answers)
    assert [read.request_id for read in deposed.reads] == [1], "linearizable: the news came first"


def deleted_group_in_a_replay() -> None:
    """A node that removed a group starts again, and learns for now of the topic's creation alone.

    What it learns is an old heartbeat's word. Made anew, the group would have forgotten its votes.
    """
    settings = replace(
        draw(Random(1)),
        nodes=3,
        topics=0,
        tick_drift=0.0,
        weights=(),
        spike_share=0.0,
        loss=0.0,
        duplication=0.0,
        reordering=0.0,
        crash_in_recovery=0.0,
    )
    run = Run(1, settings)
    simulator, clients = run.simulator, run.clients
    for node in run.nodes.values():
        node.start()
    made: list[TopicInfo] = []

    def come_and_go() -> Task:
        topic = yield from clients.create_topic("gone")
        made.append(topic)
        while not all(_has_applied(node, topic) for node in run.nodes.values()):
            yield Sleep(SECOND)
        yield from clients.write(
            CONTROLLER_GROUP,
            lambda _: DeleteTopic(name=topic.name, incarnation=topic.incarnation),
        )

    def removed() -> bool:
        if clients.unfinished or not made:
            return False
        return not any(
            node.hosted(made[0].group) or node.disk.fs.exists(node.log_folder(made[0].group))
            for node in run.nodes.values()
        )

    clients.spawn("come and go", come_and_go())
    assert simulator.run_until(60 * SECOND, removed), "the topic came and went"
    simulator.run_until(simulator.now_us + SECOND)

    leader = next(node for node in run.nodes.values() if node.leads(CONTROLLER_GROUP))
    raft = leader.hosted(CONTROLLER_GROUP).replica.raft
    sleeper = run.nodes[NodeId(leader.node % 3 + 1)]
    sleeper.end(power=True)
    for node in run.nodes.values():
        node.pause()
    sleeper.start()
    word = Heartbeat(
        group=CONTROLLER_GROUP,
        sender=leader.node,
        to=sleeper.node,
        term=raft.term,
        commit_index=LogIndex(raft.commit_index - 1),
        read_round=0,
    )
    run.network.send(leader.node, sleeper.node, [word])
    simulator.run_until(simulator.now_us + SECOND)
    known = sleeper.hosted(CONTROLLER_GROUP)
    assert known.replica.applied_index == raft.commit_index - 1
    assert sleeper.hosted(made[0].group) is None, "a deleted group came into being again"


def _has_applied(node: SimulatedNode, topic: TopicInfo) -> bool:
    """Something of the group: it has voted, and its log is not empty."""
    hosted = node.hosted(topic.group)
    return hosted is not None and hosted.replica.applied_index > 0


SCRIPTS: dict[str, Callable[[], None]] = {
    "stale_acknowledgement_accepted": stale_acknowledgement,
    "strong_read_joins_a_round_under_way": read_after_the_heartbeats_left,
    "deleted_group_revived": deleted_group_in_a_replay,
}
"""By the planted bug that each makes visible."""
