"""The stores of a cluster's nodes: made one by one, then completed with who founded the cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from raftlog.cli.cluster_folder import ClusterFolder
from raftlog.core.types import NodeId
from raftlog.founders import Founder
from raftlog.image.group_manifest import manifest_of
from raftlog.machines.group_info import CONTROLLER
from raftlog.storage.folder import complete_store, make_store, read_identity
from raftlog.storage.posix import PosixFileSystem


def made_store(cluster: ClusterFolder, node: int) -> Founder:
    """The node's store, durable: one made before that no node has run from, or a new one. Raises
    what `make_store` raises."""
    store = make_store(
        PosixFileSystem(cluster.data(node)), node=NodeId(node), new_store_uuid=uuid.uuid4().hex
    )
    address = cluster.addresses[node]
    return Founder(node=NodeId(node), address=address, store_uuid=store.store_uuid)


def complete(cluster: ClusterFolder, node: int, founders: Iterable[Founder]) -> None:
    """Make the node's store part of the cluster, which these founded; durable on return. Raises
    what `complete_store` raises."""
    complete_store(
        PosixFileSystem(cluster.data(node)),
        cluster_id=cluster.cluster_id,
        node=NodeId(node),
        founders=tuple(founders),
        manifest=manifest_of(CONTROLLER),
    )


def has_store(cluster: ClusterFolder, node: int) -> bool:
    """Is there a store of the node in the cluster's folder, whether it is complete or not?"""
    return read_identity(PosixFileSystem(cluster.data(node))) is not None


def is_store_of(folder: Path, founder: Founder) -> bool:
    """Is the founder's store in this folder of a cluster that is still to be founded?"""
    new = ClusterFolder(folder=folder, cluster_id="", addresses={})
    found = read_identity(PosixFileSystem(new.data(founder.node)))
    return found is not None and found.store_uuid == founder.store_uuid


def recorded_founder(cluster: ClusterFolder, node: int) -> Founder | None:
    """The founder that the node's store says it is; None: it is none, or has no store here."""
    found = read_identity(PosixFileSystem(cluster.data(node)))
    if found is None:
        return None
    own = (found.node, found.store_uuid)
    return next((each for each in found.founders if (each.node, each.store_uuid) == own), None)
