"""The wires between nodes: what passes, is held, comes late or ends, in which direction."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import PASSING, Wire
from raftlog.server.peer_routes import parse_routes

HELD_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """Two nodes that listen, a third that does not, and the links between them."""

    links: PeerLinks
    listening: dict[int, socket.socket]

    def dial(self, dialling: int, dialled: int) -> socket.socket:
        """A connection of one node to another, through its proxy."""
        host, _, port = parse_routes(self.links.routes)[dialling, dialled].rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE_S)

    def accept(self, node: int) -> socket.socket:
        """The next connection that reaches the node."""
        accepted, _ = self.listening[node].accept()
        accepted.settimeout(PATIENCE_S)
        return accepted


@pytest.fixture(scope="module")
def wired() -> Iterator[Wired]:
    with ExitStack() as stack:
        listening = {}
        for node in (1, 2, 3):
            listening[node] = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
            listening[node].settimeout(PATIENCE_S)
        ports = {node: each.getsockname()[1] for node, each in listening.items()}
        listening.pop(3).close()
        addresses = {node: f"127.0.0.1:{port}" for node, port in ports.items()}
        links = stack.enter_context(PeerLinks(addresses))
        yield Wired(links=links, listening=listening)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Node 1 has dialled node 2: both ends of that connection."""

    links: PeerLinks
    dialling: socket.socket
    dialled: socket.socket


@pytest.fixture
def pair(wired: Wired) -> Iterator[Pair]:
    with closing(wired.dial(1, 2)) as dialling, closing(wired.accept(2)) as dialled:
        # The proxy knows both ends once something has come through.
        dialling.sendall(b"?")
        assert dialled.recv(1) == b"?"
        yield Pair(links=wired.links, dialling=dialling, dialled=dialled)
        wired.links.heal()
    wait_for(lambda: wired.links.reset(1, 2) == 0, "the connection to be forgotten", PATIENCE_S)


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


def test_a_cut_holds_a_new_connection(wired: Wired) -> None:
    wired.links.set(1, 2, Wire(cut=True))
    with closing(wired.dial(1, 2)) as late:
        late.sendall(b"late")
        assert is_silent(late)
        wired.links.heal()
        with closing(wired.accept(2)) as accepted:
            assert received(accepted, 4) == b"late"


def test_a_reset_ends_the_connection_at_both_ends(pair: Pair) -> None:
    assert pair.links.reset(2, 1) == 1
    for end in (pair.dialling, pair.dialled):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    wait_for(lambda: pair.links.reset(2, 1) == 0, "the connection to be forgotten", PATIENCE_S)


def test_a_delay_holds_every_byte_for_its_time_and_keeps_their_order(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(delay_s=HELD_S))
    began_s = time.monotonic()
    for number in range(50):
        pair.dialling.sendall(bytes([number]))
    assert received(pair.dialled, 50) == bytes(range(50))
    assert time.monotonic() - began_s >= HELD_S


@pytest.mark.slow
def test_a_throttled_wire_gives_no_more_than_its_rate(pair: Pair) -> None:
    pair.links.set(1, 2, Wire(bytes_per_s=100_000))
    began_s = time.monotonic()
    pair.dialling.sendall(bytes(50_000))
    assert received(pair.dialled, 50_000) == bytes(50_000)
    assert time.monotonic() - began_s >= 0.4


def test_a_node_that_is_down_is_refused_as_without_a_proxy(wired: Wired) -> None:
    with pytest.raises(ConnectionError), closing(wired.dial(1, 3)) as dialled:
        dialled.recv(1)


def test_a_killed_process_is_noticed_through_a_passing_wire(pair: Pair) -> None:
    pair.dialled.close()
    assert pair.dialling.recv(1) == b""
    wait_for(lambda: pair.links.reset(1, 2) == 0, "the connection to be forgotten", PATIENCE_S)
