"""No machine keeps a text that is longer than the field of a reply that carries it: each client
that asked for it would reject the whole reply. Every text of every command that is kept is tried at
and beyond every limit that there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from raftlog.core.types import LogIndex, NodeId
from raftlog.machines.commands import (
    AddNode,
    AlterSchema,
    Append,
    AttemptReference,
    BatchSummary,
    Command,
    CommitEpoch,
    Configure,
    CreateTopic,
    EpochKey,
    RegisterNode,
    SetSchema,
    SetWriterOwner,
    Stage,
)
from raftlog.machines.evolution import ADD, RENAME, ColumnChange
from raftlog.machines.kv_commands import OpenSession, PutKey
from raftlog.machines.schema import Field, FormerField, Schema
from raftlog.machines.settings import RETENTION_S, TopicSetting
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import GroupState, decode_command, encode_command, encode_state
from raftlog.wire.codec_texts import _LIMITS, text_limit
from tests.machines.test_hostile_entries import machine_of
from tests.wire.test_text_limits import texts_of

CONTROLLER, TOPIC, KV = range(3)
HEADER = BatchHeader(record_count=1, schema_version=1, columns=())
BATCH = BatchSummary(record_count=1, schema_version=1, body_bytes=0, crc=0)
KEY = EpochKey(writer="w", query_id="w", run="r", epoch=0, streaming=False)
STAGE = Stage(key=KEY, attempt="a", number=0, timestamp_us=0, batch=BATCH, create_writer=True)
A = Field(id=1, name="a", type='"long"', nullable=True)
WAS = FormerField(id=2, name="b", type='"long"', nullable=True, since=2, until=3)
CREATE = CreateTopic(
    name="t",
    incarnation="1",
    schema=Schema(version=1, fields=(A,)),
    voters=(NodeId(1),),
    if_not_exists=False,
    timestamp_us=0,
    settings=(TopicSetting(name=RETENTION_S, value=1),),
)
ATTEMPT = AttemptReference(attempt="a", entry_count=1, record_count=1, chained_crc=0x48674BC7)
COMMIT = CommitEpoch(
    key=KEY,
    attempts=(
        AttemptReference(attempt="a", entry_count=1, record_count=1, chained_crc=0x48674BC7),
    ),
    schema_version=1,
    timestamp_us=0,
    keep_on_mismatch=False,
    create_writer=True,
    transient_writer=False,
    plan="p",
)
OPEN = OpenSession(session="a" * 32, owner="", ends="")
PUT = PutKey(session=OPEN.session, owner="", sequence=1, key="k", value=b"", expected=0)
CHANGES = (ColumnChange(action=ADD, name="b", type='"long"'),)
RENAMES = (ColumnChange(action=RENAME, name="a", to="c"),)
SCENES: list[tuple[int, list[Command], Command]] = [
    (CONTROLLER, [], RegisterNode(node=NodeId(1), store_uuid="s", address="h:1", rules=1)),
    (CONTROLLER, [], AddNode(node=NodeId(1), address="h:1")),
    (CONTROLLER, [], CREATE),
    (CONTROLLER, [CREATE], AlterSchema(name="t", incarnation="", version=1, changes=CHANGES)),
    (CONTROLLER, [CREATE], AlterSchema(name="t", incarnation="", version=1, changes=RENAMES)),
    (TOPIC, [], Append(producer="p", sequence=0, timestamp_us=0, batch=BATCH)),
    (TOPIC, [], STAGE),
    (TOPIC, [STAGE], COMMIT),
    (TOPIC, [STAGE, COMMIT], SetWriterOwner(writer="w", owner="o")),
    (TOPIC, [], Configure(version=LogIndex(1), settings=CREATE.settings)),
    (TOPIC, [], SetSchema(schema=Schema(version=3, fields=(A,), former=(WAS,)))),
    (KV, [], OPEN),
    (
        KV,
        [OPEN],
        PutKey(session=OPEN.session, owner="", sequence=1, key="k", value=b"", expected=0),
    ),
]
REPLY_FIELDS = {
    "WriterRowState.name": "writer",
    "WriterRowState.last_run": "run",
    "WriterRowState.fenced_runs": "run",
    "ProducersState.names": "producer",
    "ProducersState.forgotten": "producer",
    "WritersState.forgotten": "writer",
}
"""By the field of a state, the one of replies, where it has another name."""


def message_of(command: Command) -> Any:
    header = HEADER if isinstance(command, Append | Stage) else None
    return pb.Command.FromString(encode_command(command, header)[1:])


def text_of(field: FieldDescriptor, length: int) -> str:
    return ("a." * length)[: length - 2] + ":1" if field.name == "address" else "x" * length


def with_text(command: Command, names: list[str], text: str) -> Command:
    """The command with the text in the field at the end of this way, if it has such a one."""
    message = message_of(command)
    parts = [getattr(message, message.WhichOneof("command"))]
    *way, last = names
    for name in way:
        if any(name not in part.DESCRIPTOR.fields_by_name for part in parts):
            return command
        found = [getattr(part, name) for part in parts]
        is_list = parts and parts[0].DESCRIPTOR.fields_by_name[name].is_repeated
        parts = [each for part in found for each in part] if is_list else found
    for part in parts:
        if last in part.DESCRIPTOR.fields_by_name:
            if part.DESCRIPTOR.fields_by_name[last].is_repeated:
                getattr(part, last).append(text)
            else:
                setattr(part, last, text)
    return decode_command(b"\x01" + message.SerializeToString())


def kept(message: Any) -> Iterator[tuple[str, str, str]]:
    """The texts in a message, each with its kind of message and its field."""
    for field, found in message.ListFields():
        for each in found if field.is_repeated else [found]:
            if field.message_type is not None:
                yield from kept(each)
            elif field.type == field.TYPE_STRING:
                yield message.DESCRIPTOR.name, field.name, each


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: type(scene[2]).__name__)
def test_a_machine_keeps_no_text_that_a_reply_cannot_carry(
    scene: tuple[int, list[Command], Command],
) -> None:
    kind, before, command = scene
    lengths = {length for most in _LIMITS.values() for length in (most, most + 1)}
    longest = 0
    for path in texts_of(message_of(command).DESCRIPTOR):
        if path[0].name != message_of(command).WhichOneof("command"):
            continue
        names = [field.name for field in path[1:]]
        for length in lengths:
            machine: Any = machine_of(kind)
            text = text_of(path[-1], length)
            for index, each in enumerate([*before, command], 1):
                machine.apply(LogIndex(index), with_text(each, names, text))
            data = encode_state(GroupState(machine.state()))[1:]
            for owner, field, found in kept(pb.MachineState.FromString(data)):
                name = REPLY_FIELDS.get(f"{owner}.{field}", field)
                assert len(found) <= text_limit(owner, name), f"{owner}.{field}"
                longest = max(longest, len(found))
    assert longest > 32 or isinstance(command, Configure), "some are kept"


def test_every_command_with_a_text_that_is_kept_is_tried() -> None:
    compared_only = {
        "abort_epoch", "remove_writer", "alter_topic", "delete_topic", "delete_key",
    }  # fmt: skip
    with_texts = {path[0].name for path in texts_of(pb.Command.DESCRIPTOR)}
    tried = {message_of(command).WhichOneof("command") for _, _, command in SCENES}
    assert with_texts == tried | compared_only
