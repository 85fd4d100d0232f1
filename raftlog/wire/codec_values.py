"""Private to `raftlog.wire`: the conversions that commands, calls and messages share."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from raftlog.errors import MalformedRequest
from raftlog.machines.commands import BatchSummary
from raftlog.predicates.predicate import Predicate
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.codec_bounds import get_bound, put_bound
from raftlog.wire.codec_predicates import PREDICATES
from raftlog.wire.framing import Unreadable
from raftlog.wire.mapping import Conversion, Conversions, bounded

UNREADABLE = (DecodeError, Unreadable)
"""All that reading hostile bytes may raise within this package."""


def malformed(call: str, error: Exception) -> MalformedRequest:
    """The typed error for bytes that are not what `call` names."""
    return MalformedRequest(call=call, what=str(error))


def encode_header(header: BatchHeader) -> pb.BatchHeader:
    """Written by hand: once for each batch and node, with a message for each column."""
    message = pb.BatchHeader(record_count=header.record_count, schema_version=header.schema_version)
    add = message.columns.add
    for column in header.columns:
        chunk = add(
            field_id=column.field_id,
            position=column.position,
            length=column.length,
            crc=column.crc,
            null_count=column.null_count,
            in_planes=column.in_planes,
        )
        if column.minimum is not None:
            put_bound(chunk.minimum, column.minimum)
        if column.maximum is not None:
            put_bound(chunk.maximum, column.maximum)
    return message


def decode_header(message: pb.BatchHeader) -> BatchHeader:
    """The header as it was given; raises `Unreadable` for a bound of an unknown kind."""
    return BatchHeader(
        record_count=message.record_count,
        schema_version=message.schema_version,
        columns=tuple([_decode_chunk(chunk) for chunk in bounded(message.columns)]),
    )


def _decode_chunk(chunk: pb.ColumnChunk) -> ColumnChunk:
    return ColumnChunk(
        chunk.field_id,
        chunk.position,
        chunk.length,
        chunk.crc,
        chunk.null_count,
        get_bound(chunk.minimum) if chunk.HasField("minimum") else None,
        get_bound(chunk.maximum) if chunk.HasField("maximum") else None,
        chunk.in_planes,
    )


def encode_summary(summary: BatchSummary) -> pb.BatchSummary:
    """Written by hand, as its reverse: every replayed entry has one."""
    return pb.BatchSummary(
        record_count=summary.record_count,
        schema_version=summary.schema_version,
        body_bytes=summary.body_bytes,
        crc=summary.crc,
    )


def decode_summary(message: pb.BatchSummary) -> BatchSummary:
    """The summary as it was given."""
    return BatchSummary(
        record_count=message.record_count,
        schema_version=message.schema_version,
        body_bytes=message.body_bytes,
        crc=message.crc,
    )


CONVERSIONS = Conversions(
    pb,
    {
        BatchHeader: Conversion(encode_header, decode_header),
        BatchSummary: Conversion(encode_summary, decode_summary),
        tuple[Predicate, ...]: PREDICATES,
    },
)
