"""The producers behind `LogClient.append`: one for each topic, shared by all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from raftlog.auth.rights import Right
from raftlog.client.connection import Connection
from raftlog.client.forks import in_each_child, leave_alone
from raftlog.client.producer import Producer, Rows
from raftlog.client.retries import Deadline
from raftlog.client.wanting import wanting
from raftlog.core.types import GroupId
from raftlog.errors import ProducerClosed, SchemaMismatch, TopicRecreated
from raftlog.machines.commands import TopicInfo
from raftlog.machines.outcomes import Appended
from raftlog.wire.calls import APPEND

Topic = TopicInfo | str

_CHANGES_MAX = 10
"""So many changes of a topic may come one after the other during one append. No setting: each is a
command that an operator gave."""


class SharedProducers:
    """One producer of a topic for all appends, so that the log knows few of them. Thread-safe.

    `look_up` finds a topic by its name.
    """

    def __init__(
        self, connection: Connection, look_up: Callable[[str, Deadline], TopicInfo]
    ) -> None:
        self._connection = connection
        self._look_up = look_up
        self._producers: dict[str | GroupId, Producer] = {}
        """By name, or by group for appends to one incarnation."""
        self._lock = threading.Lock()
        in_each_child(self, SharedProducers._begin_again)

    def _begin_again(self) -> None:
        """In a forked child: two processes must not use one producer's sequence."""
        leave_alone(self._producers)
        self._lock = threading.Lock()
        self._producers = {}

    def append(self, topic: Topic, data: Rows) -> Appended:
        """Append rows within a request's deadline; see `LogClient.append`."""
        deadline = self._connection.deadline(APPEND.name)
        if isinstance(data, Iterator):
            data = list(data)
        key, changes = _key(topic), 0
        while True:
            producer = self._producers.get(key) or self._make(key, topic, deadline)
            try:
                return producer.append_and_flush(data, deadline.remaining_s())
            except ProducerClosed as error:
                # An earlier append failed, perhaps another thread's. The producer took nothing of
                # this one, so a new producer may send it.
                if deadline.remaining_s() <= 0:
                    raise deadline.error(error) from None
            except SchemaMismatch as error:
                changes += 1
                if (
                    changes == _CHANGES_MAX
                    or producer.may_have_taken(error)
                    or not self._has_changed(producer.topic, topic, deadline)
                ):
                    error.advice = ""  # the caller has no producer to make again
                    raise
            except TopicRecreated:
                # The producer knew an earlier incarnation. The new one has nothing of this append.
                changes += 1
                if changes == _CHANGES_MAX or isinstance(topic, TopicInfo):
                    raise
            self._forget(key, producer)

    def altered(self, topic: TopicInfo) -> None:
        """This client altered the topic. Its next append must not be taken as it was before, by a
        leader that has not heard of the change yet."""
        for key in (topic.name, topic.group):
            producer = self._producers.get(key)
            if producer is not None:
                self._forget(key, producer)

    def _has_changed(self, known: TopicInfo, topic: Topic, deadline: Deadline) -> bool:
        """Has the topic another schema than the one that the rows were judged by?"""
        now = self._look_up(topic, deadline) if isinstance(topic, str) else topic
        return (now.incarnation, now.schema) != (known.incarnation, known.schema)

    def _forget(self, key: str | GroupId, producer: Producer) -> None:
        with self._lock:
            if self._producers.get(key) is producer:
                del self._producers[key]

    def _make(self, key: str | GroupId, topic: Topic, deadline: Deadline) -> Producer:
        with wanting(Right.WRITE):
            info = self._look_up(topic, deadline) if isinstance(topic, str) else topic
        made = Producer(self._connection, info, self._connection.settings)
        with self._lock:
            # Another thread may have been faster. The producer made here has sent nothing.
            return self._producers.setdefault(key, made)


def _key(topic: Topic) -> str | GroupId:
    return topic if isinstance(topic, str) else topic.group
