"""A group's machine, new or as a snapshot has it."""

from __future__ import annotations

from typing import Any, NamedTuple

from raftlog.core.membership import MembershipAt
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


class Restored(NamedTuple):
    """What a snapshot comes to."""

    machine: Machine
    membership: MembershipAt | None
    """None: the members are those that the group was made with."""


def restored(topic: TopicInfo | None, state: bytes) -> Restored:
    """The machine that had this state, as `encode_state` wrote it. Raises `CorruptFile`."""
    try:
        decoded = decode_state(state)
    except MalformedRequest as error:
        raise CorruptFile(file="a snapshot", position=0, problem=error.what) from None
    match decoded.machine:
        case ControllerState() as controller if topic is None:
            return Restored(ControllerMachine.restore(controller), decoded.membership)
        case TopicState() as state_of_topic if topic is not None:
            return Restored(TopicMachine.restore(topic, state_of_topic), decoded.membership)
    raise CorruptFile(file="a snapshot", position=0, problem="it is the state of another machine")
