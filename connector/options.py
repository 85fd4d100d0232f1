"""Every option of the Spark source and sink, declared once: name, default, where it is valid.

Names are Kafka's and Spark's own wherever the meaning is the same. Options arrive as text, their
names in lower case. They are parsed on the driver, before any task: an unknown name, a bad value,
or two options that contradict each other raise an `InvalidOption` that says what to do.
"""

from __future__ import annotations

import difflib
import json
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX, TEXT_CHARACTERS_MAX
from raftlog.spark.offsets import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from raftlog.config import ClientSettings

SPARKS_OWN = frozenset({"path", "queryname", "checkpointlocation", "outputmode"})
"""Keys that Spark adds to the options of a source or sink. They are not ours."""

FOUND = "raftlog.zookeeper.found"
"""Not for users: the nodes that ZooKeeper named when a data source was made. Spark keeps that for
as long as a query runs, so its processes find the cluster while ZooKeeper is away."""

ASYNC_PROGRESS = "asyncProgressTrackingEnabled"
"""Spark's option by which a stream may replay more than its last batch."""

READ_PREFERENCES = ("nearest", "leader", "follower", "observer")

POSITION_NUMBERS = {-2: EARLIEST, -1: LATEST}
"""Kafka's numbers for the two symbolic positions in JSON."""


class Endpoint(Enum):
    """Where an option is valid; messages use the value."""

    STREAM_SOURCE = "readStream"
    BATCH_SOURCE = "read"
    STREAM_SINK = "writeStream"
    BATCH_SINK = "write"


SOURCES = frozenset({Endpoint.STREAM_SOURCE, Endpoint.BATCH_SOURCE})
SINKS = frozenset({Endpoint.STREAM_SINK, Endpoint.BATCH_SINK})


class CreateTopic(Enum):
    """`ALWAYS` also lets a running query continue in a topic that was recreated under it."""

    TRUE = "true"
    FALSE = "false"
    ALWAYS = "always"


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
        name="subscribe",
        endpoints=SOURCES,
        doc="Topics to read, comma-separated; required. Several must have equal schemas.",
    ),
    Option(
        name="startingOffsets",
        endpoints=SOURCES,
        doc=(
            'earliest, latest, or JSON per topic ({"flights": 5}; -2 earliest, -1 latest). '
            "Default: latest for streams, earliest for batch. A resumed query ignores it."
        ),
    ),
    Option(
        name="endingOffsets",
        endpoints=frozenset({Endpoint.BATCH_SOURCE}),
        default=LATEST,
        doc="Where a batch read stops, exclusive: latest, or JSON per topic (-1 latest).",
    ),
    Option(
        name="maxOffsetsPerTrigger",
        endpoints=frozenset({Endpoint.STREAM_SOURCE}),
        doc="The most records of one micro-batch, over all topics; exact.",
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
        name="failOnDataLoss",
        endpoints=SOURCES,
        default="true",
        doc="false: trimmed or deleted records are skipped with a warning, not an error.",
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
        doc="The topic to write; required.",
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

_BY_KEY = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to reach the cluster. Hashable: it keys the per-process cache of clients."""

    bootstrap_servers: str
    """Besides `zookeeper`: those that it named before, or ""."""
    zookeeper: str
    """The ensemble that knows the nodes, or ""."""
    request_timeout_s: float
    rack: str = ""
    """Where the readers stand; "": it is not said."""

    @property
    def servers(self) -> str:
        """Where the cluster is looked for, for messages."""
        by_zookeeper = f"by ZooKeeper at {self.zookeeper}" if self.zookeeper else ""
        return " ".join(filter(None, (self.bootstrap_servers, by_zookeeper)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a stream and a batch read have in common: enough to tell the schema."""

    connection: ConnectionOptions
    topics: tuple[str, ...]
    """Sorted, at least one."""
    include_metadata: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """A source's options, typed. `starting` and `ending` name every subscribed topic."""

    subscription: Subscription
    starting: Mapping[str, Position]
    ending: Mapping[str, Position]
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    read_preference: str = "nearest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """A sink's options, typed. `txn_version` is set only for batch writes with an app id."""

    connection: ConnectionOptions
    topic: str
    create_topic: CreateTopic
    txn_app_id: str | None
    txn_version: int | None
    keep_on_mismatch: bool
    compression: str
    batch_bytes: int
    max_in_flight: int
    checkpoint_location: str
    """A stream's, as Spark passes it on, or what a batch write in foreachBatch names as the
    checkpoint of the query around it; "" if the option is not given."""
    query_name: str
    """A stream's; "" if it has none."""


def connection_options(given: Mapping[str, str]) -> ConnectionOptions:
    """How the cluster is reached, before it is known what for. Raises `InvalidOption`."""
    return _connection(_Values(given, SOURCES | SINKS))


def subscription(given: Mapping[str, str]) -> Subscription:
    """What a source reads, before it is known whether as a stream or as a batch.

    Raises `InvalidOption`, also for names that are valid in neither.
    """
    return _subscription(_Values(given, SOURCES))


def source_options(given: Mapping[str, str], endpoint: Endpoint) -> SourceOptions:
    """Parse a source's options, without contacting anything. Raises `InvalidOption`."""
    assert endpoint in SOURCES, endpoint
    values = _Values(given, frozenset({endpoint}))
    topics = _topics(values)
    streaming = endpoint is Endpoint.STREAM_SOURCE
    starting = _positions(values, "startingOffsets", topics, LATEST if streaming else EARLIEST)
    ending: dict[str, Position] = dict.fromkeys(topics, LATEST)
    if not streaming:
        ending = _positions(values, "endingOffsets", topics, LATEST)
        _check_batch_range(starting, ending)
    return SourceOptions(
        subscription=_subscription(values),
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=(
            values.optional_count("maxOffsetsPerTrigger") if streaming else None
        ),
        min_partitions=values.optional_count("minPartitions"),
        max_records_per_partition=values.optional_count("maxRecordsPerPartition"),
        fail_on_data_loss=values.truth("failOnDataLoss"),
        read_preference=values.choice("readPreference", READ_PREFERENCES),
    )


def sink_options(given: Mapping[str, str], endpoint: Endpoint) -> SinkOptions:
    """Parse a sink's options, without contacting anything. Raises `InvalidOption`."""
    assert endpoint in SINKS, endpoint
    values = _Values(given, frozenset({endpoint}))
    topic = values.text("topic")
    if not topic:
        raise InvalidOption(
            option="topic",
            problem="is missing",
            advice="Name the topic to write: .option('topic', 'flights').",
        )
    app_id, version = _transaction(values, endpoint)
    return SinkOptions(
        connection=_connection(values),
        topic=topic,
        create_topic=CreateTopic(values.choice("createTopic", ("true", "false", "always"))),
        txn_app_id=app_id,
        txn_version=version,
        keep_on_mismatch=values.choice("onReplayMismatch", ("fail", "keep")) == "keep",
        compression=values.choice("compression", ("lz4", "zstd", "none")),
        batch_bytes=values.count("batch.bytes"),
        max_in_flight=values.count("maxInFlight"),
        checkpoint_location=values.sparks_own("checkpointlocation"),
        query_name=values.sparks_own("queryname"),
    )


# ---------------------------------------------------------------- single values


class _Values:
    """The given options. Names are checked against `endpoints` at once, values when read."""

    def __init__(self, given: Mapping[str, str], endpoints: frozenset[Endpoint]) -> None:
        self._endpoints = endpoints
        self._settings: ClientSettings | None = None
        self._given: dict[str, str] = {}
        self._sparks_own: dict[str, str] = {}
        self.found = ""
        """The nodes that ZooKeeper named before."""
        for key, value in given.items():
            lowered = key.lower()
            if lowered == FOUND:
                self.found = value
                continue
            if lowered in SPARKS_OWN:
                self._sparks_own[lowered] = value
                continue
            if lowered == ASYNC_PROGRESS.lower() and Endpoint.STREAM_SINK in endpoints:
                _refuse_async_progress(value)
                continue
            if lowered == "schema":
                _refuse_schema(endpoints)
            _check_name(key, endpoints)
            self._given[lowered] = value.strip()

    def sparks_own(self, name: str) -> str:
        """What Spark added under this name, or ""."""
        assert name in SPARKS_OWN, name
        return self._sparks_own.get(name, "")

    def text(self, name: str) -> str | None:
        """The option's text, its default, or None. An option given as "" is ""."""
        option = _BY_KEY[name.lower()]
        assert self._endpoints & option.endpoints, f"{name} is not an option of {self._endpoints}"
        given = self._given.get(name.lower())
        if given is None and option.setting is not None:
            return self._setting(option.setting)
        return option.default if given is None else given

    def _setting(self, key: str) -> str:
        """A client setting as an option's text, with seconds as the option's milliseconds."""
        from raftlog.config import load

        if self._settings is None:
            self._settings = load().client
        value = getattr(self._settings, key)
        return str(round(value * 1000)) if key.endswith("_s") else str(value)

    def given(self, name: str) -> str | None:
        """The option's own text, without a default."""
        return self._given.get(name.lower())

    def optional_count(self, name: str) -> int | None:
        return None if self.text(name) is None else self.count(name)

    def count(self, name: str, least: int = 1, greatest: int = INTEGER_MAX) -> int:
        """A whole number within the bounds, and within those of the setting behind the option."""
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        setting = _BY_KEY[name.lower()].setting
        if setting is not None:
            least, greatest = _bounds_of(setting, least, greatest)
        digits = text.lstrip("0") or text[:1]  # int() refuses thousands of digits in its own way
        whole = text.isascii() and text.isdecimal() and len(digits) <= len(str(greatest))
        if not (whole and least <= int(digits) <= greatest):
            raise InvalidOption(
                option=name,
                problem=f"is {reprlib.repr(text)}, which is not a whole number from {least} to "
                f"{greatest}",
                advice=_doc(name),
            )
        return int(digits)

    def truth(self, name: str) -> bool:
        return self.choice(name, ("true", "false")) == "true"

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        text = self.text(name)
        assert text is not None, f"{name} has neither a value nor a default"
        if text.lower() not in allowed:
            raise InvalidOption(
                option=name,
                problem=f"is {text!r}; it can be {', '.join(allowed)}",
                advice=_doc(name),
            )
        return text.lower()


def _bounds_of(setting: str, least: int, greatest: int) -> tuple[int, int]:
    """The bounds of an option whose default is the client's setting, seconds as milliseconds."""
    from raftlog.config import ClientSettings

    low, high = ClientSettings.bounds(setting)
    scale = 1000 if setting.endswith("_s") else 1
    return (
        least if low is None else max(least, round(low * scale)),
        greatest if high is None else min(greatest, round(high * scale)),
    )


def _refuse_async_progress(value: str) -> None:
    if value.strip().lower() == "false":
        return
    raise InvalidOption(
        option=ASYNC_PROGRESS,
        problem=f"is {value!r}: a restart then replays batches before the last, which the log "
        "cannot tell from an older copy of the checkpoint",
        advice="Leave it out: exactly once needs a query that logs every batch.",
    )


def _refuse_schema(endpoints: frozenset[Endpoint]) -> None:
    """Spark passes on what `.schema(...)` was given in another way, so somebody mistook it."""
    raise InvalidOption(
        option="schema",
        problem=f"is not known to {_phrase(endpoints)}: the topic has its columns",
        advice="Leave it out. To read some of the columns, call .schema('id BIGINT, text STRING') "
        "on the reader, or .select(...) afterwards."
        if endpoints <= SOURCES
        else "Leave it out: the first write creates the topic with the DataFrame's columns.",
    )


def _check_name(key: str, endpoints: frozenset[Endpoint]) -> None:
    option = _BY_KEY.get(key.lower())
    if option is not None and endpoints & option.endpoints:
        return
    if option is not None:
        raise InvalidOption(
            option=option.name,
            problem=f"is not an option of {_phrase(endpoints)}",
            advice=f"It belongs to {_phrase(option.endpoints)}: remove it here.",
        )
    known = {name: one.name for name, one in _BY_KEY.items() if endpoints & one.endpoints}
    near = difflib.get_close_matches(key.lower(), known, n=1)
    names = ", ".join(sorted(known.values()))
    raise InvalidOption(
        option=key,
        problem=f"is not known to {_phrase(endpoints)}",
        advice=f"Did you mean {known[near[0]]!r}?" if near else f"The known ones are: {names}.",
    )


def _phrase(endpoints: frozenset[Endpoint]) -> str:
    return " and ".join(sorted(endpoint.value for endpoint in endpoints))


def _doc(name: str) -> str:
    return f"{name}: {_BY_KEY[name.lower()].doc}"


def _connection(values: _Values) -> ConnectionOptions:
    servers, zookeeper = _found_by(values)
    return ConnectionOptions(
        bootstrap_servers=servers,
        zookeeper=zookeeper,
        request_timeout_s=values.count("raftlog.request.timeout.ms") / 1000,
        rack=values.text("raftlog.client.rack") or "",
    )


def _found_by(values: _Values) -> tuple[str, str]:
    """(servers, ZooKeeper): how the cluster is found. By servers, the second is ""."""
    from raftlog.config import is_address
    from raftlog.config_ensemble import found_by, parse_ensemble

    by_servers, by_zookeeper = "raftlog.bootstrap.servers", "raftlog.zookeeper.connect"
    given = found_by(
        values.given(by_servers), values.given(by_zookeeper), (by_servers, by_zookeeper)
    )
    zookeeper = given["zookeeper"] if given else values.text(by_zookeeper) or ""
    if zookeeper:
        parse_ensemble(zookeeper, by_zookeeper)
        return values.found, zookeeper
    text = values.text(by_servers)
    assert text is not None, "raftlog.bootstrap.servers has a default"
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        if not is_address(server):
            raise InvalidOption(
                option=by_servers,
                problem=f"holds {server!r}, which is not host:port",
                advice="Give host:port pairs, comma-separated: 127.0.0.1:7401,127.0.0.1:7402.",
            )
    return ",".join(servers), ""


def _subscription(values: _Values) -> Subscription:
    return Subscription(
        connection=_connection(values),
        topics=_topics(values),
        include_metadata=values.truth("includeMetadata"),
    )


def _topics(values: _Values) -> tuple[str, ...]:
    text = values.text("subscribe") or ""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidOption(
            option="subscribe",
            problem="is missing",
            advice="Name the topics to read: .option('subscribe', 'flights').",
        )
    for name in names:
        if names.count(name) > 1:
            raise InvalidOption(
                option="subscribe",
                problem=f"names {name!r} twice",
                advice="Name each topic once.",
            )
    return tuple(sorted(names))


def _transaction(values: _Values, endpoint: Endpoint) -> tuple[str | None, int | None]:
    """(txnAppId, txnVersion): both or neither in batch; in a stream at most the first."""
    app_id = values.text("txnAppId")
    if app_id == "":
        raise InvalidOption(
            option="txnAppId",
            problem="is empty",
            advice="Give the writer a name that it keeps over reruns, or leave the option out.",
        )
    if app_id is not None and len(app_id) > TEXT_CHARACTERS_MAX:
        raise InvalidOption(
            option="txnAppId",
            problem=f"is {reprlib.repr(app_id)}, which has {len(app_id)} characters; 1 to "
            f"{TEXT_CHARACTERS_MAX} are allowed",
            advice="Give the writer a shorter name that it keeps over reruns.",
        )
    if endpoint is Endpoint.STREAM_SINK:
        return app_id, None
    version = None
    if values.text("txnVersion") is not None:
        version = values.count("txnVersion", 0, INTEGER_MAX - 1)
    if (app_id is None) != (version is None):
        there, missing = ("txnAppId", "txnVersion") if app_id else ("txnVersion", "txnAppId")
        raise InvalidOption(
            option=there,
            problem=f"is given without {missing!r}",
            advice="A batch write needs both (a rerun is then a no-op) or neither.",
        )
    return app_id, version


# ---------------------------------------------------------------- positions


def _positions(
    values: _Values, name: str, topics: tuple[str, ...], default: Position
) -> dict[str, Position]:
    """A position for every subscribed topic, from earliest, latest or JSON."""
    text = values.text(name)
    if text is None:
        return dict.fromkeys(topics, default)
    if text.lower() in (EARLIEST, LATEST):
        return dict.fromkeys(topics, text.lower())
    given = _position_object(name, text)
    unknown, missing = sorted(set(given) - set(topics)), sorted(set(topics) - set(given))
    if unknown or missing:
        parts = [f"names {', '.join(unknown)}, not in 'subscribe'"] if unknown else []
        parts += [f"lacks {', '.join(missing)}, in 'subscribe'"] if missing else []
        raise InvalidOption(
            option=name,
            problem=" and ".join(parts),
            advice="Give a position for every subscribed topic and for no other.",
        )
    return {topic: POSITION_NUMBERS.get(number, number) for topic, number in given.items()}


def _position_object(name: str, text: str) -> dict[str, int]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        raise InvalidOption(
            option=name,
            problem=f"is {text!r}, which is neither earliest, latest nor a JSON object",
            advice=_doc(name),
        )
    for topic, number in given.items():
        if type(number) is not int or number < -2:
            raise InvalidOption(
                option=name,
                problem=f"gives {topic!r} the position {number!r}",
                advice="A position is an offset from 0 up, -1 (latest) or -2 (earliest), for "
                'example {"orders": 150000}: a topic has no partitions.',
            )
    return given


def _check_batch_range(starting: Mapping[str, Position], ending: Mapping[str, Position]) -> None:
    for topic, start in starting.items():
        end = ending[topic]
        if start == LATEST:
            raise InvalidOption(
                option="startingOffsets",
                problem=f"is latest for {topic!r} in a batch read, which would read nothing",
                advice="Use earliest or an offset.",
            )
        if end == EARLIEST:
            raise InvalidOption(
                option="endingOffsets",
                problem=f"is earliest for {topic!r}, which would read nothing",
                advice="Use latest or an offset.",
            )
        if isinstance(start, int) and isinstance(end, int) and start > end:
            raise InvalidOption(
                option="startingOffsets",
                problem=f"is {start} for {topic!r}, above its 'endingOffsets' {end}",
                advice="The end is exclusive and never below the start.",
            )


def default_parallelism() -> int:
    """Tasks of one read if `minPartitions` is unset.

    Spark does not tell a planning worker the size of the cluster, so this is the number of cores of
    the driver's machine, which is what a local session runs at once. On a cluster, set
    `minPartitions`.
    """
    return max(1, len(os.sched_getaffinity(0)))
