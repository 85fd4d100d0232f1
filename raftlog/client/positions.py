"""`LogClient.positions`: how far groups of readers have got, and how far they are behind.

A reader group's position in a topic is one key of the cluster's key-value store. It is a hint for
people and for readers that want to go on from it. Spark's exactly-once does not rest on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from raftlog.client import topics
from raftlog.client.arguments import text_argument, whole_argument
from raftlog.client.connection import Connection
from raftlog.client.key_values import KeyValueStore
from raftlog.client.reader import TopicReader
from raftlog.client.watermark import NodeAnswer, watermark_of
from raftlog.core.types import GroupId, Offset
from raftlog.errors import InvalidOption, OffsetTrimmed, TopicNotFound, TopicRecreated
from raftlog.machines.commands import TopicInfo
from raftlog.machines.settings import waits_for_readers
from raftlog.wire.reader_positions import KEY_PREFIX, ReaderPosition, decode, encode, key_of

GROUP_CHARACTERS_MAX = 249
"""As a topic's name: prefix, group and topic then fit into a key, also if all of it is escaped."""

SPARK_PUBLISHER = "Spark on "
"""What the publisher of a query's position begins with. The query's checkpoint decides where it
continues, so moving such a position has no effect on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLag:
    """How far a group is behind in a topic. What is None is not known."""

    position: ReaderPosition
    """What the group published last."""
    high_water_mark: Offset | None
    """The topic's end; None, as all below: that incarnation of the topic is gone."""
    records_behind: int | None
    """Records from the position, or the log's start if that is higher, to the end."""
    bytes_behind: int | None
    """Their bytes, as the log holds them."""
    seconds_behind: float | None
    """The age of the first of them, by the client's clock; 0 if there is none."""
    records_trimmed: int | None
    """Records from the position on that are trimmed: the group can never read them."""
    records_held: int | None
    """Records that retention keeps only because this group, or also another one, has not read
    them: by the last look of the topic's leader, which no node that answers may be."""


class ReaderPositions:
    """The positions of all reader groups. Thread-safe; usable in a forked child.

    Every call may raise `DeadlineExceeded` or `NodeUnreachable`.
    """

    def __init__(
        self,
        connection: Connection,
        store: KeyValueStore,
        views: Callable[[Sequence[GroupId]], list[NodeAnswer]],
    ) -> None:
        """`views` asks all nodes about these groups."""
        self._connection = connection
        self._views = views
        self._store = store

    def publish(
        self, group: str, topic: TopicInfo | str, offset: int, *, publisher: str = ""
    ) -> ReaderPosition:
        """Publish a group's position in a topic, in place of its last one. The last call wins.

        Args:
            group: The reader group: 1 to 249 characters.
            topic: The topic, or its name.
            offset: The first offset that is not processed yet, 0 or more.
            publisher: Who publishes it, for people: at most 249 characters.

        Returns:
            The position, durable on a majority.

        Raises:
            InvalidOption: An argument has no valid value.
            TopicNotFound: No topic has the name.
            TooMany: The store has no room for more keys.
            UnknownSession: As for `KeyValueStore.put`: publish it again.
        """
        check_group(group)
        text_argument("publisher", publisher, most=GROUP_CHARACTERS_MAX)
        info = topics.meant(self._connection, topic)
        position = ReaderPosition(
            group=group,
            topic=info.name,
            incarnation=info.incarnation,
            offset=Offset(whole_argument("offset", offset)),
            published_us=time.time_ns() // 1000,
            publisher=publisher,
        )
        self._store.put(key_of(group, info.name), encode(position))
        return position

    def get(self, group: str, topic: TopicInfo | str) -> ReaderPosition | None:
        """Read a group's position in a topic, linearizably.

        Args:
            group: The reader group.
            topic: The topic, or its name.

        Returns:
            The position; None if the group has none in this incarnation of the topic.

        Raises:
            TopicNotFound: No topic has the name.
        """
        check_group(group)
        info = topics.meant(self._connection, topic)
        found = self._store.get(key_of(group, info.name))
        position = None if found is None else decode(found.key, found.value)
        same = position is not None and position.incarnation == info.incarnation
        return position if same else None

    def scan(self, group: str | None = None) -> Iterator[ReaderPosition]:
        """Read the positions of a group, or of all, linearizably.

        Args:
            group: The reader group. Default: all.

        Yields:
            The positions in the order of their keys, those of deleted topics as well.
        """
        prefix = KEY_PREFIX if group is None else key_of(check_group(group), "")
        return (decode(found.key, found.value) for found in self._store.scan(prefix))

    def lag(self, group: str | None = None) -> list[ReaderLag]:
        """Find how far a group, or each group, is behind in each of its topics.

        Args:
            group: The reader group. Default: all.

        Returns:
            The lags in the order of the positions' keys. Positions are read first, ends after them.
        """
        positions = list(self.scan(group))
        if not positions:
            return []
        known = {topic.name: topic for topic in topics.all_topics(self._connection)}
        held = self._held_in({position.topic for position in positions} & known.keys(), known)
        return [self._lag_of(position, known.get(position.topic), held) for position in positions]

    def forget(self, group: str) -> int:
        """Remove a group's positions. A group that still publishes comes back.

        Args:
            group: The reader group.

        Returns:
            How many there were.
        """
        found = list(self._store.scan(key_of(check_group(group), "")))
        return sum(self._store.delete(each.key) for each in found)

    # ------------------------------------------------------------ parts

    def _held_in(self, names: Set[str], known: Mapping[str, TopicInfo]) -> dict[str, int | None]:
        """Of the topics whose retention waits for readers, by name: where each would begin if it
        did not; None: no leader answers."""
        waiting = [known[name] for name in sorted(names) if waits_for_readers(known[name].settings)]
        if not waiting:
            return {}
        views = self._views([topic.group for topic in waiting])
        marks = [watermark_of(topic, views) for topic in waiting]
        return {
            mark.topic: mark.log_start_offset + mark.records_held if mark.leader else None
            for mark in marks
        }

    def _lag_of(
        self, position: ReaderPosition, topic: TopicInfo | None, held: Mapping[str, int | None]
    ) -> ReaderLag:
        if topic is not None and topic.incarnation == position.incarnation:
            try:
                return self._lag_in(position, topic, held.get(topic.name, 0))
            except (TopicNotFound, TopicRecreated):
                pass  # it was deleted in this moment
        return ReaderLag(
            position=position,
            high_water_mark=None,
            records_behind=None,
            bytes_behind=None,
            seconds_behind=None,
            records_trimmed=None,
            records_held=None,
        )

    def _lag_in(self, position: ReaderPosition, topic: TopicInfo, held_to: int | None) -> ReaderLag:
        reader = TopicReader(self._connection, topic, columns=["_timestamp"])
        held = reader.mark()
        end = held.high_water_mark
        start = Offset(min(end, max(position.offset, held.log_start_offset)))
        size: int | None = 0
        age_s: float | None = 0.0
        if start < end:
            try:
                size = sum(reader.sizes(start, end, mark=end, pieces_max=1).body_bytes)
                age_s = _age_s(reader, start, end)
            except OffsetTrimmed:
                size, age_s = None, None  # in this moment
        return ReaderLag(
            position=position,
            high_water_mark=end,
            records_behind=end - start,
            bytes_behind=size,
            seconds_behind=age_s,
            records_trimmed=max(0, held.log_start_offset - position.offset),
            records_held=None if held_to is None else max(0, held_to - start),
        )


def _age_s(reader: TopicReader, offset: Offset, mark: Offset) -> float:
    """How old the record at an offset is, 0 or more: clocks may differ."""
    batch = next(reader.batches(offset, Offset(offset + 1), mark=mark))
    written_s: float = batch.column(0)[0].as_py().timestamp()
    return max(0.0, time.time() - written_s)


def check_group(group: str) -> str:
    """The reader group's name. Raises `InvalidOption` for what is none."""
    if not text_argument("group", group, most=GROUP_CHARACTERS_MAX):
        raise InvalidOption(option="group", problem="is empty", advice="Name the reader group.")
    return group
