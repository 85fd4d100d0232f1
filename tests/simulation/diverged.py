"""What happens, step by step, to a replica whose state changes in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raftlog.comparison import Trust
from raftlog.core.types import LogIndex, NodeId, Payload
from raftlog.machines.commands import Append, Command
from raftlog.machines.outcomes import Appended
from raftlog.wire.codec import encode_command
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.node import Failed
from tests.simulation.records import Label, batch_of
from tests.simulation.watched import COMPARED_EVERY
from tests.simulation.workload import read_rows


def state_changed_in_memory() -> None:
    """A leader's machine, then a follower's, gets a state that does not follow from the log."""
    for leads in (True, False):
        scene = Scene()
        changed = scene.change_one(leads=leads)
        scene.append(2 * COMPARED_EVERY)
        sound = scene.is_noticed(changed)
        scene.cannot_lead(changed, without=sound)
        scene.is_healed_by_a_restart(changed)


class Scene:
    """The replicas of one topic."""

    def __init__(self, seed: int = 1, *, snapshot_entries: int | None = None) -> None:
        self.cluster = CalmCluster(seed, snapshot_entries=snapshot_entries)
        self.group = self.cluster.groups[-1]
        self.sequence = 0
        self.append(1)

    def append(self, count: int) -> None:
        """Append so many records, one after another."""
        for _ in range(count):
            batch = batch_of([Label("append", "p", self.sequence, 0, "")], 0)
            command = Append(
                producer="p", sequence=self.sequence, timestamp_us=0, batch=batch.summary
            )
            payload = Payload(encode_command(command, batch.header), batch.body)
            assert isinstance(self.cluster.write(self.group, payload), Appended)
            self.sequence += 1

    def change_one(self, *, leads: bool) -> NodeId:
        """Change the state of the leader, or of a follower."""
        leader = self.leader
        changed = next(node for node in VOTERS if (node == leader) == leads)
        self.change(changed)
        return changed

    def change(self, changed: NodeId, *, by: int = 1) -> None:
        """A bit flips while the next append is applied: from then on every offset is wrong."""
        machine = self.cluster.local(changed, self.group).machine
        sound = machine.apply

        def apply(index: LogIndex, command: Command) -> Any:
            if not isinstance(command, Append):
                return sound(index, command)
            machine.apply = sound
            batch = replace(command.batch, record_count=command.batch.record_count + by)
            return sound(index, replace(command, batch=batch))

        machine.apply = apply
        self.cluster.checker.group(self.group).changed.add(changed)

    def is_noticed(self, changed: NodeId) -> NodeId:
        """The changed replica neither leads nor serves; the others do. Return the leader."""
        self.cluster.wait(lambda: self.doubted() == [changed])
        self.cluster.wait(lambda: self.leader not in (None, changed))
        sound = self.leader
        assert sound is not None
        assert len(self.rows(sound)) == self.mark(sound)
        assert isinstance(self.rows(changed), Failed), "it serves what others do not have"
        return sound

    def cannot_lead(self, changed: NodeId, *, without: NodeId) -> None:
        """With one node away it has to vote for the third, and never leads. The third must have the
        whole log: if only the changed replica and the node that is away had some entry, the group
        would stay without a leader.
        """
        logs = self.cluster.replicas(self.group)
        self.cluster.wait(lambda: len({local.raft.durable_index for local in logs}) == 1)
        self.cluster.nodes[without].end(power=False)
        self.cluster.wait(lambda: self.leader is not None)
        assert self.leader != changed
        self.append(1)
        self.cluster.nodes[without].start()

    def is_healed_by_a_restart(self, changed: NodeId) -> None:
        """The log is replayed, so what was never in it is gone."""
        self.restart(changed)
        self.append(COMPARED_EVERY)
        leader = self.leader
        assert leader is not None
        mark = self.mark(leader)
        self.cluster.wait(lambda: self.mark(changed) == mark)
        self.cluster.pass_timeouts(1)
        assert not self.doubted()
        assert self.rows(changed) == self.rows(leader)

    def restart(self, changed: NodeId) -> None:
        """Kill a node and start it again; its state is compared from now on."""
        self.cluster.nodes[changed].end(power=False)
        self.cluster.checker.group(self.group).changed.discard(changed)
        self.cluster.nodes[changed].start()

    # ------------------------------------------------------------ what is there

    @property
    def leader(self) -> NodeId | None:
        return self.cluster.leader(self.group)

    def doubted(self) -> list[NodeId]:
        """The nodes whose replica is known to differ, or may."""
        return [
            local.replica.node
            for local in self.cluster.replicas(self.group)
            if local.replica.states.trust is not Trust.TRUSTED
        ]

    def mark(self, node: NodeId) -> int:
        local = self.cluster.nodes[node].local(self.group)
        return local.topic_machine.high_water_mark if local is not None else 0

    def rows(self, node: NodeId, end: int | None = None) -> Any:
        """The records below `end`, all by default, as the node serves them, or Failed."""
        mark = self.mark(node)
        end = mark if end is None else end
        return read_rows(self.cluster.nodes[node], self.group, 0, end, mark)
