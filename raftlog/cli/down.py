"""`raftlog down`: stop the nodes that run from a cluster's folder."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from raftlog.cli.cluster_folder import ClusterFolder, open_folder, running_pid, wait_until
from raftlog.cli.output import Format, FormatOption, say, show_json
from raftlog.cli.session import DATA_FOLDER_DEFAULT, session_of


def down(
    context: typer.Context,
    data: Annotated[Path, typer.Option(help="The cluster's folder.")] = DATA_FOLDER_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Stop every node that runs from the folder, whether `up` or `serve` started it.

    Only processes that hold their node's pid file are stopped. Nothing is lost: `raftlog up`
    starts them again with their data.
    """
    cluster = open_folder(data.absolute())
    stopped = stop_nodes(cluster, session_of(context).settings.up.stop_timeout_s)
    if output is Format.JSON:
        show_json({"stopped": sorted(stopped)})
    elif not stopped:
        say(f"no node runs from {data}")


def stop_nodes(cluster: ClusterFolder, timeout_s: float) -> list[int]:
    """Stop all running nodes, and kill those that take longer. Returns the nodes that ran."""
    pids = cluster.running()
    for node, pid in pids.items():
        say(f"stopping node {node} (pid {pid})")
        _signal(cluster, node, pid, signal.SIGTERM)
    if not wait_until(lambda: not cluster.running(), timeout_s):
        for node, pid in cluster.running().items():
            say(f"node {node} (pid {pid}) did not stop within {timeout_s:g} s: killed")
            _signal(cluster, node, pid, signal.SIGKILL)
        wait_until(lambda: not cluster.running(), timeout_s)
    return list(pids)


def _signal(cluster: ClusterFolder, node: int, pid: int, number: signal.Signals) -> None:
    """Signal the node's process, and no other that has its pid by now."""
    with suppress(ProcessLookupError):  # it has ended
        process = os.pidfd_open(pid)
        try:
            if running_pid(cluster.pid_file(node)) == pid:
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)
