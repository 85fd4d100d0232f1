"""`LogClient.positions`: how far groups of readers have got, and how far they are behind.

A reader group's position in a topic is one key of the cluster's key-value store. It is a hint for
people and for readers that want to go on from it. Spark's exactly-once does not rest on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from raftlog.client import topics
from raftlog.client.arguments import text_argument, whole_argument
from raftlog.client.connection import Connection
from raftlog.client.key_values import KeyValueStore
from raftlog.client.marks import check_not_above, read_marks
from raftlog.client.reader import TopicReader
from raftlog.client.watermark import NodeAnswer, watermark_of
from raftlog.core.types import GroupId, Offset
from raftlog.errors import InvalidOption, OffsetTrimmed, TopicNotFound, TopicRecreated
from raftlog.machines.byte_index import ByteIndex
from raftlog.machines.commands import TopicInfo
from raftlog.machines.settings import waits_for_readers
from raftlog.wire.calls import READ_PIECES_MAX, ReadableRange
from raftlog.wire.reader_positions import KEY_PREFIX, ReaderPosition, decode, encode, key_of

GROUP_CHARACTERS_MAX = 249
"""As a topic's name: prefix, group and topic then fit into a key, also if all of it is escaped."""

_STRETCH_RECORDS = 10_000
"""Positions that are at most so far apart share a read of the times between them. No setting: only
the runs of equal times travel. A read costs what about 12 batches cost (1.5 ms), so one over groups
that are far apart would cost more than one for each."""

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
    """Records from the position, or the log's start if that is higher, to the end. Negative: the
    position is above the end, because records were lost or a wrong one was published."""
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
            offset: The first offset that is not processed yet, 0 to the high-water mark, which the
                topic's leader is asked for.
            publisher: Who publishes it, for people: at most 249 characters.

        Returns:
            The position, durable on a majority.

        Raises:
            InvalidOption: An argument has no valid value.
            TopicNotFound: No topic has the name.
            TopicRecreated: The incarnation of the `TopicInfo` is gone.
            TooMany: The store has no room for more keys.
            UnknownSession: As for `KeyValueStore.put`: publish it again.
        """
        check_group(group)
        text_argument("publisher", publisher, most=GROUP_CHARACTERS_MAX)
        wanted = Offset(whole_argument("offset", offset))
        info = topics.meant(self._connection, topic)
        check_not_above("offset", wanted, info, TopicReader(self._connection, info).mark())
        position = ReaderPosition(
            group=group,
            topic=info.name,
            incarnation=info.incarnation,
            offset=wanted,
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
        by_topic: dict[str, list[ReaderPosition]] = {}
        for position in positions:
            info = known.get(position.topic)
            if info is not None and info.incarnation == position.incarnation:
                by_topic.setdefault(position.topic, []).append(position)
        held = self._held_in(by_topic.keys(), known)
        infos = [known[name] for name in by_topic]
        lags: dict[ReaderPosition, ReaderLag] = {}
        for info, mark in zip(infos, read_marks(self._connection, infos), strict=True):
            if isinstance(mark, ReadableRange):  # else it was deleted in this moment
                lags.update(self._lags_in(info, by_topic[info.name], mark, held.get(info.name, 0)))
        return [lags.get(position) or _unknown(position) for position in positions]

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

    def _lags_in(
        self,
        topic: TopicInfo,
        positions: Sequence[ReaderPosition],
        held: ReadableRange,
        held_to: int | None,
    ) -> Iterator[tuple[ReaderPosition, ReaderLag]]:
        """The lags of positions in one topic that holds this."""
        end = held.high_water_mark
        starts = {
            position: Offset(min(end, max(position.offset, held.log_start_offset)))
            for position in positions
        }
        behind = sorted({start for start in starts.values() if start < end})
        sizes, ages_s = self._behind(topic, behind, end)
        sizes[end], ages_s[end] = 0, 0.0
        for position, start in starts.items():
            yield (
                position,
                ReaderLag(
                    position=position,
                    high_water_mark=end,
                    records_behind=end - max(position.offset, held.log_start_offset),
                    bytes_behind=sizes.get(start),
                    seconds_behind=ages_s.get(start),
                    records_trimmed=max(0, held.log_start_offset - position.offset),
                    records_held=None if held_to is None else max(0, held_to - start),
                ),
            )

    def _behind(
        self, topic: TopicInfo, starts: Sequence[Offset], end: Offset
    ) -> tuple[dict[Offset, int], dict[Offset, float]]:
        """The bytes from each of these rising offsets to the end, and the age of the record there.
        One call for the bytes, and one for each stretch of offsets that are close to one another.
        Nothing of what is trimmed in this moment."""
        sizes: dict[Offset, int] = {}
        ages_s: dict[Offset, float] = {}
        reader = TopicReader(self._connection, topic, columns=["_timestamp"])
        for stretch in _stretches(starts):
            with suppress(OffsetTrimmed, TopicNotFound, TopicRecreated):
                if not sizes:
                    found = reader.sizes(stretch[0], end, mark=end, pieces_max=READ_PIECES_MAX)
                    index = ByteIndex(found.offsets, [0, *accumulate(found.body_bytes)])
                    here = [start for start in starts if start >= stretch[0]]
                    sizes = {each: index.positions[-1] - index.position_of(each) for each in here}
                ages_s.update(_ages_s(reader, stretch, end))
        return sizes, ages_s


def _unknown(position: ReaderPosition) -> ReaderLag:
    """That incarnation of the topic is gone."""
    return ReaderLag(
        position=position,
        high_water_mark=None,
        records_behind=None,
        bytes_behind=None,
        seconds_behind=None,
        records_trimmed=None,
        records_held=None,
    )


def _stretches(starts: Sequence[Offset]) -> Iterator[list[Offset]]:
    """The rising offsets, apart where more than `_STRETCH_RECORDS` lie between two."""
    stretch: list[Offset] = []
    for start in starts:
        if stretch and start - stretch[-1] > _STRETCH_RECORDS:
            yield stretch
            stretch = []
        stretch.append(start)
    if stretch:
        yield stretch


def _ages_s(
    reader: TopicReader, starts: Sequence[Offset], mark: Offset
) -> Iterator[tuple[Offset, float]]:
    """How old the records at these rising offsets are, 0 or more: clocks may differ."""
    waiting = iter(starts)
    start, first = next(waiting, None), starts[0]
    for batch in reader.batches(first, Offset(starts[-1] + 1), mark=mark):
        while start is not None and start < first + batch.num_rows:
            written_s: float = batch.column(0)[start - first].as_py().timestamp()
            yield start, max(0.0, time.time() - written_s)
            start = next(waiting, None)
        first = Offset(first + batch.num_rows)


def check_group(group: str) -> str:
    """The reader group's name. Raises `InvalidOption` for what is none."""
    if not text_argument("group", group, most=GROUP_CHARACTERS_MAX):
        raise InvalidOption(option="group", problem="is empty", advice="Name the reader group.")
    return group
