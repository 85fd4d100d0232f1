"""Which answer a proposal gets, and when: who leads is checked before the node's own limits."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from raftlog.core.messages import AppendRequest
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Offset,
    Payload,
    Term,
)
from raftlog.errors import DiskFull, NoQuorum, NotLeader, RulesTooOld
from raftlog.machines.commands import MAKES_ROOM, NEEDS_ROOM, Command, Trim
from raftlog.machines.rules import BROUGHT_BY, RULES_LATEST
from raftlog.multiraft.admission import (
    OF_THE_CLUSTER,
    ROOM_MADE_BYTES_MAX,
    ROOM_MADE_SHARE_BYTES,
    RoomUse,
)
from raftlog.storage.frames import FRAME_HEADER_BYTES
from raftlog.wire.codec import encode_command
from tests.multiraft.compaction_scene import Scene
from tests.multiraft.leading import THREE, TIMING, LeadingNode, heartbeat
from tests.multiraft.test_refused_messages import follower
from tests.storage.memory import MemoryFileSystem


def test_a_follower_without_room_on_its_disk_still_names_the_leader() -> None:
    """The client must move to the leader, whose disk may have room."""
    disk = MemoryFileSystem(Random(1))
    multiraft, driver = follower(disk)

    def no_room(operation: str, path: str) -> None:
        if operation == "write":
            raise DiskFull(file=path)

    disk.interrupt = no_room
    entry = Entry(index=LogIndex(1), term=Term(1), kind=EntryKind.NOOP, payload=Payload(b"", b""))
    request = AppendRequest(
        group=CONTROLLER_GROUP,
        sender=NodeId(2),
        to=NodeId(1),
        term=Term(1),
        prev_index=LogIndex(0),
        prev_term=Term(0),
        entries=(entry,),
        commit_index=LogIndex(0),
    )
    multiraft.receive(NodeId(2), [request])
    driver.run()
    multiraft.tick()
    assert multiraft.disk.full is not None
    with pytest.raises(NotLeader) as refused:
        multiraft.propose(multiraft.replicas.of_controller, Payload(b"", b""), lambda _: None)
    assert refused.value.leader == 2


def test_only_what_makes_room_has_the_reserve_of_a_full_disk() -> None:
    """Else who may write could use it up with commits and aborts of epochs that there never were,
    and no topic could be trimmed any more."""
    node = LeadingNode()
    local, answers = node.local(1), []
    node.multiraft.admission._disk._freed_for = DiskFull(file="a log")
    empty = Payload(b"", b"")
    with pytest.raises(DiskFull):
        node.multiraft.propose(local, empty, answers.append, RoomUse(needs_room=True))
    with pytest.raises(DiskFull):
        node.multiraft.propose(local, Payload(b"", b"records"), answers.append)
    trim = Payload(encode_command(Trim(offset=Offset(0)), None), b"")
    node.multiraft.propose(local, trim, answers.append, RoomUse(makes_room=True))


def test_what_makes_room_on_a_full_disk_takes_little_of_its_reserve() -> None:
    """Else who may trim one topic could use it up with trims that remove nothing."""
    node = LeadingNode(topics=2)
    one, other = node.local(1), node.local(2)
    node.multiraft.admission._disk._freed_for = DiskFull(file="a log")
    trim, use = payload_that_takes(ROOM_MADE_BYTES_MAX // 4), RoomUse(makes_room=True)
    for _ in range(4):
        node.multiraft.admission.check(one, trim, use)
    with pytest.raises(DiskFull):
        node.multiraft.admission.check(one, trim, use)
    node.multiraft.admission.check(other, trim, use)
    node.multiraft.admission.check(one, trim, OF_THE_CLUSTER)
    node.multiraft.admission._disk.times_full += 1  # it had room between, and no trim came then
    node.multiraft.admission.check(one, trim, use)


def test_what_makes_room_on_a_full_disk_is_shared_out() -> None:
    """Who may alter one topic must not use up the room for deletions of all others."""
    node = LeadingNode()
    admission, local = node.multiraft.admission, node.local(1)
    admission._disk._freed_for = DiskFull(file="a log")
    command, admins = payload_that_takes(ROOM_MADE_SHARE_BYTES // 2), RoomUse(makes_room=True)
    for number in range(ROOM_MADE_BYTES_MAX // ROOM_MADE_SHARE_BYTES):
        use = admins._replace(share=f"token:{number}")
        for _ in range(2):
            admission.check(local, command, use)
        with pytest.raises(DiskFull):
            admission.check(local, command, use)
    with pytest.raises(DiskFull):
        admission.check(local, command, admins._replace(share="token:last"))
    for _ in range(2 * ROOM_MADE_BYTES_MAX // ROOM_MADE_SHARE_BYTES):
        admission.check(local, command, admins)
    with pytest.raises(DiskFull):
        admission.check(local, command, admins)


def test_one_principal_cannot_use_up_the_reserve_by_many_topics() -> None:
    node = LeadingNode(topics=20)
    admission = node.multiraft.admission
    disk = admission._disk
    disk._reserve.byte_count = 16 * 8 * ROOM_MADE_SHARE_BYTES
    disk._freed_for = DiskFull(file="a log")
    command, use = payload_that_takes(ROOM_MADE_SHARE_BYTES), RoomUse(makes_room=True, share="a")
    for group in range(1, 9):
        admission.check(node.local(group), command, use)
    with pytest.raises(DiskFull):
        admission.check(node.local(9), command, use)
    admission.check(node.local(9), command, use._replace(share="b"))
    admission.check(node.local(10), command, use._replace(share=""))


def payload_that_takes(byte_count: int) -> Payload:
    """Of the log, with what comes before it there."""
    return Payload(bytes(byte_count - FRAME_HEADER_BYTES), b"")


OF_ADMINS_AND_NODES = {
    "AddNode", "Configure", "CreateKv", "Expire", "PlaceGroup", "RegisterNode", "ReportPlacement",
    "RetireNode", "Rules", "SetDuty", "SetParents", "SetSchema", "SnapshotPoint",
}  # fmt: skip


def test_each_command_lets_something_go_or_waits_while_a_disk_is_full() -> None:
    waits, passes = ({each.__name__ for each in kind} for kind in (NEEDS_ROOM, MAKES_ROOM))
    every = {each.__name__ for kinds in get_args(Command) for each in get_args(kinds) or [kinds]}
    assert every == waits | passes | OF_ADMINS_AND_NODES
    assert len(every) == len(waits) + len(passes) + len(OF_ADMINS_AND_NODES)


def test_a_command_that_a_later_version_brought_is_rejected_until_the_group_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the log it would stop every replica whose program does not know it."""
    local = Scene().topics[GroupId(1)]
    assert local.payload(Trim(offset=Offset(0))).command
    monkeypatch.setitem(BROUGHT_BY, Trim, RULES_LATEST + 1)
    with pytest.raises(RulesTooOld) as refused:
        local.payload(Trim(offset=Offset(0)))
    error = refused.value
    assert (error.topic, error.what) == ("topic-1", "Trim")
    assert (error.rules, error.needed) == (RULES_LATEST, RULES_LATEST + 1)


@pytest.mark.parametrize("how", ["deposed", "cut off"])
def test_a_write_in_flight_is_answered_as_soon_as_its_leader_steps_down(how: str) -> None:
    """The next leader may never write at its index, and the caller must ask that one now."""
    node = LeadingNode()
    local, answers = node.local(1), []
    command = Payload(encode_command(Trim(offset=Offset(0)), None), b"")
    node.multiraft.propose(local, command, answers.append)
    node.driver.run()
    assert not answers, "no other node holds it"
    if how == "deposed":
        node.multiraft.receive(THREE, [heartbeat(local.group, THREE, local.raft.term + 1)])
    else:
        for _ in range(TIMING.election_ticks_min):
            node.multiraft.tick()
            node.driver.run()
    node.driver.run()
    assert local.raft.role is not Role.LEADER
    assert [type(each) for each in answers] == [NoQuorum]
