"""Bugs planted in how groups quiesce, and what makes each visible: they cost no promise, only time,
so no checker of the swarm sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from raftlog.core.messages import Heartbeat
from raftlog.core.quiescence import Quiescence
from raftlog.core.raft import Raft
from raftlog.core.types import NodeId, Offset, Payload
from raftlog.machines.commands import Trim
from raftlog.wire.codec import encode_command
from tests.core.member import TIMING, Member, acceptance, heartbeat_reply
from tests.simulation.calm import CalmCluster
from tests.simulation.planting import replaced

QUIESCING = replace(TIMING, quiesce_after_ticks=4)


def quiesce_round_ignored() -> Any:
    """An answer counts in the present round, whichever round it answers."""
    original = Quiescence.agreed

    def agreed(self: Quiescence, follower: NodeId, in_round: int) -> None:
        original(self, follower, self.round)

    return replaced(Quiescence, "agreed", agreed)


def node_is_back_missing() -> Any:
    """What a process agreed to still counts when it is another one now."""
    return replaced(Raft, "node_is_back", lambda self, node: None)


def late_agreement() -> None:
    """Member 2 agreed before the leader was asked for something, and its answer comes late."""
    member = Member(1, terms=[1], timing=QUIESCING).lead()
    for follower in (2, 3):
        member.step(acceptance(member, follower, 2))
    first = _asked(member)
    member.propose("something")
    for follower in (2, 3):
        member.step(acceptance(member, follower, 3))
    second = _asked(member)
    assert second > first
    member.step(heartbeat_reply(member, 3, last_index=3, quiesce_round=second))
    member.step(heartbeat_reply(member, 2, last_index=3, quiesce_round=first))
    assert not member.raft.quiesced, "member 2 is awake, and waits for heartbeats"
    member.step(heartbeat_reply(member, 2, last_index=3, quiesce_round=second))
    assert member.raft.quiesced


def _asked(member: Member) -> int:
    """Tick an idle leader until it asks; the number of its round."""
    for _ in range(10 * QUIESCING.quiesce_after_ticks):
        member.tick()
        for message in member.take(Heartbeat, to=2):
            if message.quiesce_round:
                return message.quiesce_round
    raise AssertionError("the leader does not ask")


def restart_in_the_middle_of_the_agreement() -> None:
    """A follower agrees and starts again before the other one agrees, without any timeout."""
    cluster = CalmCluster(0, topics=1)
    group = cluster.groups[-1]
    cluster.quiesce()
    leader = cluster.leader(group)
    assert leader is not None
    back, other = (node for node in cluster.nodes if node != leader)
    raft = cluster.local(leader, group).replica.raft

    def agreeing() -> Quiescence:
        assert raft.leadership is not None, "nothing makes another one lead"
        return raft.leadership.quiescence

    cluster.write(group, Payload(encode_command(Trim(offset=Offset(0)), None), b""))
    cluster.wait(lambda: agreeing().asking)
    cluster.network.cut([(other, leader)])
    cluster.wait_heartbeats(2, lambda: agreeing().has_agreed(back))
    cluster.network.cut([(leader, back)])
    cluster.nodes[back].end(power=True)
    cluster.nodes[back].start()
    cluster.wait_heartbeats(4, lambda: not agreeing().has_agreed(back))
    cluster.network.heal()
    cluster.quiesce()
    assert all(local.replica.raft.leader == leader for local in cluster.replicas(group))


QUIESCENCE_BUGS = (quiesce_round_ignored, node_is_back_missing)
QUIESCENCE_SCRIPTS: dict[str, Callable[[], None]] = {
    "quiesce_round_ignored": late_agreement,
    "node_is_back_missing": restart_in_the_middle_of_the_agreement,
}
