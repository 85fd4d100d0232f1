"""The clients of this process, one for each cluster and deadline, opened when first needed.

Spark forks its Python workers and uses them again for many tasks. So a client lives as long as its
process and is keyed by the process id; one that came through a fork is never used. A client is
never part of a pickled object: readers and writers carry `ConnectionOptions` and ask here.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from raftlog.errors import (
    DeadlineExceeded,
    InvalidOption,
    NodeUnreachable,
    RaftlogError,
    TopicRecreated,
)
from raftlog.redaction import shown_location
from raftlog.spark.declarations import FOUND
from raftlog.spark.option_values import client_settings
from raftlog.spark.options import ConnectionOptions, Subscription, connection_options
from raftlog.spark.worker_process import keep_collections_short

if TYPE_CHECKING:
    from raftlog import LogClient, TopicInfo

START_TIMEOUT_S = 5.0
"""How long a query that starts waits for the first answer of any node, whatever its request
timeout. No setting: a node answers without a leader, so only a cluster that is down, or servers
that are wrong, need longer."""

_HARMLESS_OF_EXPORTERS = re.compile(
    "OTEL_EXPORTER_OTLP_(TRACES_|METRICS_|LOGS_)?"
    "(ENDPOINT|TIMEOUT|COMPRESSION|INSECURE|PROTOCOL|CERTIFICATE"
    "|TEMPORALITY_PREFERENCE|DEFAULT_HISTOGRAM_AGGREGATION)"
)
"""The variables of OpenTelemetry's exporters that prove a process to no collector. Others may:
headers, client certificates, providers of credentials, and what later versions add."""

_lock = threading.Lock()
_clients: dict[tuple[int, ConnectionOptions, bool], LogClient] = {}
_topics: dict[tuple[int, ConnectionOptions, str], TopicInfo] = {}
_reached: set[tuple[int, ConnectionOptions]] = set()


def client(options: ConnectionOptions, *, starting: bool = False) -> LogClient:
    """This process's client for these options. Opening it sends nothing.

    While a query is `starting`, addresses where nothing listens become an error soon
    (`client.refused_timeout_s`). Later they may be a cluster that is down for a moment, even for a
    worker process that never reached it: then every request has its whole deadline.
    """
    key = (os.getpid(), options, starting)
    with _lock:
        if key not in _clients:
            keep_collections_short()
            _clients[key] = _opened(options, options.request_timeout_s, patient=not starting)
        return _clients[key]


def check_reachable(options: ConnectionOptions, *, again: bool = True) -> None:
    """Raise `NodeUnreachable` soon if no node answers a query that starts.

    Not `again`: if this process was answered once, it does not ask: what calls may be a query that
    runs, which waits as long as a request may take. With ZooKeeper it asks nothing: the request
    that comes next says what is wrong there, and with the nodes that it names.
    """
    if options.zookeeper:
        return
    key = (os.getpid(), options)
    with _lock:
        if not again and key in _reached:
            return
    timeout_s = min(START_TIMEOUT_S, options.request_timeout_s)
    with _opened(options, timeout_s, patient=False) as short:
        try:
            short.cluster_id()
        except DeadlineExceeded as error:
            raise NodeUnreachable(
                address=options.bootstrap_servers.replace(",", ", "),
                problem=f"nothing came within {timeout_s:g} s",
            ) from error
    with _lock:
        _reached.add(key)


def describe(subscribed: Subscription, *, again: bool = True) -> list[TopicInfo]:
    """The topics that a query reads, as they are when it starts: at least one. `again` as in
    `check_reachable`."""
    check_reachable(subscribed.connection, again=again)
    return subscribed.topics.describe_some(client(subscribed.connection, starting=True))


def _opened(options: ConnectionOptions, timeout_s: float, *, patient: bool) -> LogClient:
    """A client with this deadline. A patient one uses all of it, also where nothing listens."""
    import raftlog

    update: dict[str, str | float] = {
        "bootstrap_servers": options.bootstrap_servers,
        "zookeeper": options.zookeeper,
        "rack": options.rack,
        "proxy": options.proxy,
        "tls_ca_file": options.tls_ca_file,
        "tls_cert_file": options.tls_cert_file,
        "tls_key_file": options.tls_key_file,
        "token": options.token,
        "tracing_endpoint": options.tracing_endpoint,
        "tracing_sample_ratio": options.tracing_sample_ratio,
    }
    if options.credential:
        from raftlog.config import named_credential

        own = named_credential(options.credential)
        update |= {"tls_ca_file": own.ca, "tls_cert_file": own.cert, "tls_key_file": own.key}
        update["token"] = own.token
        if not own.zookeeper:
            update["bootstrap_servers"] = own.servers
    _check_collector(options.tracing_endpoint)
    if patient:
        update["refused_timeout_s"] = timeout_s
    settings = client_settings().model_copy(update=update)
    try:
        return raftlog.connect(request_timeout_s=timeout_s, settings=settings)
    except InvalidOption as error:
        of_options = options.tls_ca_file not in ("", client_settings().tls_ca_file)
        if not (of_options and error.option.startswith("client.tls_ca_file")):
            raise
        raise InvalidOption(  # one text, or options would tell which files this process has
            option="raftlog.tls.ca.file",
            problem=f"is {shown_location(options.tls_ca_file)!r}, in which this process finds no "
            "certificate",
            advice="Name a PEM file that driver and executors can read (`--files` brings it). "
            "Where client.tls_ca_file names the same file, the error says more.",
        ) from None


_OF_THIS_PROCESS = frozenset(
    (
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_SERVICE_NAME",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS",
    )
)
"""Variables that describe this process to a collector. Some hold a vendor's access token."""


def _check_collector(endpoint: str) -> None:
    """Reject an endpoint of the options while the environment has credentials for a collector, or
    describes this process to it: they are for the one of the settings. Raises `InvalidOption`."""
    if not endpoint or endpoint == client_settings().tracing_endpoint:
        return
    for variable in os.environ:
        is_exporters = variable.startswith("OTEL_") and "EXPORTER_OTLP" in variable
        is_harmful = is_exporters and not _HARMLESS_OF_EXPORTERS.fullmatch(variable)
        if is_harmful or variable in _OF_THIS_PROCESS:
            raise InvalidOption(
                option="raftlog.tracing.endpoint",
                problem=f"is not the collector that {variable} is for",
                advice="Leave it out, and set client.tracing_endpoint (RAFTLOG_CLIENT__"
                "TRACING_ENDPOINT) where the variable is.",
            )


def with_found_servers(given: Mapping[str, str]) -> Mapping[str, str]:
    """A data source's options, with the nodes that ZooKeeper names now, if it is to name them.

    Whatever is wrong is left to the request that comes next: it is raised there, with its options.
    """
    try:
        options = connection_options(given)
        if not options.zookeeper:
            return given
        nodes = client(options, starting=True).describe_cluster()
    except RaftlogError:
        return given
    return {**given, FOUND: ",".join(address for address, _ in nodes)}


def topic(
    options: ConnectionOptions,
    name: str,
    incarnation: str,
    version: int = 1,
) -> TopicInfo:
    """The description of exactly this incarnation, remembered by this process, with its schema as
    of `version` or later: a process that is older than a query may know an earlier one.

    Raises `TopicRecreated` if the name now means another incarnation, `TopicNotFound` if none.
    """
    key = (os.getpid(), options, name)
    with _lock:
        known = _topics.get(key)
    if known is not None and known.incarnation == incarnation and known.schema.version >= version:
        return known
    found = client(options).describe_topic(name)
    if found.incarnation != incarnation:
        raise TopicRecreated(topic=name, wanted=incarnation, found=found.incarnation)
    with _lock:
        _topics[key] = found
    return found
