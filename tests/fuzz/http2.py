"""Byte streams for a node's port: HTTP/2 as a client speaks it, written by hand to be broken."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from raftlog.wire.calls import SERVICE
from tests.fuzz.mutations import broken

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, _SETTINGS, PING, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, ACK, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE = 4
"""The setting (RFC 9113, section 6.5.2)."""
_DATA_MAX = 16_384
"""The largest frame that a server takes unasked."""
_FIRST_OF_TABLE = 62
"""The index of the newest entry of the dynamic table (RFC 7541, appendix A)."""


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113, section 4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def opening(*, window: int | None = None) -> bytes:
    """The beginning of a connection: the preface and settings, with the bytes of an answer that may
    come unasked, if they are given."""
    settings = b"" if window is None else struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)
    return PREFACE + http2_frame(_SETTINGS, 0, 0, settings)


def beginning(stream: int, path: bytes, more: bytes = b"") -> bytes:
    """The headers of a grpc call, and `more` at the end of their block."""
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
    return http2_frame(HEADERS, _END_HEADERS, stream, _literal(headers) + more)


def request(method: str, message: bytes, *, path: bytes | None = None) -> bytes:
    """A connection that makes one grpc call with the message, to the method or a path as given."""
    data = b"\0" + struct.pack(">I", len(message)) + message
    return (
        opening()
        + beginning(1, f"/{SERVICE}/{method}".encode() if path is None else path)
        + http2_frame(DATA, END_STREAM, 1, data)
    )


def references(path: bytes, calls: int, each: int, *, entry: int = 3_900) -> bytes:
    """A connection whose first call puts a header of so many bytes into the table (RFC 7541,
    section 6.2.1); each further one names it so many times, by one byte (section 6.1)."""
    low, high = (entry - 127) % 128 | 128, (entry - 127) // 128
    kept = b"\x40\x03x-a\x7f" + bytes([low, high]) + b"a" * entry
    again = bytes([0x80 | _FIRST_OF_TABLE]) * each
    return (
        opening()
        + beginning(1, path, kept)
        + b"".join(beginning(2 * number + 3, path, again) for number in range(calls))
    )


class Http2Frame(NamedTuple):
    """A frame that came."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def whole_frames(received: bytes) -> Iterator[Http2Frame]:
    """The frames that have arrived as a whole."""
    while len(received) >= 9:
        end = 9 + int.from_bytes(received[:3])
        if end > len(received):
            return
        yield Http2Frame(*struct.unpack(">BBI", received[3:9]), received[9:end])
        received = received[end:]


def replies_to(frame: Http2Frame) -> bytes:
    """What a client answers at once: settings and pings are acknowledged."""
    if frame.flags & ACK:
        return b""
    return {
        _SETTINGS: http2_frame(_SETTINGS, ACK, 0, b""),
        PING: http2_frame(PING, ACK, 0, frame.payload),
    }.get(frame.kind, b"")


class Windows:
    """How much a client may send: RFC 9113, section 5.2."""

    def __init__(self, streams: Iterable[int]) -> None:
        self._connection = self._initial = 65_535
        self._of_streams = dict.fromkeys(streams, self._initial)

    def note(self, frame: Http2Frame) -> None:
        """A frame of the server's may widen one."""
        if frame.kind == _WINDOW:
            more = int.from_bytes(frame.payload)
            if frame.stream:
                self._of_streams[frame.stream] += more
            else:
                self._connection += more
        elif frame.kind == _SETTINGS:
            for name, value in struct.iter_unpack(">HI", frame.payload):
                if name == _INITIAL_WINDOW_SIZE:
                    for stream in self._of_streams:
                        self._of_streams[stream] += value - self._initial
                    self._initial = value

    def fill(self) -> bytes:
        """Frames of data that take all there is now."""
        found = b""
        for stream, room in self._of_streams.items():
            sent = max(0, min(room, self._connection, _DATA_MAX))
            if sent:
                found += http2_frame(DATA, 0, stream, bytes(sent))
                self._connection -= sent
                self._of_streams[stream] -= sent
        return found


def ping(number: int) -> bytes:
    """A frame that is answered once all before it has arrived."""
    return http2_frame(PING, 0, 0, number.to_bytes(8))


def _literal(headers: list[tuple[bytes, bytes]]) -> bytes:
    """RFC 7541, literal fields without indexing; no text of 127 bytes or more."""
    found = b""
    for name, value in headers:
        for text, lead in ((name, b"\0"), (value, b"")):
            assert len(text) < 127
            found += lead + bytes([len(text)]) + text
    return found


def stream_of_bytes(requests: dict[str, bytes], chance: random.Random) -> bytes:
    """One connection's bytes; `requests` are good frames by method."""
    method = chance.choice(list(requests))
    return chance.choice(_KINDS)(request(method, requests[method]), chance)


def _noise(good: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((1, 3, 24, 100, 5000)))


def _other_protocol(good: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + chance.randbytes(508),
            b"SSH-2.0-OpenSSH_9.6\r\n",
            PREFACE.lower(),
            PREFACE[: chance.randint(1, 23)],
            PREFACE * 3,
        )
    )


def _broken(good: bytes, chance: random.Random) -> bytes:
    return broken(good, chance)


def _broken_after_opening(good: bytes, chance: random.Random) -> bytes:
    start = len(opening())
    return good[:start] + broken(good[start:], chance)


def _odd_frames(good: bytes, chance: random.Random) -> bytes:
    """Well delimited frames of any kind, flags, stream and length."""
    frames = [
        http2_frame(
            chance.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255)),
            chance.randrange(256),
            chance.choice((0, 1, 2, 3, 2**31 - 1, 2**31)),
            chance.randbytes(chance.choice((0, 1, 4, 5, 8, 6, 300, 20_000))),
        )
        for _ in range(chance.randint(1, 20))
    ]
    return opening() + b"".join(frames)


def _flood(good: bytes, chance: random.Random) -> bytes:
    """Much of one thing: pings, settings, streams that are reset at once, header blocks on end."""
    count = 500
    headers = good[len(opening()) :]
    rapid_reset = b"".join(
        http2_frame(HEADERS, _END_HEADERS, stream, headers[9:60])
        + http2_frame(RESET, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 2 * count, 2)
    )
    return opening() + chance.choice(
        (
            http2_frame(PING, 0, 0, bytes(8)) * count,
            http2_frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) * count,
            http2_frame(_WINDOW, 0, 0, struct.pack(">I", 2**31 - 1)) * count,
            http2_frame(HEADERS, 0, 1, b"")
            + http2_frame(_CONTINUATION, 0, 1, b"\0\x01a\x01b") * count,
            rapid_reset,
        )
    )


def _references(good: bytes, chance: random.Random) -> bytes:
    path = chance.choice((f"/{SERVICE}/DescribeCluster".encode(), b"/x"))
    entry = chance.choice((127, 3_900, 4_200))
    return references(path, chance.randint(1, 50), chance.randint(1, 2_000), entry=entry)


def _length_lie(good: bytes, chance: random.Random) -> bytes:
    """A grpc message that claims another length than it has, or to be compressed."""
    place = good.rindex(b"\0", 0, len(opening()) + 400) if len(good) > 400 else len(opening())
    lie = bytes([chance.choice((0, 1, 2, 255))]) + struct.pack(
        ">I", chance.choice((0, 1, 2**24, 2**31, 2**32 - 1))
    )
    return good[:place] + lie + good[place + 5 :]


_KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _noise,
    _other_protocol,
    _broken,
    _broken_after_opening,
    _broken_after_opening,
    _odd_frames,
    _odd_frames,
    _flood,
    _references,
    _length_lie,
)
