"""The source: from ranges to tasks on the driver, from a task's range to Arrow batches.

Spark pickles a reader to the executors. So it holds options, schema and topic names, and asks
`connection` for the client of its process. Rows never become Python objects. What a stream has
besides, its offsets, is in `raftlog.spark.stream_reader`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from raftlog.core.types import Offset
from raftlog.errors import (
    Internal,
    OffsetTrimmed,
    RaftlogError,
    SchemaMismatch,
    TopicRecreated,
)
from raftlog.predicates.predicate import And, Predicate
from raftlog.spark import connection, offsets, partitions
from raftlog.spark.column_names import check_case, matched
from raftlog.spark.declarations import PREDICATE
from raftlog.spark.epoch_ends import end_of
from raftlog.spark.filters import predicate_of
from raftlog.spark.limits import Pieces
from raftlog.spark.metadata_columns import METADATA_NAMES
from raftlog.spark.offsets import (
    EARLIEST,
    LATEST,
    AfterEpoch,
    AtTime,
    Cluster,
    Position,
    Sought,
    TopicRange,
    TopicWatermark,
)
from raftlog.spark.options import SourceOptions, default_parallelism
from raftlog.spark.pruning import (
    PIECES_MAX,
    Match,
    SkipLog,
    check_columns,
    holds_everywhere,
    matches,
    narrowed,
    of_topic,
)
from raftlog.spark.spark_version import arrow_schema
from raftlog.spark.union import check_fits, check_leftover_fits
from raftlog.spark.worker_log import errors_logged, errors_of_items_logged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from raftlog import LogClient, RangeSizes, ReadableRange, ReadPreference, TopicInfo

SIZES_KEPT_S = 10.0
"""How long the mean size of a topic's records is taken from an earlier micro-batch. No setting: it
saves small batches a call, and large ones ask anyway."""

_PIECES_SHOWN = 32
"""A task's pieces that a message names: as many as small topics make."""

log = logging.getLogger("raftlog.spark")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records [start, end) of one incarnation, all below `mark`, to be read as the topic's columns
    were at `schema_version`."""

    wanted: TopicRange
    mark: int
    schema_version: int

    @property
    def records(self) -> int:
        """How many there are, at least one."""
        return self.wanted.end - self.wanted.start

    def __str__(self) -> str:
        return f"{self.wanted.topic}[{self.wanted.start}, {self.wanted.end})"


class _Share(NamedTuple):
    """Pieces of a topic that one task reads, in order, and about how many bytes they have."""

    pieces: list[Piece]
    body_bytes: float

    @property
    def records(self) -> int:
        """How many there are in all pieces."""
        return sum(piece.records for piece in self.pieces)


class RaftlogPartition(InputPartition):
    """One task's records: a piece of a large topic, pieces of it with gaps in between that no
    filter lets through, or pieces of several small topics.

    `cluster_id` is None if the stream's offset is the initial one, which names no cluster.
    """

    def __init__(self, pieces: Sequence[Piece], cluster_id: str | None) -> None:
        self.pieces = tuple(pieces)
        self.cluster_id = cluster_id

    def __repr__(self) -> str:
        more = len(self.pieces) - _PIECES_SHOWN
        shown = ", ".join(map(str, self.pieces[:_PIECES_SHOWN]))
        return shown + (f" and {more} more" if more > 0 else "")


class RangeReader:
    """What batch and stream have in common: tasks from ranges, and a task's records.

    A query reads each topic with the columns that it had when the query first met it, by their
    ids, until it is started again (`_versions`, by incarnation).
    """

    def __init__(
        self, options: SourceOptions, schema: StructType, topics: Iterable[TopicInfo]
    ) -> None:
        self._options = options
        self._connection = options.subscription.connection
        self._schema = schema
        self._versions = {topic.incarnation: topic.schema.version for topic in topics}
        self._record_bytes: dict[str, tuple[float, float]] = {}
        """The mean of a topic's records, and when it was found, by incarnation."""
        self._mean_bytes: dict[str, float] = {}
        """The mean of all of a topic's records, as its last mark said, by incarnation."""
        self._where: Predicate | None = None
        """What is true for every row that is wanted; None: all rows are."""
        self._skips = SkipLog()
        if options.predicate:
            from raftlog.wire.codec import predicate_of_text

            where = predicate_of_text(options.predicate)
            check_columns(where, schema.names, PREDICATE)
            self.keep_only(where)

    def keep_only(self, where: Predicate) -> None:
        """Leave out rows for which the predicate is not true, where that saves work. Its columns
        are the query's."""
        self._where = where if self._where is None else And(parts=(self._where, where))

    def meet(self, topic: TopicInfo) -> None:
        """Fix the columns that a new topic is read with to those that it has now.

        A topic that the query no longer subscribes to is one of a batch that is repeated. Raises
        `SchemaMismatch` if they do not fit the query's, or if the topic is known, was altered
        since, and the query wants to know (`schemaEvolution`).
        """
        planned = self._versions.get(topic.incarnation)
        if planned is None:
            subscribed = self._options.subscription.topics.covers(topic.name)
            (check_fits if subscribed else check_leftover_fits)(self._schema, topic)
            self._versions[topic.incarnation] = topic.schema.version
        elif topic.schema.version != planned and self._options.schema_evolution == "fail":
            raise SchemaMismatch(
                topic=topic.name,
                difference=f"  its schema is at version {topic.schema.version}, and at {planned} "
                "when the query started",
                advice="Start the query again: it reads the columns as they are then. Or set "
                "schemaEvolution=additive, and it goes on with those that it started with.",
            )

    def _version(self, topic: TopicRange) -> int:
        """The version of the schema that a topic is read with."""
        if topic.incarnation not in self._versions:
            self.meet(connection.topic(self._connection, topic.topic, topic.incarnation))
        return self._versions[topic.incarnation]

    def plan(self, wanted: Sequence[TopicRange], cluster_id: str | None) -> list[RaftlogPartition]:
        """Tasks for ranges of records that exist, in order of topic and offset.

        Small topics share a task, as far as `minPartitions` allows: each task costs Spark tens of
        milliseconds.
        """
        found: dict[str, list[Match]] = {}
        if self._where is not None:
            wanted, found = self._pruned(wanted, self._where)
        if not wanted:
            return []
        pieces_min = self._options.min_partitions or default_parallelism()
        counts = partitions.pieces_wanted([part.end - part.start for part in wanted], pieces_min)
        shares: list[_Share] = []
        for part, count in zip(wanted, counts, strict=True):
            if part.incarnation in found:
                shares += self._gathered(part, found[part.incarnation], count)
            else:
                shares += self._split(part, count)
        tasks = partitions.packed(
            [(share.records, round(share.body_bytes)) for share in shares],
            tasks_min=self._options.min_partitions or 1,
            records_max=self._options.max_records_per_partition,
        )
        return [
            RaftlogPartition(
                [piece for index in task for piece in shares[index].pieces], cluster_id
            )
            for task in tasks
        ]

    def _pruned(
        self, wanted: Sequence[TopicRange], where: Predicate
    ) -> tuple[list[TopicRange], dict[str, list[Match]]]:
        """What is left of ranges that have rows for which the predicate is true, and where in them
        it may be, by incarnation: in all of a range that has no entry."""
        left: list[TopicRange] = []
        found: dict[str, list[Match]] = {}
        for part in wanted:
            topic = self._at_version(part, self._version(part))
            test = of_topic(where, self._schema.names, topic)
            rest = narrowed(test, part, partial(self.client().find_offset, topic))
            read = 0
            if rest is not None and not holds_everywhere(test, rest):
                found[part.incarnation] = matches(test, rest, partial(self._match, topic))
                read = sum(each.end - each.start for each in found[part.incarnation])
            elif rest is not None:
                read = rest.end - rest.start
            if rest is not None and read:
                left.append(rest)
            self._skips.add(part.topic, records=part.end - part.start, read=read)
        self._skips.tell()
        return left, found

    def _match(self, topic: TopicInfo, start: int, end: int, where: Predicate) -> RangeSizes:
        """Where records match, from `start` on. What was trimmed since it was planned counts as a
        match, so that the tasks say that it is gone."""
        try:
            return self.client().read_sizes(
                topic, start, end, mark=end, pieces_max=PIECES_MAX, where=where
            )
        except OffsetTrimmed as error:
            if self._options.fail_on_data_loss or error.earliest <= start:
                raise
            from raftlog import RangeSizes

            gone = min(end, error.earliest)
            return RangeSizes(offsets=(Offset(start), Offset(gone)), body_bytes=(0,))

    def _gathered(
        self, wanted: TopicRange, found: Sequence[Match], pieces_max: int
    ) -> list[_Share]:
        """A topic's records where they were found to match, for at most so many tasks, unless
        `minPartitions` or `maxRecordsPerPartition` wants more."""
        mean = sum(each.body_bytes for each in found) / sum(each.end - each.start for each in found)
        groups = partitions.gathered(
            found,
            pieces_max,
            pieces_min=self._pieces_min(pieces_max),
            records_max=self._options.max_records_per_partition,
        )
        return [self._share(wanted, ranges, mean) for ranges in groups]

    def _split(self, wanted: TopicRange, pieces_max: int) -> list[_Share]:
        """All records of a topic's range, for at most so many tasks, unless
        `maxRecordsPerPartition` wants more."""
        boundaries: Sequence[int] = (wanted.start, wanted.end)
        body_bytes: Sequence[int] = (0,)
        count = wanted.end - wanted.start
        mean = self._mean_bytes.get(wanted.incarnation, 0.0)
        if pieces_max > 1 and count > 1 and not self._is_small(wanted, time.monotonic()):
            topic = connection.topic(self._connection, wanted.topic, wanted.incarnation)
            boundaries, body_bytes = self.sizes(topic, wanted.start, wanted.end, pieces_max)
            mean = sum(body_bytes) / count
            self._record_bytes[wanted.incarnation] = (mean, time.monotonic())
        found = partitions.split(
            boundaries,
            body_bytes,
            pieces_min=self._pieces_min(pieces_max),
            records_max=self._options.max_records_per_partition,
        )
        assert found[0][0] == wanted.start, f"{found} does not begin where {wanted} does"
        assert found[-1][1] == wanted.end, f"{found} does not end where {wanted} does"
        return [self._share(wanted, (piece,), mean) for piece in found]

    def _pieces_min(self, pieces_max: int) -> int | None:
        return None if self._options.min_partitions is None else pieces_max

    def _share(self, wanted: TopicRange, ranges: Sequence[tuple[int, int]], mean: float) -> _Share:
        """Parts of a topic's range whose records have about `mean` bytes."""
        version = self._version(wanted)
        pieces = [
            Piece(
                wanted=dataclasses.replace(wanted, start=start, end=end),
                mark=wanted.end,
                schema_version=version,
            )
            for start, end in ranges
        ]
        return _Share(pieces, mean * sum(piece.records for piece in pieces))

    def _is_small(self, wanted: TopicRange, now_s: float) -> bool:
        """Whether a range is too small to be split, by the sizes that were found a moment ago.

        It saves small micro-batches a call. If it is wrong, one task reads a batch of larger
        records, until the sizes are asked for again.
        """
        mean, found_s = self._record_bytes.get(wanted.incarnation, (0.0, float("-inf")))
        fresh = now_s - found_s < SIZES_KEPT_S
        small = 2 * mean * (wanted.end - wanted.start) < partitions.BYTES_PER_TASK_MIN
        return fresh and small and self._options.min_partitions is None

    def sizes(self, topic: TopicInfo, start: int, end: int, pieces_max: int) -> Pieces:
        """How the bytes of records [start, end) lie, of a range that is not empty.

        What was trimmed since it was planned has none, and the tasks skip it, unless that is an
        error (`failOnDataLoss`).
        """
        begin = start
        while begin < end:
            try:
                found = self.client().read_sizes(topic, begin, end, mark=end, pieces_max=pieces_max)
            except OffsetTrimmed as error:
                if self._options.fail_on_data_loss or error.earliest <= begin:
                    raise
                begin = error.earliest
                continue
            trimmed = (start,) if begin > start else ()
            return (*trimmed, *found.offsets), (*(0 for _ in trimmed), *found.body_bytes)
        return (start, end), (0,)

    @errors_of_items_logged
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The task's records as Arrow batches of exactly the schema that Spark planned with.

        To a batch read without tasks Spark passes `InputPartition(None)`, and 4.1 None: it has no
        records.
        """
        if not isinstance(partition, RaftlogPartition):
            none = partition is None or partition.value is None
            assert none, f"{partition!r} is not a partition of this source"
            return
        target = arrow_schema(self._schema)
        for piece in partition.pieces:
            for batch in self._existing(piece, partition.cluster_id):
                if batch.num_rows:
                    yield conform(batch, target)

    def _existing(self, piece: Piece, cluster_id: str | None) -> Iterator[pa.RecordBatch]:
        """The records; with failOnDataLoss=false those that are left since planning."""
        begin, end = piece.wanted.start, piece.wanted.end
        while begin < end:
            try:
                for batch in self._records(piece, begin):
                    begin += batch.num_rows
                    yield batch
            except (OffsetTrimmed, TopicRecreated) as error:
                if isinstance(error, TopicRecreated):
                    # This executor's servers may differ from the driver's, as 127.0.0.1 does.
                    offsets.check_cluster(cluster_id, self.cluster())
                if self._options.fail_on_data_loss:
                    raise
                log.warning("%s is skipped from %s on: %s", piece, begin, error.cause)
                if isinstance(error, TopicRecreated) or error.earliest <= begin:
                    return
                begin = error.earliest
                continue
            if begin != end:
                raise Internal(what=f"{piece} ended at offset {begin}")

    def _records(self, piece: Piece, begin: int) -> Iterator[pa.RecordBatch]:
        """The wanted columns that the topic has, under the names that Spark planned with; if it
        has none of them, its offsets."""
        wanted = piece.wanted
        topic = self._at_version(wanted, piece.schema_version)
        known = [*METADATA_NAMES, *(field.name for field in topic.schema.fields)]
        names = matched(self._schema.names, known)
        check_case(self._schema.names, names, topic.name)
        planned = {
            name: given
            for given, name in zip(self._schema.names, names, strict=True)
            if name in known
        }
        for batch in self.client().read(
            topic,
            begin,
            wanted.end,
            mark=piece.mark,
            columns=list(planned) or ["_offset"],
            preference=cast("ReadPreference", self._options.read_preference),
        ):
            yield batch.rename_columns(list(planned.values())) if planned else batch

    def _at_version(self, wanted: TopicRange, version: int) -> TopicInfo:
        """The topic with its columns as they were then."""
        topic = connection.topic(self._connection, wanted.topic, wanted.incarnation, version)
        return dataclasses.replace(topic, schema=topic.schema.at(version))

    def client(self) -> LogClient:
        """This process's client of the cluster."""
        return connection.client(self._connection)

    def mark(self, topic: TopicInfo) -> TopicWatermark:
        """A linearizable mark of exactly this incarnation."""
        return self._watermark(topic, self.client().read_high_water_mark(topic))

    def marks(self, topics: Sequence[TopicInfo]) -> list[TopicWatermark | RaftlogError]:
        """Such marks of many topics, in their order; the error of an incarnation that is gone."""
        return [
            found if isinstance(found, RaftlogError) else self._watermark(topic, found)
            for topic, found in zip(
                topics, self.client().read_high_water_marks(topics), strict=True
            )
        ]

    def _watermark(self, topic: TopicInfo, found: ReadableRange) -> TopicWatermark:
        records = found.high_water_mark - found.log_start_offset
        self._mean_bytes[topic.incarnation] = found.record_bytes / max(1, records)
        return TopicWatermark(
            topic=topic.name,
            incarnation=topic.incarnation,
            log_start=found.log_start_offset,
            high_water_mark=found.high_water_mark,
        )

    def find(self, topic: TopicInfo, sought: Sought) -> int:
        """The end after an epoch, or the offset of the first record of a time or after it; if
        there is none, the high-water mark."""
        if isinstance(sought, AfterEpoch):
            return end_of(self.client(), topic, sought)
        return self.client().find_offset(topic, sought.timestamp_us)

    def cluster(self) -> Cluster:
        """The cluster that the servers belong to, asked now."""
        return Cluster(
            id=self.client().cluster_id(),
            servers=self._connection.servers,
        )

    def describe(self, name: str) -> TopicInfo:
        """The incarnation that has the name now."""
        return self.client().describe_topic(name)


def conform(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly `target`'s columns, types and nullability; what it lacks is null.

    Spark checks only a task's first batch against its schema, so every batch is made to fit.
    """
    import pyarrow as pa

    columns = []
    for field in target:
        if field.name not in batch.schema.names:
            assert field.nullable, f"{field.name} is missing and must not be null"
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(field.name)
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=target)


class RaftlogBatchReader(DataSourceReader):
    """A batch read: the range is fixed once, when the read is planned."""

    def __init__(
        self, options: SourceOptions, schema: StructType, topics: Iterable[TopicInfo] = ()
    ) -> None:
        """`topics`: as they were when `schema` was compared with them."""
        self._options = options
        self._schema = schema
        self._ranges = RangeReader(options, schema, topics)

    @errors_logged
    def partitions(self) -> list[InputPartition]:
        """Tasks for [startingOffsets, endingOffsets) of the topics as they are now."""
        topics = self._options.subscription.topics.describe(self._ranges.client())
        for topic in topics:
            self._ranges.meet(topic)
        wanted = self._wanted(topics)
        existing = [one for one in wanted if one.start < one.end]
        return [*self._ranges.plan(existing, self._ranges.cluster().id)] if existing else []

    def _wanted(self, topics: Sequence[TopicInfo]) -> list[TopicRange]:
        # Epochs are looked up before the marks, so that none ends above them.
        starting = [self._after_epoch(self._options.starting.of(one.name), one) for one in topics]
        ending = [self._after_epoch(self._options.ending.of(one.name), one) for one in topics]
        wanted = []
        marks = self._ranges.marks(topics)
        for topic, mark, first, last in zip(topics, marks, starting, ending, strict=True):
            if isinstance(mark, RaftlogError):
                raise mark
            wanted.append(self._range(topic, mark, first, last))
        return wanted

    def _range(
        self, topic: TopicInfo, mark: TopicWatermark, starting: Position, ending: Position
    ) -> TopicRange:
        first = self._concrete(starting, topic, mark)
        last = self._concrete(ending, topic, mark)
        offsets.check_start_exists(first, mark)
        offsets.check_start_exists(last, mark, option="endingOffsets")
        wanted = TopicRange(
            topic=mark.topic, incarnation=mark.incarnation, start=first, end=max(first, last)
        )
        kept = offsets.clamp(wanted, mark, fail_on_data_loss=self._options.fail_on_data_loss)
        return kept or TopicRange(
            topic=mark.topic, incarnation=mark.incarnation, start=first, end=first
        )

    def _after_epoch(self, position: Position, topic: TopicInfo) -> Position:
        return self._ranges.find(topic, position) if isinstance(position, AfterEpoch) else position

    def _concrete(self, position: Position, topic: TopicInfo, mark: TopicWatermark) -> int:
        if position == EARLIEST:
            return mark.log_start
        if position == LATEST:
            return mark.high_water_mark
        if isinstance(position, AtTime):
            found = offsets.first_at(position, self._ranges.find(topic, position), mark)
            return min(found, mark.high_water_mark)
        assert isinstance(position, int), position
        return position

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._ranges.read(partition)


class RaftlogFilteringReader(RaftlogBatchReader):
    """A batch read that Spark tells its filters.

    A class by itself, because Spark refuses every read of one that defines `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is true.
    """

    @errors_logged
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of all filters, and leave them to Spark as well: what is read is only what may
        match."""
        self._ranges.keep_only(predicate_of(filters, self._schema))
        return filters
