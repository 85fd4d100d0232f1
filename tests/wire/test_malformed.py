"""Decoding any bytes gives a value or `MalformedRequest`, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.core.messages import PULL_ROWS_MAX
from raftlog.core.types import NodeId
from raftlog.errors import MalformedRequest
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import (
    PeerFrames,
    decode_batch_header,
    decode_command,
    decode_peer_messages,
)
from raftlog.wire.codec_peers import FRAME_MESSAGES_MAX
from raftlog.wire.framing import join
from tests.wire.decoders import DECODERS, samples


def _accepts(decoder: str, data: bytes) -> bool:
    try:
        DECODERS[decoder](data)
    except MalformedRequest:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_random_bytes_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(st.binary(max_size=60), st.sampled_from([b"", b"\x01", b"\x01\0\0\0", join(b"")[:8]]))
    def check(data: bytes, prefix: bytes):
        _accepts(decoder, prefix + data)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_random_messages_in_a_good_frame_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(st.binary(max_size=40), st.binary(max_size=20))
    def check(header: bytes, body: bytes):
        _accepts(decoder, join(header, body))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("decoder", samples())
def test_a_good_message_with_one_byte_changed_is_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(samples()[decoder], st.data())
    def check(message: bytes, data: st.DataObject):
        if not message:
            return
        position = data.draw(st.integers(0, len(message) - 1))
        changed = bytes([data.draw(st.integers(0, 255))])
        _accepts(decoder, message[:position] + changed + message[position + 1 :])
        _accepts(decoder, message[:position])

    check()


def test_an_entry_of_an_unknown_kind_is_malformed():
    frame = _append_request(entry_terms=[1], entry_kinds=[9], command_lengths=[0], body_lengths=[0])
    with pytest.raises(MalformedRequest, match="unknown kind 9"):
        decode_peer_messages(frame)


def test_entries_longer_than_the_body_are_malformed():
    columns = {"entry_terms": [1], "entry_kinds": [2], "command_lengths": [3]}
    with pytest.raises(MalformedRequest, match="ends beyond"):
        decode_peer_messages(_append_request(body=b"1234", body_lengths=[2], **columns))
    with pytest.raises(MalformedRequest, match="1 bytes follow"):
        decode_peer_messages(_append_request(body=b"1234", body_lengths=[0], **columns))
    assert decode_peer_messages(_append_request(body=b"1234", body_lengths=[1], **columns))


def test_entry_columns_of_different_lengths_are_malformed():
    with pytest.raises(MalformedRequest, match="differ in length"):
        decode_peer_messages(_append_request(entry_terms=[1, 2], entry_kinds=[2]))


def test_a_message_of_an_unknown_kind_is_malformed():
    frame = join(pb.PeerMessages(messages=[pb.PeerMessage()]).SerializeToString())
    with pytest.raises(MalformedRequest, match="unknown kind"):
        decode_peer_messages(frame)
    with pytest.raises(MalformedRequest, match="unknown kind"):
        decode_command(b"\x01")


def _flood(message: pb.PeerMessage, count: int) -> bytes:
    return join(pb.PeerMessages(messages=[message]).SerializeToString() * count)


def test_a_frame_with_more_than_an_outbox_puts_into_one_is_malformed_before_it_is_decoded():
    """Empty messages of four bytes took hundreds each, and blocked the loop for seconds."""
    message = pb.PeerMessage(heartbeat=pb.Heartbeat())
    assert len(decode_peer_messages(_flood(message, FRAME_MESSAGES_MAX))) == FRAME_MESSAGES_MAX
    more = pb.PeerMessages(messages=[message]).SerializeToString() * (2 * FRAME_MESSAGES_MAX)
    with pytest.raises(MalformedRequest, match=f"more than {FRAME_MESSAGES_MAX} messages"):
        decode_peer_messages(join(more + b"what no parser reads"))


def test_a_frame_asks_for_a_bounded_number_of_copies():
    message = pb.PeerMessage(entry_request=pb.EntryRequest())
    assert len(decode_peer_messages(_flood(message, 1024))) == 1024
    with pytest.raises(MalformedRequest, match="more than 1024 requests for copies"):
        decode_peer_messages(_flood(message, 1025))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "items"),
    [
        (pb.PullRequest(rows=[pb.PullRow()] * PULL_ROWS_MAX), PULL_ROWS_MAX),
        (
            pb.AppendRequest(
                entry_terms=[1] * 65_536,
                entry_kinds=[2] * 65_536,
                command_lengths=[0] * 65_536,
                body_lengths=[0] * 65_536,
            ),
            65_536,
        ),
    ],
    ids=["rows", "entries"],
)
def test_the_entries_and_rows_of_a_frame_are_bounded_together(message: Any, items: int):
    name = "pull_request" if isinstance(message, pb.PullRequest) else "append_request"
    in_frame = pb.PeerMessage(**{name: message})
    assert decode_peer_messages(_flood(in_frame, 262_144 // items))
    with pytest.raises(MalformedRequest, match="more than 262144 entries and rows"):
        decode_peer_messages(_flood(in_frame, 262_144 // items + 1))


def test_a_request_of_more_rows_than_an_observer_asks_for_at_once_is_malformed():
    """Two bytes make a row, and each row is answered."""
    rows = [pb.PullRow()] * (PULL_ROWS_MAX + 1)
    message = pb.PeerMessage(pull_request=pb.PullRequest(rows=rows))
    with pytest.raises(MalformedRequest, match=f"{PULL_ROWS_MAX + 1} rows"):
        decode_peer_messages(_flood(message, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "most"),
    [
        (pb.PeerMessage(pull_request=pb.PullRequest(rows=[pb.PullRow()] * 140_000)), 256 * 1024),
        (pb.PeerMessage(image_manifest=pb.ImageManifest(text=bytes(66 * 2**20))), 65 * 2**20),
        (pb.PeerMessage(append_request=pb.AppendRequest(entry_terms=[1] * 2**21)), 2 * 2**20),
    ],
    ids=["rows", "manifest", "terms"],
)
def test_a_message_is_not_parsed_beyond_its_bound(message: pb.PeerMessage, most: int):
    with pytest.raises(MalformedRequest, match=f"bytes; {most} are allowed"):
        decode_peer_messages(_flood(message, 1))


def test_a_message_from_or_to_another_node_ends_the_frame():
    good = pb.Heartbeat(sender=2, to=1)
    for wrong in (pb.Heartbeat(sender=3, to=1), pb.Heartbeat(sender=2, to=2)):
        messages = [pb.PeerMessage(heartbeat=each) for each in (good, wrong)]
        frame = join(pb.PeerMessages(messages=messages).SerializeToString())
        assert len(decode_peer_messages(frame)) == 2
        with pytest.raises(MalformedRequest, match="of or to another node"):
            PeerFrames(NodeId(2), NodeId(1)).add(frame)


@pytest.mark.parametrize("header", [b"\x0a", b"\x0a\x05", b"\x0a\xff\xff\xff\xff\xff", b"\x1a\x00",
                                    b"\x0a\x04\x2a\x00\x2a\x00", b"\x0a\x02\x2a\x01x"])  # fmt: skip
def test_a_header_that_no_encoder_writes_is_malformed(header: bytes):
    with pytest.raises(MalformedRequest):
        decode_peer_messages(join(header))


def test_a_bound_of_an_unknown_kind_is_malformed():
    header = pb.BatchHeader(columns=[pb.ColumnChunk(minimum=pb.Bound())]).SerializeToString()
    summary = pb.BatchSummary(record_count=1)
    command = pb.Command(append=pb.Append(batch=summary, batch_header=header))
    with pytest.raises(MalformedRequest, match="bound"):
        decode_batch_header(b"\x01" + command.SerializeToString())


@example(digits="9" * 5000)
@given(st.text("0123456789-", max_size=5))
def test_a_number_of_any_length_in_an_error_is_an_error_or_malformed(digits: str):
    values = [pb.ErrorValue(name="group", text=digits)]
    _accepts("error", pb.Error(code="NotLeader", values=values).SerializeToString())


def _append_request(body: bytes = b"", **columns: list[int]) -> bytes:
    request = pb.AppendRequest(prev_index=4, **columns)
    messages = pb.PeerMessages(messages=[pb.PeerMessage(append_request=request)])
    return join(messages.SerializeToString(), body)
