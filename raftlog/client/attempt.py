"""One task's attempt at its part of an epoch: staged entries that no reader sees yet."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from raftlog.checksum import chain
from raftlog.client.connection import Connection
from raftlog.client.producer import Rows, conformed
from raftlog.client.window import Window
from raftlog.config import ClientSettings
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
from raftlog.records.batching import BatchBuffer
from raftlog.wire.batch import EncodedBatch
from raftlog.wire.calls import STAGE, StageCall


class Attempt:
    """Stages rows under (writer, run, epoch) and a random attempt id. One thread at a time.

    Staged rows are durable on a majority once `finish` has returned. They become visible only when
    the epoch's `CommitEpoch` names this attempt exactly as `finish` described it.
    """

    def __init__(
        self,
        connection: Connection,
        topic: TopicInfo,
        key: EpochKey,
        settings: ClientSettings,
        *,
        create_writer: bool,
    ) -> None:
        self._traces = connection.traces
        self._topic = topic
        self._key = key
        self._create_writer = create_writer
        self._attempt = uuid.uuid4().hex
        self._buffer = BatchBuffer(
            topic.schema,
            compression=settings.compression,
            batch_bytes=settings.batch_bytes,
        )
        self._window = Window(connection, topic.group, STAGE, settings.max_in_flight)
        self._entries = 0
        self._records = 0
        self._chained_crc = 0

    def write(self, data: Rows) -> None:
        """Take rows, and stage those that fill an entry.

        Args:
            data: As in `Producer.append`.

        Raises:
            SchemaMismatch: The rows do not fit the topic's schema. None was taken.
            InvalidOption: `data` is something else. Nothing was taken.
            WriteRefused: The log refused an entry; each subclass says why.
        """
        for batch in conformed(data, self._topic):
            self._stage(self._buffer.add(batch))

    def finish(self) -> AttemptReference | None:
        """Stage the remaining rows, and wait until all are durable.

        Returns:
            What `commit_epoch` needs; None if there was no row.

        Raises:
            WriteRefused: The log refused an entry; each subclass says why.
        """
        self.flush()
        self.settle()
        if self._entries == 0:
            return None
        return AttemptReference(
            attempt=self._attempt,
            entry_count=self._entries,
            record_count=self._records,
            chained_crc=self._chained_crc,
        )

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory of the rows that were taken and are not staged yet."""
        return self._buffer.kept_bytes

    @property
    def pending_bytes(self) -> int:
        """Bytes in memory of the staged entries that were not settled yet."""
        return self._window.pending_bytes

    def flush(self) -> None:
        """Stage the rows that were taken, also if they do not fill an entry. Waits only for room
        (`max_in_flight`).

        Raises:
            WriteRefused: The log refused an entry; each subclass says why.
        """
        self._stage(self._buffer.flush())

    def settle(self) -> None:
        """Wait until all entries that were staged are durable.

        Raises:
            WriteRefused: The log refused an entry; each subclass says why.
        """
        with self._traces.staging(self._topic, self._key):
            self._window.drain()

    def close(self) -> None:
        """Give up what is in flight. Changes nothing after `finish`."""
        self._window.cancel()

    def _stage(self, encoded: Iterator[EncodedBatch]) -> None:
        for batch in encoded:
            call = StageCall(
                group=self._topic.group,
                incarnation=self._topic.incarnation,
                key=self._key,
                attempt=self._attempt,
                number=self._entries,
                create_writer=self._create_writer,
                batch=batch.header,
                crc=batch.crc,
            )
            self._entries += 1
            self._records += batch.header.record_count
            self._chained_crc = chain(self._chained_crc, batch.crc)
            with self._traces.staging(self._topic, self._key):
                self._window.push(call, batch.body)
