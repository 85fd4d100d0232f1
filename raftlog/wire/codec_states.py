"""Private to `raftlog.wire`: the states of machines as bytes, for snapshots.

A state is a version byte and a protobuf message. Packed columns travel as they are.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from raftlog.core.membership import MembershipAt, decode_membership, encode_membership
from raftlog.core.types import COUNT_MAX, LogIndex
from raftlog.machines.limits import INTEGER_MAX
from raftlog.machines.state import ControllerState, KvState, MachineState, TopicState
from raftlog.machines.state_validity import problem_of_state
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_fields import parse
from raftlog.wire.codec_values import CONVERSIONS, UNREADABLE, malformed
from raftlog.wire.framing import Unreadable

RECEIVED_FIELDS_MAX = 4_000_000
"""Of a state that another node gave, as `parse` counts them: they take some 1.2 GB of memory. Under
the limits a topic's has half as many, of which a million are open attempts; the key-value store's
has fewer. A controller's has one for each column of all topics: 10,000 topics of 390 columns."""
_VERSION_BYTE = bytes([1])

_TOPIC = CONVERSIONS.of(TopicState)
_CONTROLLER = CONVERSIONS.of(ControllerState)
_KV = CONVERSIONS.of(KvState)


class GroupState(NamedTuple):
    """What a snapshot holds."""

    machine: MachineState
    membership: MembershipAt | None = None
    """None: the members are those that the group was made with."""


def encode_state(state: GroupState) -> bytes:
    """The state's bytes: the same for equal states."""
    machine = state.machine
    match machine:
        case TopicState():
            message = pb.MachineState(topic=_TOPIC.encode(machine))
        case ControllerState():
            message = pb.MachineState(controller=_CONTROLLER.encode(machine))
        case KvState():
            message = pb.MachineState(kv=_KV.encode(machine))
        case _:
            assert_never(machine)
    if state.membership is not None:
        at, command = state.membership, encode_membership(state.membership.membership).command
        message.membership.CopyFrom(pb.MembershipState(index=at.index, command=command))
    return _VERSION_BYTE + message.SerializeToString(deterministic=True)


def decode_state(data: bytes, *, received: bool = False) -> GroupState:
    """The state, of which a machine can be made. Raises `MalformedRequest`.

    `received`: another node gave it. Then no number that machines count is above `COUNT_MAX`, and
    it has at most `RECEIVED_FIELDS_MAX` fields.
    """
    try:
        return _decode(data, received)
    except UNREADABLE as error:
        raise malformed("snapshot", error) from error


def _decode(data: bytes, received: bool) -> GroupState:
    if data[:1] != _VERSION_BYTE:
        raise Unreadable(f"a state begins with {data[:1].hex() or 'nothing'}, not 01")
    fields_max = RECEIVED_FIELDS_MAX if received else len(data)
    message = parse(pb.MachineState, data[1:], fields_max)
    state: MachineState
    match message.WhichOneof("state"):
        case "topic":
            state = _TOPIC.decode(message.topic)
        case "controller":
            state = _CONTROLLER.decode(message.controller)
        case "kv":
            state = _KV.decode(message.kv)
        case _:
            raise Unreadable("a state of no known kind")
    if (problem := problem_of_state(state, COUNT_MAX if received else INTEGER_MAX)) is not None:
        raise Unreadable(problem)
    told = message.membership if message.HasField("membership") else None
    return GroupState(state, None if told is None else _decode_membership(told))


def _decode_membership(told: pb.MembershipState) -> MembershipAt:
    try:
        return MembershipAt(LogIndex(told.index), decode_membership(told.command))
    except ValueError as error:
        raise Unreadable(str(error)) from error
