"""Every option of the Spark source and sink, declared once: name, default, where it is valid.

Names are Kafka's and Spark's own wherever the meaning is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from raftlog.spark.offsets import LATEST

SPARKS_OWN = frozenset({"path", "queryname", "checkpointlocation", "outputmode"})
"""Keys that Spark adds to the options of a source or sink. They are not ours."""

FOUND = "raftlog.zookeeper.found"
"""Not for users: the nodes that ZooKeeper named when a data source was made. Spark keeps that for
as long as a query runs, so its processes find the cluster while ZooKeeper is away."""

PREDICATE = "raftlog.predicate"
"""Not for users: the condition that `raftlog.spark.read` and `read_stream` also put on the rows.
Given without it, rows that do not match are missing or not, as they happen to be stored."""

ASYNC_PROGRESS = "asyncProgressTrackingEnabled"
"""Spark's option by which a stream may replay more than its last batch."""


class Endpoint(Enum):
    """Where an option is valid; messages use the value."""

    STREAM_SOURCE = "readStream"
    BATCH_SOURCE = "read"
    STREAM_SINK = "writeStream"
    BATCH_SINK = "write"


SOURCES = frozenset({Endpoint.STREAM_SOURCE, Endpoint.BATCH_SOURCE})
SINKS = frozenset({Endpoint.STREAM_SINK, Endpoint.BATCH_SINK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. `default` is its text; None means unset, unless `doc` says otherwise."""

    name: str
    endpoints: frozenset[Endpoint]
    doc: str
    default: str | None = None
    setting: str | None = None
    """The key of `raftlog.config.ClientSettings` that gives the default, read on the driver."""


OPTIONS: tuple[Option, ...] = (
    Option(
        name="raftlog.bootstrap.servers",
        endpoints=SOURCES | SINKS,
        setting="bootstrap_servers",
        doc="host:port of some nodes, comma-separated. Default: those of `raftlog up`.",
    ),
    Option(
        name="raftlog.zookeeper.connect",
        endpoints=SOURCES | SINKS,
        setting="zookeeper",
        doc="In place of raftlog.bootstrap.servers: the ZooKeeper ensemble that knows the nodes, "
        "host:port,host:port/path.",
    ),
    Option(
        name="raftlog.tls.ca.file",
        endpoints=SOURCES | SINKS,
        setting="tls_ca_file",
        doc="PEM file with the certificates of who may sign the nodes'; given, connections are "
        "encrypted. Executors read it too: `--files` brings it, and then the option is its name "
        "without a path.",
    ),
    Option(
        name="raftlog.auth.credential",
        endpoints=SOURCES | SINKS,
        doc="Who the query is: the name of a credential that raftlog.toml or the environment of "
        "driver and executors define, with the servers and the CA that it is for.",
    ),
    Option(
        name="raftlog.request.timeout.ms",
        endpoints=SOURCES | SINKS,
        setting="request_timeout_s",
        doc="Total deadline of one request, retries included. Default: 30000.",
    ),
    Option(
        name="raftlog.client.rack",
        endpoints=SOURCES | SINKS,
        setting="rack",
        doc="Where the readers stand: nodes of this rack (server.rack) are read from first.",
    ),
    Option(
        name="raftlog.client.proxy",
        endpoints=SOURCES | SINKS,
        setting="proxy",
        doc="The HTTP proxy, host:port, through which driver and executors reach nodes. Unset: "
        "directly, whatever variables such as http_proxy say.",
    ),
    Option(
        name="raftlog.tracing.endpoint",
        endpoints=SOURCES | SINKS,
        setting="tracing_endpoint",
        doc="Where the spans of driver and executors go, by OTLP over grpc, such as "
        "http://host:4317; nodes have a setting of their own (tracing.endpoint). Unset: none are "
        "made.",
    ),
    Option(
        name="raftlog.tracing.sample.ratio",
        endpoints=SOURCES | SINKS,
        setting="tracing_sample_ratio",
        doc="The share of the epochs and other requests that are traced, from 0 to 1. Default: 1.",
    ),
    Option(
        name="subscribe",
        endpoints=SOURCES,
        doc="Topics to read, comma-separated; this or subscribePattern is required. Of several, "
        "columns of one name must have one type; a column that a topic lacks reads as null.",
    ),
    Option(
        name="subscribePattern",
        endpoints=SOURCES,
        doc="In place of subscribe: a regular expression (Python's) that matches the whole name "
        "of each topic to read. A stream reads topics that come later from their start.",
    ),
    Option(
        name="view",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        doc="In place of records, the state of the cluster as a DataFrame: watermarks, groups, "
        "epochs or topics. subscribe and subscribePattern choose topics; default: all.",
    ),
    Option(
        name="startingOffsets",
        endpoints=SOURCES,
        doc=(
            'earliest, latest, or JSON per topic ({"flights": 5}; -2 earliest, -1 latest; "*" '
            "names all other topics). Default, also for topics that are not named: latest for "
            "streams, earliest for batch. A resumed query ignores it."
        ),
    ),
    Option(
        name="startingTimestamp",
        endpoints=SOURCES,
        doc=(
            "In place of startingOffsets: the first record whose _timestamp is at or after this "
            "time, in milliseconds since 1970 UTC."
        ),
    ),
    Option(
        name="startingOffsetsByTimestamp",
        endpoints=SOURCES,
        doc='In place of startingOffsets: such a time per topic, {"flights": 1764000000000}.',
    ),
    Option(
        name="startingOffsetsByTimestampStrategy",
        endpoints=SOURCES,
        default="error",
        doc=(
            "What happens if no record is that young: error, or latest, which starts at the "
            "topic's end."
        ),
    ),
    Option(
        name="endingOffsets",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        default=LATEST,
        doc="Where a batch read stops, exclusive: latest, or JSON per topic (-1 latest).",
    ),
    Option(
        name="endingTimestamp",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        doc=(
            "In place of endingOffsets: stop before the first record whose _timestamp is at or "
            "after this time, in milliseconds since 1970 UTC."
        ),
    ),
    Option(
        name="endingOffsetsByTimestamp",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        doc="In place of endingOffsets: such a time per topic, as JSON.",
    ),
    Option(
        name="startingAfterEpoch",
        endpoints=SOURCES,
        doc=(
            "In place of startingOffsets, with epochWriter: start where each topic ended when this "
            "epoch of that writer, a stream's batch id or a txnVersion, had been committed."
        ),
    ),
    Option(
        name="asOfEpoch",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        doc=(
            "In place of endingOffsets, with epochWriter: read each topic as it stood after this "
            "epoch of that writer."
        ),
    ),
    Option(
        name="epochWriter",
        endpoints=SOURCES,
        doc="The writer of these epochs, which is a stream's query id, or a txnAppId.",
    ),
    Option(
        name="maxOffsetsPerTrigger",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        doc="The most records of one micro-batch, over all topics; exact.",
    ),
    Option(
        name="maxBytesPerTrigger",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        doc="About the most stored bytes of one micro-batch, over all topics: 67108864 or 64m. "
        "A batch has at least a record of each topic that has any.",
    ),
    Option(
        name="minOffsetsPerTrigger",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        doc="The fewest records, over all topics, with which a micro-batch begins before "
        "maxTriggerDelay has passed. The first batch of a run does not wait, nor do the triggers "
        "once and availableNow.",
    ),
    Option(
        name="maxTriggerDelay",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        default="15m",
        doc="With minOffsetsPerTrigger: how long after a micro-batch the next one begins with "
        "fewer records, such as 500ms, 30s, 15m, 2h or 1d; a bare number is milliseconds.",
    ),
    Option(
        name="minPartitions",
        endpoints=SOURCES,
        doc=(
            "Tasks of one read, at least, as far as there are records. Default: at most one for "
            "each core of the driver's machine, and none smaller than about 1 MiB."
        ),
    ),
    Option(
        name="maxRecordsPerPartition",
        endpoints=SOURCES,
        doc="The most records of one task.",
    ),
    Option(
        name="readPreference",
        endpoints=SOURCES,
        default="nearest",
        doc=(
            "Which replicas tasks read from: nearest (any), leader, follower, or observer (nodes "
            "that never vote). Others are read from where none of these answers."
        ),
    ),
    Option(
        name="groupId",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        doc="The reader group, 1 to 249 characters, as which the query publishes how far it has "
        "processed each topic, for raftlog lag. Default: it publishes nothing.",
    ),
    Option(
        name="failOnDataLoss",
        endpoints=SOURCES,
        default="true",
        doc="false: trimmed or deleted records are skipped with a warning, not an error.",
    ),
    Option(
        name="schemaEvolution",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        default="additive",
        doc=(
            "If columns of a topic change under a running query: additive goes on with those that "
            "it started with, and reads the new ones when it is started again; fail stops it."
        ),
    ),
    Option(
        name="includeMetadata",
        endpoints=SOURCES,
        default="false",
        doc="true: adds _topic, _offset, _timestamp, _epoch, _writer and _term to the columns.",
    ),
    Option(
        name="topic",
        endpoints=SINKS,
        doc="The topic to write. Without it each row goes to the topic that its string column "
        "topic names, and that column is not written.",
    ),
    Option(
        name="maxTopicsPerBatch",
        endpoints=SINKS,
        default="100",
        doc="Without the option topic: the most topics of one batch, up to 1000.",
    ),
    Option(
        name="createTopic",
        endpoints=SINKS,
        default="true",
        doc=(
            "true: the first write creates the topic with its schema; false: the topic must "
            "exist; always: a running query also continues in a recreated topic."
        ),
    ),
    Option(
        name="txnAppId",
        endpoints=SINKS,
        doc="The writer's name, in place of the query's id; with txnVersion for batch writes.",
    ),
    Option(
        name="txnVersion",
        endpoints=frozenset({Endpoint.BATCH_SINK}),
        doc="The batch write's number: a rerun with the same txnAppId and number is a no-op.",
    ),
    Option(
        name="onReplayMismatch",
        endpoints=SINKS,
        default="fail",
        doc=(
            "What happens if the last batch comes again under another plan, or under another size "
            "if no plan is known: fail, or keep (the first commit stays)."
        ),
    ),
    Option(
        name="onCheckpointReset",
        endpoints=frozenset({Endpoint.STREAM_SINK}),
        default="fail",
        doc=(
            "What happens if a new query without txnAppId begins under the name of one that wrote "
            "the topic before, as after its checkpoint was lost: fail, or append all its rows."
        ),
    ),
    Option(
        name="mergeSchema",
        endpoints=SINKS,
        default="false",
        doc=(
            "true: columns that only the DataFrame has are added to the topic, and types that the "
            "DataFrame has wider are widened, before any row is written."
        ),
    ),
    Option(
        name="compression",
        endpoints=SINKS,
        setting="compression",
        doc="How column chunks are compressed: lz4 (the default), zstd or none.",
    ),
    Option(
        name="batch.bytes",
        endpoints=SINKS,
        setting="batch_bytes",
        doc="About how many Arrow bytes a task puts into one log entry. Default: 1048576.",
    ),
    Option(
        name="maxInFlight",
        endpoints=SINKS,
        setting="max_in_flight",
        doc="The most entries that a task has in flight at once. Default: 4.",
    ),
)

BY_KEY = {option.name.lower(): option for option in OPTIONS}
"""Every option by its name in lower case, as Spark passes it on."""
