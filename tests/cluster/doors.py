"""A node's ports as an attacker uses them: bytes by hand, with or without TLS."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from contextlib import suppress
from typing import NamedTuple

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from tests.fuzz.http2 import Http2Frame, replies_to, whole_frames

SOCKET_TIMEOUT_S = 0.5


LOOK_S = 0.05


class Heard:
    """The frames that came over a connection; settings and pings are answered meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.settimeout(LOOK_S)
        self._received = b""
        self._frames: list[Http2Frame] = []

    def frames(self) -> list[Http2Frame]:
        """Those so far."""
        with suppress(TimeoutError, ConnectionError, ssl.SSLError):
            while part := self._connection.recv(65_536):
                self._received += part
                for frame in whole_frames(self._received):
                    self._received = self._received[9 + len(frame.payload) :]
                    self._frames.append(frame)
                    if answer := replies_to(frame):
                        self._connection.sendall(answer)
        return self._frames

    def count(self, kind: int, flags: int = 0) -> int:
        """How many of the kind have these flags."""
        return sum(each.kind == kind and each.flags & flags == flags for each in self.frames())


class Door(NamedTuple):
    """A port on loopback, and how to get through its TLS, if it has that."""

    port: int
    tls: ssl.SSLContext | None = None

    def knock(self, host: str = "") -> socket.socket:
        """A connection without TLS, from the host; the port may be closed for a moment while one
        server replaces another."""
        made: list[socket.socket] = []

        def connect() -> bool:
            try:
                address = ("127.0.0.1", self.port)
                own = (host, 0)
                made.append(socket.create_connection(address, SOCKET_TIMEOUT_S, own))
            except (ConnectionError, TimeoutError):
                return False
            return True

        wait_for(connect, "the node to listen", PATIENCE_S)
        return made[0]

    def enter(self, host: str = "") -> socket.socket:
        """A connection over which bytes of HTTP/2 can be said."""
        if self.tls is None:
            return self.knock(host)
        made: list[ssl.SSLSocket] = []

        def shake_hands() -> bool:
            plain = self.knock(host)
            plain.settimeout(10 * SOCKET_TIMEOUT_S)
            ends = (ConnectionError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
            try:
                made.append(self.tls.wrap_socket(plain, server_hostname="127.0.0.1"))
            except ends:  # the server is being replaced
                plain.close()
                return False
            made[0].settimeout(SOCKET_TIMEOUT_S)
            return True

        wait_for(shake_hands, "a handshake", PATIENCE_S)
        return made[0]

    def say(self, data: bytes, chance: random.Random) -> None:
        """Send the bytes over a connection of their own, and leave it in one of several ways."""
        with self.enter() as sent:
            try:
                sent.sendall(data)
                match chance.randrange(32):
                    case 0:
                        while sent.recv(65_536):
                            pass
                    case 1:
                        sent.recv(65_536)
                    case each if each < 12:
                        # A reset instead of an orderly end.
                        reset = struct.pack("ii", 1, 0)
                        sent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    case _:
                        pass
            except (ConnectionError, TimeoutError, ssl.SSLError):
                pass  # the node has closed it, or waits for the rest: it may do both
