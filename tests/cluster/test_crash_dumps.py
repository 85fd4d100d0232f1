"""A process that crashes leaves no copy of its memory, in which its secrets are."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient

NO_DUMP = {"0", "1"}
"""Bytes: of neither a kernel makes a file. It may be 0 already, for all processes here."""


@pytest.fixture(autouse=True)
def dumps_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """To this process, and so to those that it starts, which run where a dump would be found."""
    soft, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    monkeypatch.chdir(tmp_path)
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, most))


def limits_of(pid: int) -> tuple[str, str]:
    """(soft, hard), as the kernel writes them."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("Max core file size")]
    soft, hard = line.split()[4:6]
    return soft, hard


def compaction_of(node: int) -> int | None:
    """The process that compacts for this one, if it runs."""
    for thread in Path(f"/proc/{node}/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread or child that has just ended
            for child in thread.read_text().split():
                if "raftlog.compaction" in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
    return None


def compacts(client: LogClient, node: int) -> bool:
    client.append("t", [{"id": number} for number in range(20)])
    return compaction_of(node) is not None


@pytest.mark.from_nothing
def test_a_node_that_crashes_leaves_no_dump(tmp_path: Path) -> None:
    settings = ["storage.snapshot_entries=8"]
    with ProcessCluster.start(tmp_path / "data", nodes=1, settings=settings) as cluster:
        node = cluster.pids[1]
        assert limits_of(node)[0] in NO_DUMP
        with cluster.client() as client:
            client.create_topic("t", "id bigint")
            wait_for(lambda: compacts(client, node), "the compaction process", PATIENCE_S)
        compaction = compaction_of(node)
        assert compaction is not None
        assert limits_of(compaction)[0] in NO_DUMP
        os.kill(node, signal.SIGABRT)
        wait_for(lambda: not cluster.runs(1), "the node to end", PATIENCE_S)
        assert "Fatal Python error: Aborted" in cluster.logs[1].read_text()
    assert not [file for file in tmp_path.rglob("*") if "core" in file.name]


def test_a_node_may_write_dumps_if_it_is_told_so(tmp_path: Path) -> None:
    settings = ["server.core_dumps=true"]
    with ProcessCluster.start(tmp_path / "data", nodes=1, settings=settings) as cluster:
        soft, hard = limits_of(cluster.pids[1])
        assert soft == hard


def test_a_command_that_crashes_leaves_no_dump(tmp_path: Path) -> None:
    """It knows the caller's token."""
    program = (
        "import resource, sys; from raftlog.cli.main import main\n"
        "sys.argv = ['raftlog', '--version']\n"
        "try: main()\n"
        "finally: print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert ended.stdout.split()[-1] in NO_DUMP
