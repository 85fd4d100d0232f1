"""Frames: one header and one body, in one piece of memory."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.wire.framing import Assembly, Unreadable, join, pieces, split


@given(st.binary(max_size=40), st.lists(st.binary(max_size=40), max_size=4))
def test_a_frame_gives_back_its_header_and_its_body(header: bytes, pieces: list[bytes]):
    frame = join(header, pieces)
    found_header, body = split(frame)
    assert found_header == header
    assert body == b"".join(pieces)


@given(st.binary(max_size=40))
def test_a_body_in_one_piece_and_in_several_make_the_same_frame(body: bytes):
    assert join(b"header", body) == join(b"header", [body[:7], body[7:]])


@given(st.binary(max_size=40))
def test_a_body_starts_on_a_multiple_of_eight(header: bytes):
    assert (len(join(header, b"body")) - len(b"body")) % 8 == 0


def test_a_body_is_a_view_of_the_frame_and_no_copy():
    frame = join(b"header", bytes(100))
    assert split(frame)[1].obj is frame


def test_a_frame_truncated_within_its_header_is_unreadable():
    frame = join(b"a header of some length")
    for length in range(len(frame)):
        with pytest.raises(Unreadable):
            split(frame[:length])


def test_a_frame_of_another_version_is_unreadable():
    frame = join(b"header", b"body")
    with pytest.raises(Unreadable, match="version 2"):
        split(b"\x02" + frame[1:])


@given(st.binary(max_size=400), st.integers(21, 100), st.integers(1, 3))
def test_a_frame_survives_in_pieces_of_any_size(body: bytes, message_bytes_max: int, times: int):
    frame = join(b"header", body)
    assembly = Assembly(len(frame))
    for _ in range(times):
        *earlier, last = pieces(frame, message_bytes_max)
        assert all(len(message) <= message_bytes_max for message in (*earlier, last))
        assert [assembly.add(message) for message in earlier] == [None] * len(earlier)
        assert assembly.add(last) == frame


def test_a_frame_that_fits_is_not_touched():
    frame = join(b"header", bytes(100))
    assert next(pieces(frame, len(frame))) is frame
    assert Assembly(10).add(frame) is frame


def test_pieces_of_a_byte_take_no_more_memory_than_the_frame():
    assembly = Assembly(1 << 20)
    tracemalloc.start()
    try:
        for position in range(20_000):
            assembly.add(struct.pack("<IQQ", 2, 1 << 20, position) + b"x")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 20_000


def test_pieces_out_of_order_or_beyond_the_bound_are_unreadable():
    frame = join(b"header", bytes(100))
    first, second, *_ = pieces(frame, 60)
    other, *_ = pieces(frame + bytes(8), 60)
    with pytest.raises(Unreadable, match="follows 0"):
        Assembly(1000).add(second)
    for wrong in (first, frame, other, second[:20]):
        assembly = Assembly(1000)
        assert assembly.add(first) is None
        with pytest.raises(Unreadable):
            assembly.add(wrong)
    with pytest.raises(Unreadable, match="are allowed"):
        Assembly(len(frame) - 1).add(first)
    with pytest.raises(Unreadable, match="for a frame of"):
        Assembly(1000).add(first[:4] + (1).to_bytes(8, "little") + first[12:])
