"""A group's machine, new or as a snapshot has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, assert_never

from raftlog.core.membership import MembershipAt
from raftlog.core.types import NO_INDEX
from raftlog.errors import CorruptFile, MalformedRequest
from raftlog.image.manifest import SnapshotInfo
from raftlog.machines.commands import TopicInfo
from raftlog.machines.contract import StateMachine
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import ControllerInfo, GroupInfo, KvInfo
from raftlog.machines.kv import KvMachine
from raftlog.machines.outcomes import Outcome
from raftlog.machines.state import ControllerState, KvState, TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.wire.codec_states import GroupState, decode_state

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

    def problem_after(self, reached: Mapping[str, int]) -> str | None:
        """Why no log leads here from where a replica has `reached` this; None: one may."""
        for name, number in progress(self.machine, self.membership).items():
            if number < reached.get(name, number):
                return f"its {name} is {number}, where this replica has {reached[name]}"
        return None


NO_PROGRESS: Mapping[str, int] = {}


def progress(machine: Machine, membership: MembershipAt | None) -> Mapping[str, int]:
    """How far a replica with this machine and these members has got: numbers that never fall."""
    index = membership.index if membership is not None else NO_INDEX
    return {**machine.progress(), "members' entry": index}


def restored(
    info: GroupInfo, snapshot: SnapshotInfo, state: bytes, *, received: bool = False
) -> Restored:
    """The group's machine as the snapshot has it, whose state `encode_state` wrote. `received`:
    see `decode_state`.

    Raises `CorruptFile`, also where the machine cannot have had that state at the snapshot, and
    `LogFromNewerVersion` for rules that this program does not know.
    """
    try:
        decoded = decode_state(state, received=received)
    except MalformedRequest as error:
        raise CorruptFile(file=snapshot.name, position=0, problem=error.what) from None
    if (problem := _problem_at(snapshot, decoded)) is not None:
        raise CorruptFile(file=snapshot.name, position=0, problem=problem)
    match info, decoded.machine:
        case ControllerInfo(), ControllerState() as of_controller:
            return Restored(ControllerMachine.restore(of_controller), decoded.membership)
        case TopicInfo() as topic, TopicState() as of_topic:
            return Restored(TopicMachine.restore(topic, of_topic), decoded.membership)
        case KvInfo() as kv, KvState() as of_kv:
            return Restored(KvMachine.restore(kv, of_kv), decoded.membership)
    problem = "it is the state of another machine"
    raise CorruptFile(file=snapshot.name, position=0, problem=problem)


def _problem_at(snapshot: SnapshotInfo, decoded: GroupState) -> str | None:
    """Why no machine has this state after the snapshot's entry, or None."""
    state, membership = decoded.machine, decoded.membership
    if state.last_index > snapshot.index:
        return f"its state is that after entry {state.last_index}"
    if membership is not None and membership.index > snapshot.index:
        return f"its members are those of entry {membership.index}"
    mark = state.extents.high_water_mark if isinstance(state, TopicState) else 0
    if mark != snapshot.mark:
        return f"its records end at {mark}, and its manifest has {snapshot.mark}"
    return None
