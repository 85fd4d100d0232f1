"""A group's machine, new or as a snapshot has it."""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never

from raftlog.core.membership import MembershipAt
from raftlog.errors import CorruptFile, MalformedRequest
from raftlog.machines.commands import TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import ControllerInfo, GroupInfo, KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.state import ControllerState, KvState, TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.wire.codec_states import decode_state

Machine = StateMachine[Any, Outcome]


def new_machine(info: GroupInfo) -> Machine:
    """The group's machine before the first entry."""
    match info:
        case ControllerInfo():
            return ControllerMachine()
        case TopicInfo():
            return TopicMachine(info)
        case KvInfo():
            return KvMachine(info)
        case _:
            assert_never(info)


class Restored(NamedTuple):
    """What a snapshot comes to."""

    machine: Machine
    membership: MembershipAt | None
    """None: the members are those that the group was made with."""


def restored(info: GroupInfo, state: bytes) -> Restored:
    """The group's machine that had this state, as `encode_state` wrote it. Raises `CorruptFile`."""
    try:
        decoded = decode_state(state)
    except MalformedRequest as error:
        raise CorruptFile(file="a snapshot", position=0, problem=error.what) from None
    match info, decoded.machine:
        case ControllerInfo(), ControllerState() as of_controller:
            return Restored(ControllerMachine.restore(of_controller), decoded.membership)
        case TopicInfo() as topic, TopicState() as of_topic:
            return Restored(TopicMachine.restore(topic, of_topic), decoded.membership)
        case KvInfo() as kv, KvState() as of_kv:
            return Restored(KvMachine.restore(kv, of_kv), decoded.membership)
    raise CorruptFile(file="a snapshot", position=0, problem="it is the state of another machine")
