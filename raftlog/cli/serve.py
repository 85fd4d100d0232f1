"""`raftlog serve`: one node in the foreground."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated

import typer

from raftlog.cli.cluster_folder import KILLED_PATIENCE_S, holding_pid_file, open_folder
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import DATA_FOLDER_DEFAULT, session_of
from raftlog.errors import InvalidOption


def serve(
    context: typer.Context,
    node: Annotated[int, typer.Option(min=1, help="Which node.", show_default=False)],
    data: Annotated[
        Path, typer.Option(help="The cluster's folder, made by `raftlog up`.")
    ] = DATA_FOLDER_DEFAULT,
    without_tls: Annotated[
        bool,
        typer.Option(
            "--without-tls", help="Listen off loopback without encryption or authentication."
        ),
    ] = False,
) -> None:
    """Run one node of a cluster in the foreground until Ctrl-C or SIGTERM.

    Use it to bring back a node that died under `raftlog up`. It logs to standard error, one JSON
    object per line.
    """
    require_server_extra("serve")
    if not __debug__:
        raise InvalidOption(
            option="-O (or PYTHONOPTIMIZE)",
            problem="turns off the assertions that guard the log",
            advice="Run nodes without it.",
        )
    os.umask(0o077)
    cluster = open_folder(data.absolute())
    if node not in cluster.addresses:
        raise InvalidOption(
            option="--node",
            problem=f"is {node}, and the cluster in {data} has the nodes "
            + ", ".join(map(str, cluster.addresses)),
            advice="Give one of these.",
        )
    if not without_tls:
        _refuse_off_loopback(cluster.addresses[node])
    from raftlog.server.main import run_node

    own = cluster.data(node)
    with holding_pid_file(cluster.pid_file(node), own, patience_s=KILLED_PATIENCE_S):
        run_node(
            settings=session_of(context).settings,
            cluster_id=cluster.cluster_id,
            node=node,
            addresses=cluster.addresses,
            data=own,
        )


def _refuse_off_loopback(address: str) -> None:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False  # a name that may resolve to anything
    if not loopback:
        raise InvalidOption(
            option="--without-tls",
            problem=f"is not given, and {address} is not on loopback",
            advice="Anyone who reaches that address can read and write everything: "
            "give the flag only on a network where that is intended.",
        )
