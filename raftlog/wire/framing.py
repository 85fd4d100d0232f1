"""The frame: how a header and bulk bytes share one message. The one file that knows.

    version        4 bytes, little-endian: 1
    header length  4 bytes, little-endian
    header         a protobuf message
    zeros          up to the next multiple of 8
    body           the rest, raw

Bulk bytes stay out of protobuf because serialising a 1 MiB field copies it byte by byte through
the encoder (1 ms) while joining buffers is a copy of memory (12 us). The body starts on a multiple
of 8 so that Arrow can use uncompressed values where they lie.

Between nodes a frame may be longer than the other side takes as one message, whose own limit on
new entries may be lower than what is in the log already. Then it travels in pieces:

    version        4 bytes, little-endian: 2
    frame length   8 bytes, little-endian
    position       8 bytes, little-endian: where in the frame the piece belongs
    piece          the rest, raw
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

VERSION = 1
_PIECE_VERSION = 2
_PREFIX = struct.Struct("<II")
_PIECE = struct.Struct("<IQQ")
_ALIGNMENT = 8
_PADDING = tuple(bytes(count) for count in range(_ALIGNMENT))

Body = bytes | Sequence[bytes]
"""Bulk bytes in one piece or in several that belong one after another."""


class Unreadable(Exception):
    """Bytes that are not what they should be; `raftlog.wire.codec` turns it into a typed error."""


def join(header: bytes, body: Body = b"") -> bytes:
    """One frame; every byte of the body is copied once."""
    prefix = _PREFIX.pack(VERSION, len(header))
    padding = _PADDING[-(len(prefix) + len(header)) % _ALIGNMENT]
    if isinstance(body, bytes):
        return b"".join((prefix, header, padding, body))
    return b"".join((prefix, header, padding, *body))


def split(data: bytes, header_bytes_max: int | None = None) -> tuple[bytes, memoryview]:
    """A frame's header and a view of its body, which is not copied.

    Raises `Unreadable` for another version, a frame shorter than it says, or a longer header.
    """
    if len(data) < _PREFIX.size:
        raise Unreadable(f"a frame of {len(data)} bytes is too short")
    version, header_length = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise Unreadable(f"frame version {version} is not known here, only {VERSION}")
    if header_bytes_max is not None and header_length > header_bytes_max:
        raise Unreadable(f"a header of {header_length} bytes; {header_bytes_max} are allowed")
    header_end = _PREFIX.size + header_length
    body_start = header_end + -header_end % _ALIGNMENT
    if body_start > len(data):
        raise Unreadable(f"the frame ends at {len(data)} within its header of {header_length}")
    return data[_PREFIX.size : header_end], memoryview(data)[body_start:]


def header_length(data: bytes) -> int:
    """What the frame says of its header's length; 0 if it is too short to say."""
    return _PREFIX.unpack_from(data)[1] if len(data) >= _PREFIX.size else 0


def pieces(frame: bytes, message_bytes_max: int) -> Iterator[bytes]:
    """The frame as messages of at most so many bytes: itself, or its pieces in order."""
    if len(frame) <= message_bytes_max:
        yield frame
        return
    room = message_bytes_max - _PIECE.size
    assert room > 0, f"a piece does not fit {message_bytes_max} bytes"
    view = memoryview(frame)
    for position in range(0, len(frame), room):
        header = _PIECE.pack(_PIECE_VERSION, len(frame), position)
        yield b"".join((header, view[position : position + room]))


class Assembly:
    """Puts the pieces of one stream together. It holds one frame of at most `frame_bytes_max`."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._frame = bytearray()
        """Of the pieces so far. They are not kept as they come: each of a byte would take 40."""
        self._length = 0

    def add(self, message: bytes) -> bytes | None:
        """A whole frame; None: further pieces of it are to come. Raises `Unreadable`."""
        is_piece = message[:4] == _PIECE_VERSION.to_bytes(4, "little")
        if not is_piece and not self._frame:
            return message
        if not is_piece or len(message) <= _PIECE.size:
            raise Unreadable(f"a message of {len(message)} bytes where a piece is due")
        _, length, position = _PIECE.unpack_from(message)
        if length > self._frame_bytes_max:
            raise Unreadable(f"a frame of {length} bytes; {self._frame_bytes_max} are allowed")
        if position != len(self._frame) or (self._frame and length != self._length):
            raise Unreadable(f"a piece at {position} of {length} follows {len(self._frame)}")
        self._length = length
        self._frame += memoryview(message)[_PIECE.size :]
        if len(self._frame) < length:
            return None
        if len(self._frame) > length:
            raise Unreadable(f"pieces of {len(self._frame)} bytes for a frame of {length}")
        frame = bytes(self._frame)
        self._frame.clear()
        return frame
