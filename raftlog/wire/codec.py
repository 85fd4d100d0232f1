"""Values to bytes and back: all that other packages need of the wire's formats.

Whatever bytes come in, decoding raises `MalformedRequest` and nothing else; a value encoded and
decoded is equal to itself. Integers must fit 64 bits, which their owners see to. Parts of a newer
version that this one does not know are ignored, unless they are the whole message.
"""

from __future__ import annotations

from raftlog.wire.codec_calls import (
    ERROR_METADATA_KEY,
    decode_error,
    decode_reply,
    decode_request,
    encode_error,
    encode_reply,
    encode_request,
)
from raftlog.wire.codec_commands import decode_batch_header, decode_command, encode_command
from raftlog.wire.codec_image import (
    decode_description,
    decode_first_timestamp,
    decode_footer,
    encode_description,
    encode_footer,
)
from raftlog.wire.codec_peers import (
    PeerFrames,
    decode_hello,
    decode_peer_messages,
    decode_welcome,
    encode_hello,
    encode_peer_messages,
    encode_welcome,
)
from raftlog.wire.codec_predicates import predicate_of_text, predicate_text
from raftlog.wire.codec_states import GroupState, decode_state, encode_state
from raftlog.wire.codec_texts import ERROR_BYTES_MAX

__all__ = [
    "GroupState",
    "ERROR_BYTES_MAX",
    "ERROR_METADATA_KEY",
    "PeerFrames",
    "decode_batch_header",
    "decode_command",
    "decode_description",
    "decode_first_timestamp",
    "decode_error",
    "decode_footer",
    "decode_hello",
    "decode_peer_messages",
    "decode_reply",
    "decode_request",
    "decode_state",
    "decode_welcome",
    "encode_command",
    "encode_description",
    "encode_error",
    "encode_footer",
    "encode_hello",
    "encode_peer_messages",
    "encode_reply",
    "encode_request",
    "encode_state",
    "encode_welcome",
    "predicate_of_text",
    "predicate_text",
]
