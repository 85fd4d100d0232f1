"""When the oldest records of a topic go by its settings, and how long for reader groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from raftlog.core.types import GroupId, LogIndex, Offset, Payload
from raftlog.machines.commands import Configure
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.settings import (
    RETENTION_BYTES,
    RETENTION_RECORDS,
    RETENTION_S,
    RETENTION_UNREAD_BYTES,
    RETENTION_UNREAD_S,
    TopicSetting,
    value_of,
)
from raftlog.multiraft.effects import RetentionFailed
from raftlog.multiraft.local_replica import HeldBack, LocalReplica
from raftlog.multiraft.retention import Retention
from raftlog.multiraft.unread import first_unread
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import encode_command
from raftlog.wire.reader_positions import ReaderPosition, encode, key_of
from tests.multiraft.compaction_scene import Scene, topic_of

TOPIC = topic_of(1)
SECOND_US = 1_000_000
RECORDS = 20
"""Each is one entry, and its timestamp is its offset in microseconds."""


def position(group: str, offset: int, incarnation: str = TOPIC.incarnation) -> KeyValue:
    found = ReaderPosition(
        group=group, topic=TOPIC.name, incarnation=incarnation, offset=Offset(offset),
        published_us=1, publisher="",
    )  # fmt: skip
    return KeyValue(key_of(group, TOPIC.name), LogIndex(1), encode(found))


class Waiting:
    """A topic of `RECORDS` records, and the retention of its leader."""

    def __init__(self, **settings: int) -> None:
        self.scene = Scene()
        self.scene.write(RECORDS)
        self.local: LocalReplica = self.scene.topics[GroupId(1)]
        self.now_us: int | None = None
        self.retention = Retention(
            groups=self.scene.topics.values,
            clock=lambda voters: self.now_us,
            propose=self.scene.propose,
            effects=self.scene.driver,
            damaged=lambda local, damage: None,
        )
        self.configure(1, **settings)

    def configure(self, version: int, **settings: int) -> None:
        command = Configure(
            version=LogIndex(version),
            settings=tuple(TopicSetting(name=k, value=v) for k, v in sorted(settings.items())),
        )
        self.local.raft.propose([Payload(encode_command(command, None), b"")])
        self.scene.settle(self.local)

    def look(self, *positions: KeyValue, known: bool = True) -> int:
        """The log start after a look, when the positions were these. The leader asks at most
        once."""
        self.retention.look()
        reads = self.scene.driver.reads
        if reads:
            (done,) = reads
            reads.clear()
            done(positions if known else None)
        self.scene.settle(self.local)
        return self.local.topic_machine.log_start_offset


def test_records_that_a_group_has_not_read_stay_until_it_has() -> None:
    waiting = Waiting(retention_records=5, retention_unread_s=60)
    assert waiting.look(position("slow", 3), position("fast", 18)) == 3
    assert waiting.local.held_back == HeldBack(kept=Offset(15), group="slow")
    assert waiting.look(position("slow", 9), position("fast", 20)) == 9
    assert waiting.look(position("slow", 17), position("fast", 20)) == 15
    assert waiting.local.held_back is None


@pytest.mark.parametrize("header", [b"\xff", pb.BatchHeader(record_count=7).SerializeToString()])
@pytest.mark.parametrize(
    "settings",
    [{RETENTION_S: 1}, {RETENTION_RECORDS: 99}, {RETENTION_RECORDS: 50, RETENTION_UNREAD_S: 60}],
)
def test_what_is_due_stays_where_a_forged_entry_cannot_be_read(
    header: bytes, settings: dict[str, int]
) -> None:
    """A member that leads can write it, and have it committed by those of an older version."""
    waiting = Waiting()
    summary = pb.BatchSummary(record_count=100, schema_version=1)
    append = pb.Append(producer="q", timestamp_us=RECORDS, batch=summary, batch_header=header)
    command = b"\1" + pb.Command(append=append).SerializeToString()
    waiting.local.raft.propose([Payload(command, b"")])
    waiting.scene.settle(waiting.local)
    waiting.scene.trim(RECORDS)
    waiting.now_us = 99 * SECOND_US
    waiting.configure(waiting.local.replica.applied_index, **settings)
    assert waiting.look(position("dead", RECORDS)) == RECORDS
    (told,) = waiting.scene.driver.told
    assert isinstance(told, RetentionFailed)
    assert "100 were applied" in told.cause


def test_without_the_setting_nobody_is_waited_for_or_asked() -> None:
    waiting = Waiting(retention_records=5)
    waiting.retention.look()
    waiting.scene.settle(waiting.local)
    assert waiting.scene.driver.reads == []
    assert waiting.local.topic_machine.log_start_offset == 15


def test_a_topic_that_has_nothing_to_lose_asks_for_no_position() -> None:
    waiting = Waiting(retention_records=RECORDS, retention_unread_s=60)
    waiting.retention.look()
    assert waiting.scene.driver.reads == []


def test_a_group_that_reads_no_more_holds_records_back_only_until_they_are_so_old() -> None:
    waiting = Waiting(retention_records=5, retention_unread_s=60)
    dead = position("dead", 2)
    for now_us, start in ((None, 2), (60 * SECOND_US + 1, 2), (60 * SECOND_US + 7, 7),
                          (60 * SECOND_US + 19, 15), (99 * SECOND_US, 15)):  # fmt: skip
        waiting.now_us = now_us
        assert waiting.look(dead) == start
        assert (waiting.local.held_back is None) == (start == 15)


def test_a_group_holds_back_only_so_many_bytes() -> None:
    waiting = Waiting()
    each = waiting.local.topic_machine.record_bytes // RECORDS
    waiting.configure(2, **{RETENTION_BYTES: 4 * each, RETENTION_UNREAD_BYTES: 10 * each})
    assert waiting.look(position("dead", 0)) == 10
    assert waiting.look(position("dead", 13)) == 13
    assert waiting.look() == 16


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ({RETENTION_S: 1, RETENTION_UNREAD_S: 2}, 5),
        ({RETENTION_S: 2, RETENTION_UNREAD_S: 1}, 5),
        ({RETENTION_S: 1, RETENTION_RECORDS: 3, RETENTION_UNREAD_S: 2}, 5),
        ({RETENTION_UNREAD_S: 1}, 0),
    ],
)
def test_unread_records_stay_as_long_as_both_kinds_of_settings_say_at_most(
    settings: dict[str, int], start: int
) -> None:
    waiting = Waiting(**settings)
    waiting.now_us = 2 * SECOND_US + 5
    assert waiting.look(position("dead", 0)) == start


def test_positions_that_cannot_be_read_hold_back_as_if_nobody_had_read() -> None:
    waiting = Waiting(retention_records=5, retention_unread_s=60)
    assert waiting.look(known=False) == 0
    assert waiting.local.held_back == HeldBack(kept=Offset(15), group="")
    waiting.now_us = 60 * SECOND_US + 9
    assert waiting.look(known=False) == 9
    assert waiting.look() == 15, "there is no group"


def test_the_leader_decides_by_what_is_there_when_the_positions_have_come() -> None:
    waiting = Waiting(retention_records=5, retention_unread_s=60)
    waiting.retention.look()
    waiting.retention.look()
    (done,) = waiting.scene.driver.reads
    waiting.scene.write(10)
    done([position("slow", 19)])
    waiting.scene.settle(waiting.local)
    assert waiting.local.topic_machine.log_start_offset == 19
    waiting.scene.driver.reads.clear()
    waiting.retention.look()
    (done,) = waiting.scene.driver.reads
    waiting.configure(2, retention_records=5)
    done([position("late", 0)])
    assert waiting.local.held_back == HeldBack(kept=Offset(25), group="slow"), "as it was"
    assert waiting.look() == 25, "it waits for nobody now"
    assert waiting.local.held_back is None


@pytest.mark.parametrize(
    ("positions", "found"),
    [
        (None, (0, "")),
        ([], (20, "")),
        ([position("a", 7), position("b", 4), position("c", 20)], (4, "b")),
        ([position("a", 7), position("of another one", 2, incarnation="f" * 32)], (7, "a")),
        ([position("a", 7), position("above the end", 21)], (0, "above the end")),
        ([position("a", 7), KeyValue(key_of("b/%", TOPIC.name), LogIndex(1), b"?")], (0, "b/%")),
        ([KeyValue(key_of("a", "another topic"), LogIndex(1), b"?")], (20, "")),
    ],
)
def test_the_group_that_has_read_least_counts_and_what_cannot_be_trusted_has_read_nothing(
    positions: Sequence[KeyValue] | None, found: tuple[int, str]
) -> None:
    assert first_unread(positions, replace(TOPIC), Offset(20)) == found


@pytest.mark.parametrize("setting", [RETENTION_S, RETENTION_UNREAD_S])
@pytest.mark.parametrize("seen", ["by its leader", "as records came"])
def test_a_clock_that_was_behind_makes_no_record_older(setting: str, seen: str) -> None:
    """With two clocks that are known the earlier one counts: it was a month behind."""
    waiting = Waiting(**{RETENTION_S: 600, setting: 3_600})
    up, month_us = waiting.scene.driver, 30 * 86_400 * SECOND_US
    keep_us = value_of(waiting.local.topic_machine.settings, setting) * SECOND_US
    if seen == "by its leader":
        waiting.now_us = RECORDS
        assert waiting.look(position("slow", 0)) == 0
    else:
        waiting.local.note_records(Offset(0), 0)
    for up.up_us, start in ((1, 0), (keep_us - RECORDS, 0), (keep_us + 1, RECORDS)):
        waiting.now_us = RECORDS + month_us + up.up_us
        assert waiting.look(position("slow", 0)) == start
