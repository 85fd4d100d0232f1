"""What is taken for an address, before anybody dials it or writes it into a log."""

from __future__ import annotations

import ipaddress
from random import Random

import pytest

from raftlog.config_hosts import is_address, is_any_host, is_host


@pytest.mark.parametrize(
    "host",
    ["a", "node-1.example.org", "example.org.", "node_1", "10.0.0.4", "[::1]", "[fe80::1%eth0]",
     "[2001:db8::7:1]", "[::]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]", "[::ffff:10.0.0.4]",
     "[1:2:3:4:5:6:10.0.0.4]", "x" * 63, ".".join(["x" * 49] * 5)],
)  # fmt: skip
def test_hosts(host: str) -> None:
    assert is_host(host)
    assert is_address(f"{host}:7401")


@pytest.mark.parametrize(
    "host",
    ["", ".", "a..b", ".a", "x" * 64, ".".join(["x" * 50] * 5), "::1", "[::1", "::1]", "[a]", "[]",
     "[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[1::2:3:4:5:6:7:8]", "[1::2::3]", "[:::]", "[:1::]",
     "[1:]", "[12345::]", "[::10.0.0.256]", "[10.0.0.4]", "[10.0.0.4::]", "[::1%]", "[::1% ]",
     "%%%", "a b", "a/b", "a@b", "http://a", "\u00fc.org", "a\n", "unix:socket"],
)  # fmt: skip
def test_no_hosts(host: str) -> None:
    assert not is_host(host)
    assert not is_address(f"{host}:7401")


def test_an_ipv6_address_is_what_the_standard_library_takes_for_one() -> None:
    random = Random(1)
    parts = (":", "::", "0", "ffff", "abcde", "g", "1.2.3.4", "01.2.3.4", "256.0.0.1", "a:")
    for _ in range(20_000):
        text = "".join(random.choices(parts, k=random.randrange(1, 16)))
        try:
            ipaddress.IPv6Address(text)
        except ValueError:
            assert not is_host(f"[{text}]")
        else:
            assert is_host(f"[{text}]")


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "+1", "1.0", "1 ", "\u0661", "9" * 5000])
def test_no_ports(port: str) -> None:
    assert not is_address(f"a:{port}")


def test_at_every_address_one_listens_and_is_not_reached() -> None:
    assert all(map(is_any_host, ("0.0.0.0", "[::]", "[0::0]")))
    assert not any(map(is_any_host, ("127.0.0.1", "[::1]", "localhost", "a")))
