"""`raftlog serve`: one node in the foreground."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from raftlog.cli.cluster_folder import (
    KILLED_PATIENCE_S,
    ClusterFolder,
    exists,
    forget,
    holding_pid_file,
    new_cluster,
    open_folder,
    record,
)
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import DATA_FOLDER_DEFAULT, Session, session_of
from raftlog.config import Settings
from raftlog.config_hosts import is_address, is_loopback
from raftlog.config_metrics import MetricsSettings, listen_of
from raftlog.errors import (
    DataFolderForeign,
    InvalidOption,
    NodeRemoved,
    NodeUnknown,
    StoreMissing,
    Unavailable,
)
from raftlog.redaction import shown_address


def serve(
    context: typer.Context,
    node: Annotated[int, typer.Option(min=1, help="Which node.", show_default=False)],
    data: Annotated[
        Path,
        typer.Option(help="The cluster's folder; with --join, any of its own."),
    ] = DATA_FOLDER_DEFAULT,
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="Unless the folder names this node: make its store, and ask the cluster at "
            "--servers for its id and nodes, to which it was added (`raftlog cluster add`).",
        ),
    ] = False,
    wait: Annotated[
        str,
        typer.Option(
            "--wait",
            metavar="HOST:PORT",
            help="Unless the folder names this node: wait until `raftlog init` has founded its "
            "cluster or, with --join, the node was added. Health checks there say NOT_SERVING.",
            show_default=False,
        ),
    ] = "",
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen off loopback although nothing is encrypted."),
    ] = False,
) -> None:
    """Run one node of a cluster in the foreground until Ctrl-C or SIGTERM.

    Use it to start a node of a cluster that `raftlog init` has founded, to bring back one that died
    under `raftlog up`, or with --join to start one that was added to the cluster. It logs to
    standard error, one JSON object per line.
    """
    require_server_extra("serve")
    if not __debug__:
        raise InvalidOption(
            option="-O (or PYTHONOPTIMIZE)",
            problem="turns off the assertions that guard the log",
            advice="Run nodes without it.",
        )
    os.umask(0o077)
    folder = data.absolute()
    session = session_of(context)
    if wait:
        _wait(folder, node, wait, session, join=join)
    cluster = joined_cluster(folder, node, session) if join else _own_cluster(folder, node)
    settings = cluster.with_certificates(session.settings)
    if join:
        _refuse_to_join_bare(cluster, node, settings)
    if not insecure:
        _refuse_insecure(cluster.addresses[node], settings)
    from raftlog.server.main import run_node

    data = cluster.data(node)
    with holding_pid_file(cluster.pid_file(node), data, patience_s=KILLED_PATIENCE_S):
        try:
            run_node(
                settings=settings,
                cluster_id=cluster.cluster_id,
                node=node,
                addresses=cluster.addresses,
                data=data,
            )
        except NodeRemoved:
            forget(cluster.folder, node)
            raise


def _refuse_insecure(address: str, settings: Settings) -> None:
    """Off loopback everything is encrypted."""
    if not settings.tls.cert_file:
        _refuse_off_loopback(address)
    _refuse_open_metrics(settings.metrics)


def _refuse_to_join_bare(cluster: ClusterFolder, node: int, settings: Settings) -> None:
    """A node without a certificate reaches none of a cluster that has TLS."""
    if settings.client.tls_ca_file and not settings.tls.cert_file:
        raise InvalidOption(
            option="tls.cert_file",
            problem="is not set, and the other nodes are reached over TLS (client.tls_ca_file)",
            advice="Make the node's certificate where the CA's key is: `raftlog certs --data DIR "
            f"--node {node}=HOST`. Put ca.pem, node-{node}.pem and node-{node}.key into "
            f"{cluster.tls}, and start it again.",
        )


def _own_cluster(folder: Path, node: int) -> ClusterFolder:
    """The cluster in the folder, which has the node."""
    cluster = open_folder(folder)
    if node not in cluster.addresses:
        _refuse_removed(cluster, node)
        raise InvalidOption(
            option="--node",
            problem=f"is {node}, and the cluster in {folder} has the nodes "
            + ", ".join(map(str, cluster.addresses)),
            advice="Give one of these.",
        )
    return cluster


def _wait(folder: Path, node: int, address: str, session: Session, *, join: bool) -> None:
    """Until the folder has a cluster that names the node, or never will."""
    if not is_address(address):
        raise InvalidOption(
            option="--wait",
            problem=f"is {shown_address(address)!r}, which is not host:port",
            advice="Give where the node will listen: 0.0.0.0:7401.",
        )

    def look() -> ClusterFolder | None:
        if not join:
            return open_folder(folder) if exists(folder) else None
        try:
            return joined_cluster(folder, node, session)
        except (NodeUnknown, Unavailable):
            return None

    if exists(folder) and (not join or node in open_folder(folder).addresses):
        return
    from raftlog.server.waiting import wait_for_store

    wait_for_store(session.settings, address, look)


def joined_cluster(folder: Path, node: int, session: Session) -> ClusterFolder:
    """The cluster in the folder. One that does not name the node is asked for at --servers; the
    node's store is made, and the cluster recorded.

    Raises `NodeUnknown` if the node was not added, `NodeRemoved` if it was removed permanently, and
    `StoreMissing` if it has come before, from another folder."""
    known = open_folder(folder) if exists(folder) else None
    if known is not None:
        if node in known.addresses:
            return known
        _refuse_removed(known, node)
    with session.connect() as client:
        cluster_id = client.cluster_id()
        reply = client.members.placements()
    places = {int(each.node): each for each in reply.nodes}
    if node in reply.removed:
        raise NodeRemoved(node=node)
    if node not in places:
        raise NodeUnknown(node=node, known=", ".join(map(str, places)))
    if known is not None and known.cluster_id != cluster_id:
        raise DataFolderForeign(
            folder=str(folder), found=f"cluster {known.cluster_id}", wanted=f"cluster {cluster_id}"
        )
    # Before it has the controller's log, a node cannot know which of them are observers, and would
    # follow one that claims to lead. An observer needs those that it pulls from.
    near = (node, *places[node].parents)
    found = {
        each: place.address for each, place in places.items() if not place.observer or each in near
    }
    cluster = replace(
        known or new_cluster(folder, addresses={node: found[node]}),
        cluster_id=cluster_id,
        addresses=(known.addresses if known is not None else {}) | found,
    )
    from raftlog.cli.stores import complete, has_store, made_store

    if places[node].registered and not has_store(cluster, node):
        raise StoreMissing(folder=str(cluster.data(node)), node=node)
    made_store(cluster, node)
    complete(cluster, node, reply.founders)
    record(cluster)
    return cluster


def _refuse_removed(cluster: ClusterFolder, node: int) -> None:
    """Raises `NodeRemoved` if the node ran from this folder until it was removed."""
    if node in cluster.removed:
        raise NodeRemoved(node=node)


def _refuse_open_metrics(settings: MetricsSettings) -> None:
    """Off loopback, who scrapes must present a token, over TLS."""
    listen = listen_of(settings, own_port=0)
    if listen is None or is_loopback(listen.host) or (settings.cert_file and settings.token):
        return
    raise InvalidOption(
        option="metrics.listen",
        problem=f"is {listen.address}, which is not on loopback, without TLS and a token",
        advice="Anyone who reaches that address can read the names of topics and how they are "
        "used: set metrics.cert_file, metrics.key_file and metrics.token, or give --insecure on a "
        "network where that is intended.",
    )


def _refuse_off_loopback(address: str) -> None:
    if not is_loopback(address.rpartition(":")[0]):
        raise InvalidOption(
            option="tls.cert_file",
            problem=f"is not set, and {address} is not on loopback",
            advice="Anyone who reaches that address can read and write everything: give the node a "
            "certificate (`raftlog certs`), or the flag --insecure on a network where that is "
            "intended.",
        )
