"""The cluster's state as DataFrames: the option `view` = watermarks, groups, epochs or topics.

A view is what the nodes answer while Spark plans the read. It has a row for each topic, or for each
writer or reader group of one, and no records. So it is made on the driver, as one Arrow batch that
the only task hands to Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftlog.errors import InvalidOption, RaftlogError, TopicNotFound, TopicRecreated
from raftlog.records.schema_text import schema_ddl
from raftlog.spark import connection
from raftlog.spark.options import EPOCHS, GROUPS, TOPICS, WATERMARKS, ViewOptions
from raftlog.spark.schema import projection_problems, topic_struct
from raftlog.spark.spark_version import arrow_schema
from raftlog.spark.topics import Topics
from raftlog.spark.worker_log import errors_logged

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog import LogClient, ReadableRange, TopicInfo

Row = dict[str, object]
"""A view's row: its values by column; times are microseconds since 1970 UTC."""


def _columns(always: Mapping[str, DataType], maybe: Mapping[str, DataType]) -> StructType:
    """The columns that always have a value, then those that may be null."""
    return StructType(
        [StructField(name, of, nullable=False) for name, of in always.items()]
        + [StructField(name, of) for name, of in maybe.items()]
    )


_INCARNATION = {"topic": StringType(), "incarnation": StringType()}

COLUMNS: Mapping[str, StructType] = {
    WATERMARKS: _columns(
        {
            **_INCARNATION,
            "log_start_offset": LongType(),
            "high_water_mark": LongType(),
            "records": LongType(),
            "bytes": LongType(),
            "replicas": IntegerType(),
        },
        {
            "leader": LongType(),
            "term": LongType(),
            "commit_index": LongType(),
            "replica_lag_records": LongType(),
            "open_epochs": LongType(),
            "staged_bytes": LongType(),
        },
    ),
    GROUPS: _columns(
        {"group": StringType(), **_INCARNATION, "position": LongType()},
        {
            "high_water_mark": LongType(),
            "records_behind": LongType(),
            "bytes_behind": LongType(),
            "seconds_behind": DoubleType(),
            "records_trimmed": LongType(),
            "records_held": LongType(),
            "published": TimestampType(),
            "publisher": StringType(),
        },
    ),
    EPOCHS: _columns(
        {
            **_INCARNATION,
            "writer": StringType(),
            "kind": StringType(),
            "query_id": StringType(),
            "run": StringType(),
            "open_epochs": LongType(),
            "staged_bytes": LongType(),
        },
        {
            "last_epoch": LongType(),
            "start_offset": LongType(),
            "end_offset": LongType(),
            "plan": StringType(),
            "last_activity": TimestampType(),
        },
    ),
    TOPICS: _columns(
        {
            **_INCARNATION,
            "created": TimestampType(),
            "raft_group": LongType(),
            "nodes": ArrayType(LongType(), containsNull=False),
            "schema_version": IntegerType(),
            "columns": StringType(),
            "schema_json": StringType(),
        },
        {
            "retention_s": LongType(),
            "retention_bytes": LongType(),
            "retention_records": LongType(),
            "retention_unread_s": LongType(),
            "retention_unread_bytes": LongType(),
        },
    ),
}
"""Each view's columns; docs/SPARK.md says what they mean."""


class ViewPartition(InputPartition):
    """The view itself: its one task has nothing to ask for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch


class ViewReader(DataSourceReader):
    """A batch read of a view."""

    def __init__(self, options: ViewOptions, schema: StructType) -> None:
        """Raises `InvalidOption` if `schema`, from `.schema(...)`, has other columns."""
        self._options = options
        self._schema = schema
        known = COLUMNS[options.view]
        problems = projection_problems(schema, known, f"view {options.view!r}")
        if problems:
            has = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in known)
            raise InvalidOption(
                option="schema",
                problem=f"does not fit view {options.view!r}:\n" + "\n".join(problems),
                advice=f"It has: {has}.",
            )

    @errors_logged
    def partitions(self) -> list[InputPartition]:
        """One task, with the view as it is now."""
        import pyarrow as pa

        client = connection.client(self._options.connection, starting=True)
        rows = list(_ROWS[self._options.view](client, self._options.topics))
        target = arrow_schema(self._schema)
        arrays = [pa.array([row[field.name] for row in rows], type=field.type) for field in target]
        return [ViewPartition(pa.RecordBatch.from_arrays(arrays, schema=target))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ViewPartition), f"{partition!r} is none of this source"
        if partition.batch.num_rows:
            yield partition.batch


def refuse_stream(options: ViewOptions) -> None:
    """Raises `InvalidOption`: a view has no offsets."""
    raise InvalidOption(
        option="view",
        problem=f"is {options.view!r}, which a stream cannot read: it says what is now, and has no "
        "offsets",
        advice="Read it as a batch, spark.read.format('raftlog').option('view', "
        f"{options.view!r}).load(), in a stream's job in foreachBatch.",
    )


def _watermarks(client: LogClient, topics: Topics) -> Iterator[Row]:
    """The marks are linearizable, each by itself; the rest is what the nodes say right after."""
    from raftlog.client.watermark import watermark_of

    marks = list(_marks(client, topics))
    answers = client.views() if marks else []
    for topic, mark in marks:
        seen = watermark_of(topic, answers)
        lags = [each.lag_records for each in seen.replicas if each.lag_records is not None]
        yield {
            "topic": topic.name,
            "incarnation": topic.incarnation,
            "log_start_offset": mark.log_start_offset,
            "high_water_mark": mark.high_water_mark,
            "records": mark.high_water_mark - mark.log_start_offset,
            "bytes": mark.record_bytes,
            "replicas": len(topic.voters),
            "leader": seen.leader or None,
            "term": seen.term if seen.is_known else None,
            "commit_index": seen.commit_index if seen.is_known else None,
            "replica_lag_records": max(lags, default=None),
            "open_epochs": seen.open_epochs if seen.is_known else None,
            "staged_bytes": seen.staged_bytes if seen.is_known else None,
        }


def _groups(client: LogClient, topics: Topics) -> Iterator[Row]:
    for lag in client.positions.lag():
        position = lag.position
        if topics.covers(position.topic):
            yield {
                "group": position.group,
                "topic": position.topic,
                "incarnation": position.incarnation,
                "position": position.offset,
                "high_water_mark": lag.high_water_mark,
                "records_behind": lag.records_behind,
                "bytes_behind": lag.bytes_behind,
                "seconds_behind": lag.seconds_behind,
                "records_trimmed": lag.records_trimmed,
                "records_held": lag.records_held,
                "published": position.published_us,
                "publisher": position.publisher or None,
            }


def _epochs(client: LogClient, topics: Topics) -> Iterator[Row]:
    for topic in topics.describe(client):
        with _leaving_out_what_is_gone(topics):
            for writer in client.writers.scan(topic):
                committed = writer.last_epoch >= 0
                yield {
                    "topic": topic.name,
                    "incarnation": topic.incarnation,
                    "writer": writer.writer,
                    "kind": writer.kind,
                    "query_id": writer.query_id,
                    "run": writer.run,
                    "open_epochs": writer.open_epochs,
                    "staged_bytes": writer.staged_bytes,
                    "last_epoch": writer.last_epoch if committed else None,
                    "start_offset": writer.last_start if committed else None,
                    "end_offset": writer.last_end if committed else None,
                    "plan": writer.plan or None,
                    "last_activity": writer.active_us or None,
                }


def _topics(client: LogClient, topics: Topics) -> Iterator[Row]:
    for topic in topics.describe(client):
        struct = topic_struct(topic, include_metadata=False)
        settings = {setting.name: setting.value for setting in topic.settings}
        yield {
            "topic": topic.name,
            "incarnation": topic.incarnation,
            "created": topic.created_us,
            "raft_group": topic.group,
            "nodes": list(topic.voters),
            "schema_version": topic.schema.version,
            "columns": schema_ddl(topic.schema),
            "schema_json": struct.json(),
            "retention_s": settings.get("retention_s"),
            "retention_bytes": settings.get("retention_bytes"),
            "retention_records": settings.get("retention_records"),
            "retention_unread_s": settings.get("retention_unread_s"),
            "retention_unread_bytes": settings.get("retention_unread_bytes"),
        }


_ROWS: Mapping[str, Callable[[LogClient, Topics], Iterator[Row]]] = {
    WATERMARKS: _watermarks,
    GROUPS: _groups,
    EPOCHS: _epochs,
    TOPICS: _topics,
}


def _marks(client: LogClient, topics: Topics) -> Iterator[tuple[TopicInfo, ReadableRange]]:
    known = topics.describe(client)
    for topic, found in zip(known, client.read_high_water_marks(known), strict=True):
        with _leaving_out_what_is_gone(topics):
            if isinstance(found, RaftlogError):
                raise found
            yield topic, found


@contextlib.contextmanager
def _leaving_out_what_is_gone(topics: Topics) -> Iterator[None]:
    """A topic that is deleted while a view is made is no error, unless it was named."""
    try:
        yield
    except (TopicNotFound, TopicRecreated):
        if not topics.pattern:
            raise
