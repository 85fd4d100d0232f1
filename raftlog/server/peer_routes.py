"""Where a node dials its peers if not at the addresses that clients are told."""

from __future__ import annotations

from raftlog.config_hosts import is_address
from raftlog.core.types import NodeId
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address


def parse_routes(text: str) -> dict[tuple[NodeId, NodeId], str]:
    """`server.peer_routes`: by (dialling node, dialled node), the address to dial.

    Raises `InvalidOption`.
    """
    routes = {}
    for part in filter(None, map(str.strip, text.split(","))):
        ends, _, address = part.partition("=")
        dialling, _, dialled = ends.partition(">")
        nodes = ends.isascii() and dialling.isdecimal() and dialled.isdecimal()
        if not (nodes and is_address(address)):
            raise InvalidOption(
                option="server.peer_routes",
                problem=f"holds {shown_address(part)!r}, which is not like 1>2=host:port",
                advice="Write for example 1>2=127.0.0.1:9012,2>1=127.0.0.1:9021.",
            )
        routes[NodeId(int(dialling)), NodeId(int(dialled))] = address
    return routes
