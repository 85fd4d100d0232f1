"""A node's ports as an attacker uses them: bytes by hand, with or without TLS."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from typing import NamedTuple

from raftlog.chaos.cluster import PATIENCE_S, wait_for

SOCKET_TIMEOUT_S = 0.5


class Door(NamedTuple):
    """A port on loopback, and how to get through its TLS, if it has that."""

    port: int
    tls: ssl.SSLContext | None = None

    def knock(self) -> socket.socket:
        """A connection without TLS; the port may be closed for a moment while one server replaces
        another."""
        made: list[socket.socket] = []

        def connect() -> bool:
            try:
                address = ("127.0.0.1", self.port)
                made.append(socket.create_connection(address, timeout=SOCKET_TIMEOUT_S))
            except (ConnectionError, TimeoutError):
                return False
            return True

        wait_for(connect, "the node to listen", PATIENCE_S)
        return made[0]

    def enter(self) -> socket.socket:
        """A connection over which bytes of HTTP/2 can be said."""
        if self.tls is None:
            return self.knock()
        made: list[ssl.SSLSocket] = []

        def shake_hands() -> bool:
            plain = self.knock()
            plain.settimeout(10 * SOCKET_TIMEOUT_S)
            try:
                made.append(self.tls.wrap_socket(plain, server_hostname="127.0.0.1"))
            except (ConnectionError, TimeoutError, ssl.SSLEOFError):  # the server is being replaced
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
