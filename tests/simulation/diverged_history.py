"""What happens, step by step, to a replica whose compaction writes other records into history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from raftlog.compaction import compact as compacting
from raftlog.comparison import Trust
from raftlog.core.types import Entry, LogIndex, NodeId, Offset
from raftlog.image.job import CompactionJob
from raftlog.image.manifest import Image
from raftlog.image.outvoted import REBUILDS_US
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.local_replica import LocalReplica
from tests.simulation.calm import VOTERS
from tests.simulation.diverged import Scene
from tests.simulation.node import Failed
from tests.simulation.planting import replaced
from tests.simulation.records import Label, batch_of
from tests.simulation.test_upgrade import register, rules

POINT = 12
"""Entries from one snapshot point to the next."""

POINTS_UNTIL_AGREED_MAX = 6
"""A question of a leader gives way after four newer points."""


def other_records_in_history() -> None:
    """A follower's history gets other records, then a leader's."""
    for leads in (False, True):
        scene = HistoryScene()
        wrong = next(node for node in VOTERS if (node == scene.leader) == leads)
        scene.goes_wrong_once(wrong)
        scene.is_fenced(wrong)
        scene.stays_fenced_through_a_restart(wrong)
        scene.is_rebuilt(wrong)
        scene.goes_wrong_once(wrong)
        scene.is_fenced(wrong)
        scene.is_rebuilt(wrong)
        scene.goes_wrong_once(wrong)
        scene.is_fenced(wrong)
        scene.is_not_rebuilt_a_third_time(wrong)
        scene.is_rebuilt_a_day_later(wrong)


class HistoryScene(Scene):
    """Replicas of one topic that compact every few entries."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed, snapshot_entries=POINT)
        for node in VOTERS:
            register(self.cluster, node, RULES_LATEST)
        self.cluster.wait(lambda: rules(self.cluster) == {RULES_LATEST})
        self.append_to_an_agreed_point()
        self.cluster.wait(lambda: not self.in_doubt())

    # ------------------------------------------------------------ what is done

    def goes_wrong_once(self, *nodes: NodeId) -> None:
        """The next compaction of each of these nodes writes other records, each others."""
        self.rebuilding = False
        for text, node in enumerate(nodes):
            self.cluster.checker.group(self.group).wrong_history.add(node)
            self._plant(node, f"wrong {text}")
        self.append(POINT)
        self.cluster.wait(lambda: not self._planted)

    def _plant(self, node: NodeId, text: str) -> None:
        simulated = self.cluster.nodes[node]
        sound: Callable[[CompactionJob], Image] = simulated._compact
        self._planted = getattr(self, "_planted", set()) | {node}

        def compact(job: CompactionJob) -> Image:
            if job.group != self.group:
                return sound(job)
            simulated._compact = sound  # type: ignore[method-assign]
            self._planted.discard(node)
            with replaced(compacting, "_batch", _batch_with(text)):
                return sound(job)

        simulated._compact = compact  # type: ignore[method-assign]

    def append_to_an_agreed_point(self) -> None:
        """Append until all have compacted alike and agree. It takes some points where a follower
        was away when its leader asked for one."""
        for _ in range(POINTS_UNTIL_AGREED_MAX):
            self.append(POINT)
            self.cluster.wait(self.compacted_alike)
            if self.cluster.comes(self.agreed, timeouts=1):
                return
        raise AssertionError("never agreed")

    # ------------------------------------------------------------ what must hold

    def is_fenced(self, wrong: NodeId) -> None:
        """It neither leads nor serves, and gives no image; it votes. The others do everything."""
        self.cluster.wait(lambda: self.trust(wrong) is Trust.DIVERGED)
        self.cluster.wait(lambda: self.leader not in (None, wrong))
        local = self.cluster.local(wrong, self.group)
        assert local.replica.diverged
        assert isinstance(self.rows(wrong), Failed), "it serves what others do not have"
        others = [node for node in VOTERS if node != wrong]
        # A follower learns by a later heartbeat than the wrong one that there is a majority.
        self.cluster.wait(lambda: {self.trust(node) for node in others} == {Trust.TRUSTED})
        for node in others:
            assert len(self.rows(node)) == self.mark(node)

    def stays_fenced_through_a_restart(self, wrong: NodeId) -> None:
        """Even where nobody is there to say so."""
        local = self.cluster.local(wrong, self.group)
        self.cluster.wait(lambda: local.outvoted.history)
        for node in VOTERS:
            self.cluster.nodes[node].end(power=node == wrong)
        self.cluster.nodes[wrong].start()
        self.cluster.pass_timeouts(2)
        assert self.trust(wrong) is Trust.DIVERGED
        for node in VOTERS:
            if node != wrong:
                self.cluster.nodes[node].start()

    def is_rebuilt(self, wrong: NodeId) -> None:
        """It has the others' records, and has forgotten nothing that it acknowledged."""
        rebuilt = self.rebuilt
        before = self.cluster.local(wrong, self.group).raft.durable_index
        self.cluster.wait(lambda: self.rebuilt > rebuilt)
        local = self.cluster.local(wrong, self.group)
        assert local.raft.durable_index >= before
        self.append_to_an_agreed_point()
        self.cluster.wait(lambda: not self.in_doubt())
        self.cluster.wait(lambda: not local.outvoted.history)
        leader = self.leader
        assert leader is not None
        self.cluster.wait(lambda: self.mark(wrong) == self.mark(leader))
        assert self.rows(wrong) == self.rows(leader)

    def is_not_rebuilt_a_third_time(self, wrong: NodeId) -> None:
        rebuilt = self.rebuilt
        self.cluster.pass_timeouts(20)
        assert self.rebuilt == rebuilt
        self.is_fenced(wrong)

    def is_rebuilt_a_day_later(self, wrong: NodeId) -> None:
        for node in self.cluster.nodes.values():
            node._clock_us += REBUILDS_US
        self.is_rebuilt(wrong)

    # ------------------------------------------------------------ what is there

    @property
    def rebuilt(self) -> int:
        return self.cluster.simulator.counts["replicas rebuilt"]

    def trust(self, node: NodeId) -> Trust:
        return self.cluster.local(node, self.group).replica.histories.trust

    def in_doubt(self) -> list[NodeId]:
        return [node for node in VOTERS if self.trust(node) is not Trust.TRUSTED]

    def compacted_alike(self) -> bool:
        replicas = self.cluster.replicas(self.group)
        return len(replicas) == len(VOTERS) and len(self._points) == 1 and min(self._points) > 0

    def agreed(self) -> bool:
        replicas = self.cluster.replicas(self.group)
        agreed = {local.replica.histories.agreed_index for local in replicas}
        return self.compacted_alike() and self._points == agreed

    @property
    def _points(self) -> set[LogIndex]:
        """Up to which entries the replicas have compacted."""
        return {local.image.manifest.index for local in self.cluster.replicas(self.group)}

    def history(self, node: NodeId) -> tuple[Offset, Offset]:
        return _local_history(self.cluster.local(node, self.group))


def _local_history(local: LocalReplica) -> tuple[Offset, Offset]:
    return local.image.manifest.history_start, local.image.manifest.history_end


def _batch_with(text: str) -> Any:
    """Batches whose records are others, with the same number and the same bytes in the log."""
    original = compacting._batch

    def batch(extent: Any, entry: Entry) -> Any:
        sound = original(extent, entry)
        labels: Sequence[Label] = [Label("append", text, 0, n, "") for n in range(extent.count)]
        other = batch_of(labels, 0)
        return replace(sound, header=other.header, body=other.body)

    return batch
