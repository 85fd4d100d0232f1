"""Reading a range of a topic below its high-water mark, from any replica.

A replica that has not applied far enough says so, and the client asks another. A stream that breaks
continues at the next offset at another replica. A batch is one that the replica has, as it was
written, sliced to the range. Every chunk's CRC is checked before it is decoded.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from raftlog.client.arguments import ReadPreference
from raftlog.client.connection import Connection, Sent
from raftlog.client.retries import Deadline
from raftlog.client.topics import same
from raftlog.core.types import Offset
from raftlog.errors import (
    CorruptFile,
    DataLoss,
    DeadlineExceeded,
    Internal,
    InvalidOption,
    NotLeader,
    NotYet,
    RaftlogError,
    SchemaMismatch,
)
from raftlog.machines.commands import TopicInfo
from raftlog.machines.schema import RESERVED_NAMES
from raftlog.predicates.predicate import Column, Predicate, bound_to
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.batch_codec import NotInSchema, decode_batch
from raftlog.records.batching import split
from raftlog.records.metadata import METADATA_FIELDS, text_bytes_max, with_metadata
from raftlog.wire.arrow_message import BATCH_DECODED_BYTES_MAX
from raftlog.wire.calls import (
    READ,
    READ_HIGH_WATER_MARK,
    READ_PIECES_MAX,
    READ_SIZES,
    BatchReply,
    RangeSizes,
    ReadableRange,
    ReadCall,
    ReadHighWaterMark,
    ReadSizes,
)

if TYPE_CHECKING:
    from raftlog.records.condition import Condition

_VERIFY_S = 5.0
"""How long a node may take to check a batch of its own. No setting: the read goes on without."""

_PIECE_BYTES = BATCH_DECODED_BYTES_MAX // 2
"""A batch that has more than twice as much, with columns that were added after it was written, is
returned in pieces, and so is one whose metadata columns have as many bytes of text. No setting: the
bound on what is decompressed is none."""

_BEHIND_S = 1.0
"""For so long nodes that have not got far enough are asked after others. No setting: each has
waited for it already, and observers may be cut off from their parents."""

_BEHIND_MAX = 2
"""Once so many observers are behind, another node is asked: the rest may have the same parents, and
each takes its time to say so."""


class TopicReader:
    """Reads one incarnation of one topic."""

    def __init__(
        self,
        connection: Connection,
        topic: TopicInfo,
        *,
        columns: Sequence[str] | None = None,
        preference: ReadPreference = "nearest",
        where: Condition | None = None,
    ) -> None:
        """`columns`: the topic's and metadata columns to read, in this order; None: all of the
        topic's. `where` says which rows `chosen` leaves; its columns are read as well.

        Raises `InvalidOption` for a name that is neither.
        """
        self._connection = connection
        self._topic = topic
        self._preference = preference
        self._latest = topic.schema
        """The latest version of the topic's schema that is known here."""
        self._elsewhere: set[str] = set()
        """Nodes that said that they have no replica."""
        self._behind: set[str] = set()
        self._behind_until_s = 0.0
        """Nodes that had not got far enough, and until when others are asked before them."""
        self._asked = ""
        by_name = {field.name: field.id for field in topic.schema.fields}
        self._columns = list(by_name) if columns is None else list(columns)
        for name in self._columns:
            if name not in by_name and name not in RESERVED_NAMES:
                known = ", ".join([*by_name, *RESERVED_NAMES])
                raise InvalidOption(
                    option="columns",
                    problem=f"names {name!r}, which topic {topic.name!r} does not have",
                    advice=f"It has: {known}.",
                )
        if not self._columns:
            raise InvalidOption(
                option="columns", problem="is empty", advice="Name at least one, such as _offset."
            )
        self._where = where
        kinds = {field.name: field for field in arrow_schema(topic.schema)} | METADATA_FIELDS
        self.schema = pa.schema([kinds[name] for name in self._columns])
        """That of the batches that `chosen` gives."""
        if where is not None:
            self._columns += [name for name in where.columns if name not in self._columns]
        self.is_stopped = False
        self._awaited: Sent[Any] | None = None
        """The call by which `wait` waits."""
        self._data_names = [name for name in self._columns if name in by_name]
        self._field_ids = tuple(by_name[name] for name in self._data_names)

    def mark(self) -> ReadableRange:
        """The high-water mark by a linearizable read: every acknowledged record lies below it."""
        return self._connection.call_leader(
            self._topic.group,
            READ_HIGH_WATER_MARK,
            ReadHighWaterMark(group=self._topic.group, incarnation=self._topic.incarnation),
            judge=self._if_stopped,
        )

    def sizes(
        self,
        start: Offset,
        end: Offset,
        *,
        mark: Offset,
        pieces_max: int,
        where: Predicate | None = None,
    ) -> RangeSizes:
        """How the bytes of [start, end) lie; see `raftlog.wire.calls.RangeSizes`.

        Never asks for more than `READ_PIECES_MAX` pieces: a split into fewer is just as right.
        """
        call = ReadSizes(
            group=self._topic.group,
            incarnation=self._topic.incarnation,
            start=start,
            end=end,
            mark=mark,
            pieces_max=min(pieces_max, READ_PIECES_MAX),
            where=() if where is None else (self._by_id(where),),
            where_version=self._topic.schema.version,
        )
        deadline = self._deadline(start, end)
        try:
            return self._connection.retry(
                lambda try_s: self._ask_sizes(call, try_s),
                deadline,
            )
        except DeadlineExceeded as error:
            raise self._beyond(mark) or error from None

    def batches(self, start: Offset, end: Offset, *, mark: Offset) -> Iterator[pa.RecordBatch]:
        """The rows [start, end) in order, with the reader's columns; `end <= mark`.

        The request's deadline starts again with each batch. Raises `OffsetTrimmed`,
        `TopicRecreated`, `DeadlineExceeded`, and `DataLoss` if every replica's copy is damaged or
        the cluster does not know the mark any more.
        """
        if end > mark:
            raise InvalidOption(
                option="end",
                problem=f"is {end}, beyond the mark {mark} that was given with it",
                advice="Read up to a mark that is known, or leave `mark` out.",
            )
        return self._batches(start, end, mark)

    def follow(
        self, start: Offset, *, patience_s: float, until_idle: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows from `start` on, as they come.

        Asks the leader at least every `patience_s`, and returns if nothing came by then and
        `until_idle` is set. Raises what `batches` raises.
        """
        next_offset = start
        while True:
            came = self.wait(Offset(next_offset + 1), patience_s)
            if self.is_stopped:
                return
            mark = self.mark().high_water_mark
            if mark > next_offset:
                yield from self._batches(next_offset, mark, mark)
                next_offset = mark
            elif not came and until_idle:
                return

    def wait(self, mark: Offset, timeout_s: float) -> bool:
        """Wait until the topic reaches `mark`; whether it did within the time.

        False does not say that nothing came: perhaps no replica answered.
        """
        deadline = Deadline("waiting for records", timeout_s)
        call = ReadSizes(
            group=self._topic.group,
            incarnation=self._topic.incarnation,
            start=mark,
            end=mark,
            mark=mark,
            pieces_max=1,
        )
        try:
            # A replica answers only when it knows or gives up, so this loop does not spin.
            self._connection.retry(
                lambda left_s: self._await_sizes(call, left_s), deadline, judge=self._if_stopped
            )
        except DeadlineExceeded:
            return False
        return True

    def stop(self) -> None:
        """Let the thread that reads return or raise an error soon, and at once if it waits for
        records. Called by another thread."""
        self.is_stopped = True
        if (awaited := self._awaited) is not None:
            awaited.future.cancel()

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are wanted, without the columns that only tell which."""
        if self._where is None:
            return batch
        return batch.filter(self._where.expression).select(self.schema.names)

    # ------------------------------------------------------------ parts

    def _by_id(self, where: Predicate) -> Predicate:
        """The predicate by field ids. Columns that the topic does not have are null."""
        columns: dict[Column, Column] = {name: name for name in RESERVED_NAMES}
        columns |= {field.name: field.id for field in self._topic.schema.fields}
        return bound_to(where, columns)

    def _batches(self, start: Offset, end: Offset, mark: Offset) -> Iterator[pa.RecordBatch]:
        next_offset = start
        damaged: dict[str, DataLoss] = {}
        while next_offset < end:
            try:
                for reply, body in self._replies(next_offset, end, mark, damaged):
                    last = Offset(min(end, reply.start + reply.batch.record_count))
                    assert reply.start <= next_offset < last, "batches come in order, without a gap"
                    for piece in self._decode(reply, body, next_offset, last):
                        yield from split(piece, _PIECE_BYTES)
                    next_offset = last
            except DataLoss as error:
                # Else the error keeps the columns that were decoded before it.
                traceback.clear_frames(error.__traceback__)
                # This replica's copy is damaged. The others have their own.
                damaged[self._asked] = self._verified(error, next_offset, mark)
                if damaged.keys() >= set(self._holders()):
                    raise _damaged_everywhere(damaged) from error
            except DeadlineExceeded as error:
                raise self._beyond(mark) or error from None

    def _verified(self, error: DataLoss, offset: Offset, mark: Offset) -> DataLoss:
        """What is wrong with the copy of the node that was asked, as the node itself says.

        It learns by this that its copy is damaged, if the client has found it, and heals it.
        """
        if isinstance(error, CorruptFile):
            return error
        call = self._read_call(offset, Offset(offset + 1), mark, verify=True)
        try:
            for _ in self._connection.stream(self._asked, READ, call, _VERIFY_S):
                pass
        except CorruptFile as said:
            return said
        except RaftlogError:
            pass  # it says nothing; what the client has seen counts
        return error

    def _read_call(
        self, start: Offset, end: Offset, mark: Offset, *, verify: bool = False
    ) -> ReadCall:
        return ReadCall(
            group=self._topic.group,
            incarnation=self._topic.incarnation,
            start=start,
            end=end,
            mark=mark,
            field_ids=self._field_ids,
            all_fields=False,
            verify=verify,
        )

    def _replies(
        self, start: Offset, end: Offset, mark: Offset, damaged: Container[str]
    ) -> Iterator[tuple[BatchReply, memoryview]]:
        """Batches from one replica, until the range or the stream ends; at least one.

        A stream lives as long as one try of a call, so that the client leaves a replica that hangs.
        The caller asks again for the rest.
        """
        call = self._read_call(start, end, mark)

        def begin(
            try_s: float,
        ) -> tuple[Iterator[tuple[BatchReply, memoryview]], BatchReply, memoryview]:
            self._asked = self._address(damaged)
            stream = self._connection.stream(self._asked, READ, call, try_s)
            with self._noting(self._asked):
                first = next(stream, None)
            if first is None:
                raise Internal(what=f"no batches at all in [{start}, {end}) below mark {mark}")
            return stream, *first

        stream, reply, body = self._connection.retry(
            begin, self._deadline(start, end), judge=self._if_stopped
        )
        yield reply, body
        try:
            yield from stream
        except RaftlogError as error:
            if not error.retriable:
                raise
            # The batches so far are good; the caller continues from there at another replica.

    def _decode(
        self, reply: BatchReply, body: memoryview, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        """The rows [start, end) of the batch, with the reader's columns; in pieces if the texts of
        metadata columns take much."""
        batch = self._decoded(reply, body)
        if len(self._data_names) == len(self._columns):
            yield batch.slice(start - reply.start, end - start)
            return
        topic = self._topic.name
        row_bytes = text_bytes_max(self._columns, topic=topic, runs=reply.runs)
        step = _PIECE_BYTES // max(row_bytes, 1)
        for first in range(start, end, step):
            skip, count = first - reply.start, min(step, end - first)
            yield with_metadata(
                batch.slice(skip, count),
                self._columns,
                topic=topic,
                start=first,
                runs=reply.runs.slice(skip, count),
            )

    def _decoded(self, reply: BatchReply, body: memoryview) -> pa.RecordBatch:
        """All rows of the batch, with the topic's columns as this reader knows them.

        One of a later version of the schema has columns that are not known here: the topic is
        looked up again.
        """
        schema = self._topic.schema
        if reply.batch.schema_version > self._latest.version:
            self._latest = same(self._connection, self._topic).schema
        try:
            return decode_batch(reply.batch, body, schema, self._data_names, latest=self._latest)
        except NotInSchema as error:
            raise SchemaMismatch(
                topic=self._topic.name,
                difference=str(error),
                advice="The topic was altered since the read began: read again with its columns as "
                "they are now, or restart the query.",
            ) from error

    def _beyond(self, mark: Offset) -> DataLoss | None:
        """No replica reached `mark` in time: the error if the whole cluster ends below it."""
        known = self.mark().high_water_mark
        if known >= mark:
            return None
        return DataLoss(
            what=f"Topic {self._topic.name!r} ends at offset {known}, "
            f"but offsets up to {mark} were readable before.",
            advice="The log lost acknowledged records (was a backup restored?). Start with a "
            "new checkpoint, or set failOnDataLoss=false to continue from the end.",
        )

    def _deadline(self, start: Offset, end: Offset) -> Deadline:
        return self._connection.deadline(f"Reading [{start}, {end}) of topic {self._topic.name!r}")

    def _address(self, damaged: Container[str] = ()) -> str:
        """The node to ask next, by preference; none whose copy is known to be damaged."""
        leader = self._connection.leader(self._topic.group)
        if self._preference == "leader" and leader not in damaged:
            return leader
        sound = [each for each in self._holders() if each not in damaged]
        now_s = time.monotonic()
        if self._behind_until_s <= now_s:
            self._behind.clear()
        there = [each for each in sound if each not in self._behind] or sound
        observers = self._connection.observers
        match self._preference:
            case "observer":
                too_far = len(self._behind) >= _BEHIND_MAX
                wanted = [each for each in there if (each in observers) is not too_far]
            case "follower":
                wanted = [each for each in there if each not in observers and each != leader]
            case "leader" | "nearest":
                wanted = there
            case _:
                assert_never(self._preference)
        return self._connection.next_address(self._connection.near(wanted or there))

    def _holders(self) -> list[str]:
        """Where replicas are, as far as it is known: a topic may move while it is read."""
        lacks_some = self._preference == "observer" and not self._connection.observers
        for nodes in (self._topic.voters, ()):
            known = self._connection.addresses(nodes, lacks_some)
            known = tuple(dict.fromkeys((*known, *self._connection.observers)))
            if found := [each for each in known if each not in self._elsewhere]:
                return found
        self._elsewhere.clear()
        return list(self._connection.addresses())

    def _await_sizes(self, call: ReadSizes, try_s: float) -> RangeSizes:
        """As `_ask_sizes`; `stop` ends it."""
        address = self._address()
        with self._noting(address):
            sent = self._connection.start(address, READ_SIZES, call, try_s)
            self._awaited = sent
            if self.is_stopped:
                sent.future.cancel()
            return self._connection.receive(sent)

    def _if_stopped(self, error: RaftlogError) -> RaftlogError | None:
        """Nothing is tried again once the read was stopped."""
        return error if self.is_stopped else None

    def _ask_sizes(self, call: ReadSizes, try_s: float) -> RangeSizes:
        address = self._address()
        with self._noting(address):
            return self._connection.ask(address, READ_SIZES, call, try_s)

    @contextmanager
    def _noting(self, address: str) -> Iterator[None]:
        """Remember of a node that it has no replica (only such a one answers a read so), or that
        its replica is behind."""
        try:
            yield
        except NotLeader:
            self._elsewhere.add(address)
            raise
        except NotYet:
            self._behind.add(address)
            self._behind_until_s = time.monotonic() + _BEHIND_S
            raise


def _damaged_everywhere(damaged: Mapping[str, DataLoss]) -> DataLoss:
    """The error if no node could give a record: what each of them says."""
    said = " ".join(f"{address}: {error.cause}" for address, error in sorted(damaged.items()))
    return DataLoss(
        what=f"No replica has these records whole. {said}",
        advice="Nothing was deleted, and the nodes go on trying to heal it from one another. See "
        '`raftlog docs OPERATIONS`, "is damaged at byte".',
    )
