"""`python -m tests.cluster.version_2`: raftlog as if its rules had a version 2, for upgrade tests.

It takes raftlog's own arguments. Two more forms: `note SERVERS TOPIC TEXT` makes a call that only
version 2 knows and prints what comes of it; a folder and a number, as a node gives them, run its
compaction process. Version 2 differs from version 1 in one thing of each kind:

| kind | what |
|---|---|
| outcome | a trim that removes nothing is rejected |
| limit | keys of the key-value store have at most `KEY_CHARACTERS_MAX` characters |
| command | `Note`, which a topic's machine remembers |
| snapshot | `TopicState.notes` |
| history | `RowGroupDescription.written_under` |
| wire | `TrimCall.note`: the call writes a `Note` first |

The changes are made before the modules that use them are imported, as if they stood in the source.
`raftlog` itself is as it is: what version 1 must do beside this program is the product's own code.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

KEY_CHARACTERS_MAX = 16
FIELD = 1000
"""The number of each new field: far above those of version 1."""
WRITTEN_UNDER = "written under version 2"


def _second_wire() -> ModuleType:
    """`raftlog_pb2` with the new messages and fields."""
    from raftlog.wire import raftlog_pb2 as first

    file = descriptor_pb2.FileDescriptorProto()
    first.DESCRIPTOR.CopyToProto(file)
    text = descriptor_pb2.FieldDescriptorProto(
        number=FIELD,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    messages = {message.name: message for message in file.message_type}
    for message, field in (("TrimCall", "note"), ("RowGroupDescription", "written_under")):
        messages[message].field.add().CopyFrom(text)
        messages[message].field[-1].name = field
    notes = messages["TopicState"].field.add()
    notes.CopyFrom(text)
    notes.name, notes.label = "notes", descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    note = file.message_type.add(name="Note").field.add()
    note.CopyFrom(text)
    note.name = "text"
    command = messages["Command"].field.add(name="note", number=FIELD, oneof_index=0)
    command.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    command.label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    command.type_name = ".raftlog.v1.Note"
    pool = descriptor_pool.DescriptorPool()
    descriptor = pool.AddSerializedFile(file.SerializeToString())
    second = ModuleType(first.__name__)
    second.__dict__["DESCRIPTOR"] = descriptor
    builder.BuildMessageAndEnumDescriptors(descriptor, second.__dict__)
    builder.BuildTopDescriptorsAndMessages(descriptor, first.__name__, second.__dict__)
    return second


def preload() -> None:
    """What a process imports that forks such programs."""
    install()
    for module in ("cli.main", "server.main", "compaction.worker"):
        importlib.import_module(f"raftlog.{module}")


def install() -> None:
    """Turn the `raftlog` of this process, of which nothing is imported yet, into version 2."""
    if getattr(sys.modules.get("raftlog.machines.rules"), "RULES_LATEST", 1) == 2:
        return  # it was forked by a process that did
    assert not any(name.startswith("raftlog.") for name in sys.modules), "raftlog is imported"
    wire = sys.modules["raftlog.wire.raftlog_pb2"] = _second_wire()
    sys.modules["raftlog.wire"].raftlog_pb2 = wire  # type: ignore[attr-defined]
    from raftlog.machines import rules
    from raftlog.wire import codec_texts

    codec_texts._LIMITS |= dict.fromkeys(("note", "notes", "text", "written_under"), 1024)
    rules.RULES_LATEST = 2
    note = _command(rules)
    _snapshot_field()
    _wire_field()
    _topic(note)
    _limit()
    _history_field()
    _codec(note)
    _service(note)
    from raftlog.server import compactor

    compactor.COMPACTION_PROGRAM = "tests.cluster.version_2"


def _command(rules: Any) -> type:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Note:
        text: str

    rules.BROUGHT_BY[Note] = 2
    return Note


def _snapshot_field() -> None:
    from raftlog.machines import state

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicState(state.TopicState):
        notes: tuple[str, ...] = ()

    state.TopicState = TopicState  # type: ignore[misc]


def _wire_field() -> None:
    from raftlog.wire import calls

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TrimCall(calls.TrimCall):
        note: str = ""

    calls.TrimCall = TrimCall  # type: ignore[misc]
    calls.TRIM = calls.CALLS["Trim"] = calls.PlainCall("Trim", TrimCall, calls.Trimmed)


def _topic(note: type) -> None:
    from raftlog.machines import topic
    from raftlog.machines.outcomes import Trimmed

    machine: Any = topic.TopicMachine
    machine.commands |= {note}
    init, apply, trim = machine.__init__, machine._apply, machine._trim
    state, restore, fingerprint = machine.state, machine.restore.__func__, machine.fingerprint

    def new_init(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.notes = ()

    def new_apply(self: Any, index: int, command: Any) -> Any:
        if not isinstance(command, note):
            return apply(self, index, command)
        assert self.rules >= 2, "no leader proposes it earlier"
        self.notes += (command.text,)
        return Trimmed(log_start_offset=self.log_start_offset)

    def new_trim(self: Any, command: Any) -> Any:
        if self.rules >= 2 and command.offset <= self.log_start_offset:
            return topic.malformed("Trim", "it removes nothing")
        return trim(self, command)

    def new_restore(cls: Any, info: Any, found: Any, limits: Any = None) -> Any:
        restored = restore(cls, info, found, limits)
        restored.notes = found.notes
        return restored

    machine.__init__, machine._apply, machine._trim = new_init, new_apply, new_trim
    machine.state = lambda self: replace(state(self), notes=self.notes)
    machine.restore = classmethod(new_restore)
    machine.fingerprint = lambda self: fingerprint(self) + "".join(self.notes).encode()


def _limit() -> None:
    from raftlog.machines import kv

    machine: Any = kv.KvMachine
    write = machine._write

    def new_write(self: Any, index: int, command: Any) -> Any:
        if self.rules >= 2 and len(command.key) > KEY_CHARACTERS_MAX:
            return kv.malformed(type(command).__name__, "key is too long under version 2")
        return write(self, index, command)

    machine._write = new_write


def _history_field() -> None:
    from raftlog.compaction import compact
    from raftlog.image import history_file

    pb: Any = sys.modules["raftlog.wire.raftlog_pb2"]
    encode, extended = history_file.encode_description, compact._extended_history
    rules = 1

    def new_encode(description: Any) -> bytes:
        message = pb.RowGroupDescription.FromString(encode(description))
        message.written_under = WRITTEN_UNDER if rules >= 2 else ""
        encoded: bytes = message.SerializeToString()
        return encoded

    def new_extended(fs: Any, job: Any, machine: Any, *others: Any) -> Any:
        nonlocal rules
        rules = machine.rules
        return extended(fs, job, machine, *others)

    history_file.encode_description = new_encode
    compact._extended_history = new_extended


def _codec(note: type) -> None:
    from raftlog.wire import codec_commands

    conversion: Any = codec_commands.CONVERSIONS.of(note)
    codec_commands._NAMES[note] = ("note", conversion)
    codec_commands._KINDS["note"] = conversion


def _service(note: type) -> None:
    from raftlog.server import services, unchanged

    async def proposed(self: Any, call: Any) -> None:
        """A trim of nothing may have a note, and rules decide whether it is one."""

    unchanged.Unchanged.trimmed = proposed  # type: ignore[method-assign,assignment]
    service: Any = services.Services
    trim = service.trim

    async def new_trim(self: Any, call: Any) -> Any:
        if call.note:
            local = self._leading(call.group, call.incarnation)
            return self._accepted(
                services.Trimmed, await self._node.propose(local, note(text=call.note))
            )
        return await trim(self, call)

    service.trim = new_trim


def _note(servers: str, topic: str, text: str) -> int:
    """Prints "ok", or the name of the error."""
    from raftlog import connect
    from raftlog.core.types import Offset
    from raftlog.errors import RaftlogError
    from raftlog.wire import calls

    new_call: Callable[..., Any] = calls.TrimCall
    with connect(servers) as client:
        info = client.describe_topic(topic)
        call = new_call(group=info.group, incarnation=info.incarnation, offset=Offset(0), note=text)
        try:
            client._connection.call_leader(info.group, calls.TRIM, call)
        except RaftlogError as error:
            print(type(error).__name__)
            return int(error.exit_code)
    print("ok")
    return 0


def main(arguments: list[str]) -> int:
    install()
    if arguments[:1] == ["note"]:
        return _note(*arguments[1:])
    if arguments and Path(arguments[0]).is_dir():
        from raftlog.compaction.worker import work
        from raftlog.storage.posix import PosixFileSystem

        data = Path(arguments[0])
        work(data, PosixFileSystem(data), float(arguments[1]))
        return 0
    from raftlog.cli import main as command_line

    command_line.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
