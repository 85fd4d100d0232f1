"""Damage in a replica's files is told and counted once, and healed."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from raftlog.checksum import crc32c
from raftlog.core.membership import Membership, encode_membership
from raftlog.core.messages import EntryReply, EntryRequest
from raftlog.core.types import EMPTY_PAYLOAD, EntryKind, GroupId, LogIndex, NodeId, Payload
from raftlog.errors import CorruptFile
from raftlog.image.damage import DamagedEntry, DamagedLog
from raftlog.machines.commands import RemoveWriter
from raftlog.multiraft.effects import DamageFound, DamageHealed, DamageNotHealable, GroupQuarantined
from raftlog.multiraft.image_repair import Fetched
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.storage.frames import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from raftlog.wire.codec import encode_command
from tests.multiraft.test_quarantine import NOOP, SEGMENT, disk_of_two_topics, flip
from tests.multiraft.test_refused_messages import NODES, Driver, follower, started

CAUSE = CorruptFile(file=SEGMENT, position=70, problem="a bit was flipped")


def test_damage_is_told_and_counted_once_however_often_it_is_met() -> None:
    multiraft, driver = follower(disk_of_two_topics())
    local = multiraft.replicas[GroupId(1)]
    for _ in range(3):
        multiraft.repairs.found(local, DamagedEntry(LogIndex(2), CAUSE))
    multiraft.repairs.found(local, DamagedEntry(LogIndex(3), CAUSE))
    told = [event for event in driver.told if isinstance(event, DamageFound)]
    assert [event.cause for event in told] == [CAUSE.cause] * 2
    assert multiraft.repairs.counts(GroupId(1)).found == 2
    assert multiraft.repairs.counts(GroupId(2)).found == 0


def test_damage_that_something_else_stands_in_for_counts_as_healed() -> None:
    multiraft, _ = follower(disk_of_two_topics())
    multiraft.repairs.passed_over(GroupId(1), CAUSE.cause)
    assert multiraft.repairs.counts(GroupId(1)) == (1, 1, 0, CAUSE.cause)


CAUSE_ELSEWHERE = CorruptFile(file="groups/1", position=0, problem="its log is gone")


def test_a_replica_without_a_file_to_heal_is_quarantined_and_the_rest_of_the_node_serves() -> None:
    multiraft, driver = follower(disk_of_two_topics())
    multiraft.repairs.found(multiraft.replicas[GroupId(1)], DamagedLog(CAUSE_ELSEWHERE))
    assert any(isinstance(event, GroupQuarantined) for event in driver.told)
    assert 1 not in multiraft.replicas
    driver.run()
    assert multiraft.replicas[GroupId(1)].raft.recovering
    counts = multiraft.repairs.counts(GroupId(1))
    assert (counts.found, counts.healed) == (1, 1), "what was damaged went with its files"
    assert not multiraft.replicas[GroupId(2)].raft.recovering


def test_a_reader_is_told_once_it_is_known_that_no_other_node_has_an_entry_whole() -> None:
    disk = disk_of_two_topics()
    flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + len(b"command"))
    multiraft, driver = follower(disk)
    local = multiraft.replicas[GroupId(1)]

    def met() -> CorruptFile:
        cause = local.replica.log.damage_of(LogIndex(1), "its body is damaged")
        multiraft.repairs.met(local, cause)
        return cause

    assert "what other nodes have whole is read from them" in met().remedy
    for _ in range(10):
        multiraft.tick()
        driver.run()
        asked = [message for message in driver.sent if isinstance(message, EntryRequest)]
        driver.sent.clear()
        for each in asked:
            multiraft.receive(each.to, [_without_it(each)])
            driver.run()
    assert any(isinstance(event, DamageNotHealable) for event in driver.told)
    assert "no other node has it whole" in met().remedy
    assert multiraft.repairs.counts(GroupId(1))[:3] == (1, 0, 1)


def test_a_repair_that_ends_after_the_node_has_stopped_tells_nothing() -> None:
    twin, _ = follower(disk_of_two_topics())
    (sound,) = twin.replicas[GroupId(1)].replica.log.entries(1, 1, 1 << 20)
    for stops in (False, True):
        disk = disk_of_two_topics()
        flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + len(b"command"))
        multiraft, driver = follower(disk)
        local = multiraft.replicas[GroupId(1)]
        cause = local.replica.log.damage_of(LogIndex(1), "its body is damaged")
        multiraft.repairs.met(local, cause)
        for _ in range(20):
            multiraft.tick()
            if local.mending:
                break
            driver.run()
            asked = [message for message in driver.sent if isinstance(message, EntryRequest)]
            driver.sent.clear()
            for each in asked:
                multiraft.receive(each.to, [_with_it(each, sound.payload)])
        assert local.mending, "the segment is being written again"
        if stops:
            multiraft.stop()
        driver.run()
        assert not local.mending
        healed = [event for event in driver.told if isinstance(event, DamageHealed)]
        assert len(healed) == (0 if stops else 1)


def test_an_entry_of_another_length_is_not_kept_and_the_next_peer_is_asked() -> None:
    twin, _ = follower(disk_of_two_topics())
    (sound,) = twin.replicas[GroupId(1)].replica.log.entries(1, 1, 1 << 20)
    disk = disk_of_two_topics()
    flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + len(b"command"))
    multiraft, driver = follower(disk)
    local = multiraft.replicas[GroupId(1)]
    multiraft.repairs.met(local, local.replica.log.damage_of(LogIndex(1), "its body is damaged"))
    wrong = sound.payload._replace(body=sound.payload.body + bytes(1 << 20))
    _heal_by_the_second_of_two_peers(multiraft, driver, wrong, sound.payload)
    assert not any(isinstance(event, DamageNotHealable) for event in driver.told)


def test_a_repair_of_an_image_gives_up_no_entry_that_peers_are_asked_for() -> None:
    multiraft, driver = follower(disk_of_two_topics())
    local = multiraft.replicas[GroupId(1)]
    multiraft.repairs.found(local, DamagedEntry(LogIndex(1), CAUSE))
    for _ in range(10):
        multiraft.repairs._fetched(local, Fetched(done=False, damaged=frozenset()))
    assert not any(isinstance(event, DamageNotHealable) for event in driver.told)
    assert multiraft.repairs.counts(GroupId(1))[:3] == (1, 0, 0)


@pytest.mark.parametrize(
    ("kind", "sound"),
    [
        (EntryKind.COMMAND, encode_command(RemoveWriter(writer="w"), None)),
        (EntryKind.CONFIGURATION, encode_membership(Membership(NODES)).command),
    ],
    ids=["command", "membership"],
)
def test_a_forged_entry_that_no_program_reads_is_not_kept_and_the_next_peer_is_asked(
    kind: EntryKind, sound: bytes
) -> None:
    disk = disk_of_two_topics(logged=[(kind, Payload(sound, b""))])
    forged = _with_crc(bytes(len(sound) - 4), crc32c(sound))
    assert len(forged) == len(sound)
    multiraft, driver = follower(disk)
    local = multiraft.replicas[GroupId(1)]
    flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES)
    multiraft.repairs.met(local, local.replica.log.damage_of(LogIndex(1), "its command is damaged"))
    _heal_by_the_second_of_two_peers(multiraft, driver, Payload(forged, b""), Payload(sound, b""))
    assert local.replica.log.command(1) == (1, kind, sound)


def test_a_node_alone_gives_up_any_number_of_damaged_entries() -> None:
    count = sys.getrecursionlimit()
    disk = disk_of_two_topics(voters=(NodeId(1),), logged=[NOOP] * count)
    frame = FRAME_HEADER_BYTES + len(NOOP[1].command) + len(NOOP[1].body)
    for number in range(count):
        flip(disk, SEGMENT, SEGMENT_HEADER_BYTES + number * frame + FRAME_HEADER_BYTES)
    multiraft, driver = started(disk)
    local = multiraft.replicas[GroupId(1)]
    multiraft.repairs.met(local, local.replica.log.damage_of(LogIndex(1), "its command is damaged"))
    for _ in range(10):
        multiraft.tick()
        driver.run()
    assert any(isinstance(event, DamageNotHealable) for event in driver.told)


def _with_crc(prefix: bytes, wanted: int) -> bytes:
    """`prefix` and four bytes, with the CRC-32C `wanted`. Each bit of the four bytes flips the same
    bits of the CRC whatever the others are, so this solves linear equations."""
    base = crc32c(prefix + bytes(4))
    flips: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        flipped, bits = crc32c(prefix + (1 << bit).to_bytes(4, "little")) ^ base, 1 << bit
        while (highest := flipped.bit_length()) in flips:
            flipped, bits = flipped ^ flips[highest][0], bits ^ flips[highest][1]
        flips[highest] = flipped, bits
    left, chosen = wanted ^ base, 0
    while left:
        flipped, bits = flips[left.bit_length()]
        left, chosen = left ^ flipped, chosen ^ bits
    return prefix + chosen.to_bytes(4, "little")


def _with_it(request: EntryRequest, payload: Payload) -> EntryReply:
    """A peer's answer with the whole entry."""
    crc = crc32c(payload.body, crc32c(payload.command))
    return replace(_without_it(request), held=True, crc=crc, payload=payload)


def _heal_by_the_second_of_two_peers(
    multiraft: MultiRaft, driver: Driver, first: Payload, then: Payload
) -> None:
    """The peer that is asked first gives one payload, the next one the other."""
    asked: list[EntryRequest] = []
    for _ in range(20):
        multiraft.tick()
        driver.run()
        sent, driver.sent = driver.sent, []
        for each in sent:
            if isinstance(each, EntryRequest):
                asked.append(each)
                given = first if len(asked) == 1 else then
                multiraft.receive(each.to, [_with_it(each, given)])
                driver.run()
    assert len({each.to for each in asked}) == len(asked) == 2
    assert any(isinstance(event, DamageHealed) for event in driver.told)


def _without_it(request: EntryRequest) -> EntryReply:
    """A peer's answer that it does not have the entry whole."""
    return EntryReply(
        group=request.group,
        sender=request.to,
        to=request.sender,
        index=request.index,
        term=request.term,
        held=False,
        dropped=False,
        crc=0,
        payload=EMPTY_PAYLOAD,
    )
