"""What is taken for the address of a node or another server, in settings and in the log.

! The state machine rejects entries by `is_address`, so it must give the same answer in every
version and on every node: it asks nothing of the standard library that may change, as `ipaddress`
does.
"""

from __future__ import annotations

import ipaddress
import re

PORT_MAX = 65_535

_NAME_CHARACTERS_MAX = 253
_LABEL = re.compile(r"[0-9A-Za-z_-]{1,63}")
"""A part of a name between dots (RFC 1035, with the underscore that company networks have)."""
_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")
_GROUPS = 8
"""Of an IPv6 address, in hexadecimal."""
_ZONE = re.compile(r"[0-9A-Za-z._~-]{1,64}")
"""The interface that a link-local IPv6 address belongs to."""
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")


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
    address, mark, zone = text.partition("%")
    if mark and not _ZONE.fullmatch(zone):
        return False
    before, colon, last = address.rpartition(":")
    if _IPV4.fullmatch(last):
        address = f"{before}{colon}0:0"
    head, gap, tail = address.partition("::")
    groups = [group for half in (head, tail) if half for group in half.split(":")]
    is_whole = len(groups) < _GROUPS if gap else len(groups) == _GROUPS
    return is_whole and all(map(_GROUP.fullmatch, groups))
