"""Data folders of nodes for tests: made as `raftlog up` makes them, opened as a node does."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from raftlog.cli.cluster_folder import ClusterFolder, new_cluster, record
from raftlog.core.types import NodeId
from raftlog.founders import Founder
from raftlog.image.group_manifest import manifest_of
from raftlog.machines.group_info import CONTROLLER
from raftlog.storage.contract import ROOT, FileSystem
from raftlog.storage.folder import DataFolder, complete_store, make_store, read_identity
from raftlog.storage.posix import PosixFileSystem


def founders(nodes: Sequence[int]) -> tuple[Founder, ...]:
    """Who found the cluster of these nodes: each in its store `store-N`."""
    return tuple(
        Founder(node=NodeId(node), address=f"node-{node}:1", store_uuid=f"store-{node}")
        for node in nodes
    )


def opened_folder(
    fs: FileSystem,
    node: int,
    voters: Sequence[int],
    *,
    cluster_id: str = "c",
    store_uuid: str = "",
) -> DataFolder:
    """The node's data folder. One that is empty, or was left half made, becomes a store of the
    cluster that `voters` founded: the founder's own, unless `store_uuid` is another."""
    found = read_identity(fs) if fs.exists(ROOT) else None
    if found is None or not found.cluster_id:
        made(fs, node, voters, cluster_id=cluster_id, store_uuid=store_uuid)
    return DataFolder.open(fs, cluster_id=cluster_id, node=NodeId(node))


def made(
    fs: FileSystem, node: int, voters: Sequence[int], *, cluster_id: str = "c", store_uuid: str = ""
) -> None:
    """Make the node's store in an empty folder, and complete it."""
    make_store(fs, node=NodeId(node), new_store_uuid=store_uuid or f"store-{node}")
    complete_store(
        fs,
        cluster_id=cluster_id,
        node=NodeId(node),
        founders=founders(voters),
        manifest=manifest_of(CONTROLLER),
    )


def wipe(data: Path, node: int, other: int) -> None:
    """Give the node of the cluster in the folder a fresh store under its old id, which no command
    of ours does. It knows who founded the cluster, as the store of `other` does."""
    known = read_identity(PosixFileSystem(data / f"node-{other}"))
    assert known is not None
    own = data / f"node-{node}"
    shutil.rmtree(own)
    fs = PosixFileSystem(own)
    make_store(fs, node=NodeId(node), new_store_uuid=uuid.uuid4().hex)
    complete_store(
        fs,
        cluster_id=known.cluster_id,
        node=NodeId(node),
        founders=known.founders,
        manifest=manifest_of(CONTROLLER),
    )


def recorded(folder: Path, addresses: Mapping[int, str]) -> ClusterFolder:
    """The folder of a cluster `c` of these nodes, which have no stores."""
    cluster = replace(new_cluster(folder, addresses=dict(addresses)), cluster_id="c")
    record(cluster)
    return cluster
