"""Clusters are founded over crashes and wiped folders, and no store but a founder's ever votes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from raftlog.core.types import NodeId
from raftlog.errors import DataFolderForeign, StoreMissing, StoreUnfinished
from raftlog.founders import Founder, cluster_id_of
from raftlog.image.group_manifest import manifest_of
from raftlog.machines.group_info import CONTROLLER
from raftlog.storage.contract import ROOT
from raftlog.storage.folder import DataFolder, complete_store, make_store, read_identity
from tests.storage.memory import MemoryFileSystem

OPERATIONS_MAX = 40
"""Making and completing a store takes fewer operations on files."""


class PowerLoss(BaseException):
    """The machine is off from here on."""


class Machine:
    """A machine that a person founds a cluster on, with the commands of `raftlog init`."""

    def __init__(self, node: int, random: Random) -> None:
        self.node = NodeId(node)
        self._random = random
        self.address = f"h{node}:1"
        self.wipe()

    def wipe(self) -> None:
        """Its disk is another one, which is empty."""
        self.disk = MemoryFileSystem(self._random)
        self.cluster_id = ""
        """What its cluster.toml says; "": it has none."""

    def line(self) -> str:
        """What `init --node --address` prints."""
        uuid = f"{self._random.getrandbits(128):032x}"
        store = make_store(self.disk, node=self.node, new_store_uuid=uuid)
        return Founder(node=self.node, address=self.address, store_uuid=store.store_uuid).line

    def found(self, lines: list[str]) -> None:
        """`init --with` these lines; nothing if none of them is of the store here."""
        founders = [founder for line in lines if (founder := Founder.of_line(line)) is not None]
        assert len(founders) == len(lines)
        known = read_identity(self.disk) if self.disk.exists(ROOT) else None
        if known is None or known.store_uuid not in [each.store_uuid for each in founders]:
            return
        complete_store(
            self.disk,
            cluster_id=cluster_id_of(founders),
            node=self.node,
            founders=founders,
            manifest=manifest_of(CONTROLLER),
        )
        self.cluster_id = cluster_id_of(founders)

    def with_power_loss(self, act: str, *given: list[str]) -> str | None:
        """Do it, and perhaps lose the power meanwhile."""
        left = self._random.randrange(2 * OPERATIONS_MAX)

        def count(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerLoss

        self.disk.interrupt = count
        try:
            done: str | None = getattr(self, act)(*given)
        except PowerLoss:
            self.disk.interrupt = None
            self.disk.crash()
            return None
        self.disk.interrupt = None
        return done


@pytest.mark.parametrize("seed", range(40))
def test_of_machines_that_crash_and_are_wiped_only_founders_ever_vote(seed: int) -> None:
    random = Random(seed)
    machines = [Machine(node, random) for node in range(1, random.choice((1, 3, 5)) + 1)]
    lines: dict[NodeId, str] = {}
    voted: dict[NodeId, MemoryFileSystem] = {}
    for _ in range(60):
        machine = random.choice(machines)
        match random.choice(("line", "line", "found", "found", "serve", "wipe")):
            case "line" if not machine.cluster_id:
                if (line := machine.with_power_loss("line")) is not None:
                    lines[machine.node] = line
            case "found" if len(lines) == len(machines) and not machine.cluster_id:
                shuffled = random.sample(sorted(lines.values()), len(lines))
                machine.with_power_loss("found", shuffled)
            case "serve" if machine.cluster_id:
                _serve(machine, voted)
            case "wipe" if random.random() < 0.2:
                cluster_id = machine.cluster_id
                machine.wipe()
                machine.cluster_id = cluster_id if random.random() < 0.5 else ""
            case _:
                pass
    _check_clusters(machines)


def _serve(machine: Machine, voted: dict[NodeId, MemoryFileSystem]) -> None:
    """Start the node from its folder, and let it vote: in this one, or not at all any more."""
    try:
        folder = DataFolder.open(machine.disk, cluster_id=machine.cluster_id, node=machine.node)
    except StoreMissing:
        assert not machine.disk.exists("identity"), "a store that is there is never missing"
        return
    assert folder.identity.first_voters, "who founded the cluster votes in it"
    assert voted.setdefault(machine.node, machine.disk) is machine.disk or (
        folder.identity.cluster_id != _cluster_of(voted[machine.node])
    ), "two stores vote under one id in one cluster"
    voted[machine.node] = machine.disk
    folder.close()


def _cluster_of(disk: MemoryFileSystem) -> str:
    found = read_identity(disk)
    assert found is not None
    return found.cluster_id


def _check_clusters(machines: list[Machine]) -> None:
    """Nodes of one cluster agree on who founded it, and no store is taken for another."""
    founders: dict[str, object] = {}
    for machine in machines:
        with suppress(StoreMissing, StoreUnfinished, DataFolderForeign):
            folder = DataFolder.open(machine.disk, cluster_id=machine.cluster_id, node=machine.node)
            identity = folder.identity
            assert founders.setdefault(identity.cluster_id, identity.founders) == identity.founders
            assert identity.cluster_id == cluster_id_of(identity.founders)
            folder.close()
