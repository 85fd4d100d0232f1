"""The reads of a `LogClient`: records of a topic, how far it is, and where a time is in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import overload

from raftlog.client.arguments import (
    ReadArguments,
    ReadPreference,
    timestamp_argument,
    topics_argument,
)
from raftlog.client.connection import Connection
from raftlog.client.group_reader import GroupReader, GroupStart, group_start_argument
from raftlog.client.key_values import KeyValueStore
from raftlog.client.marks import read_marks
from raftlog.client.positions import check_group
from raftlog.client.reader import TopicReader
from raftlog.client.record_batches import FollowedBatches, RecordBatches
from raftlog.client.topics import meant
from raftlog.core.types import Offset
from raftlog.errors import RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.predicates.predicate import Predicate
from raftlog.wire.calls import FIND_OFFSET, FindOffset, RangeSizes, ReadableRange


class TopicReads:
    """What a `LogClient` reads of a topic, which it takes as all methods of the client do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.kv = KeyValueStore(connection)
        """The cluster's key-value store."""

    def read(
        self,
        topic: TopicInfo | str,
        start: int | None = None,
        end: int | None = None,
        *,
        mark: int | None = None,
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
        where: str | Predicate | None = None,
    ) -> RecordBatches:
        """Read the records [start, end) in order, from any replica.

        Args:
            topic: The topic, or its name.
            start: The first offset to read, 0 or more. Default: the log's start.
            end: The offset to stop before. Without `mark` the read never goes beyond the current
                high-water mark. Default: that mark, or `mark`.
            mark: A high-water mark that the caller knows, which saves a request. `end` must not
                exceed it. Default: the client asks for the mark.
            columns: The columns to read, in this order; the metadata columns _topic, _offset,
                _timestamp, _epoch, _writer and _term may be among them. Default: all columns of the
                topic.
            preference: Which replicas to ask: `nearest` (any), `leader`, `follower` or `observer`.
            where: The condition on the rows, as SQL text such as "delay > 60 AND carrier IN ('AA',
                'B6')" or as a `Predicate`. Rows for which it is false or null are left out. It may
                test columns that are not among `columns`, and metadata columns. The text takes
                what `raftlog tail --where` takes, and compares as Spark does: NaN is equal to
                itself and larger than any number, and a FLOAT is compared as a DOUBLE, so write
                0.1f for the FLOAT. Times without a zone in it are UTC. Default: all rows.

        Returns:
            An iterator over Arrow batches of these columns, none of which is empty, or the same as
            a table or a DataFrame. Spark may have written text that is not UTF-8, of which
            `to_pylist` and `to_pandas` raise Python's or Arrow's error: take `to_table`, and cast
            the column to `pa.binary()` before.

        Raises:
            OffsetTrimmed: `start` lies below the log's start.
            InvalidOption: An argument has no valid value, `end` exceeds `mark`, or a column does
                not exist.
            DataLoss: Records below the mark cannot be read at any replica.
        """
        ReadArguments().with_values(preference=preference).with_arguments(
            start=start, end=end, mark=mark, columns=columns
        )
        reader = self._reader(topic, columns, preference, where)
        if mark is None or start is None:
            held = reader.mark()
            start = held.log_start_offset if start is None else start
            if mark is None:
                mark = held.high_water_mark
                end = mark if end is None else min(end, mark)
        end = mark if end is None else end
        return RecordBatches(reader, reader.batches(Offset(start), Offset(end), mark=Offset(mark)))

    @overload
    def follow(
        self,
        topic: TopicInfo | str,
        start: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
        where: str | Predicate | None = None,
        idle_timeout_s: float | None = None,
    ) -> RecordBatches: ...

    @overload
    def follow(
        self,
        topic: TopicInfo | str,
        *,
        group: str,
        group_start: GroupStart = "earliest",
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
        where: str | Predicate | None = None,
        idle_timeout_s: float | None = None,
    ) -> GroupReader: ...

    def follow(
        self,
        topic: TopicInfo | str,
        start: int | None = None,
        *,
        group: str | None = None,
        group_start: GroupStart = "earliest",
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
        where: str | Predicate | None = None,
        idle_timeout_s: float | None = None,
    ) -> RecordBatches:
        """Read records as they come, from an offset on or from where a reader group has got to.

        Args:
            topic: The topic, or its name.
            start: The first offset to read. One above the high-water mark is waited for. Default:
                that mark.
            group: The reader group, 1 to 249 characters, whose position says where to begin, in
                place of `start`. Default: none.
            group_start: Where a group begins that has no position: `earliest`, the log's start,
                `latest`, the high-water mark, or an offset up to that mark. A position is never
                replaced by it.
            columns: As in `read`.
            preference: As in `read`. Whether more records came is asked of the leader.
            where: As in `read`.
            idle_timeout_s: End the iteration after this many seconds without a record. Default:
                never.

        Returns:
            An iterator over Arrow batches, none of which is empty, which another thread can
            `close`. After its end, or an error, the next iteration continues where it was. With
            `group` it is a `GroupReader`, whose `commit` stores how far the group has got.

        Raises:
            DeadlineExceeded: No leader could be asked whether there are more records. The batches
                before it are good.
            OffsetTrimmed: `start`, or the group's position, lies below the log's start.
            TopicRecreated: The group's position is in an earlier incarnation of the topic.
            InvalidOption: An argument has no valid value, or a column does not exist.
            DataLoss: Records below the mark cannot be read at any replica, or the group's position
                lies above it.
        """
        ReadArguments().with_values(preference=preference).with_arguments(
            start=start, columns=columns, idle_timeout_s=idle_timeout_s
        )
        patience_s = (
            self._connection.settings.request_timeout_s
            if idle_timeout_s is None
            else idle_timeout_s
        )
        until_idle = idle_timeout_s is not None
        if group is not None:
            first = group_start_argument(start, check_group(group), group_start)
            info = meant(self._connection, topic)
            return GroupReader(
                self.kv,
                self._reader(info, columns, preference, where),
                info,
                group,
                first=first,
                patience_s=patience_s,
                until_idle=until_idle,
            )
        reader = self._reader(topic, columns, preference, where)
        first_offset = Offset(start) if start is not None else reader.mark().high_water_mark
        return FollowedBatches(reader, first_offset, patience_s=patience_s, until_idle=until_idle)

    def read_high_water_mark(self, topic: TopicInfo | str) -> ReadableRange:
        """Ask the topic's leader for the high-water mark by a linearizable read.

        Args:
            topic: The topic, or its name.

        Returns:
            The log's start, the high-water mark and the bytes in between.
        """
        return self._reader(topic, None, "leader").mark()

    def read_high_water_marks(
        self, topics: Sequence[TopicInfo | str]
    ) -> list[ReadableRange | RaftlogError]:
        """Ask the leaders of many topics for their high-water marks, several at the same time.

        Args:
            topics: The topics. A `TopicInfo` costs one request; a name is looked up before, one
                after the other.

        Returns:
            What `read_high_water_mark` would return of each topic, in the order of `topics`, or
            the `TopicNotFound` or `TopicRecreated` that it would raise. Each mark is linearizable;
            together they are not of one moment.
        """
        return read_marks(self._connection, topics_argument(topics))

    def read_sizes(
        self,
        topic: TopicInfo | str,
        start: int,
        end: int,
        *,
        mark: int,
        pieces_max: int,
        where: Predicate | None = None,
    ) -> RangeSizes:
        """Ask how the bytes of [start, end) lie, to split a range into pieces of about equal bytes.

        Args:
            topic: The topic, or its name.
            start: The first offset, 0 or more.
            end: The offset to stop before; at most `mark`.
            mark: A high-water mark that the caller knows.
            pieces_max: The most pieces to return, 1 or more. 10,000 are the limit in any case.
            where: A predicate over the topic's and metadata columns by name. Default: none.

        Returns:
            Consecutive pieces of the range with their bytes. With a predicate they may end before
            `end`, and say where no record can match, by the statistics of the stored batches.

        Raises:
            InvalidOption: An argument has no valid value.
            OffsetTrimmed: `start` lies below the log's start.
            DataLoss: The cluster does not know the mark any more.
        """
        ReadArguments().with_values(start=start, end=end, mark=mark, pieces_max=pieces_max)
        return self._reader(topic, None, "nearest").sizes(
            Offset(start), Offset(end), mark=Offset(mark), pieces_max=pieces_max, where=where
        )

    def find_offset(self, topic: TopicInfo | str, timestamp_us: int | datetime) -> Offset:
        """Find where a topic's records of a time begin, by a linearizable read.

        Args:
            topic: The topic, or its name.
            timestamp_us: A time: microseconds since 1970 UTC, or a datetime with a time zone.

        Returns:
            The first offset, from the log's start on, whose record's `_timestamp` is at or after
            that time. Timestamps never fall along the offsets. The high-water mark if there is
            none.

        Raises:
            InvalidOption: `timestamp_us` is no time, or a number that would be one of this century
                in seconds or milliseconds.
        """
        time_us = timestamp_argument(timestamp_us)
        info = meant(self._connection, topic)
        call = FindOffset(group=info.group, incarnation=info.incarnation, timestamp_us=time_us)
        return self._connection.call_leader(info.group, FIND_OFFSET, call).offset

    def _reader(
        self,
        topic: TopicInfo | str,
        columns: Sequence[str] | None,
        preference: ReadPreference,
        where: str | Predicate | None = None,
    ) -> TopicReader:
        info = meant(self._connection, topic)
        condition = None
        if where is not None:
            from raftlog.records.condition import condition_of  # which loads sqlglot

            condition = condition_of(where, info.schema, "where")
        return TopicReader(
            self._connection, info, columns=columns, preference=preference, where=condition
        )
