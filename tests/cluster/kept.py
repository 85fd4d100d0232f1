"""A cluster that serves one test after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import GroupId
from raftlog.errors import RaftlogError
from raftlog.wire.calls import NodeView


class Kept:
    """Nodes that are started once and mended before each use: a start takes longer than most tests.

    A test may kill, pause and restart them and damage what recovers. One that changes the members
    or leaves a node that refuses to start needs a cluster of its own.
    """

    def __init__(self, folder: Path, **given: Any) -> None:
        """`given`: for each `ProcessCluster.start`."""
        self._folder = folder
        self._given = given
        self._starts = 0
        self._running: ProcessCluster | None = None

    def whole(self) -> ProcessCluster:
        """The cluster, with all nodes serving and without topics."""
        if self._running is not None and not _mended(self._running):
            self.stop()
        if self._running is None:
            self._starts += 1
            folder = self._folder / f"data-{self._starts}"
            self._running = ProcessCluster.start(folder, **self._given)
        return self._running

    def rest(self) -> None:
        """Let the nodes take no processor time until the next use: three that only tick take 8 % of
        a core."""
        if self._running is not None:
            for node in self._running.pids:
                self._running.pause(node)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None


class NewLines:
    """What nodes log from now on."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._logs = cluster.logs
        self._before = {node: len(log.read_text()) for node, log in cluster.logs.items()}

    def of(self, node: int) -> str:
        return self._logs[node].read_text()[self._before[node] :]


def _mended(cluster: ProcessCluster) -> bool:
    """Bring back the nodes that earlier tests ended, and delete those tests' topics. Whether that
    worked."""
    for node in cluster.pids:
        cluster.resume(node)
        if not cluster.runs(node):
            cluster.serve(node)
    try:
        with cluster.client() as client:
            wait_for(
                lambda: not _runs(cluster) or _serves(client, set()),
                "every node to serve",
                PATIENCE_S,
            )
            if not _runs(cluster):
                return False
            gone = {client.delete_topic(topic.name).group for topic in client.list_topics()}
            wait_for(lambda: _serves(client, gone), "topics to be dropped", PATIENCE_S)
    except RaftlogError:
        return False
    return True


def _runs(cluster: ProcessCluster) -> bool:
    return all(map(cluster.runs, cluster.pids))


def _serves(client: LogClient, gone: set[GroupId]) -> bool:
    """Whether every node has whole replicas, and none of these groups."""
    views = [view for _, _, view in client.views()]
    return all(
        isinstance(view, NodeView)
        and not view.quarantined
        and view.groups
        and all(each.role != "recovering" and each.group not in gone for each in view.groups)
        for view in views
    )
