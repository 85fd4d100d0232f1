"""The topic that a sink writes: looked up, made to fit the rows, or created with their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from raftlog.errors import SchemaChanged, TopicNotFound
from raftlog.records.schema_text import parse_schema
from raftlog.spark import connection
from raftlog.spark.column_names import check_case, in_other_case, matched
from raftlog.spark.metadata_columns import check_reserved, is_metadata, without_metadata
from raftlog.spark.options import CreateTopic, SinkOptions
from raftlog.spark.schema import check_types, check_writable, creation_text, merge_of

if TYPE_CHECKING:
    from raftlog import TopicInfo

_MERGES_MAX = 10
"""How often a topic's columns are merged while others change them too. No setting: each of these
times another writer was faster."""


def column_names(schema: StructType, topic: TopicInfo) -> list[str | None]:
    """For each column of the rows its name in the topic; None for a metadata column that was read
    with them.

    Raises `SchemaMismatch` if a name differs in case and Spark is case-sensitive.
    """
    own = without_metadata(schema).names
    meant = matched(own, [field.name for field in topic.schema.fields])
    marked = [field.name for field in schema.fields if is_metadata(field)]
    check_case([*own, *marked], [*meant, *(name.lower() for name in marked)], topic.name)
    by_name = dict(zip(own, meant, strict=True))
    return [None if is_metadata(field) else by_name[field.name] for field in schema.fields]


def find(
    options: SinkOptions, name: str, schema: StructType, *, starting: bool = False
) -> TopicInfo | None:
    """The topic if it exists, after checking that rows of this schema fit. Raises before any row
    is written.

    Every batch of a stream calls this, so only a batch write is known to be `starting`.

    It looks the topic up before creating it: a look-up is a read (once for each micro-batch), and
    a creation is an entry in the controller's log.
    """
    check_reserved(schema, name)
    check_types(schema)
    try:
        client = connection.client(options.connection, starting=starting)
        topic = client.describe_topic(name)
    except TopicNotFound:
        if options.create_topic is CreateTopic.FALSE:
            raise
        # A stream's first task creates it. A schema that no topic can have is refused here.
        check_creatable(schema)
        return None
    return _fitting(options, schema, topic)


def check_creatable(schema: StructType) -> None:
    """Check that a topic can have these columns. Raises `InvalidOption`."""
    parse_schema(creation_text(schema))


def made(options: SinkOptions, name: str, schema: StructType) -> TopicInfo:
    """The topic, created with the rows' columns unless another process was faster."""
    client = connection.client(options.connection)
    topic = client.create_topic(name, creation_text(schema), if_not_exists=True)
    return _fitting(options, schema, topic)


def _fitting(options: SinkOptions, schema: StructType, topic: TopicInfo) -> TopicInfo:
    """The topic, after checking that the rows fit it, or after making it fit (`mergeSchema`).

    Every batch asks, and tasks of a first batch may ask at once: a change that is there already
    changes nothing.
    """
    if not options.merge_schema:
        check_writable(schema, topic)
        return topic
    if in_other_case(without_metadata(schema), topic):
        merge_of(schema, topic)  # which the tasks do, once they know that names match
        return topic
    return merged(options, schema, topic)


def merged(options: SinkOptions, schema: StructType, topic: TopicInfo) -> TopicInfo:
    """The topic with what the rows need of it (`mergeSchema`)."""
    client = connection.client(options.connection)
    tries = 0
    while True:
        merge = merge_of(schema, topic)
        if not merge.add and not merge.types:
            return topic
        try:
            return client.alter_schema(
                topic,
                add=StructType([*merge.add]).json() if merge.add else None,
                types=StructType([*merge.types]).json() if merge.types else None,
            )
        except SchemaChanged:
            tries += 1
            if tries == _MERGES_MAX:
                raise
            topic = client.describe_topic(topic)
