"""`raftlog certs`: certificates for the nodes and clients of one cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raftlog.cli.cluster_folder import ClusterFolder, open_folder
from raftlog.cli.output import Format, FormatOption, show_json, show_table
from raftlog.cli.server_extra import require_server_extra
from raftlog.cli.session import DATA_FOLDER_DEFAULT
from raftlog.config_hosts import is_host
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address

if TYPE_CHECKING:
    from raftlog.certificates import Made

DAYS = 365


def certs(
    data: Annotated[
        Path, typer.Option(help="The cluster's folder, made by `raftlog up` or `raftlog init`.")
    ] = DATA_FOLDER_DEFAULT,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long the certificates count.")
    ] = DAYS,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=HOST",
            help="Another node than those of the folder, or another host of one; repeatable.",
            show_default=False,
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make new certificates for a cluster's nodes and for clients, in DIR/tls.

    They are signed by a CA that is made there the first time: keep its key, ca.key, to yourself.
    Nodes that start from DIR use them. Nodes and clients that run take new ones up within seconds.
    """
    require_server_extra("certs")
    os.umask(0o077)
    cluster = open_folder(data.absolute())
    made = make_in(cluster, dict(_others(node or ())), days)
    rows = [
        {"file": str(each.file), "names": list(each.names), "ends": each.ends.isoformat()}
        for each in made
    ]
    if output is Format.JSON:
        show_json({"ca": str(cluster.ca_file), "certificates": rows})
        return
    show_table(
        ["FILE", "NAMES", "ENDS"],
        [[str(each.file), ", ".join(each.names), f"{each.ends:%Y-%m-%d}"] for each in made],
    )


def make_in(cluster: ClusterFolder, others: dict[int, str], days: int = DAYS) -> list[Made]:
    """New certificates for all nodes of the folder, and for `others` at their hosts. Raises
    `InvalidOption`, `OSError`."""
    from raftlog.certificates import make_certificates

    hosts = {node: address.rpartition(":")[0] for node, address in cluster.addresses.items()}
    return make_certificates(
        cluster.tls, cluster_id=cluster.cluster_id, hosts=hosts | others, days=days
    )


def _others(texts: Iterable[str]) -> Iterable[tuple[int, str]]:
    from raftlog.machines.limits import NODE_MAX

    for text in texts:
        number, _, host = text.partition("=")
        is_node = number.isascii() and number.isdecimal() and 0 < int(number) <= NODE_MAX
        if not is_node or not is_host(host):
            raise InvalidOption(
                option="--node",
                problem=f"is {shown_address(text)!r}, which is no node and host",
                advice="Write for example 4=node4.example.com.",
            )
        yield int(number), host
