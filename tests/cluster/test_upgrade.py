"""Real nodes on the data of another version: an older one's is served, a newer one's refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import free_ports, wait_for
from raftlog.cli.cluster_folder import ClusterFolder, record
from raftlog.core.types import CONTROLLER_GROUP, Payload
from raftlog.errors import ExitCode, LogFromNewerVersion
from raftlog.machines.rules import RULES_LATEST
from raftlog.storage.posix import PosixFileSystem
from tests.recorded.make import CLUSTER_ID, OneNode

RECORDED = Path(__file__).parents[1] / "recorded" / "rules-1"
DEADLINE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterFolder:
    """One node, whose data the first release wrote."""
    made = ClusterFolder(
        folder=tmp_path / "cluster",
        cluster_id=CLUSTER_ID,
        addresses={1: f"127.0.0.1:{free_ports(1)}"},
        founders=(1,),
    )
    record(made)
    shutil.unpack_archive(RECORDED / "data.zip", made.data(1))
    return made


@contextmanager
def served(cluster: ClusterFolder) -> Iterator[subprocess.Popen[str]]:
    words = ["serve", "--node", "1", "--data", str(cluster.folder)]
    command = [sys.executable, "-m", "raftlog", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(cluster: ClusterFolder, *words: str) -> Any:
    """What a verb prints with -o json; None while it fails."""
    ended = subprocess.run(
        [sys.executable, "-m", "raftlog", "--servers", cluster.addresses[1], *words, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return json.loads(ended.stdout) if ended.returncode == ExitCode.OK else None


def test_the_data_of_the_first_release_is_served_and_upgraded(cluster: ClusterFolder) -> None:
    expected = json.loads((RECORDED / "expected.json").read_text())["groups"]
    with served(cluster):
        status: list[Any] = []

        def upgraded() -> bool:
            status[:] = [told(cluster, "status")]
            return status[0] is not None and status[0]["rules"] == RULES_LATEST

        wait_for(upgraded, "the rules to be raised", DEADLINE_S)
        assert status[0]["behind_rules"] == []
        for group in expected.values():
            if "topic" in group:
                (mark,) = told(cluster, "watermark", group["topic"])
                assert mark["high_water_mark"] == group["commands"][-1]["mark"]


def test_a_node_stops_before_an_entry_of_a_newer_version(cluster: ClusterFolder) -> None:
    node = OneNode(PosixFileSystem(cluster.data(1)))
    controller = node.multiraft.replicas.get(CONTROLLER_GROUP)
    assert controller is not None
    index = controller.replica.applied_index + 1
    node.multiraft.propose(controller, Payload(b"\x02 of tomorrow", b""), lambda _: None)
    with pytest.raises(LogFromNewerVersion):
        node.settle()
    node.close()
    with served(cluster) as process:
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == ExitCode.NODE_REFUSED
    assert f"Entry {index} of group 0 comes from a newer version" in said
    assert "Install a version on this node" in said
    assert "Traceback" not in said
