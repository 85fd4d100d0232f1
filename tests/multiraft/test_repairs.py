"""Damage in a replica's files is told and counted once, and healed."""

from __future__ import annotations

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import CorruptFile
from raftlog.image.damage import DamagedEntry, DamagedLog
from raftlog.multiraft.effects import DamageFound, GroupQuarantined
from tests.multiraft.test_quarantine import SEGMENT, disk_of_two_topics
from tests.multiraft.test_refused_messages import follower

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


CAUSE_ELSEWHERE = CorruptFile(file="groups/1", position=0, problem="its log is gone")


def test_a_replica_without_a_file_to_heal_is_quarantined_and_the_rest_of_the_node_serves() -> None:
    multiraft, driver = follower(disk_of_two_topics())
    multiraft.repairs.found(multiraft.replicas[GroupId(1)], DamagedLog(CAUSE_ELSEWHERE))
    assert any(isinstance(event, GroupQuarantined) for event in driver.told)
    assert 1 in multiraft.replicas.quarantined
    assert 2 in multiraft.replicas
