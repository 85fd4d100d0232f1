"""What settings take for the address of a node or another server."""

from __future__ import annotations

import ipaddress
import re

PORT_MAX = 65_535

_NAME_CHARACTERS_MAX = 253
_LABEL = re.compile(r"[0-9A-Za-z_-]{1,63}")
"""A part of a name between dots (RFC 1035, with the underscore that company networks have)."""


def is_address(text: str) -> bool:
    """Whether the text is `host:port`, with a host as `is_host` takes it."""
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(PORT_MAX))
    return is_host(host) and is_number and 0 < int(port) <= PORT_MAX


def moved(address: str, offset: int) -> str:
    """The same host, at a port so much higher. It may be beyond the last one."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + offset}"


def is_host(text: str) -> bool:
    """Whether the text is a host's name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("["):
        return text.endswith("]") and _is_ipv6(text[1:-1])
    labels = text.removesuffix(".").split(".")
    return len(text) <= _NAME_CHARACTERS_MAX and all(map(_LABEL.fullmatch, labels))


def is_any_host(text: str) -> bool:
    """Whether the host is "every address of this machine", which one can listen at, not reach."""
    try:
        return ipaddress.ip_address(text.strip("[]")).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by itself, whatever a resolver says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name that may resolve to anything


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
