"""Every decoder of the wire, and good messages for each."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from raftlog.core.messages import AppendRequest, Heartbeat, VoteReply
from raftlog.errors import NotLeader
from raftlog.machines.commands import Append, CommitEpoch, CreateTopic, Stage
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import CALLS, PeerHello
from raftlog.wire.codec import (
    PeerFrames,
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
from tests.wire.strategies import values_of

DECODERS: dict[str, Callable[[bytes], object]] = {
    "command": decode_command,
    "batch header": decode_batch_header,
    "peer messages": decode_peer_messages,
    "peer stream": lambda data: PeerFrames().add(data),
    "hello": decode_hello,
    "welcome": decode_welcome,
    "error": decode_error,
}
for _call in CALLS.values():
    DECODERS[f"{_call.name} request"] = lambda data, call=_call: decode_request(call, data)
    DECODERS[f"{_call.name} reply"] = lambda data, call=_call: decode_reply(call, data)


def samples() -> dict[str, st.SearchStrategy[bytes]]:
    """By decoder; none for `welcome`, which is like `hello`."""
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
    for name, call in CALLS.items():
        found[f"{name} request"] = values_of(call.request).map(
            lambda value, call=call: encode_request(call, value)
        )
        found[f"{name} reply"] = values_of(call.reply).map(
            lambda value, call=call: encode_reply(call, value)
        )
    found["batch header"] = found["command"]
    return found
