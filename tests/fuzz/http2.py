"""Byte streams for a node's port: HTTP/2 as a client speaks it, written by hand to be broken."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from raftlog.wire.calls import SERVICE
from tests.fuzz.mutations import broken

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_STREAM, _END_HEADERS = 1, 4


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113, section 4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def opening() -> bytes:
    """The beginning of a connection: the preface and empty settings."""
    return PREFACE + http2_frame(_SETTINGS, 0, 0, b"")


def request(method: str, message: bytes, *, path: bytes | None = None) -> bytes:
    """A connection that makes one grpc call with the message, to the method or a path as given."""
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"/{SERVICE}/{method}".encode() if path is None else path),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
    data = b"\0" + struct.pack(">I", len(message)) + message
    return (
        opening()
        + http2_frame(_HEADERS, _END_HEADERS, 1, _literal(headers))
        + http2_frame(_DATA, _END_STREAM, 1, data)
    )


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
        http2_frame(_HEADERS, _END_HEADERS, stream, headers[9:60])
        + http2_frame(_RESET, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 2 * count, 2)
    )
    return opening() + chance.choice(
        (
            http2_frame(_PING, 0, 0, bytes(8)) * count,
            http2_frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) * count,
            http2_frame(_WINDOW, 0, 0, struct.pack(">I", 2**31 - 1)) * count,
            http2_frame(_HEADERS, 0, 1, b"")
            + http2_frame(_CONTINUATION, 0, 1, b"\0\x01a\x01b") * count,
            rapid_reset,
        )
    )


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
    _length_lie,
)
