"""`raftlog init`: found a cluster of several machines."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli import cluster_folder
from raftlog.cli.output import say, show_line
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import DATA_FOLDER_DEFAULT, session_of
from raftlog.config_ensemble import DiscoverySettings
from raftlog.config_hosts import is_address
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address

if TYPE_CHECKING:
    from raftlog.founders import Founder

FOUNDERS_MAX = 7
_SHOWN_MAX = 320
"""Characters of a wrong line that an error shows: a right one has fewer."""


def init(
    context: typer.Context,
    node: Annotated[
        int | None, typer.Option(min=1, help="The new node's number.", show_default=False)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where it will listen, for nodes and clients.",
            show_default=False,
        ),
    ] = None,
    lines: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="LINE",
            help="What `init` printed for one of the founders. Give all of them, on each machine.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(
            min=1, max=FOUNDERS_MAX, help="With ZooKeeper: how many nodes found the cluster."
        ),
    ] = 3,
    data: Annotated[
        Path, typer.Option(help="The node's folder, which is empty or does not exist.")
    ] = DATA_FOLDER_DEFAULT,
    timeout_s: Annotated[
        float, typer.Option(min=1, help="With ZooKeeper: seconds to wait for the other nodes.")
    ] = 300.0,
) -> None:
    """Found a cluster of several machines. Then start each node with `raftlog serve`.

    With --node and --address it makes the node's store and prints one line. Give all lines to
    `raftlog init --with LINE --with LINE …`, in any order, on each machine: that founds the
    cluster. With `discovery.zookeeper` the nodes find one another, and one command does both.

    This command can be interrupted and rerun. A folder that belongs to a cluster stays as it is. On
    one machine, `raftlog up` needs none of this.
    """
    require_server_extra("init")
    discovery = session_of(context).settings.discovery
    os.umask(0o077)
    folder = data.absolute()
    if lines and (node, address) == (None, None):
        founders = _founders(lines)
        with cluster_folder.only_up_in(folder):
            _found_with(folder, founders)
        return
    if lines or node is None or address is None:
        raise InvalidOption(
            option="--node, --address and --with",
            problem="cannot be combined: use either --node with --address, or --with",
            advice="Give --node and --address to make a store, then --with for each founder.",
        )
    if not is_address(address):
        raise InvalidOption(
            option="--address",
            problem=f"is {shown_address(address)!r}, which is not host:port",
            advice="Give what other machines reach: db1.example.org:7401.",
        )
    with cluster_folder.only_up_in(folder):
        _prepare(folder, node, address, discovery, nodes, timeout_s)


def _prepare(
    folder: Path,
    node: int,
    address: str,
    discovery: DiscoverySettings,
    nodes: int,
    timeout_s: float,
) -> None:
    """Make the node's store. Print its line, or found the cluster with those in ZooKeeper."""
    from raftlog.cli.stores import made_store, recorded_founder

    if cluster_folder.exists(folder):
        known = cluster_folder.open_folder(folder)
        say(f"{folder} belongs to the cluster {known.cluster_id}: nothing is founded")
        if (founder := recorded_founder(known, node)) is not None and not discovery.zookeeper:
            show_line(founder.line)
        return
    founder = made_store(cluster_folder.new_cluster(folder, addresses={node: address}), node)
    if not discovery.zookeeper:
        show_line(founder.line)
        say("give the lines of all founders to `raftlog init --with LINE …` on each machine")
        return
    from raftlog.discovery.founding import found

    say(f"node {node} waits until {nodes} nodes are there")
    cluster = found(discovery, founder, nodes=nodes, timeout_s=timeout_s)
    _complete(folder, [node], cluster.founding)


def _found_with(folder: Path, founders: Sequence[Founder]) -> None:
    """Found the cluster of these, one of which at least has its store here."""
    from raftlog.cli.stores import is_store_of
    from raftlog.founders import cluster_id_of

    if cluster_folder.exists(folder):
        known = cluster_folder.open_folder(folder).cluster_id
        if known != cluster_id_of(founders):
            raise InvalidOption(
                option="--with",
                problem=f"names other founders than those of the cluster {known}, to which "
                f"{folder} belongs",
                advice="A founded cluster gets more nodes by `raftlog cluster add`.",
            )
        say(f"{folder} belongs to the cluster {known}: nothing is founded")
        return
    own = [each.node for each in founders if is_store_of(folder, each)]
    if not own:
        raise InvalidOption(
            option="--with",
            problem=f"names no store in {folder}",
            advice="Give the lines that `raftlog init --node N --address HOST:PORT` printed on "
            "each machine, this one included.",
        )
    _complete(folder, own, founders)


def _complete(folder: Path, own: Iterable[int], founders: Sequence[Founder]) -> None:
    """Complete the stores of `own` nodes, then record the cluster."""
    from raftlog.cli.stores import complete
    from raftlog.founders import cluster_id_of

    addresses = {int(each.node): each.address for each in founders}
    cluster = cluster_folder.new_cluster(folder, addresses=dict(sorted(addresses.items())))
    cluster = replace(cluster, cluster_id=cluster_id_of(founders))
    for node in own:
        complete(cluster, node, founders)
    cluster_folder.record(cluster)
    listed = ", ".join(map(str, cluster.addresses))
    say(f"founded the cluster {cluster.cluster_id} of nodes {listed}")
    for node in own:
        say(f"  start this one: raftlog serve --node {node} --data {shlex.quote(str(folder))}")


def _founders(lines: Sequence[str]) -> list[Founder]:
    """Who found the cluster, by their lines. Raises `InvalidOption`."""
    from raftlog.founders import Founder

    founders = []
    for line in lines:
        founder = Founder.of_line(line.strip())
        if founder is None:
            raise InvalidOption(
                option="--with",
                problem=f"is {line[:_SHOWN_MAX]!r}, which is not of the form NODE@HOST:PORT#UUID",
                advice="Give the line as `raftlog init --node N --address HOST:PORT` printed it.",
            )
        founders.append(founder)
    for what in ("node", "address", "store_uuid"):
        values = [getattr(each, what) for each in founders]
        if len(set(values)) < len(values):
            raise InvalidOption(
                option="--with",
                problem=f"names one {what} twice",
                advice="Give the line of each founder once.",
            )
    if len(founders) > FOUNDERS_MAX:
        raise InvalidOption(
            option="--with",
            problem=f"names {len(founders)} founders, and {FOUNDERS_MAX} may vote",
            advice="Found the cluster with fewer, and add the others by `raftlog cluster add`.",
        )
    return founders
