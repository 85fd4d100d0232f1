"""What a wall clock that was behind for a while does to ages, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raftlog.core.types import CONTROLLER_GROUP, NodeId, Payload
from raftlog.machines.commands import AlterTopic, Append
from raftlog.machines.outcomes import Appended
from raftlog.machines.settings import RETENTION_S, TopicSetting
from raftlog.machines.topic import TopicMachine
from raftlog.wire.codec import encode_command
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.records import Label, batch_of

MONTH_US = 30 * 86_400 * 1_000_000
WEEK_S = 7 * 86_400
WRITTEN = 5


class Scene:
    """A topic that keeps its records for a week, while of its three nodes one is away and the clock
    of another one is a month behind."""

    def __init__(self) -> None:
        self.cluster = CalmCluster(1, topics=1, retention_ticks=3)
        self.group = self.cluster.groups[-1]
        self.right, self.behind, self.away = VOTERS
        settings = (TopicSetting(name=RETENTION_S, value=WEEK_S),)
        self.cluster.wait(lambda: len(self.cluster.replicas(self.group)) == len(VOTERS))
        info = self.machine(self.right).info
        alter = AlterTopic(name=info.name, incarnation=info.incarnation, settings=settings)
        self.cluster.write(CONTROLLER_GROUP, Payload(encode_command(alter, None), b""))
        self.cluster.wait(lambda: all(self.machine(n).settings == settings for n in VOTERS))
        for (
            node
        ) in VOTERS:  # those that start again have not heard the clock of the one that is away
            self.cluster.nodes[node].end(power=False)
        self.cluster.nodes[self.behind].set_clock(-MONTH_US)
        for node in (self.right, self.behind):
            self.cluster.nodes[node].start()
        for sequence in range(WRITTEN):
            self.append(sequence)

    def machine(self, node: int) -> TopicMachine:
        return self.cluster.local(node, self.group).topic_machine

    def append(self, sequence: int) -> None:
        """Append a record with the time that its leader stamps."""
        batch = batch_of([Label("append", "p", sequence, 0, "")], 0)
        made = Append(producer="p", sequence=sequence, timestamp_us=0, batch=batch.summary)

        def payload(now_us: int) -> Payload:
            command = replace(made, timestamp_us=now_us)
            return Payload(encode_command(command, batch.header), batch.body)

        answers: list[object] = []
        self.cluster.wait(lambda: self.cluster.leader(self.group) is not None)
        leader = self.cluster.leader(self.group)
        assert leader is not None
        self.cluster.nodes[leader].propose(self.group, payload, answers.append)
        self.cluster.wait(lambda: bool(answers))
        assert isinstance(answers[0], Appended)

    def lead(self, node: NodeId) -> None:
        """Let the node lead."""
        former = self.cluster.leader(self.group)
        assert former is not None
        if former != node:
            local = self.cluster.local(former, self.group)
            self.cluster.nodes[former].multiraft.transfer_leadership(local, node)
            self.cluster.wait(lambda: self.cluster.leader(self.group) == node)


@pytest.mark.parametrize("leads", VOTERS)
def test_records_stay_their_time_after_a_clock_that_was_behind_is_right_again(
    leads: NodeId,
) -> None:
    scene = Scene()
    cluster = scene.cluster
    cluster.nodes[scene.behind].set_clock(MONTH_US)
    cluster.nodes[scene.away].start()
    cluster.wait(lambda: all(scene.machine(n).high_water_mark == WRITTEN for n in VOTERS))
    scene.lead(leads)
    cluster.pass_timeouts(3)
    assert [scene.machine(node).log_start_offset for node in VOTERS] == [0, 0, 0]
