"""Frames: one header and one body, in one piece of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.wire.framing import Unreadable, join, split


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


def test_a_frame_cut_within_its_header_is_unreadable():
    frame = join(b"a header of some length")
    for length in range(len(frame)):
        with pytest.raises(Unreadable):
            split(frame[:length])


def test_a_frame_of_another_version_is_unreadable():
    frame = join(b"header", b"body")
    with pytest.raises(Unreadable, match="version 2"):
        split(b"\x02" + frame[1:])
