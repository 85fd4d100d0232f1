"""Whatever bytes come in, decoding gives a value or `MalformedRequest`, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.core.messages import AppendRequest, Heartbeat, VoteReply
from raftlog.errors import MalformedRequest, NotLeader
from raftlog.machines.commands import Append, CommitEpoch, CreateTopic, Stage
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import METHODS, PeerHello
from raftlog.wire.codec import (
    decode_batch_header,
    decode_command,
    decode_error,
    decode_hello,
    decode_peer_messages,
    decode_reply,
    decode_request,
    decode_welcome,
    encode_command,
    encode_error,
    encode_hello,
    encode_peer_messages,
    encode_reply,
    encode_request,
)
from raftlog.wire.framing import join
from tests.wire.strategies import values_of

DECODERS: dict[str, Callable[[bytes], object]] = {
    "command": decode_command,
    "batch header": decode_batch_header,
    "peer messages": decode_peer_messages,
    "hello": decode_hello,
    "welcome": decode_welcome,
    "error": decode_error,
}
for _method in METHODS:
    DECODERS[f"{_method} request"] = lambda data, method=_method: decode_request(method, data)
    DECODERS[f"{_method} reply"] = lambda data, method=_method: decode_reply(method, data)


def _accepts(decoder: str, data: bytes) -> bool:
    try:
        DECODERS[decoder](data)
    except MalformedRequest:
        return False
    return True


@pytest.mark.parametrize("decoder", DECODERS)
def test_random_bytes_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=25)
    @given(st.binary(max_size=60), st.sampled_from([b"", b"\x01", b"\x01\0\0\0", join(b"")[:8]]))
    def check(data: bytes, prefix: bytes):
        _accepts(decoder, prefix + data)

    check()


@pytest.mark.parametrize("decoder", DECODERS)
def test_random_messages_in_a_good_frame_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=25)
    @given(st.binary(max_size=40), st.binary(max_size=20))
    def check(header: bytes, body: bytes):
        _accepts(decoder, join(header, body))

    check()


def _samples() -> dict[str, st.SearchStrategy[bytes]]:
    headers = values_of(BatchHeader)
    peers = st.one_of(values_of(AppendRequest), values_of(Heartbeat), values_of(VoteReply))
    found = {
        "command": st.one_of(
            st.builds(encode_command, values_of(Append), headers),
            st.builds(encode_command, values_of(Stage), headers),
            st.builds(encode_command, values_of(CommitEpoch), st.none()),
            st.builds(encode_command, values_of(CreateTopic), st.none()),
        ),
        "peer messages": st.lists(peers, max_size=3).map(encode_peer_messages),
        "hello": values_of(PeerHello).map(encode_hello),
        "error": st.just(encode_error(NotLeader(group=1, leader=2, address="a:1"))),
    }
    for method, (request, reply) in METHODS.items():
        found[f"{method} request"] = values_of(request).map(
            lambda value, method=method: encode_request(method, value)
        )
        found[f"{method} reply"] = values_of(reply).map(
            lambda value, method=method: encode_reply(method, value)
        )
    found["batch header"] = found["command"]
    return found


@pytest.mark.parametrize("decoder", _samples())
def test_a_good_message_with_one_byte_changed_is_a_value_or_malformed(decoder: str):
    @settings(max_examples=25)
    @given(_samples()[decoder], st.data())
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
