"""Nodes that join a cluster of processes, each in a process of its own with a folder of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports
from raftlog.client.log_client import LogClient


class Joined:
    """A node that was added, in a process of its own and with a folder of its own."""

    def __init__(
        self,
        servers: str,
        node: int,
        data: Path,
        *,
        settings: Sequence[str] = (),
    ) -> None:
        """`servers` are nodes that it can ask; `settings` texts `section.key=value`."""
        self.node = node
        self.log = data.with_suffix(".log")
        flags = [f"--set={setting}" for setting in settings]
        self._command = [
            sys.executable, "-m", "raftlog", *flags, "--servers", servers,
            "serve", "--node", str(node), "--data", str(data), "--join",
        ]  # fmt: skip
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def restart(self) -> None:
        self.end()
        self.process = self._start()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def with_observers(
    tmp_path: Path,
    parents: Mapping[int, Sequence[int]],
    *,
    settings: Sequence[str] = (),
    spare: int = 0,
) -> Iterator[tuple[ProcessCluster, LogClient, dict[int, Joined]]]:
    """Three nodes, and these observers with their parents. All have the settings. There are free
    ports for so many `spare` nodes."""
    port = free_ports(3 + len(parents) + spare)
    with (
        ProcessCluster.start(tmp_path / "data", port=port, settings=settings) as cluster,
        cluster.client() as client,
        contextlib.ExitStack() as stack,
    ):
        joined = {}
        for node, its in parents.items():
            address = cluster.address(node)
            assert client.members.add(node, address, observer=True, parents=its)
            folder = tmp_path / f"node-{node}"
            joined[node] = Joined(cluster.servers, node, folder, settings=settings)
            stack.callback(joined[node].end)
        for node in parents:
            client.members.wait_for(node, PATIENCE_S)
        yield cluster, client, joined


@contextlib.contextmanager
def grown(tmp_path: Path, nodes: int) -> Iterator[tuple[ProcessCluster, LogClient, list[Joined]]]:
    """Three nodes, and others that were added."""
    port = free_ports(3 + nodes)
    with (
        ProcessCluster.start(tmp_path / "data", port=port) as cluster,
        cluster.client() as client,
        contextlib.ExitStack() as stack,
    ):
        joined = []
        for number in range(4, 4 + nodes):
            address = cluster.address(number)
            assert client.members.add(number, address)
            each = Joined(cluster.servers, number, tmp_path / f"node-{number}")
            stack.callback(each.end)
            joined.append(each)
        for each in joined:
            client.members.wait_for(each.node, PATIENCE_S)
        yield cluster, client, joined
