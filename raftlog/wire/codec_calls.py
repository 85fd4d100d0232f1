"""Private to `raftlog.wire`: calls, their replies and refusals as frames."""

from __future__ import annotations

from typing import Any, TypeVar

from raftlog.core.types import Offset
from raftlog.errors import MalformedRequest, RaftlogError, from_wire
from raftlog.machines.limits import INTEGER_MAX
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.calls import CALLS, BatchReply, BodyCall, Call, Reply, Request, StreamedCall
from raftlog.wire.codec_fields import parse
from raftlog.wire.codec_runs import decode_runs, encode_runs
from raftlog.wire.codec_texts import ERROR_BYTES_MAX, has_texts, text_check
from raftlog.wire.codec_values import (
    CONVERSIONS,
    UNREADABLE,
    decode_header,
    encode_header,
    malformed,
)
from raftlog.wire.framing import Body, Unreadable, join, split
from raftlog.wire.mapping import LIST_VALUES_MAX, Conversion
from raftlog.wire.runs import Runs

V = TypeVar("V")

ERROR_METADATA_KEY = "raftlog-error-bin"
"""The key of an encoded error in grpc's trailing metadata; `-bin` keeps its bytes as they are."""

REQUEST_HEADER_BYTES_MAX = 2 * 1024 * 1024
"""Bytes of a request beside its body, at most. The largest sound ones name 20,000 attempts of an
epoch or 1,000 columns; reading one must not hold up the node."""


def encode_request(call: Call[Request, Any], request: Request, body: Body = b"") -> bytes:
    """A request's frame; only that of a `BodyCall` has a body."""
    assert body == b"" or isinstance(call, BodyCall), f"{call.name} has no body"
    return _encode(call.request, request, body)


def decode_request(call: Call[Request, Any], data: bytes) -> tuple[Request, bytes]:
    """A call's request and body (b"" where it has none). Raises `MalformedRequest`."""
    has_body = isinstance(call, BodyCall)
    request, body = _decode(call.name, call.request, data, has_body, REQUEST_HEADER_BYTES_MAX)
    return request, bytes(body)


def encode_reply(call: Call[Any, Reply], reply: Reply, body: Body = b"") -> bytes:
    """A reply's frame; only those of a `StreamedCall` have a body, which may come in pieces."""
    assert body == b"" or isinstance(call, StreamedCall), f"{call.name}'s reply has no body"
    return _encode(call.reply, reply, body)


def decode_reply(call: Call[Any, Reply], data: bytes) -> tuple[Reply, memoryview]:
    """A reply and its body, a view into `data` (empty where it has none). Raises
    `MalformedRequest`."""
    return _decode(call.name, call.reply, data, isinstance(call, StreamedCall))


def _encode(kind: type[V], value: V, body: Body) -> bytes:
    assert type(value) is kind, f"{type(value).__name__} given for {kind.__name__}"
    return join(_CONVERSIONS[kind].encode(value).SerializeToString(), body)


def _decode(
    name: str, kind: type[V], data: bytes, may_have_body: bool, header_bytes_max: int | None = None
) -> tuple[V, memoryview]:
    try:
        header, body = split(data, header_bytes_max)
        if body and not may_have_body:
            raise Unreadable(f"{kind.__name__} comes with a body of {len(body)} bytes")
        # A reply may have more: all topics with their columns, say.
        fields_max = LIST_VALUES_MAX if header_bytes_max is not None else len(header)
        message = parse(getattr(pb, kind.__name__), header, fields_max)
        if kind in _TEXT_CHECKS:
            _TEXT_CHECKS[kind](message)
        return _CONVERSIONS[kind].decode(message), body
    except UNREADABLE as error:
        raise malformed(name, error) from error


def encode_error(error: RaftlogError) -> bytes:
    """The error's code and values, at most `ERROR_BYTES_MAX` long: the longest text is cut."""
    code, values = error.to_wire()
    message = pb.Error(code=code)
    for name, text in values.items():
        # What cannot be UTF-8 (a lone surrogate in a name) must not hide the error itself.
        readable = text.encode(errors="replace").decode()
        message.values.add(name=name, text=readable)
    while (excess := message.ByteSize() - ERROR_BYTES_MAX) > 0:
        longest = max(message.values, key=lambda value: len(value.text.encode()))
        raw = longest.text.encode()
        assert len(raw) > len("..."), "an error has few values, and short names"
        kept = max(0, len(raw) - excess - len("..."))
        longest.text = raw[:kept].decode(errors="ignore") + "..."
    return message.SerializeToString()


def decode_error(data: bytes) -> RaftlogError:
    """The typed error; one of an unknown code becomes `Internal`. Raises `MalformedRequest`."""
    try:
        message = parse(pb.Error, data)
        text_check(message.DESCRIPTOR)(message)
        error = from_wire(message.code, {value.name: value.text for value in message.values})
    except (*UNREADABLE, ValueError) as problem:
        raise malformed("error", problem) from problem
    if type(error).cause is RaftlogError.cause and not hasattr(error, "cause_text"):
        raise MalformedRequest(call="error", what=f"{message.code} is a family of errors")
    return error


def _encode_batch_reply(reply: BatchReply) -> pb.BatchReply:
    """A single run is the message that versions without `runs` know, byte for byte."""
    batch, runs = encode_header(reply.batch), reply.runs
    if len(runs) > 1:
        return pb.BatchReply(start=reply.start, batch=batch, runs=encode_runs(runs))
    return pb.BatchReply(
        start=reply.start,
        batch=batch,
        timestamp_us=runs.timestamps_us[0],
        term=runs.terms[0],
        writer=runs.names[runs.writers[0]],
        epoch=runs.epochs[0],
    )


def _decode_batch_reply(message: pb.BatchReply) -> BatchReply:
    if not message.HasField("batch"):
        raise Unreadable("BatchReply lacks batch")
    batch = decode_header(message.batch)
    if message.HasField("runs"):
        runs = decode_runs(message.runs, batch.record_count)
    else:
        runs = _only_run(message, batch.record_count)
    return BatchReply(start=Offset(message.start), batch=batch, runs=runs)


def _only_run(message: pb.BatchReply, record_count: int) -> Runs:
    if not 0 < record_count <= INTEGER_MAX or message.term > INTEGER_MAX:
        raise Unreadable(f"a batch of {record_count} records, of term {message.term}")
    return Runs.of_one(
        count=record_count,
        timestamp_us=message.timestamp_us,
        term=message.term,
        epoch=message.epoch,
        writer=message.writer,
    )


_CONVERSIONS: dict[type, Conversion[Any]] = {
    kind: CONVERSIONS.of(kind)
    for call in CALLS.values()
    for kind in (call.request, call.reply)
    if kind is not BatchReply
}
_CONVERSIONS[BatchReply] = Conversion(_encode_batch_reply, _decode_batch_reply)
_KINDS: dict[type, Any] = {kind: getattr(pb, kind.__name__).DESCRIPTOR for kind in _CONVERSIONS}
_TEXT_CHECKS = {kind: text_check(of) for kind, of in _KINDS.items() if has_texts(of)}
"""Of the requests and replies that have texts."""
