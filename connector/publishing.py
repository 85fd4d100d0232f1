"""How a stream's positions get to the key-value store: off its batches' thread, the latest wins.

Each process has one publisher, made when it is first needed, with a daemon thread of its own. A
position is a hint, so an error is a warning in the log and never one of the query. A position that
was not published is offered again when Spark asks for the next offset.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raftlog.errors import RaftlogError, UnknownSession
from raftlog.spark import connection, offsets
from raftlog.spark.options import ConnectionOptions
from raftlog.spark.worker_log import one_line

if TYPE_CHECKING:
    from raftlog import TopicInfo

PUBLISH_INTERVAL_S = 1.0
"""From the start of one round of calls to the next one's: soon enough for people, and little load
for the controller's log, whatever the trigger is."""

FLUSH_TIMEOUT_S = 2.0
"""How long a query that ends by itself waits for its last positions."""

log = logging.getLogger("raftlog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """What is published of one topic: all records below `offset` are processed."""

    connection: ConnectionOptions
    group: str
    topic: TopicInfo
    offset: int

    @property
    def key(self) -> tuple[ConnectionOptions, str, str]:
        """Whose position it is: a later one of the same key replaces it."""
        return self.connection, self.group, self.topic.name

    @property
    def point(self) -> tuple[str, int]:
        """Where in the topic's incarnations it is."""
        return self.topic.incarnation, self.offset


class LatestPositions:
    """Which positions wait, at most one of each key, and when they are due. No clock, no thread."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waiting: dict[tuple[ConnectionOptions, str, str], GroupPosition] = {}
        self._taken: dict[tuple[ConnectionOptions, str, str], tuple[str, int]] = {}
        self._due_s = float("-inf")

    def offer(self, position: GroupPosition) -> None:
        """Let it wait in place of an earlier one; not if it was the last that was taken."""
        if self._taken.get(position.key) == position.point:
            self._waiting.pop(position.key, None)
        else:
            self._waiting[position.key] = position

    def delay_s(self, now_s: float) -> float | None:
        """How long until what waits is due; None if nothing waits."""
        return max(0.0, self._due_s - now_s) if self._waiting else None

    def take(self, now_s: float) -> list[GroupPosition]:
        """All that wait, due or not. The next ones are due an interval later."""
        found = list(self._waiting.values())
        self._waiting.clear()
        self._taken.update({position.key: position.point for position in found})
        self._due_s = now_s + self._interval_s
        return found

    def failed(self, position: GroupPosition) -> None:
        """It was taken and not published: it may be offered again."""
        if self._taken.get(position.key) == position.point:
            del self._taken[position.key]


class PositionPublisher:
    """Publishes positions from a daemon thread, one call at a time. Thread-safe."""

    def __init__(
        self,
        publish: Callable[[GroupPosition], object],
        *,
        interval_s: float = PUBLISH_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._latest = LatestPositions(interval_s)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._publishing = False
        self._hurried = False
        self._warned: set[type[RaftlogError]] = set()

    def offer(self, positions: Iterable[GroupPosition]) -> None:
        """Publish these when they are due, unless later ones come before. Returns at once."""
        with self._changed:
            for position in positions:
                self._latest.offer(position)
            if self._latest.delay_s(self._clock()) is None:
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="positions", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Publish what waits now instead of when it is due. Returns whether that ended in time."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            ended = self._changed.wait_for(self._is_idle, timeout_s)
            self._hurried = False
            return ended

    def _is_idle(self) -> bool:
        return not self._publishing and self._latest.delay_s(self._clock()) is None

    def _run(self) -> None:
        while True:
            with self._changed:
                while delay_s := self._wait_s():
                    self._changed.wait(delay_s if delay_s < threading.TIMEOUT_MAX else None)
                positions = self._latest.take(self._clock())
                self._publishing = True
            try:
                for position in positions:
                    self._send(position)
            finally:
                with self._changed:
                    self._publishing = False
                    self._changed.notify_all()

    def _wait_s(self) -> float:
        """How long the thread waits; infinite if nothing waits for it."""
        delay_s = self._latest.delay_s(self._clock())
        if delay_s is None:
            return float("inf")
        return 0.0 if self._hurried else delay_s

    def _send(self, position: GroupPosition) -> None:
        """Publish one. A new session follows an `UnknownSession`, so that is tried again."""
        try:
            try:
                self._publish(position)
            except UnknownSession:
                self._publish(position)
        except RaftlogError as error:
            with self._changed:
                self._latest.failed(position)
            self._warn(position, error)

    def _warn(self, position: GroupPosition, error: RaftlogError) -> None:
        """Log the first error of each kind."""
        if type(error) in self._warned:
            return
        self._warned.add(type(error))
        log.warning(
            "The position of group %r in topic %r is not published, and the query continues. %s",
            position.group,
            position.topic.name,
            one_line(error),
        )


def positions_at(
    offset: Mapping[str, Any],
    topics: Mapping[str, TopicInfo],
    *,
    options: ConnectionOptions,
    group: str,
) -> list[GroupPosition]:
    """What a stream's offset says of the topics that it has reached in their known incarnation."""
    return [
        GroupPosition(connection=options, group=group, topic=topics[name], offset=entry.end)
        for name, entry in offsets.parse(offset).items()
        if isinstance(entry, offsets.Reached)
        and name in topics
        and topics[name].incarnation == entry.incarnation
    ]


# ---------------------------------------------------------------- of this process

_lock = threading.Lock()
_publishers: dict[int, PositionPublisher] = {}


def publisher() -> PositionPublisher:
    """This process's publisher. One that came through a fork has no thread and is never used."""
    with _lock:
        if os.getpid() not in _publishers:
            _publishers[os.getpid()] = PositionPublisher(_publish)
        return _publishers[os.getpid()]


def _publish(position: GroupPosition) -> None:
    from raftlog.client.positions import GROUP_CHARACTERS_MAX, SPARK_PUBLISHER

    connection.client(position.connection).positions.publish(
        position.group,
        position.topic,
        position.offset,
        publisher=f"{SPARK_PUBLISHER}{socket.gethostname()}"[:GROUP_CHARACTERS_MAX],
    )
