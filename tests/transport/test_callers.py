"""By which host a caller counts."""

from __future__ import annotations

import pytest

from raftlog.transport.callers import host_of


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:40000", "ipv4:127.0.0.1"),
        ("ipv6:%5B::1%5D:40000", "ipv6:::/64"),
        ("ipv6:[2001:db8:0:7:1:2:3:4]:40000", "ipv6:2001:db8:0:7::/64"),
        ("ipv6:%5B2001:db8:0:7::%5D:1", "ipv6:2001:db8:0:7::/64"),
        ("ipv6:%5Bfe80::1%252%5D:40000", "ipv6:fe80::/64"),
        ("ipv6:%5Bfe80::1%25%5D:1", "ipv6:[fe80::1%]"),
        ("ipv6:%5B::ffff:192.0.2.1%5D:40000", "ipv4:192.0.2.1"),
        ("ipv6:%5B::ffff:192.0.2.2%5D:40000", "ipv4:192.0.2.2"),
        ("unix:", "unix"),
        ("(unknown)", "(unknown)"),
    ],
)
def test_addresses_of_one_network_of_ipv6_are_one_host(peer: str, host: str) -> None:
    """grpc percent-encodes brackets, and the `%` before an interface."""
    assert host_of(peer) == host
