"""Following a topic as a reader group: from its position on, which `commit` moves.

A commit is a compare-and-set of the position's key. So of two readers that follow one group, the
one that commits later is refused and learns that it is not the only one: no position goes back
unnoticed, and what an operator publishes is not overwritten by a reader that does not know of it.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from raftlog.client.arguments import whole_argument
from raftlog.client.key_values import KeyValueStore
from raftlog.client.marks import check_not_above
from raftlog.client.reader import TopicReader
from raftlog.client.record_batches import FollowedBatches
from raftlog.core.types import NO_INDEX, Offset
from raftlog.errors import (
    DataLoss,
    InvalidOption,
    OffsetTrimmed,
    PositionMoved,
    TopicRecreated,
    VersionConflict,
)
from raftlog.machines.commands import TopicInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.wire.calls import ReadableRange
from raftlog.wire.reader_positions import ReaderPosition, decode, encode, key_of

GroupStart = int | Literal["earliest", "latest"]
"""Where a reader group begins that has no position: an offset, the log's start, or its end."""


def group_start_argument(start: int | None, group: str, first: object) -> GroupStart:
    """Where the group begins if it has no position. Raises `InvalidOption`."""
    if start is not None:
        raise InvalidOption(
            option="start",
            problem=f"is given with a group, {group!r}, whose position says where to begin",
            advice="Give group_start, where a group begins that has no position. To move one that "
            "has: client.positions.publish.",
        )
    match first:
        case "earliest" | "latest":
            return first
        case int() if not isinstance(first, bool):
            return whole_argument("group_start", first)
        case _:
            raise InvalidOption(
                option="group_start",
                problem=f"is {first!r}",
                advice="Give 'earliest', 'latest' or an offset.",
            )


class GroupReader(FollowedBatches):
    """A topic's batches from a reader group's position on, as they come. One thread at a time; any
    may call `close`.

    Where it ends, after `idle_timeout_s` or with an error, the next iteration continues, except
    after `close`. What it gave is processed again after a crash until `commit` has stored that it
    was taken. Rows that `where` leaves out count as taken.
    """

    def __init__(
        self,
        store: KeyValueStore,
        reader: TopicReader,
        topic: TopicInfo,
        group: str,
        *,
        first: GroupStart,
        patience_s: float,
        until_idle: bool,
    ) -> None:
        """`first`: where a group without a position begins. The others are as for
        `TopicReader.follow`. Raises as `LogClient.follow`."""
        self._store = store
        self._topic = topic
        self._group = group
        self._key = key_of(group, topic.name)
        self._token = uuid.uuid4().hex[:8]
        found = store.get(self._key)
        self._version = NO_INDEX if found is None else found.version
        held = reader.mark()
        if found is not None:
            start = self._resumed(found, held)
        elif isinstance(first, int):
            check_not_above("group_start", first, topic, held)
            start = Offset(first)
        else:
            start = held.log_start_offset if first == "earliest" else held.high_water_mark
        super().__init__(reader, start, patience_s=patience_s, until_idle=until_idle)
        self._committed = start

    @property
    def position(self) -> Offset:
        """The first offset that this reader has not given yet: what `commit` stores."""
        return self._position

    @property
    def committed(self) -> Offset:
        """The first offset after the last commit; without one, where the group began."""
        return self._committed

    def _read(self) -> pa.RecordBatch:
        try:
            return super()._read()
        except (OffsetTrimmed, TopicRecreated) as error:
            raise replace(error, group=self._group) from error

    def commit(self, offset: int | None = None) -> ReaderPosition:
        """Store that the group has processed what was taken. Durable on a majority on return.

        After an error that says that no node answered, the position may be stored or not: commit
        again.

        Args:
            offset: The first offset that is not processed, from the last commit to `position`.
                Default: `position`, after the last batch that was taken.

        Returns:
            The group's position, as `raftlog lag` shows it.

        Raises:
            PositionMoved: Another reader of the group committed, or its position was published or
                removed since this reader read or stored it. Nothing was stored.
            InvalidOption: `offset` lies elsewhere. Back goes `client.positions.publish`.
            TooMany: The store has no room for more keys.
            UnknownSession: As for `KeyValueStore.put`: commit again.
        """
        wanted = self._position if offset is None else Offset(whole_argument("offset", offset))
        if not self._committed <= wanted <= self._position:
            raise InvalidOption(
                option="offset",
                problem=f"is {wanted}, outside of [{self._committed}, {self._position}], what was "
                "taken since the last commit",
                advice="To move a group elsewhere, end its readers and call "
                "client.positions.publish; its next reader goes on from there.",
            )
        position = ReaderPosition(
            group=self._group,
            topic=self._topic.name,
            incarnation=self._topic.incarnation,
            offset=wanted,
            published_us=time.time_ns() // 1000,
            publisher=self._publisher(),
        )
        value = encode(position)
        try:
            self._version = self._store.put(self._key, value, expected=self._version)
        except VersionConflict:
            self._version = self._store.put(self._key, value, expected=self._own_version())
        self._committed = wanted
        return position

    # ------------------------------------------------------------ parts

    def _resumed(self, found: KeyValue, held: ReadableRange) -> Offset:
        """Where the group goes on. Never silently elsewhere than at its position."""
        position, topic = decode(found.key, found.value), self._topic
        if position.incarnation != topic.incarnation:
            raise TopicRecreated(
                topic=topic.name,
                wanted=position.incarnation,
                found=topic.incarnation,
                group=self._group,
            )
        if position.offset < held.log_start_offset:
            raise OffsetTrimmed(
                topic=topic.name,
                requested=position.offset,
                earliest=held.log_start_offset,
                end=held.high_water_mark,
                group=self._group,
            )
        if position.offset > held.high_water_mark:
            raise DataLoss(
                what=f"Reader group {self._group!r} is at offset {position.offset} of topic "
                f"{topic.name!r}, which ends at {held.high_water_mark}.",
                advice="The log lost acknowledged records (was a backup restored?), or a wrong "
                "offset was published. To go on from another one: "
                f"client.positions.publish({self._group!r}, {topic.name!r}, ...).",
            )
        return position.offset

    def _own_version(self) -> int:
        """The version of the key if this reader wrote it after all: an earlier commit failed
        without an answer, and was done. Raises `PositionMoved` if another did."""
        found = self._store.get(self._key)
        if found is None:
            raise PositionMoved(group=self._group, topic=self._topic.name, found=-1)
        position = decode(found.key, found.value)
        if position.publisher != self._publisher():
            raise PositionMoved(
                group=self._group,
                topic=self._topic.name,
                found=position.offset,
                publisher=position.publisher,
            )
        return found.version

    def _publisher(self) -> str:
        """This reader, for people and to know its own commits; another one in a forked child."""
        return f"{socket.gethostname()}:{os.getpid()}/{self._token}"
