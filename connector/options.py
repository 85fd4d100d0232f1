"""What a source or sink was told, typed: parsed on the driver, before any task.

An unknown name, a bad value, or two options that contradict each other raise an `InvalidOption`
that says what to do. The options are declared in `raftlog.spark.declarations`.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from raftlog.errors import InvalidOption
from raftlog.machines.limits import INTEGER_MAX, TEXT_CHARACTERS_MAX
from raftlog.redaction import shown_address
from raftlog.spark.declarations import OPTIONS, SINKS, SOURCES, Endpoint
from raftlog.spark.limits import NONE, Limits
from raftlog.spark.offsets import EARLIEST, LATEST
from raftlog.spark.option_values import OptionValues, client_settings
from raftlog.spark.positions import (
    Positions,
    check_batch_range,
    check_epoch_writer,
    ending_positions,
    starting_positions,
)
from raftlog.spark.topics import Topics, topics_of

READ_PREFERENCES = ("nearest", "leader", "follower", "observer")

TOPICS_PER_BATCH_MAX = 1000
"""The greatest maxTopicsPerBatch: a batch's topics are committed one after the other."""

SCHEMA_EVOLUTIONS = ("additive", "fail")

WATERMARKS, GROUPS, EPOCHS, TOPICS = VIEWS = ("watermarks", "groups", "epochs", "topics")


class CreateTopic(Enum):
    """`ALWAYS` also lets a running query continue in a topic that was recreated under it."""

    TRUE = "true"
    FALSE = "false"
    ALWAYS = "always"


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
    proxy: str = ""
    """The proxy to nodes; "": none."""
    tls_ca_file: str = ""
    """"": no TLS."""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    token: str = ""
    """Where the caller's token is, by the driver's settings; "": there is none."""
    credential: str = ""
    """The name of what says who the caller is, where it is connected from; "": the fields above
    do."""
    tracing_endpoint: str = ""
    """Where spans go; "": none are made."""
    tracing_sample_ratio: float = 1.0

    @property
    def servers(self) -> str:
        """Where the cluster is looked for, for messages."""
        by_zookeeper = f"by ZooKeeper at {self.zookeeper}" if self.zookeeper else ""
        return " ".join(filter(None, (self.bootstrap_servers, by_zookeeper)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a stream and a batch read have in common: enough to tell the schema."""

    connection: ConnectionOptions
    topics: Topics
    include_metadata: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """A read of the cluster's state, in place of records."""

    connection: ConnectionOptions
    view: str
    """One of `VIEWS`."""
    topics: Topics
    """Those that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """A source's options, typed."""

    subscription: Subscription
    starting: Positions
    ending: Positions
    limits: Limits
    """Of a stream's micro-batches."""
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    read_preference: str = "nearest"
    group_id: str | None = None
    """The reader group as which a stream publishes its positions."""
    schema_evolution: str = "additive"
    """A stream's: `additive`, or `fail` if a topic that it reads is altered while it runs."""
    predicate: str = ""
    """The text of the predicate that the rows are tested with after the read, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """A sink's options, typed. `txn_version` is set only for batch writes with an app id."""

    connection: ConnectionOptions
    topic: str
    """"": each row says where it goes."""
    topics_max: int
    """The most topics of one batch whose rows do."""
    create_topic: CreateTopic
    txn_app_id: str | None
    txn_version: int | None
    keep_on_mismatch: bool
    append_on_reset: bool
    """A stream's: whether it may begin under the name of a query that wrote the topic before."""
    merge_schema: bool
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
    return _connection(OptionValues(given, SOURCES | SINKS))


def subscription(given: Mapping[str, str]) -> Subscription:
    """What a source reads, before it is known whether as a stream or as a batch.

    Raises `InvalidOption`, also for names that are valid in neither.
    """
    return _subscription(OptionValues(given, SOURCES))


def view_options(given: Mapping[str, str]) -> ViewOptions | None:
    """What a source reads if that is a view, before it is known whether as a stream; None: records.

    Raises `InvalidOption`, also for options that say which records are read, and how.
    """
    values = OptionValues(given, SOURCES)
    if values.given("view") is None:
        return None
    view = values.choice("view", VIEWS)
    chosen = [name for name in ("subscribe", "subscribePattern") if values.given(name) is not None]
    for option in OPTIONS:
        of_records = option.name not in (*chosen, "view") and not option.endpoints & SINKS
        if of_records and option.endpoints & SOURCES and values.given(option.name) is not None:
            raise InvalidOption(
                option=option.name,
                problem=f"is given with 'view', and view {view!r} has no records",
                advice="Leave one of the two out. A view takes subscribe or subscribePattern, and "
                "the options of the connection.",
            )
    return ViewOptions(
        connection=_connection(values),
        view=view,
        topics=topics_of(values) if chosen else Topics(pattern=".*"),
    )


def check_values(given: Mapping[str, str]) -> None:
    """Refuse values of a source's options before it is known whether it is a stream or a batch.

    Raises `InvalidOption` if they are refused for all of the two whose options these can be.
    """
    problems: list[InvalidOption] = []
    for endpoint in (Endpoint.STREAM_SOURCE, Endpoint.BATCH_SOURCE):
        try:
            OptionValues(given, frozenset({endpoint}))
        except InvalidOption:
            continue
        try:
            source_options(given, endpoint)
            return
        except InvalidOption as error:
            problems.append(error)
    if problems:
        raise problems[0]


def source_options(given: Mapping[str, str], endpoint: Endpoint) -> SourceOptions:
    """Parse a source's options, without contacting anything. Raises `InvalidOption`."""
    assert endpoint in SOURCES, endpoint
    values = OptionValues(given, frozenset({endpoint}))
    topics = topics_of(values)
    streaming = endpoint is Endpoint.STREAM_SOURCE
    check_epoch_writer(values)
    starting = starting_positions(values, topics, LATEST if streaming else EARLIEST)
    ending = Positions(named={}, others=LATEST)
    if not streaming:
        ending = ending_positions(values, topics)
        check_batch_range(starting, ending, topics)
    return SourceOptions(
        subscription=_subscription(values),
        starting=starting,
        ending=ending,
        limits=_limits(values) if streaming else NONE,
        min_partitions=values.optional_count("minPartitions"),
        max_records_per_partition=values.optional_count("maxRecordsPerPartition"),
        fail_on_data_loss=values.truth("failOnDataLoss"),
        read_preference=values.choice("readPreference", READ_PREFERENCES),
        group_id=_group_id(values) if streaming else None,
        schema_evolution=values.choice("schemaEvolution", SCHEMA_EVOLUTIONS)
        if streaming
        else "additive",
        predicate=values.predicate,
    )


def sink_options(given: Mapping[str, str], endpoint: Endpoint) -> SinkOptions:
    """Parse a sink's options, without contacting anything. Raises `InvalidOption`."""
    assert endpoint in SINKS, endpoint
    values = OptionValues(given, frozenset({endpoint}))
    topic = values.text("topic")
    if topic == "":
        raise InvalidOption(
            option="topic",
            problem="is empty",
            advice="Name the topic to write, or leave the option out, and name it in each row.",
        )
    if topic is not None and values.given("maxTopicsPerBatch") is not None:
        raise InvalidOption(
            option="maxTopicsPerBatch",
            problem="is given with 'topic', to which all rows go",
            advice="Leave one of the two out.",
        )
    app_id, version = _transaction(values, endpoint)
    return SinkOptions(
        connection=_connection(values),
        topic=topic or "",
        topics_max=values.count("maxTopicsPerBatch", greatest=TOPICS_PER_BATCH_MAX),
        create_topic=CreateTopic(values.choice("createTopic", ("true", "false", "always"))),
        txn_app_id=app_id,
        txn_version=version,
        keep_on_mismatch=values.choice("onReplayMismatch", ("fail", "keep")) == "keep",
        append_on_reset=endpoint is Endpoint.STREAM_SINK and _append_on_reset(values, app_id),
        merge_schema=values.truth("mergeSchema"),
        compression=values.choice("compression", ("lz4", "zstd", "none")),
        batch_bytes=values.count("batch.bytes"),
        max_in_flight=values.count("maxInFlight"),
        checkpoint_location=values.sparks_own("checkpointlocation"),
        query_name=values.sparks_own("queryname"),
    )


def _connection(values: OptionValues) -> ConnectionOptions:
    name = values.text("raftlog.auth.credential") or ""
    reached = _by_credential(values, name) if name else _by_settings(values)
    return ConnectionOptions(
        credential=name,
        **reached,
        request_timeout_s=values.count("raftlog.request.timeout.ms") / 1000,
        rack=values.text("raftlog.client.rack") or "",
        proxy=_proxy(values),
        tracing_endpoint=_tracing_endpoint(values),
        tracing_sample_ratio=values.share("raftlog.tracing.sample.ratio"),
    )


def _by_credential(values: OptionValues, name: str) -> dict[str, str]:
    """The servers of the credential. Its secrets, and its CA, are looked up by each process that
    connects."""
    from raftlog.config import named_credential

    own = named_credential(name)
    _check_only(values, own.servers, own.zookeeper, own.ca, f"credential {name!r}")
    # Not what a process found before: who sets options could say so as well.
    return {"bootstrap_servers": own.servers, "zookeeper": own.zookeeper}


def _by_settings(values: OptionValues) -> dict[str, str]:
    """By the options, or the driver's own settings: what these prove goes to their own servers."""
    from raftlog.config_secrets import refuse_bare_token
    from raftlog.config_tls import PemFiles, client_files

    own = client_settings()
    ca_file = values.text("raftlog.tls.ca.file") or ""
    if own.token or own.tls_cert_file or own.zookeeper_cert_file:
        servers = "" if own.zookeeper else own.bootstrap_servers
        _check_only(values, servers, own.zookeeper, own.tls_ca_file, "client.token")
        values.found = ""  # who sets options could say so as well
        refuse_bare_token(own.token, ca_file)
        files = PemFiles(ca_file, own.tls_cert_file, own.tls_key_file)
        client_files(files, PemFiles(*(f"client.tls_{which}_file" for which in PemFiles._fields)))
    servers, zookeeper = _found_by(values)
    return {
        "bootstrap_servers": servers,
        "zookeeper": zookeeper,
        "tls_ca_file": ca_file,
        "tls_cert_file": own.tls_cert_file,
        "tls_key_file": own.tls_key_file,
        "token": own.token,
    }


def _check_only(
    values: OptionValues, servers: str, zookeeper: str, ca_file: str, whose: str
) -> None:
    """Reject options that lead elsewhere than what proves who the query is. Raises
    `InvalidOption`."""
    for option, own in (
        ("raftlog.bootstrap.servers", servers),
        ("raftlog.zookeeper.connect", zookeeper),
        ("raftlog.tls.ca.file", ca_file),
    ):
        if values.given(option) not in (None, own):
            raise InvalidOption(
                option=option,
                problem=f"is not what {whose} is for",
                advice="Leave it out, or name the credential that is for it "
                "('raftlog.auth.credential'): it is sent to no other servers.",
            )


def _proxy(values: OptionValues) -> str:
    from raftlog.config import refuse_bad_proxy

    option = "raftlog.client.proxy"
    proxy = values.text(option) or ""
    refuse_bad_proxy(proxy, option)
    return proxy


def _tracing_endpoint(values: OptionValues) -> str:
    from raftlog.config_tracing import check_tracing

    option = "raftlog.tracing.endpoint"
    endpoint = values.text(option) or ""
    check_tracing(endpoint, option)
    return endpoint


def _found_by(values: OptionValues) -> tuple[str, str]:
    """(servers, ZooKeeper): how the cluster is found. By servers, the second is ""."""
    from raftlog.config_ensemble import found_by, parse_ensemble
    from raftlog.config_hosts import is_address

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
                problem=f"holds {shown_address(server, text)!r}, which is not host:port",
                advice="Give host:port pairs, comma-separated: 127.0.0.1:7401,127.0.0.1:7402.",
            )
    return ",".join(servers), ""


def _subscription(values: OptionValues) -> Subscription:
    return Subscription(
        connection=_connection(values),
        topics=topics_of(values),
        include_metadata=values.truth("includeMetadata"),
    )


def _limits(values: OptionValues) -> Limits:
    records_max = values.optional_count("maxOffsetsPerTrigger")
    records_min = values.optional_count("minOffsetsPerTrigger")
    delay = values.given("maxTriggerDelay")
    if delay is not None and records_min is None:
        raise InvalidOption(
            option="maxTriggerDelay",
            problem="is given without 'minOffsetsPerTrigger', and so there is nothing to wait for",
            advice="Give both, or leave it out.",
        )
    if records_min is not None and records_max is not None and records_min > records_max:
        raise InvalidOption(
            option="minOffsetsPerTrigger",
            problem=f"is {records_min}, above 'maxOffsetsPerTrigger' {records_max}",
            advice="A batch cannot have so many records. Lower it, or raise the other.",
        )
    return Limits(
        records_max=records_max,
        bytes_max=values.optional_byte_count("maxBytesPerTrigger"),
        records_min=records_min,
        delay_max_s=values.duration_s("maxTriggerDelay"),
    )


def _group_id(values: OptionValues) -> str | None:
    group = values.text("groupId")
    if group is None:
        return None
    from raftlog.client.positions import GROUP_CHARACTERS_MAX

    if not group:
        raise InvalidOption(
            option="groupId",
            problem="is empty",
            advice="Name the reader group, or leave the option out: then nothing is published.",
        )
    if len(group) > GROUP_CHARACTERS_MAX:
        raise InvalidOption(
            option="groupId",
            problem=f"is {reprlib.repr(group)}, which has {len(group)} characters",
            advice=f"Give the reader group a name of 1 to {GROUP_CHARACTERS_MAX} characters.",
        )
    return group


def _transaction(values: OptionValues, endpoint: Endpoint) -> tuple[str | None, int | None]:
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


def _append_on_reset(values: OptionValues, app_id: str | None) -> bool:
    append = values.choice("onCheckpointReset", ("fail", "append")) == "append"
    if append and app_id is not None:
        raise InvalidOption(
            option="onCheckpointReset",
            problem="is append beside 'txnAppId', under which rows are never written again",
            advice="Leave it out, and give another txnAppId to write the rows again.",
        )
    return append


def default_parallelism() -> int:
    """Tasks of one read if `minPartitions` is unset.

    Spark does not tell a planning worker the size of the cluster, so this is the number of cores of
    the driver's machine, which is what a local session runs at once. On a cluster, set
    `minPartitions`.
    """
    return max(1, len(os.sched_getaffinity(0)))
