"""For whom `raftlog up` waits, and what it says when they do not come."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli.cluster_folder import new_cluster, open_folder, record
from raftlog.cli.session import Session
from raftlog.cli.signals import Stop
from raftlog.cli.up import Running
from raftlog.config import ClientSettings, Settings, UpSettings
from raftlog.core.types import NodeId
from raftlog.errors import ExitCode, NodesNotReady
from tests.client.members_scene import MembersScene, scene

STAYS = "read line"
ENDS = "echo no memory >&2; exit 8"


@pytest.fixture
def cluster() -> Iterator[MembersScene]:
    with scene(3) as found:
        yield found


def running(cluster: MembersScene, folder: Path, programs: dict[int, str]) -> Running:
    """An `up` whose children are these programs, at the addresses of the cluster's nodes."""
    addresses = {node: cluster.addresses[NodeId(node)] for node in programs}
    made = replace(new_cluster(folder, addresses=addresses), cluster_id="c")
    found = Running(cluster=made, children={}, log_starts={}, stop=Stop())
    for node, program in programs.items():
        log = made.log_file(node)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            found.log_starts[node] = 0
            found.children[node] = subprocess.Popen(
                ["sh", "-c", program], stdin=subprocess.PIPE, stderr=out
            )
    return found


def wait(up: Running, timeout_s: float = PATIENCE_S) -> None:
    """Let it wait, and its children end. A node that listens has all the time to answer."""
    settings = Settings(
        up=UpSettings(ready_timeout_s=timeout_s), client=ClientSettings(view_timeout_s=PATIENCE_S)
    )
    try:
        up.wait_until_ready(Session(settings=settings, passed_on=()))
    finally:
        for child in up.children.values():
            child.communicate(timeout=PATIENCE_S)


def test_up_waits_for_the_nodes_of_its_own_folder_only(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """Node 3 runs elsewhere, and does not answer: to wait for it would end with an error."""
    cluster.lose(3)
    wait(running(cluster, tmp_path / "c", {1: STAYS, 2: STAYS}))


def test_up_names_the_nodes_that_are_missing_and_how_to_give_them_time(
    cluster: MembersScene, tmp_path: Path
) -> None:
    cluster.lose(2)
    cluster.unregistered.add(NodeId(3))
    up = running(cluster, tmp_path / "c", {1: STAYS, 2: STAYS, 3: STAYS})
    with pytest.raises(NodesNotReady) as late:
        wait(up, timeout_s=0.5)
    assert late.value.exit_code == ExitCode.UNAVAILABLE
    missing = "node 2 (no answer), node 3 (it is not registered with the controller)"
    assert late.value.cause == f"Not all nodes were ready within 0.5 s. Missing: {missing}."
    assert "up.ready_timeout_s" in late.value.remedy
    assert "node-2.log" in late.value.remedy
    assert "node-1.log" not in late.value.remedy


def test_up_where_nobody_answers_names_every_node(cluster: MembersScene, tmp_path: Path) -> None:
    cluster.lose(1)
    with pytest.raises(NodesNotReady, match=r"Missing: node 1 \(no answer\)"):
        wait(running(cluster, tmp_path / "c", {1: STAYS}), timeout_s=0.3)


def test_up_ends_with_a_node_that_ends_instead_of_coming(
    cluster: MembersScene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.lose(2)
    with pytest.raises(typer.Exit) as ended:
        wait(running(cluster, tmp_path / "c", {1: STAYS, 2: ENDS}))
    assert ended.value.exit_code == ExitCode.NODE_REFUSED
    assert "no memory" in capsys.readouterr().err


@pytest.mark.slow
def test_up_leaves_out_a_node_that_was_removed_while_it_was_down(
    cluster: MembersScene, tmp_path: Path
) -> None:
    """Its folder was wiped, and it ended before the others knew that it had been replaced."""
    with cluster.members() as members:
        assert list(members.remove(3, timeout_s=PATIENCE_S))[-1].done
    up = running(cluster, tmp_path / "c", {1: STAYS, 2: STAYS, 3: ENDS})
    record(up.cluster)
    wait(up)
    assert sorted(up.children) == [1, 2]
    recorded = open_folder(up.cluster.folder)
    assert (sorted(recorded.addresses), recorded.removed) == ([1, 2], (3,))


def test_up_does_not_go_on_without_a_node_that_was_not_removed(
    cluster: MembersScene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.lose(3)
    up = running(cluster, tmp_path / "c", {1: STAYS, 2: STAYS, 3: ENDS})
    with pytest.raises(typer.Exit) as ended:
        wait(up)
    assert ended.value.exit_code == ExitCode.NODE_REFUSED
    told = capsys.readouterr().err
    assert "node 3 ended while it started" in told
    assert f"(1, 2) start alone: raftlog serve --node N --data {up.cluster.folder}" in told
