"""A server that speaks ZooKeeper's protocol and answers with whatever entries it was given."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Mapping, Sequence

from tests.discovery.listening import Listening

STAT = struct.pack("!qqqqiiiqiiq", 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)
_PING, _AUTH = -2, -4
"""Numbers of requests that are none of a client's own."""
_CLOSE, _CREATE, _DELETE, _EXISTS, _GET_DATA, _SET_DATA, _GET_CHILDREN = -11, 1, 2, 3, 4, 5, 8
_NO_NODE = -101


def frame(content: bytes) -> bytes:
    """A message with its length before it."""
    return struct.pack("!i", len(content)) + content


def header(xid: int, error: int = 0) -> bytes:
    """How an answer begins."""
    return struct.pack("!iqi", xid, 1, error)


def welcome(session_ms: int = 4000) -> bytes:
    """The answer to a client that connects."""
    return frame(struct.pack("!iiqi", 0, session_ms, 7, 16) + b"p" * 16 + b"\x00")


def _text(raw: bytes) -> bytes:
    return struct.pack("!i", len(raw)) + raw


class ForgedEnsemble(Listening):
    """Answers as an ensemble does. What it has may be changed while it runs."""

    def __init__(self) -> None:
        self.data: Mapping[str, bytes] = {}
        """By path, below the cluster's."""
        self.names: Mapping[str, Sequence[bytes]] = {}
        """What stands in which folder, likewise."""
        self.pause_s = 0.0
        """Before each answer."""
        self.asked: set[str] = set()
        """The paths that somebody asked for."""
        super().__init__(self.answer)

    def answer(self, connection: socket.socket) -> None:
        """As an ensemble does, with the forged entries. What is written is forgotten."""
        read = connection.makefile("rb")
        self._request(read)
        connection.sendall(welcome())
        while body := self._request(read):
            threading.Event().wait(self.pause_s)
            xid, kind = struct.unpack_from("!ii", body)
            if xid in (_PING, _AUTH) or kind == _CLOSE:
                connection.sendall(frame(header(xid)))
            else:
                connection.sendall(frame(self._found(xid, kind, body[8:])))

    def _found(self, xid: int, kind: int, rest: bytes) -> bytes:
        (length,) = struct.unpack_from("!i", rest)
        path = rest[4 : 4 + length].decode().removeprefix("/raftlog").strip("/")
        self.asked.add(path)
        if kind in (_CREATE, _DELETE, _SET_DATA):
            written = {_CREATE: _text(rest[4 : 4 + length]), _DELETE: b"", _SET_DATA: STAT}
            return header(xid) + written[kind]
        if kind == _GET_CHILDREN and path in self.names:
            names = [_text(name) for name in self.names[path]]
            return header(xid) + struct.pack("!i", len(names)) + b"".join(names)
        if kind != _GET_CHILDREN and path in self.data:
            data = _text(self.data[path]) if kind == _GET_DATA else b""
            return header(xid) + data + STAT
        return header(xid, _NO_NODE)

    @staticmethod
    def _request(read: socket.SocketIO) -> bytes:
        (length,) = struct.unpack("!i", read.read(4))
        found: bytes = read.read(length)
        return found
