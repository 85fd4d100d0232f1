"""A leader that gives a forged image: it is rejected, or what it comes to ends nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from raftlog.checksum import crc32c
from raftlog.core.membership import Membership, MembershipAt, encode_membership
from raftlog.core.messages import (
    AppendRequest,
    ImageChunk,
    ImageChunkRequest,
    ImageManifest,
    ImageOffer,
    ImageRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.ready import Role
from raftlog.core.types import (
    CONTROLLER_GROUP,
    COUNT_MAX,
    EMPTY_PAYLOAD,
    Entry,
    EntryKind,
    LogIndex,
    Offset,
    Payload,
    Term,
)
from raftlog.image.incoming import INCOMING_PREFIX, install
from raftlog.image.limits import RECEIVED_SNAPSHOT_BYTES_MAX
from raftlog.image.manifest import Image, SnapshotInfo, encode_image
from raftlog.image.snapshot_file import write_snapshot
from raftlog.machines.commands import Append, Trim
from raftlog.machines.state import TopicState
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.effects import GroupQuarantined, ImageInstalled, ImageRefused
from raftlog.storage.limits import LogLimits
from raftlog.storage.log import GroupLog
from raftlog.wire.batch import BatchHeader
from raftlog.wire.codec import GroupState, encode_command, encode_state
from tests.machines.scenes import batch
from tests.multiraft.leading import disk_of_topics, heartbeat
from tests.multiraft.test_hostile_peers import GROUP, NODES, ONE, THREE, TWO, Victim
from tests.multiraft.test_refused_messages import started
from tests.storage.disks import files_of, write
from tests.storage.memory import MemoryFileSystem

FOLDER = "groups/1"
TERM = Term(1)
AT = LogIndex(1_000)
"""The entry of the images."""
MEMBERS = Membership(NODES)
CHANGED = MembershipAt(LogIndex(5), MEMBERS)
SNAPSHOT = SnapshotInfo(index=AT, term=TERM, mark=Offset(30), state_hash=bytes(8))
HEADER = BatchHeader(record_count=10, schema_version=1, columns=())


def appended(sequence: int, header: BatchHeader = HEADER) -> Payload:
    command = Append(producer="p", sequence=sequence, timestamp_us=9, batch=batch(sequence))
    return Payload(encode_command(command, header), b"")


ENTRIES = [
    (EntryKind.NOOP, EMPTY_PAYLOAD),
    *((EntryKind.COMMAND, appended(number)) for number in range(3)),
    (EntryKind.CONFIGURATION, encode_membership(MEMBERS)),
    (EntryKind.COMMAND, Payload(encode_command(Trim(offset=Offset(30)), None), b"")),
]
"""What the replica has applied: 30 records, which are trimmed, and its members again."""


def entries(kinds: Sequence[tuple[EntryKind, Payload]], after: int) -> AppendRequest:
    """Node 2 leads the group, and sends node 1 entries that are committed."""
    return AppendRequest(
        group=GROUP,
        sender=TWO,
        to=ONE,
        term=TERM,
        prev_index=LogIndex(after),
        prev_term=TERM if after else Term(0),
        entries=tuple(
            Entry(LogIndex(after + number), TERM, kind, payload)
            for number, (kind, payload) in enumerate(kinds, 1)
        ),
        commit_index=LogIndex(after + len(kinds)),
    )


def follower(disk: MemoryFileSystem) -> Victim:
    victim = Victim(*started(disk))
    victim.hear(entries(ENTRIES, 0))
    assert machine(victim).high_water_mark == 30
    return victim


def machine(victim: Victim) -> TopicMachine:
    return victim.multiraft.replicas[GROUP].topic_machine


@dataclass(frozen=True)
class Forged:
    """An image of one snapshot, of a state that goes on from the replica's."""

    state: TopicState
    members: MembershipAt | None = CHANGED
    info: SnapshotInfo = SNAPSHOT

    @property
    def image(self) -> Image:
        return Image(generation=1, base=(AT, TERM), snapshots=(self.info,))

    def snapshot(self) -> bytes:
        """The snapshot's file."""
        disk = MemoryFileSystem(Random(1))
        disk.make_folder("f")
        state = encode_state(GroupState(self.state, self.members))
        write_snapshot(disk, "f", GROUP, self.info, state)
        return files_of(disk, "f")[self.info.name]


def offered(victim: Victim) -> None:
    victim.hear(heartbeat(GROUP, TWO, TERM))
    victim.driver.sent.clear()
    victim.hear(ImageOffer(group=GROUP, sender=TWO, to=ONE, index=AT))
    assert any(isinstance(each, ImageRequest) for each in victim.driver.sent)


def described(victim: Victim, forged: Forged, snapshot_bytes: int = 0) -> None:
    victim.hear(
        ImageManifest(
            group=GROUP,
            sender=TWO,
            to=ONE,
            text=encode_image(forged.image),
            snapshot_bytes=snapshot_bytes or len(forged.snapshot()),
        )
    )


def asked(victim: Victim) -> list[ImageChunkRequest]:
    return [each for each in victim.driver.sent if isinstance(each, ImageChunkRequest)]


def answer(victim: Victim, data: bytes) -> None:
    """Give the bytes of the snapshot that were asked for."""
    for each in asked(victim):
        part = data[each.position : each.position + each.length]
        victim.hear(
            ImageChunk(
                group=GROUP,
                sender=TWO,
                to=ONE,
                name=each.name,
                position=each.position,
                crc=crc32c(part),
                gone=False,
                data=part,
            )
        )


def give(victim: Victim, forged: Forged) -> None:
    offered(victim)
    described(victim, forged)
    answer(victim, forged.snapshot())


def told(victim: Victim, kind: type[Any]) -> list[Any]:
    return [each for each in victim.driver.told if isinstance(each, kind)]


def lives_on(disk: MemoryFileSystem, victim: Victim, after: int) -> Victim:
    """Entries come, time passes, and the node starts again: its replica is there."""
    victim.hear(entries([(EntryKind.COMMAND, appended(3))], after))
    victim.tick(10)
    applied = victim.multiraft.replicas[GROUP].replica.applied_index
    assert applied == after + 1
    disk.crash()
    again = Victim(*started(disk))
    assert not told(again, GroupQuarantined)
    last = again.multiraft.replicas[GROUP].raft.log.term_at(applied)
    again.hear(heartbeat(GROUP, TWO, TERM, commit_index=applied, commit_term=last))
    again.tick(3)
    assert again.multiraft.replicas[GROUP].replica.applied_index == applied
    return again


# ---------------------------------------------------------------- what is rejected


def with_mark(forged: Forged, mark: int) -> Forged:
    """Its manifest says so as well."""
    return replace(forged, info=replace(forged.info, mark=Offset(mark)))


def with_extents(forged: Forged, mark: int, log_start: int) -> Forged:
    extents = replace(
        forged.state.extents,
        high_water_mark=Offset(mark),
        position_offsets=log_start.to_bytes(8, "little"),
    )
    return with_mark(replace(forged, state=replace(forged.state, extents=extents)), mark)


def with_state(forged: Forged, **values: Any) -> Forged:
    return replace(forged, state=replace(forged.state, **values))


def members_at(forged: Forged, index: int) -> Forged:
    return replace(forged, members=MembershipAt(LogIndex(index), MEMBERS))


FORGERIES: dict[str, Callable[[Forged], Forged]] = {
    "it is not the manifest of an image": lambda forged: replace(
        forged, info=replace(forged.info, state_hash=bytes(32))
    ),
    "its members are those of entry 1001": lambda forged: members_at(forged, AT + 1),
    "its state is that after entry 1001": lambda forged: with_state(
        forged, last_index=LogIndex(AT + 1)
    ),
    "a number of .* in TopicState.last_index": lambda forged: with_state(
        forged, last_index=LogIndex(COUNT_MAX + 1)
    ),
    "rules version 1000000": lambda forged: with_state(forged, rules=10**6),
    "its records end at 30, and its manifest has 31": lambda forged: with_mark(forged, 31),
    "its records from 30 to 40 are in no file": lambda forged: with_extents(forged, 40, 30),
    "its high_water_mark is 20, where this replica has 30": lambda forged: with_extents(
        forged, 20, 20
    ),
    "its log_start_offset is 29, where this replica has 30": lambda forged: with_extents(
        forged, 30, 29
    ),
    "its last_index is 5, where this replica has 6": lambda forged: with_state(
        forged, last_index=LogIndex(5)
    ),
    "its now_us is 8, where": lambda forged: with_state(forged, now_us=8),
    "its members' entry is 4, where": lambda forged: members_at(forged, CHANGED.index - 1),
    "its members' entry is 0, where": lambda forged: replace(forged, members=None),
}


@pytest.mark.parametrize("cause", FORGERIES)
def test_a_forged_image_is_rejected_and_the_replica_keeps_what_it_has(cause: str) -> None:
    disk = disk_of_topics(1)
    victim = follower(disk)
    forged = FORGERIES[cause](Forged(machine(victim).state()))
    give(victim, forged)
    (refused,) = told(victim, ImageRefused)
    assert re.search(cause, refused.cause), refused.cause
    assert not told(victim, ImageInstalled)
    lives_on(disk, victim, after=len(ENTRIES))


def test_an_image_that_goes_on_from_the_replica_is_installed() -> None:
    """Otherwise the test above would show nothing."""
    disk = disk_of_topics(1)
    victim = follower(disk)
    give(victim, Forged(machine(victim).state()))
    assert not told(victim, ImageRefused)
    assert told(victim, ImageInstalled)
    assert machine(lives_on(disk, victim, after=AT)).high_water_mark == 40


@pytest.mark.parametrize("index", [2**31, COUNT_MAX])
def test_the_highest_entry_that_an_image_may_have_leaves_room_for_others(index: int) -> None:
    disk = disk_of_topics(1)
    victim = follower(disk)
    forged = Forged(machine(victim).state())
    give(victim, replace(forged, info=replace(forged.info, index=LogIndex(index))))
    assert told(victim, ImageInstalled)
    lives_on(disk, victim, after=index)


def test_an_own_snapshot_that_no_machine_has_had_quarantines_its_group_alone() -> None:
    """A program before this one installed it."""
    disk = disk_of_topics(1)
    victim = follower(disk)
    forged = members_at(Forged(machine(victim).state()), AT + 1)
    victim.tick(3)
    disk.crash()
    name = forged.info.name
    disk.open(f"{FOLDER}/{INCOMING_PREFIX}{name}", create=True).write_at(0, [forged.snapshot()])
    install(disk, FOLDER, GROUP, forged.image)
    again = Victim(*started(disk))
    (quarantined,) = told(again, GroupQuarantined)
    assert "no snapshot is whole" in quarantined.cause
    again.tick(3)


def test_an_entry_that_is_no_membership_quarantines_its_group_alone() -> None:
    disk = disk_of_topics(1)
    log = GroupLog.open(disk, FOLDER, GROUP, LogLimits(preallocate_bytes=0))
    log.append([Entry(LogIndex(1), TERM, EntryKind.CONFIGURATION, Payload(b"{}", b""))])
    write(log)
    log.close()
    victim = Victim(*started(disk))
    (quarantined,) = told(victim, GroupQuarantined)
    assert "an entry of its log is no membership" in quarantined.cause


def test_a_batch_that_has_other_records_than_its_command_says_is_not_stored() -> None:
    victim = follower(disk_of_topics(1))
    kind, payload = EntryKind.COMMAND, appended(3, replace(HEADER, record_count=0))
    victim.hear(entries([(kind, payload)], len(ENTRIES)))
    assert victim.multiraft.replicas[GROUP].raft.log.last_index == len(ENTRIES)


# ---------------------------------------------------------------- how much may come


@pytest.mark.parametrize(
    ("snapshot_bytes", "room", "cause"),
    [
        (RECEIVED_SNAPSHOT_BYTES_MAX + 1, 1 << 50, "its snapshot has"),
        (2**64 - 1, 1 << 50, "its snapshot has"),
        (
            RECEIVED_SNAPSHOT_BYTES_MAX,
            RECEIVED_SNAPSHOT_BYTES_MAX - 1,
            "bytes of it are missing here",
        ),
    ],
)
def test_no_more_is_fetched_than_a_snapshot_has_and_the_disk_takes(
    snapshot_bytes: int, room: int, cause: str
) -> None:
    disk = disk_of_topics(1)
    victim = follower(disk)
    disk.room = room
    offered(victim)
    described(victim, Forged(machine(victim).state()), snapshot_bytes)
    (refused,) = told(victim, ImageRefused)
    assert cause in refused.cause
    assert not asked(victim)


@pytest.mark.parametrize(("mark", "is_refused"), [(0, False), (30, True)])
def test_nothing_is_fetched_for_the_controllers_group_but_a_snapshot(
    mark: int, is_refused: bool
) -> None:
    """Its history would be any bytes: no replica of the group looks at them."""
    victim = follower(disk_of_topics(1))
    victim.hear(heartbeat(CONTROLLER_GROUP, TWO, TERM))
    victim.hear(ImageOffer(group=CONTROLLER_GROUP, sender=TWO, to=ONE, index=AT))
    snapshot = replace(SNAPSHOT, mark=Offset(mark))
    victim.hear(
        ImageManifest(
            group=CONTROLLER_GROUP,
            sender=TWO,
            to=ONE,
            text=encode_image(Image(generation=1, base=(AT, TERM), snapshots=(snapshot,))),
            snapshot_bytes=100,
        )
    )
    assert bool(asked(victim)) != is_refused
    assert ["is no topic's" in each.cause for each in told(victim, ImageRefused)] == (
        [True] if is_refused else []
    )


# ---------------------------------------------------------------- who may give one


def begun(victim: Victim) -> Forged:
    """An image is on its way."""
    forged = Forged(machine(victim).state())
    offered(victim)
    described(victim, forged)
    assert asked(victim)
    return forged


def test_an_image_that_comes_when_the_replica_leads_changes_nothing() -> None:
    disk = disk_of_topics(1)
    victim = follower(disk)
    forged = begun(victim)
    chunks = victim.driver.sent
    victim.hear(TimeoutNow(group=GROUP, sender=TWO, to=ONE, term=TERM))
    (request,) = [
        each for each in victim.driver.sent if isinstance(each, VoteRequest) and each.to == THREE
    ]
    victim.hear(
        VoteReply(
            group=GROUP, sender=THREE, to=ONE, term=request.term, granted=True, pre=request.pre
        )
    )
    local = victim.multiraft.replicas[GROUP]
    assert local.raft.role is Role.LEADER
    victim.driver.sent = chunks
    answer(victim, forged.snapshot())
    victim.tick(3)
    assert local.raft.role is Role.LEADER
    assert not told(victim, ImageInstalled)


def test_an_image_of_a_former_leader_is_not_taken() -> None:
    disk = disk_of_topics(1)
    victim = follower(disk)
    forged = begun(victim)
    victim.hear(heartbeat(GROUP, THREE, TERM + 1))
    answer(victim, forged.snapshot())
    victim.tick(3)
    assert not told(victim, ImageInstalled)
    assert machine(victim).high_water_mark == 30


def test_a_fetch_ends_when_its_source_leads_no_longer() -> None:
    """The next leader's image is fetched at once."""
    disk = disk_of_topics(1)
    victim = follower(disk)
    begun(victim)
    victim.hear(heartbeat(GROUP, THREE, TERM + 1))
    victim.tick(1)
    victim.driver.sent.clear()
    victim.hear(ImageOffer(group=GROUP, sender=THREE, to=ONE, index=AT))
    requests = [each for each in victim.driver.sent if isinstance(each, ImageRequest)]
    assert [each.to for each in requests] == [THREE]
