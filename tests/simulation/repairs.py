"""A calm cluster whose files are damaged at rest, and what its nodes make of it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from raftlog.core.types import GroupId, LogIndex, NodeId, Payload
from raftlog.errors import CorruptFile
from raftlog.image.manifest import read_image
from raftlog.image.scrub import scrub
from raftlog.machines.commands import Append, EpochKey, Stage
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.effects import DamageHealed, DamageNotHealable
from raftlog.multiraft.repair import RepairCounts
from raftlog.storage.frames import SEGMENT_HEADER_BYTES
from raftlog.storage.last_entry import last_entry
from raftlog.storage.limits import LogLimits
from raftlog.wire.codec import encode_command
from tests.simulation.calm import VOTERS, CalmCluster
from tests.simulation.node import SimulatedNode
from tests.simulation.records import Label, Row, batch_of
from tests.simulation.workload import read_rows
from tests.storage.disks import files_of, flipped

GROUP = GroupId(1)
_ATTEMPTS = 20


class DamagedCluster(CalmCluster):
    """Three nodes with a topic: two history files or more, a carried stage, two snapshots and a
    log of some segments whose beginning is gone."""

    def __init__(self, seed: int) -> None:
        super().__init__(
            seed,
            topics=1,
            log_limits=LogLimits(
                segment_bytes_max=2_000, preallocate_bytes=0, payload_cache_bytes_max=0
            ),
            compaction=CompactionLimits(
                entries_max=20,
                bytes_max=1 << 30,
                behind_bytes_max=0,
                backlog_max=16,
                age_ticks=1 << 30,
                node_entries_max=1 << 30,
            ),
            small_file_bytes=0,
        )
        self.appended = 0
        self.stage()
        self.append(80)
        self.wait(self.rests)

    def _propose(self, payload: Payload) -> None:
        self.write(GROUP, payload)

    def append(self, count: int) -> None:
        for number in range(self.appended, self.appended + count):
            batch = batch_of([Label("append", "p", number, 0, "")], 40, arrow=True)
            append = Append(producer="p", sequence=number, timestamp_us=0, batch=batch.summary)
            self._propose(Payload(encode_command(append, batch.header), batch.body))
        self.appended += count

    def stage(self) -> None:
        """A stage that stays open."""
        batch = batch_of([Label("epoch", "w", 0, 0, "a")], 40, arrow=True)
        key = EpochKey(writer="w", query_id="w", run="r", epoch=0, streaming=True)
        stage = Stage(
            key=key,
            attempt="a",
            number=0,
            timestamp_us=0,
            batch=batch.summary,
            create_writer=True,
        )
        self._propose(Payload(encode_command(stage, batch.header), batch.body))

    # ------------------------------------------------------------ what is there

    def rests(self) -> bool:
        """Has every replica applied all, compacted every point, and dropped what it may?"""
        replicas = [self.local(node, GROUP) for node in self.nodes]
        indexes = {each.replica.applied_index for each in replicas}
        points = {each.image.manifest.index for each in replicas}
        return (
            len(indexes) == len(points) == 1
            and not any(each.busy or each.replica.points for each in replicas)
            and all(each.replica.log.durable_index == max(indexes) for each in replicas)
            and min(points) > 0
        )

    def folder(self, node: NodeId) -> str:
        return self.nodes[node].log_folder(GROUP)

    def files(self, node: NodeId) -> dict[str, bytes]:
        """The files of the log and the image, which can be healed on a running replica."""
        found = files_of(self.nodes[node].disk.fs, self.folder(node))
        return {
            name: data
            for name, data in found.items()
            if name.endswith(".log") or name.startswith(("snapshot-", "stages-", "history-"))
        }

    def rows(self, node: NodeId) -> list[Row]:
        mark = self.local(node, GROUP).topic_machine.high_water_mark
        rows = read_rows(self.nodes[node], GROUP, 0, mark, mark)
        assert isinstance(rows, list)
        return rows

    def scrubbed(self, node: NodeId) -> list[CorruptFile]:
        """All damage that a scrub finds now; it is handed to the node's repairs."""
        local, owner = self.local(node, GROUP), self.nodes[node]
        last = LogIndex(min(local.replica.applied_index, local.replica.log.durable_index))
        causes = []
        for piece in scrub(owner.disk.fs, self.folder(node), GROUP, last, local.image.manifest):
            if piece.damage is not None:
                causes.append(piece.damage.cause)
                owner.multiraft.repairs.found(local, piece.damage)
        return causes

    def found_by_scrub(self, node: NodeId) -> int:
        """How much a scrub finds now, without telling the node."""
        owner, local = self.nodes[node], self.local(node, GROUP)
        last, image = local.replica.applied_index, local.image.manifest
        pieces = scrub(owner.disk.fs, self.folder(node), GROUP, last, image)
        return sum(piece.damage is not None for piece in pieces)

    def last_durable(self, node: NodeId) -> int:
        return self.local(node, GROUP).replica.log.durable_index

    def counts(self, node: NodeId) -> RepairCounts:
        return self.nodes[node].multiraft.repairs.counts(GROUP)

    # ------------------------------------------------------------ damage

    def put(self, node: NodeId, name: str, data: bytes) -> None:
        """Change a file at rest, durably."""
        self.nodes[node].damaged = True
        file = self.nodes[node].disk.fs.open(f"{self.folder(node)}/{name}", create=False)
        file.truncate(0)
        file.write_at(0, [data])
        file.sync()
        file.close()

    def damage_log_below_its_end(self, node: NodeId, random: Random) -> None:
        """Damage a frame's header, while the node is down, so that where the log ends can be told:
        not the header of its last segment. Nothing is damaged if there is no other frame."""
        owner, folder = self.nodes[node], self.folder(node)
        base = read_image(owner.disk.fs, folder).image.base
        whole = last_entry(owner.disk.fs, folder, GROUP, base)
        before = files_of(owner.disk.fs, folder)
        for _ in range(_ATTEMPTS):
            owner.damage_log(GROUP, random)
            if last_entry(owner.disk.fs, folder, GROUP, base) == whole:
                return
            for name, data in before.items():
                self.put(node, name, data)

    def cut_log(self, node: NodeId) -> None:
        """Take all entries of the last segment, while the node is down, so that nothing of it shows
        in the folder."""
        name, data = max(each for each in self.files(node).items() if each[0].endswith(".log"))
        assert len(data) > SEGMENT_HEADER_BYTES, "there is something to take"
        self.put(node, name, data[:SEGMENT_HEADER_BYTES])
        self.nodes[node].cut = True
        del self.checker.group(GROUP).disks[node]

    def flip(self, node: NodeId, name: str, position: int) -> None:
        self.put(node, name, flipped(self.files(node)[name], position, 1))

    def healed(self, nodes: Iterable[NodeId] = VOTERS) -> bool:
        """Is nothing open of what was found?"""
        return all(
            counts.found == counts.healed for counts in (self.counts(node) for node in nodes)
        )

    def told(self, node: NodeId, kind: type[DamageHealed | DamageNotHealable]) -> list[str]:
        return [str(event) for event in self.nodes[node].damage_told if isinstance(event, kind)]


def leader_and_followers(cluster: DamagedCluster) -> tuple[NodeId, NodeId, NodeId]:
    leader = cluster.leader(GROUP)
    assert leader is not None
    first, second = (node for node in VOTERS if node != leader)
    return leader, first, second


__all__ = ["DamagedCluster", "SimulatedNode", "leader_and_followers"]
