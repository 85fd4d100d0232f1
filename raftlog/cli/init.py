"""`raftlog init`: found a cluster of several machines, which meet in ZooKeeper."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from raftlog.cli import cluster_folder
from raftlog.cli.output import say
from raftlog.cli.session import DATA_FOLDER_DEFAULT, session_of
from raftlog.errors import InvalidOption


def init(
    context: typer.Context,
    node: Annotated[int, typer.Option(min=1, help="The new node's number.", show_default=False)],
    address: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where it will listen, for nodes and clients.",
            show_default=False,
        ),
    ],
    nodes: Annotated[
        int, typer.Option(min=1, max=7, help="How many nodes found the cluster together.")
    ] = 3,
    data: Annotated[
        Path, typer.Option(help="The node's folder, which is empty or does not exist.")
    ] = DATA_FOLDER_DEFAULT,
    timeout_s: Annotated[
        float, typer.Option(min=1, help="Seconds to wait for the other nodes.")
    ] = 300.0,
) -> None:
    """Found a cluster together with other nodes, which are given the same command and the same
    `discovery.zookeeper`. Then start each with `raftlog serve`.

    Exactly one cluster comes of it, however many start at once. A folder that belongs to a cluster
    stays as it is. If this command is ended, give it again: it goes on. On one machine, `raftlog
    up` needs none of this.
    """
    session = session_of(context)
    discovery = session.settings.discovery
    if not discovery.zookeeper:
        raise InvalidOption(
            option="discovery.zookeeper",
            problem="is not set, and the nodes of a new cluster find one another by it",
            advice="Set it, or found a cluster on one machine with `raftlog up`.",
        )
    from raftlog.discovery.entries import Founder, can_be_announced
    from raftlog.discovery.founding import found

    if not can_be_announced(address):
        raise InvalidOption(
            option="--address",
            problem=f"is {address!r}, which is not host:port",
            advice="Give what other machines reach: db1.example.org:7401.",
        )
    os.umask(0o077)
    folder = data.absolute()
    with cluster_folder.only_up_in(folder):
        if cluster_folder.exists(folder):
            known = cluster_folder.open_folder(folder).cluster_id
            say(f"{folder} belongs to the cluster {known}: nothing is founded")
            return
        new = cluster_folder.new_cluster(folder, addresses={node: address})
        token = cluster_folder.founding_token(folder)
        say(f"node {node} waits until {nodes} nodes are there")
        founder = Founder(node=node, address=address, token=token)
        cluster = found(discovery, founder, nodes=nodes, timeout_s=timeout_s)
        addresses = {each.node: each.address for each in cluster.founders}
        cluster_folder.record(
            replace(
                new,
                cluster_id=cluster.cluster_id,
                addresses=addresses,
                founders=tuple(addresses),
            )
        )
    say(f"founded the cluster {cluster.cluster_id} of the nodes {', '.join(map(str, addresses))}")
    say(f"  start this one: raftlog serve --node {node} --data {folder}")
