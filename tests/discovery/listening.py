"""A server on loopback that does with each connection what a test wants."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress


class Listening:
    """Listens until it is closed. `talk` has each connection in a thread of its own."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self.talk = talk
        """What it does with a connection; it may be changed while it runs."""
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.where = f"{self.address}/raftlog"
        """As an ensemble's setting names it."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def become(self, talk: Callable[[socket.socket], None]) -> None:
        """Do something else from now on, also with who is connected: they come again."""
        self.talk = talk
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(connection)
                threading.Thread(target=self._meet, args=(connection,), daemon=True).start()

    def _meet(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error), connection:
            self.talk(connection)
