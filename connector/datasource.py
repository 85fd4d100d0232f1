"""The data source `raftlog`: the option set, schema, and reader or writer of each use.

Spark pickles the class by reference and calls it in short-lived workers of the driver and in
executors. So it holds only the options, and imports grpc and pyarrow only when it needs them. What
can be refused is refused on the driver, before any task.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from raftlog.errors import RaftlogError
from raftlog.spark import connection, sql_table
from raftlog.spark.declarations import Endpoint
from raftlog.spark.options import (
    check_values,
    source_options,
    subscription,
    view_options,
)
from raftlog.spark.schema import check_projection, topic_struct
from raftlog.spark.spark_version import check_can_stream
from raftlog.spark.union import union
from raftlog.spark.worker_log import errors_logged

if TYPE_CHECKING:
    from raftlog import TopicInfo
    from raftlog.spark.failed import FailedStreamReader
    from raftlog.spark.reader import RaftlogBatchReader
    from raftlog.spark.stream_reader import RaftlogStreamReader
    from raftlog.spark.views import ViewReader
    from raftlog.spark.writer import RaftlogBatchWriter, RaftlogStreamWriter


class RaftlogDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `.format("raftlog")`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Spark makes it once for a query, and sends copies to the workers. Of a sink it also makes
        one in the worker that plans a batch."""
        super().__init__(dict(connection.with_found_servers(options)))
        self._sent = False
        self._loaded: dict[str, int] = {}
        """The versions of the topics' schemas at load(), by incarnation; none with `.schema()`."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """This is a copy: of a sink, in the worker that ends a batch."""
        self.__dict__.update(state, _sent=True)

    @classmethod
    def name(cls) -> str:
        return "raftlog"

    @errors_logged
    def schema(self) -> StructType:
        """The columns of the subscribed topics, by name, or of the view. Not called with
        `.schema(...)`, nor for a table that was created with columns."""
        table = sql_table.declared(self.options)
        if table is None:
            return self._columns(self.options)
        return sql_table.with_options(self._columns(connection.with_found_servers(table)), table)

    def _columns(self, given: Mapping[str, str]) -> StructType:
        viewed = view_options(given)
        if viewed is not None:
            from raftlog.spark.views import COLUMNS

            return COLUMNS[viewed.view]
        subscribed = subscription(given)
        check_values(given)
        topics = connection.describe(subscribed)
        self._loaded = {topic.incarnation: topic.schema.version for topic in topics}
        return topic_struct(union(topics), include_metadata=subscribed.include_metadata)

    @errors_logged
    def reader(self, schema: StructType) -> RaftlogBatchReader | ViewReader:
        given = self._read_options(schema, Endpoint.BATCH_SOURCE)
        viewed = view_options(given)
        if viewed is not None:
            from raftlog.spark.views import ViewReader

            connection.check_reachable(viewed.connection)
            return ViewReader(viewed, schema)
        from raftlog.spark.reader import RaftlogBatchReader, RaftlogFilteringReader

        options = source_options(given, Endpoint.BATCH_SOURCE)
        # A query that runs may read a batch, too: in foreachBatch, or to join with it.
        topics = connection.describe(options.subscription, again=False)
        check_projection(schema, union(topics))
        kind = RaftlogFilteringReader if _plans_with_filters() else RaftlogBatchReader
        return kind(options, schema, topics)

    def _read_options(self, schema: StructType, endpoint: Endpoint) -> Mapping[str, str]:
        table = sql_table.read_options(self.options, schema, endpoint)
        return self.options if table is None else connection.with_found_servers(table)

    def streamReader(self, schema: StructType) -> RaftlogStreamReader | FailedStreamReader:
        """The reader. If there is none, the reason is raised where Spark shows it whole."""
        try:
            return self._stream_reader(schema)
        except RaftlogError as error:
            from raftlog.spark.failed import FailedStreamReader

            return FailedStreamReader(error)

    @errors_logged
    def _stream_reader(self, schema: StructType) -> RaftlogStreamReader:
        given = self._read_options(schema, Endpoint.STREAM_SOURCE)
        viewed = view_options(given)
        if viewed is not None:
            from raftlog.spark.views import refuse_stream

            refuse_stream(viewed)
        check_can_stream()
        from raftlog.spark.stream_reader import RaftlogStreamReader

        options = source_options(given, Endpoint.STREAM_SOURCE)
        topics = [self._as_loaded(topic) for topic in connection.describe(options.subscription)]
        check_projection(schema, union(topics))
        return RaftlogStreamReader(options, schema, topics)

    def _as_loaded(self, topic: TopicInfo) -> TopicInfo:
        """The topic with the columns that it had at load(): a stream goes on with these, though
        they are altered before it has read a record, which is when tasks get their reader."""
        version = self._loaded.get(topic.incarnation, topic.schema.version)
        return dataclasses.replace(topic, schema=topic.schema.at(version))

    @errors_logged
    def writer(self, schema: StructType, overwrite: bool) -> RaftlogBatchWriter:
        from raftlog.spark.writer import batch_writer

        sql_table.refuse_insert(self.options, schema)
        return batch_writer(self.options, schema, overwrite)

    @errors_logged
    def streamWriter(self, schema: StructType, overwrite: bool) -> RaftlogStreamWriter:
        from raftlog.spark.writer import stream_writer

        return stream_writer(self.options, schema, overwrite, planning=not self._sent)


def _plans_with_filters() -> bool:
    """Whether this process plans reads with filters, as Spark does in workers of their own while
    `spark.sql.python.filterPushdown.enabled` is true. It tells a source nothing of the setting."""
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules
