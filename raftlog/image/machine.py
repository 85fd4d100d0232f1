"""A group's machine, new or as a snapshot has it."""

from __future__ import annotations

from typing import Any

from raftlog.errors import CorruptFile, MalformedRequest
from raftlog.machines.commands import TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.state import ControllerState, TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.wire.codec_states import decode_state

Machine = StateMachine[Any, Outcome]


def new_machine(topic: TopicInfo | None) -> Machine:
    """The machine before the first entry; None: the controller's."""
    return ControllerMachine() if topic is None else TopicMachine(topic)


def restored_machine(topic: TopicInfo | None, state: bytes) -> Machine:
    """The machine that had this state, as `encode_state` wrote it. Raises `CorruptFile`."""
    try:
        decoded = decode_state(state)
    except MalformedRequest as error:
        raise CorruptFile(file="a snapshot", position=0, problem=error.what) from None
    match decoded:
        case ControllerState() if topic is None:
            return ControllerMachine.restore(decoded)
        case TopicState() if topic is not None:
            return TopicMachine.restore(topic, decoded)
    raise CorruptFile(file="a snapshot", position=0, problem="it is the state of another machine")
