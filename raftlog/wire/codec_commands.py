"""Private to `raftlog.wire`: commands as the bytes of a log entry.

A command is a version byte and a protobuf message. The header of a batch is a field of bytes in
it: replaying a log decodes a hundred thousand commands and needs none of their columns.
"""

from __future__ import annotations

from typing import Any

from raftlog.machines.commands import (
    AbortEpoch,
    AddNode,
    AlterSchema,
    AlterTopic,
    Append,
    Command,
    CommitEpoch,
    Configure,
    CreateKv,
    CreateTopic,
    DeleteTopic,
    EpochKey,
    Expire,
    PlaceGroup,
    RegisterNode,
    RemoveWriter,
    ReportPlacement,
    RetireNode,
    Rules,
    SetDuty,
    SetParents,
    SetSchema,
    SetWriterOwner,
    SnapshotPoint,
    Stage,
    Trim,
)
from raftlog.machines.kv_commands import DeleteKey, OpenSession, PutKey
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec_fields import LENGTH_DELIMITED, field, parse
from raftlog.wire.codec_values import (
    CONVERSIONS,
    UNREADABLE,
    decode_header,
    decode_summary,
    encode_header,
    encode_summary,
    malformed,
)
from raftlog.wire.framing import Unreadable
from raftlog.wire.mapping import Conversion

_VERSION = 1
_VERSION_BYTE = bytes([_VERSION])

COMMAND_BYTES_MAX = 20 * 1024 * 1024
"""With its batch's header. The longest is a `SetSchema`, whose schema has `SCHEMA_CHARACTERS_MAX`,
of 4 bytes each, and 5,000 columns."""

_CALL = "log entry"
"""What a `MalformedRequest` names where the bytes came from a log or a peer."""


def encode_command(command: Command, batch_header: BatchHeader | None) -> bytes:
    """The command's bytes; `batch_header` goes with `Append` and `Stage`, and only with them."""
    message = pb.Command()
    match command:
        case Append():
            assert batch_header is not None, "an Append carries its batch's header"
            _put_append(message.append, command, batch_header)
        case Stage():
            assert batch_header is not None, "a Stage carries its batch's header"
            _put_stage(message.stage, command, batch_header)
        case _:
            assert batch_header is None, f"{type(command).__name__} has no batch"
            name, conversion = _NAMES[type(command)]
            getattr(message, name).CopyFrom(conversion.encode(command))
    return _VERSION_BYTE + message.SerializeToString()


def decode_command(data: bytes) -> Command:
    """The command, without its batch's header. Raises `MalformedRequest`."""
    try:
        message, name = _parse(data)
        match name:
            case "append":
                return _get_append(message)
            case "stage":
                return _get_stage(message)
            case _:
                decoded: Command = _KINDS[name].decode(message)
                return decoded
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error


def decode_batch_header(data: bytes) -> BatchHeader:
    """The batch header within an `Append` or `Stage`. Raises `MalformedRequest`."""
    try:
        message, name = _parse(data)
        if name not in ("append", "stage"):
            raise Unreadable(f"the command {name} has no batch")
        return decode_header(parse(pb.BatchHeader, message.batch_header))
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error


def _parse(data: bytes) -> tuple[Any, str]:
    """The message of the command's own kind, and the kind's name."""
    if data[:1] != _VERSION_BYTE:
        raise Unreadable(f"a command begins with {data[:1].hex() or 'nothing'}, not 01")
    if len(data) > COMMAND_BYTES_MAX:
        raise Unreadable(f"a command of {len(data)} bytes; {COMMAND_BYTES_MAX} are allowed")
    if len(data) == 1:
        raise Unreadable("a command of the unknown kind nothing")
    tag, start, stop = field(data, 1, len(data))
    if tag not in _KINDS_BY_TAG:
        raise Unreadable(f"a command of the unknown kind {tag >> 3}")
    if stop != len(data):
        raise Unreadable(f"{len(data) - stop} bytes follow the command")
    name, kind = _KINDS_BY_TAG[tag]
    return parse(kind, data[start:stop]), name


def _put_append(message: pb.Append, command: Append, header: BatchHeader) -> None:
    message.producer = command.producer
    message.sequence = command.sequence
    message.timestamp_us = command.timestamp_us
    message.batch.CopyFrom(encode_summary(command.batch))
    message.batch_header = encode_header(header).SerializeToString()
    message.owner = command.owner


def _get_append(message: pb.Append) -> Append:
    if not message.HasField("batch"):
        raise Unreadable("Append lacks batch")
    return Append(
        producer=message.producer,
        sequence=message.sequence,
        timestamp_us=message.timestamp_us,
        batch=decode_summary(message.batch),
        owner=message.owner,
    )


def _put_stage(message: pb.Stage, command: Stage, header: BatchHeader) -> None:
    message.key.CopyFrom(_KEY.encode(command.key))
    message.attempt = command.attempt
    message.number = command.number
    message.timestamp_us = command.timestamp_us
    message.batch.CopyFrom(encode_summary(command.batch))
    message.create_writer = command.create_writer
    message.batch_header = encode_header(header).SerializeToString()
    message.owner = command.owner
    message.any_owner = command.any_owner


def _get_stage(message: pb.Stage) -> Stage:
    if not (message.HasField("batch") and message.HasField("key")):
        raise Unreadable("Stage lacks batch or key")
    return Stage(
        key=_KEY.decode(message.key),
        attempt=message.attempt,
        number=message.number,
        timestamp_us=message.timestamp_us,
        batch=decode_summary(message.batch),
        create_writer=message.create_writer,
        owner=message.owner,
        any_owner=message.any_owner,
    )


_KEY = CONVERSIONS.of(EpochKey)

_NAMES: dict[type, tuple[str, Conversion[Any]]] = {
    kind: (name, CONVERSIONS.of(kind))
    for name, kind in {
        "commit_epoch": CommitEpoch,
        "abort_epoch": AbortEpoch,
        "register_node": RegisterNode,
        "create_topic": CreateTopic,
        "delete_topic": DeleteTopic,
        "rules": Rules,
        "expire": Expire,
        "remove_writer": RemoveWriter,
        "set_writer_owner": SetWriterOwner,
        "trim": Trim,
        "snapshot_point": SnapshotPoint,
        "alter_topic": AlterTopic,
        "alter_schema": AlterSchema,
        "set_schema": SetSchema,
        "configure": Configure,
        "add_node": AddNode,
        "set_duty": SetDuty,
        "set_parents": SetParents,
        "retire_node": RetireNode,
        "place_group": PlaceGroup,
        "report_placement": ReportPlacement,
        "create_kv": CreateKv,
        "open_session": OpenSession,
        "put_key": PutKey,
        "delete_key": DeleteKey,
    }.items()
}
_KINDS: dict[str, Conversion[Any]] = dict(_NAMES.values())
_KINDS_BY_TAG: dict[int, tuple[str, Any]] = {
    each.number << 3 | LENGTH_DELIMITED: (each.name, getattr(pb, each.message_type.name))
    for each in pb.Command.DESCRIPTOR.fields
    if each.message_type is not None
}
