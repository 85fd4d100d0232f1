"""The nodes that a client asks first: `client.bootstrap_servers`."""

from __future__ import annotations

from raftlog.config_hosts import is_address
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address


def parse_servers(text: str) -> tuple[str, ...]:
    """The addresses in the order given, without repeats. Raises `InvalidOption`."""
    addresses: list[str] = []
    for part in text.split(","):
        address = part.strip()
        if not is_address(address):
            raise InvalidOption(
                option="client.bootstrap_servers",
                problem=f"holds {shown_address(address, text)!r}, which is not host:port",
                advice="Write for example 127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403 "
                "(commands: --servers).",
            )
        if address not in addresses:
            addresses.append(address)
    return tuple(addresses)
