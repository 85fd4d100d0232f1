"""The wires between nodes: what passes, is held, comes late or ends, and in which direction."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from raftlog.chaos.cluster import wait_for
from raftlog.chaos.proxy import PASSING, PeerLinks, Wire
from raftlog.discovery.static import parse_routes

PATIENCE_S = 10.0
HELD_S = 0.2


class Pair:
    """Node 1 has dialled node 2 through the links: both ends of that connection."""

    def __init__(self, stack: ExitStack) -> None:
        self._listening = [
            stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(2)
        ]
        for each in self._listening:
            each.settimeout(PATIENCE_S)
        ports = [each.getsockname()[1] for each in self._listening]
        addresses = {node + 1: f"127.0.0.1:{port}" for node, port in enumerate(ports)}
        self.links = stack.enter_context(PeerLinks(addresses))
        self._routes = parse_routes(self.links.routes)
        self.dialling = stack.enter_context(closing(self.dial()))
        self.dialled = stack.enter_context(closing(self._listening[1].accept()[0]))
        self.dialled.settimeout(PATIENCE_S)
        # Both ends are known to the proxy once something has come through.
        self.dialling.sendall(b"?")
        assert self.dialled.recv(1) == b"?"

    def dial(self) -> socket.socket:
        """Another connection from node 1 to node 2."""
        host, _, port = self._routes[1, 2].rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE_S)

    def refuse(self) -> None:
        """Node 2 listens no more."""
        self._listening[1].close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack)


def received(end: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += end.recv(length - len(data))
    return data


def is_silent(end: socket.socket) -> bool:
    """Whether nothing comes for a while, not even an end."""
    end.settimeout(HELD_S)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE_S)
    return False


def test_what_is_sent_passes_both_ways_unchanged(pair: Pair) -> None:
    data = bytes(range(256)) * 4096
    for sender, receiver in ((pair.dialling, pair.dialled), (pair.dialled, pair.dialling)):
        sender.sendall(data[:100])
        assert received(receiver, 100) == data[:100]


def test_a_cut_holds_one_direction_and_what_was_held_comes_after_it(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(cut=True))
    pair.dialling.sendall(b"there")
    pair.dialled.sendall(b"back")
    assert received(pair.dialling, 4) == b"back"
    assert is_silent(pair.dialled)
    pair.links.set(1, 2, PASSING)
    assert received(pair.dialled, 5) == b"there"


def test_a_cut_holds_the_news_of_a_close(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(cut=True))
    pair.dialling.close()
    assert is_silent(pair.dialled)
    pair.links.heal()
    assert pair.dialled.recv(1) == b""


def test_a_cut_holds_a_new_connection(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(cut=True))
    with closing(pair.dial()) as late:
        late.sendall(b"late")
        assert is_silent(late)
        pair.links.heal()
        again, _ = pair._listening[1].accept()
        with closing(again):
            assert received(again, 4) == b"late"


def test_a_reset_is_felt_at_both_ends(pair: Pair) -> None:
    assert pair.links.reset(2, 1) == 1
    for end in (pair.dialling, pair.dialled):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    wait_for(lambda: pair.links.reset(2, 1) == 0, "the connection to be forgotten", PATIENCE_S)


def test_a_delay_holds_every_byte_so_long_and_keeps_their_order(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(delay_s=HELD_S))
    began_s = time.monotonic()
    for number in range(50):
        pair.dialling.sendall(bytes([number]))
    assert received(pair.dialled, 50) == bytes(range(50))
    assert time.monotonic() - began_s >= HELD_S


def test_a_throttled_wire_gives_no_more_than_its_rate(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(bytes_per_s=100_000))
    began_s = time.monotonic()
    pair.dialling.sendall(bytes(50_000))
    assert received(pair.dialled, 50_000) == bytes(50_000)
    assert time.monotonic() - began_s >= 0.4


def test_a_node_that_is_down_is_refused_as_without_a_proxy(pair: Pair) -> None:
    pair.refuse()
    with pytest.raises(ConnectionError), closing(pair.dial()) as dialled:
        dialled.recv(1)


def test_a_killed_process_is_noticed_through_a_passing_wire(pair: Pair) -> None:
    pair.dialled.close()
    assert pair.dialling.recv(1) == b""
    wait_for(lambda: pair.links.reset(1, 2) == 0, "the connection to be forgotten", PATIENCE_S)
