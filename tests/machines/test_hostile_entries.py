"""Whatever a log has committed, no node ends by it: every command that can be read is applied or
rejected, and the state after it can be written, read and gone on with."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor as Kind

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import LogFromNewerVersion, MalformedRequest
from raftlog.machines.commands import TopicInfo
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.encoding import encode_outcome
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.outcomes import Refused
from raftlog.machines.schema import Field, Schema
from raftlog.machines.topic import TopicMachine
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import GroupState, decode_command, decode_state, encode_state

TOPIC = TopicInfo(
    name="t",
    incarnation="1" * 32,
    group=GroupId(1),
    schema=Schema(version=1, fields=(Field(id=1, name="a", type='"long"', nullable=True),)),
    voters=(NodeId(1), NodeId(2)),
    created_us=0,
    rules=1,
)
KV = KvInfo(group=GroupId(2), voters=(NodeId(1),), created_us=0, rules=1)
COMMANDS = [field.name for field in pb.Command.DESCRIPTOR.fields]
LIKELY = ["", "a", "t", "b" * 32, "1" * 32, "h:1", "g:2", '"long"', "add", "drop", "retention_s"]
UNLIKELY = ["nowhere", "%%%:00001", "h:99999", "[]:0", "{", "x" * 1024, "x" * 1025, "\ud7ff\x00"]
UNSIGNED = (Kind.TYPE_UINT32, Kind.TYPE_UINT64, Kind.TYPE_FIXED32)
SHORT = (Kind.TYPE_UINT32, Kind.TYPE_FIXED32)


class Forger:
    """Fills messages at random. It uses few words, so that commands meet what others made."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._words = random.sample(LIKELY, 5)

    def fill(self, message: Any) -> None:
        for field in message.DESCRIPTOR.fields:
            if field.is_repeated:
                self._fill_list(getattr(message, field.name), field)
            elif field.message_type is not None:
                getattr(message, field.name).SetInParent()
                self.fill(getattr(message, field.name))
            else:
                setattr(message, field.name, self._value(field))

    def _fill_list(self, values: Any, field: Kind) -> None:
        for _ in range(self._random.randrange(4)):
            if field.message_type is not None:
                self.fill(values.add())
            else:
                values.append(self._value(field))
        if field.message_type is None and self._is_likely():
            values[:] = sorted(set(values))

    def _value(self, field: Kind) -> Any:
        match field.type:
            case Kind.TYPE_STRING:
                return self._random.choice(self._words if self._is_likely() else UNLIKELY)
            case Kind.TYPE_BOOL:
                return self._random.random() < 0.5
            case Kind.TYPE_BYTES:
                return self._random.choice((b"", b"x"))
            case _:
                return self._number(field)

    def _number(self, field: Kind) -> int:
        if self._is_likely():
            return self._random.choice((0, 1, 1, 2, 3))
        bits = 32 if field.type in SHORT else 64
        if field.type in UNSIGNED:
            return self._random.choice((2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 2)))
        return self._random.choice((-1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))

    def _is_likely(self) -> bool:
        return self._random.random() < 0.95


def machine_of(kind: int) -> ControllerMachine | TopicMachine | KvMachine:
    return (ControllerMachine(), TopicMachine(TOPIC), KvMachine(KV))[kind]


def restored(machine: Any) -> Any:
    """The machine as a node that restarts has it."""
    state = decode_state(encode_state(GroupState(machine.state()))).machine
    if isinstance(machine, ControllerMachine):
        return ControllerMachine.restore(state)
    return type(machine).restore(TOPIC if isinstance(machine, TopicMachine) else KV, state)


def hurt(random: Random, accepted: Counter[str]) -> None:
    """Apply random commands to a machine."""
    machine: Any = machine_of(random.randrange(3))
    forger = Forger(random)
    for index in range(1, 60):
        command = pb.Command()
        part = getattr(command, random.choice(COMMANDS))
        part.SetInParent()
        forger.fill(part)
        try:
            decoded = decode_command(b"\x01" + command.SerializeToString())
        except MalformedRequest:
            continue
        if type(decoded) not in machine.commands:
            continue
        try:
            outcome = machine.apply(LogIndex(index), decoded)
        except LogFromNewerVersion:
            return  # what a peer sends is rejected for it before
        encode_outcome(outcome)
        accepted[type(decoded).__name__] += not isinstance(outcome, Refused)
        again = restored(machine)
        assert again.fingerprint() == machine.fingerprint(), decoded
        if random.random() < 0.2:
            machine = again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_command_ends_a_node_that_applies_it_or_starts_after_it(seed: int) -> None:
    random, accepted = Random(seed), Counter[str]()
    for _ in range(200):
        hurt(random, accepted)
    assert len(+accepted) > 10, "most kinds of commands come to something"
