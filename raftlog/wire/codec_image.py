"""Private to `raftlog.wire`: the parts of a history file that are protobuf messages."""

from __future__ import annotations

from array import array

from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_fields import parse
from raftlog.wire.codec_runs import decode_runs, encode_runs
from raftlog.wire.codec_texts import text_check
from raftlog.wire.codec_values import UNREADABLE, decode_header, encode_header, malformed
from raftlog.wire.framing import Unreadable
from raftlog.wire.history import HistoryFooter, RowGroupDescription

_CALL = "history file"
"""What a `MalformedRequest` names where the bytes came from a history file."""
_DIGEST_BYTES_MAX = 64
"""A longer one is none of ours, which have 16."""


def encode_description(description: RowGroupDescription) -> bytes:
    """The description of a row group as bytes; the same value always gives the same bytes."""
    message = pb.RowGroupDescription(
        header=encode_header(description.header),
        runs=encode_runs(description.runs),
        digest=description.digest,
    )
    return message.SerializeToString(deterministic=True)


def decode_description(data: bytes) -> RowGroupDescription:
    """What `encode_description` was given. Raises `MalformedRequest`."""
    try:
        message = parse(pb.RowGroupDescription, data)
        text_check(message.DESCRIPTOR)(message)
        if len(message.digest) > _DIGEST_BYTES_MAX:
            raise Unreadable(f"a digest of {len(message.digest)} bytes")
        header = decode_header(message.header)
        return RowGroupDescription(
            header=header,
            runs=decode_runs(message.runs, header.record_count),
            digest=message.digest,
        )
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error


def decode_first_timestamp(data: bytes) -> int:
    """That of the first record of a row group, in microseconds since 1970 UTC, of what
    `encode_description` has made. Its runs are not looked at. Raises `MalformedRequest`."""
    try:
        steps = parse(pb.RowGroupDescription, data).runs.timestamp_steps
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error
    return next(iter(steps), 0)


def encode_footer(footer: HistoryFooter) -> bytes:
    """The footer as bytes; the same value always gives the same bytes."""
    message = pb.HistoryFooter(
        record_counts=footer.record_counts,
        record_bytes=footer.record_bytes,
        body_lengths=footer.body_lengths,
        description_lengths=footer.description_lengths,
        description_crcs=footer.description_crcs,
    )
    return message.SerializeToString(deterministic=True)


def decode_footer(data: bytes, rows_max: int | None = None) -> HistoryFooter:
    """What `encode_footer` was given, with columns of equal length. Raises `MalformedRequest`, also
    if it has more than `rows_max` rows."""
    columns_max = len(pb.HistoryFooter.DESCRIPTOR.fields)
    fields_max = len(data) if rows_max is None else columns_max * (rows_max + 1)
    try:
        message = parse(pb.HistoryFooter, data, fields_max)
        if rows_max is not None and len(message.record_counts) > rows_max:
            raise Unreadable(f"a footer of more than {rows_max} row groups")
        footer = HistoryFooter(
            record_counts=array("q", message.record_counts),
            record_bytes=array("q", message.record_bytes),
            body_lengths=array("q", message.body_lengths),
            description_lengths=array("q", message.description_lengths),
            description_crcs=array("q", message.description_crcs),
        )
        rows = len(footer.record_counts)
        columns = (
            footer.record_bytes,
            footer.body_lengths,
            footer.description_lengths,
            footer.description_crcs,
        )
        if any(len(column) != rows for column in columns):
            raise Unreadable("the columns of a footer differ in length")
        return footer
    except (*UNREADABLE, OverflowError) as error:
        raise malformed(_CALL, error) from error
