"""Data folders of nodes for tests: made as `raftlog up` makes them, opened as a node does."""

from __future__ import annotations

import shutil
import subprocess
import sys
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

HOLD_AND_WAIT = """
import sys
import threading
from pathlib import Path
from raftlog.cli.cluster_folder import holding_pid_file
with holding_pid_file(Path(sys.argv[1]), Path(sys.argv[1]).parent):
    print("holding", flush=True)
    sys.stdin.read()
"""


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


def holder(file: Path) -> subprocess.Popen[str]:
    """Another process that holds the file as a node does, until its input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_WAIT, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "holding\n"
    return child
