"""Callers as a node counts and logs them: by host, in a bounded number of log lines.

Whatever the number of addresses that callers have, a node's log must not fill a disk.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Hashable
from urllib.parse import unquote

import structlog

_WINDOW_S = 60.0
_DIFFERENT_MAX = 1000
"""A caller is logged for one reason once in `_WINDOW_S`, and at most this many callers and reasons.
No settings: they bound a file and memory. Metrics count all, and the audit log has a bound of its
own."""
_TEXT_BYTES_MAX = 400
"""An error's text for people stays below this. grpc sends it percent-encoded in the status, up to
three times as long. It shares one bound of grpc's with the encoded error, which carries the
full text."""
_IPV6 = "ipv6:"
_IPV6_HOST_BITS = 64
"""One host may use all addresses of a network of this size (RFC 4291, section 2.5.1)."""

log = structlog.get_logger(__name__)


def host_of(peer: str) -> str:
    """The host of a caller that grpc names `ipv4:127.0.0.1:40000` or `ipv6:%5B::1%5D:40000`. For
    IPv6 that is the /64, except for IPv4 addresses that are written so (RFC 4291, section 2.5.5.2).
    A peer that grpc cannot name is a host of its own."""
    host = unquote(peer).rpartition(":")[0] or peer
    if not host.startswith(_IPV6):
        return host
    try:
        address = ipaddress.IPv6Address(host.removeprefix(_IPV6).strip("[]"))
    except ipaddress.AddressValueError:  # such as one with an empty zone
        return host
    if address.ipv4_mapped is not None:
        return f"ipv4:{address.ipv4_mapped}"
    network = ipaddress.IPv6Address(int(address) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS)
    return f"{_IPV6}{network}/{_IPV6_HOST_BITS}"


def brief(text: str) -> str:
    """Shortened, so that a stranger's text fills neither a status nor the log."""
    return text.encode(errors="replace")[:_TEXT_BYTES_MAX].decode(errors="ignore")


class LogLimit:
    """Which events are logged, and how many were not. For one event loop only."""

    def __init__(self, event: str, different_max: int | None = None) -> None:
        """`event`: what is logged, for the line that counts the rest."""
        self._event = event
        self._different_max = different_max or _DIFFERENT_MAX
        self._logged: set[Hashable] = set()
        self._unlogged = 0

    def admits(self, *which: Hashable) -> bool:
        """Whether to log this one: it was not logged in this window, and there is room."""
        if which in self._logged:
            return False
        if len(self._logged) >= self._different_max:
            self._unlogged += 1
            return False
        if not self._logged:
            asyncio.get_running_loop().call_later(_WINDOW_S, self._end_window)
        self._logged.add(which)
        return True

    def _end_window(self) -> None:
        if self._unlogged:
            log.warning("events not logged", of=self._event, count=self._unlogged)
        self._logged.clear()
        self._unlogged = 0
