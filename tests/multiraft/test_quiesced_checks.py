"""A quiesced replica is checked now and then, though its node hears all that it relies on, and a
leader when a process is back.

So what was not foreseen costs a time that is bounded.
"""

from __future__ import annotations

from random import Random

import pytest

from raftlog.core.messages import Heartbeat, NodeHeartbeat, PeerMessage, VoteRequest
from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.errors import CorruptFile
from raftlog.image.damage import DamagedLog
from tests.multiraft.leading import ONE, THREE, TIMING, TWO, LeadingNode, heartbeat
from tests.multiraft.resting import RESTING
from tests.multiraft.test_refused_messages import started
from tests.storage.memory import MemoryFileSystem

REFRESH_TICKS = 50
STEP_TICKS = 20
"""Checks that are due within so many ticks come together."""
ELECTION_TICKS_MAX = 40
ASKS = heartbeat(CONTROLLER_GROUP, TWO, 1, quiesce_round=1)
LIVES = NodeHeartbeat(sender=TWO, to=ONE, boot_id="2.1")


class Follower:
    """Node 1, whose replica of the controller's group is quiesced, as node 2 asked."""

    def __init__(self) -> None:
        self.multiraft, self.driver = started(
            MemoryFileSystem(Random(1)), quiesce_refresh_ticks=REFRESH_TICKS
        )
        self.raft = self.multiraft.replicas.of_controller.raft
        self.hear(ASKS)
        assert self.raft.quiesced

    def hear(self, message: PeerMessage) -> None:
        self.multiraft.receive(TWO, [message])
        self.driver.run()

    def pass_ticks(self, count: int) -> None:
        """Node 2 says nothing but that its process lives."""
        for _ in range(count):
            self.hear(LIVES)
            self.multiraft.tick()
            self.driver.run()


def test_a_follower_that_is_not_asked_again_looks_for_a_leader() -> None:
    follower = Follower()
    follower.pass_ticks(2 * REFRESH_TICKS - 1)
    assert follower.raft.quiesced
    follower.pass_ticks(STEP_TICKS)
    assert not follower.raft.quiesced
    follower.driver.sent.clear()
    follower.pass_ticks(ELECTION_TICKS_MAX)
    assert any(isinstance(each, VoteRequest) for each in follower.driver.sent)


def test_a_follower_that_is_asked_again_stays_quiesced_for_as_long_again() -> None:
    follower = Follower()
    follower.pass_ticks(REFRESH_TICKS)
    follower.hear(ASKS)
    follower.pass_ticks(2 * REFRESH_TICKS - 1)
    assert follower.raft.quiesced
    follower.pass_ticks(STEP_TICKS)
    assert not follower.raft.quiesced


def test_a_leader_asks_its_followers_again_and_again() -> None:
    node = LeadingNode(quiesce_refresh_ticks=REFRESH_TICKS)
    raft = node.local(1).raft
    node.wait(lambda: raft.quiesced)
    for _ in range(RESTING.idle_ticks_max):
        node.tick()
    for _ in range(3):
        node.take(Heartbeat)
        for _ in range(REFRESH_TICKS + STEP_TICKS + 1):
            node.tick()
        asked = [each for each in node.take(Heartbeat) if each.group == raft.group]
        assert asked
        assert all(each.quiesce_round > 0 for each in asked)
        assert raft.quiesced, "its follower agreed again"


def test_a_replica_that_is_gone_before_its_check_is_not_checked() -> None:
    node = LeadingNode(quiesce_refresh_ticks=REFRESH_TICKS)
    local = node.local(1)
    node.wait(lambda: local.raft.quiesced)
    for _ in range(RESTING.idle_ticks_max + 1):
        node.tick()
    cause = CorruptFile(file="groups/1", position=0, problem="its log is gone")
    node.multiraft.repairs.found(local, DamagedLog(cause))
    node.driver.run()
    for _ in range(REFRESH_TICKS + STEP_TICKS):
        node.multiraft.tick()
        node.driver.run()
    assert node.local(1) is not local
    assert node.local(1).raft.recovering


def test_a_resting_node_tells_each_peer_five_times_in_an_election_timeout_that_it_lives() -> None:
    follower = Follower()
    follower.driver.sent.clear()
    follower.pass_ticks(2 * TIMING.election_ticks_min)
    told = [each.to for each in follower.driver.sent if isinstance(each, NodeHeartbeat)]
    assert sorted(told) == 10 * [TWO] + 10 * [THREE]


@pytest.mark.parametrize(
    ("peer", "boot_id"), [(THREE, "3.1"), (TWO, "2.2")], ids=["is heard again", "is another one"]
)
def test_a_leader_tells_a_process_what_it_may_have_missed_once_it(
    peer: NodeId, boot_id: str
) -> None:
    """Its replica may lack entries, and nothing else would wake the leader."""
    node = LeadingNode()
    raft = node.local(1).raft
    node.wait(lambda: raft.quiesced)
    node.multiraft.receive(peer, [NodeHeartbeat(sender=peer, to=ONE, boot_id=boot_id)])
    assert not raft.quiesced
    node.driver.run()
    told = [each for each in node.driver.sent if isinstance(each, Heartbeat) and each.to == peer]
    assert {each.group for each in told if not each.quiesce_round} == {CONTROLLER_GROUP, raft.group}
