"""Bugs to plant in retention that waits for reader groups; see `planted`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raftlog.core.types import Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.multiraft import retention, unread
from raftlog.multiraft.retention import Retention
from raftlog.multiraft.unread import Unread
from raftlog.wire.reader_positions import decode, names_of
from tests.simulation.planting import replaced

Positions = Sequence[KeyValue] | None


def slowest_group_forgotten() -> Any:
    """What one group has read goes, whatever the others have."""

    def fastest(positions: Positions, topic: TopicInfo, mark: Offset) -> Unread:
        every = [unread.first_unread([each], topic, mark) for each in positions or ()]
        known = [each for each in every if each.group]
        return max(known, default=unread.first_unread(positions, topic, mark))

    return replaced(retention, "first_unread", fastest)


def unknown_positions_taken_for_read() -> Any:
    """If positions cannot be read, retention does not wait."""

    def first_unread(positions: Positions, topic: TopicInfo, mark: Offset) -> Unread:
        return unread.first_unread(positions or (), topic, mark)

    return replaced(retention, "first_unread", first_unread)


def position_above_the_mark_believed() -> Any:
    """A group that says that it is beyond the end has read all."""

    def first_unread(positions: Positions, topic: TopicInfo, mark: Offset) -> Unread:
        found = unread.first_unread(positions, topic, Offset(1 << 60))
        return found._replace(start=min(mark, found.start))

    return replaced(retention, "first_unread", first_unread)


def position_of_another_incarnation_counts() -> Any:
    """Who read a former topic of this name, and no other, keeps its records."""

    def position_in(topic: TopicInfo, key: str, value: bytes) -> list[tuple[str, Offset]]:
        group, name = names_of(key)
        return [(group, decode(key, value).offset)] if name == topic.name else []

    return replaced(unread, "_position_in", position_in)


def unread_records_stay_for_ever() -> Any:
    """However old they are, or how much came after them, unread records stay."""
    return replaced(
        retention,
        "first_kept_unread",
        lambda local, settings, now_us: local.topic_machine.log_start_offset,
    )


def unread_records_go_one_too_soon() -> Any:
    """Of what a group has not read the first record goes."""

    def first_unread(positions: Positions, topic: TopicInfo, mark: Offset) -> Unread:
        found = unread.first_unread(positions, topic, mark)
        return found._replace(start=min(mark, Offset(found.start + 1)))

    return replaced(retention, "first_unread", first_unread)


def unread_bytes_counted_to_the_last_batch() -> Any:
    """Of unread records only the last batch counts as kept by bytes."""
    original = retention._beyond

    def beyond(local: Any, age_s: int, byte_count: int, now_us: int | None) -> Offset:
        return original(local, age_s, min(byte_count, 1), now_us)

    return replaced(retention, "_beyond", beyond)


def positions_not_read_again() -> Any:
    """Positions that could not be read are not asked for a second time."""
    original = Retention._positions_read

    def positions_read(self: Retention, positions: Positions) -> None:
        original(self, positions)
        self._reading = positions is None

    return replaced(Retention, "_positions_read", positions_read)


RETENTION_BUGS = (
    slowest_group_forgotten,
    unknown_positions_taken_for_read,
    position_above_the_mark_believed,
    position_of_another_incarnation_counts,
    unread_records_stay_for_ever,
    unread_records_go_one_too_soon,
    unread_bytes_counted_to_the_last_batch,
    positions_not_read_again,
)
