"""Private to `raftlog.wire`: the states of machines as bytes, for snapshots.

A state is a version byte and a protobuf message. Packed columns travel as they are.
"""

from __future__ import annotations

from typing import assert_never

from raftlog.machines.state import ControllerState, TopicState
from raftlog.machines.state_validity import problem_of_controller_state, problem_of_topic_state
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_values import CONVERSIONS, UNREADABLE, malformed
from raftlog.wire.framing import Unreadable

_VERSION_BYTE = bytes([1])

_TOPIC = CONVERSIONS.of(TopicState)
_CONTROLLER = CONVERSIONS.of(ControllerState)


def encode_state(state: TopicState | ControllerState) -> bytes:
    """The state's bytes: the same for equal states."""
    match state:
        case TopicState():
            message = pb.MachineState(topic=_TOPIC.encode(state))
        case ControllerState():
            message = pb.MachineState(controller=_CONTROLLER.encode(state))
        case _:
            assert_never(state)
    return _VERSION_BYTE + message.SerializeToString(deterministic=True)


def decode_state(data: bytes) -> TopicState | ControllerState:
    """The state, of which a machine can be made. Raises `MalformedRequest`."""
    try:
        return _decode(data)
    except UNREADABLE as error:
        raise malformed("snapshot", error) from error


def _decode(data: bytes) -> TopicState | ControllerState:
    if data[:1] != _VERSION_BYTE:
        raise Unreadable(f"a state begins with {data[:1].hex() or 'nothing'}, not 01")
    message = pb.MachineState.FromString(data[1:])
    state: TopicState | ControllerState
    match message.WhichOneof("state"):
        case "topic":
            state = _TOPIC.decode(message.topic)
            problem = problem_of_topic_state(state)
        case "controller":
            state = _CONTROLLER.decode(message.controller)
            problem = problem_of_controller_state(state)
        case _:
            raise Unreadable("a state of no known kind")
    if problem is not None:
        raise Unreadable(problem)
    return state
