"""Every decoder of the wire, and good messages for each."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from hypothesis import strategies as st

from raftlog.core.messages import AppendRequest, Heartbeat, VoteReply
from raftlog.core.types import NodeId
from raftlog.errors import NotLeader
from raftlog.machines.commands import Append, CommitEpoch, CreateTopic, SnapshotPoint, Stage, Trim
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.calls import CALLS
from raftlog.wire.codec import (
    PeerFrames,
    decode_batch_header,
    decode_command,
    decode_description,
    decode_error,
    decode_footer,
    decode_hello,
    decode_peer_messages,
    decode_reply,
    decode_request,
    decode_state,
    decode_welcome,
    encode_command,
    encode_description,
    encode_error,
    encode_footer,
    encode_hello,
    encode_peer_messages,
    encode_reply,
    encode_request,
    encode_state,
)
from raftlog.wire.history import HistoryFooter, RowGroupDescription
from raftlog.wire.peer_greetings import PeerHello
from raftlog.wire.runs import Runs
from raftlog.wire.traced import TracedEntry
from tests.machines.test_state import states
from tests.wire.strategies import values_of

DECODERS: dict[str, Callable[[bytes], object]] = {
    "command": decode_command,
    "batch header": decode_batch_header,
    "peer messages": decode_peer_messages,
    "peer stream": lambda data: PeerFrames(NodeId(2), NodeId(1)).add(data),
    "hello": decode_hello,
    "welcome": decode_welcome,
    "error": decode_error,
    "row group description": decode_description,
    "history footer": decode_footer,
    "state": decode_state,
}
for _call in CALLS.values():
    DECODERS[f"{_call.name} request"] = lambda data, call=_call: decode_request(call, data)
    DECODERS[f"{_call.name} reply"] = lambda data, call=_call: decode_reply(call, data)


def decode_traced(data: bytes) -> list[TracedEntry]:
    """What a peer's frame says of its traced entries."""
    frames = PeerFrames(NodeId(2), NodeId(1))
    frames.add(data)
    return frames.traced


_DESCRIPTION = RowGroupDescription(
    header=BatchHeader(
        record_count=3,
        schema_version=1,
        columns=(ColumnChunk(field_id=1, position=0, length=9, crc=5, null_count=1, minimum="a"),),
    ),
    runs=Runs(
        counts=array("q", (2, 1)),
        timestamps_us=array("q", (7, 8)),
        terms=array("q", (1, 2)),
        epochs=array("q", (-1, 3)),
        writers=array("q", (0, 1)),
        names=("", "query"),
    ),
    digest=b"digest",
)
_FOOTER = HistoryFooter(
    record_counts=array("q", (3, 1)),
    record_bytes=array("q", (99, 300)),
    body_lengths=array("q", (9, 10)),
    description_lengths=array("q", (70, 71)),
    description_crcs=array("q", (1, 2**32 - 1)),
)


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
            st.builds(encode_command, values_of(Trim), st.none()),
            st.builds(encode_command, values_of(SnapshotPoint), st.none()),
        ),
        "peer messages": st.lists(peers, max_size=3).map(encode_peer_messages),
        "hello": values_of(PeerHello).map(encode_hello),
        "state": st.sampled_from(states()).map(encode_state),
        "error": st.just(encode_error(NotLeader(group=1, leader=2, address="a:1"))),
        "row group description": st.just(encode_description(_DESCRIPTION)),
        "history footer": st.just(encode_footer(_FOOTER)),
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
