"""Addresses that a user wrote down: `host:port`, separated by commas."""

from __future__ import annotations

from raftlog.errors import InvalidOption


def parse_servers(text: str) -> tuple[str, ...]:
    """The addresses in the order given, without repeats. Raises `InvalidOption`."""
    addresses: list[str] = []
    for part in text.split(","):
        address = part.strip()
        if not _is_address(address):
            raise InvalidOption(
                option="client.bootstrap_servers",
                problem=f"holds {address!r}, which is not host:port",
                advice="Write for example 127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403 "
                "(--servers; in Spark raftlog.bootstrap.servers).",
            )
        if address not in addresses:
            addresses.append(address)
    return tuple(addresses)


def parse_routes(text: str) -> dict[tuple[int, int], str]:
    """`server.peer_routes` by (who dials, whom): the addresses to dial. Raises `InvalidOption`."""
    routes = {}
    for part in filter(None, map(str.strip, text.split(","))):
        ends, _, address = part.partition("=")
        dialling, _, dialled = ends.partition(">")
        if not (dialling.isdecimal() and dialled.isdecimal() and _is_address(address)):
            raise InvalidOption(
                option="server.peer_routes",
                problem=f"holds {part!r}, which is not like 1>2=host:port",
                advice="Write for example 1>2=127.0.0.1:9012,2>1=127.0.0.1:9021.",
            )
        routes[int(dialling), int(dialled)] = address
    return routes


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and port.isdecimal() and 0 < int(port) < 65536)
