"""Every number of raftlog, once: its unit in its name, its default, its bounds and its reason.

The sources, of which later ones win, are the defaults here, a TOML file (`--config FILE`, else the
file that the environment variable RAFTLOG_CONFIG names), the environment
(`RAFTLOG_<SECTION>__<KEY>`), and flags (`--set section.key=value`). A misspelt key, a missing file
or values that contradict one another are `InvalidOption`, in whichever source; so is a RAFTLOG_
variable that names no key. Messages show numbers but never texts: a text may be a secret.

`python -m raftlog.config` prints `conf/raftlog.toml`, which is generated from this file; in an
installation `raftlog docs conf/raftlog.toml` prints it.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import tomllib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, SettingsConfigDict

from raftlog.config_audit import AuditSettings
from raftlog.config_auth import AuthSettings, refuse_half_auth
from raftlog.config_credentials import CREDENTIAL_PREFIX, Credential, credential
from raftlog.config_ensemble import DiscoverySettings, EnsembleSettings, refuse_half
from raftlog.config_hosts import PORT_MAX, is_address
from raftlog.config_metrics import MetricsSettings, refuse_half_metrics
from raftlog.config_problems import (
    PREFIX,
    contradiction,
    invalid_value,
    refuse_unknown,
    refuse_unknown_variables,
)
from raftlog.config_raft import RaftSettings
from raftlog.config_secrets import refuse_no_reference
from raftlog.config_section import GIB, KIB, MIB, Section, limits, setting
from raftlog.config_tls import PemFiles, TlsSettings, client_files, refuse_half_tls
from raftlog.config_tracing import TracingSettings, refuse_bad_endpoint
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address

LEASE = {"ge": 1, "le": 100 * 365 * 86_400}

CONFIG_VARIABLE = "RAFTLOG_CONFIG"
"""Names the TOML file if `--config` does not."""
_CREDENTIALS = "credentials"
"""The table of those that Spark's options name (`raftlog.config_credentials`)."""
_MESSAGE_OVERHEAD_BYTES = MIB
"""Room in a message besides its largest entry: headers, and the other rows of a peer frame."""


class ClientSettings(EnsembleSettings):
    """What a client, the command line and Spark's tasks need."""

    bootstrap_servers: str = setting(
        "127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403",
        "Nodes to ask first, host:port separated by commas. One that answers names the others. "
        "The default is what `raftlog up` starts. Give this or client.zookeeper, not both.",
    )
    tls_ca_file: str = setting(
        "",
        "PEM file with the certificates of who may sign the nodes'. If it is given, connections to "
        "nodes are encrypted, and their certificates must name their hosts.",
    )
    tls_cert_file: str = setting(
        "", "PEM file with the certificate to show to nodes, where they ask for one."
    )
    tls_key_file: str = setting("", "PEM file with that certificate's private key.")
    token: str = setting(
        "",
        "Where the token is that says who calls: `file:PATH`, `env:NAME`, or `command:LINE`, a "
        "program that prints it and is run without a shell, again every minute. It is sent only "
        "over TLS.",
    )
    rack: str = setting("", "Where this client stands. It reads from nodes of this rack first.")
    proxy: str = setting(
        "",
        "The HTTP proxy, host:port, through which the client reaches nodes (CONNECT). Empty: it "
        "reaches them directly. Variables such as http_proxy do not count, except that "
        "no_grpc_proxy or no_proxy may name hosts that are reached without it.",
    )
    tracing_endpoint: str = setting(
        "",
        "Where the client's spans go, by OTLP over grpc: `http://host:4317`, or `https://` with "
        "TLS. Empty: it makes none, and asks no node for any. It takes the extra `tracing`; "
        "OpenTelemetry's own variables count too, such as OTEL_EXPORTER_OTLP_HEADERS.",
    )
    tracing_sample_ratio: float = setting(
        1.0, "The share of the traces that begin at this client and are kept.", ge=0, le=1
    )
    request_timeout_s: float = setting(
        30.0,
        "The one total deadline of a request, over all its retries. Far longer than a failover, "
        "which takes a second or two.",
        gt=0,
        le=3600,
    )
    refused_timeout_s: float = setting(
        3.0,
        "A client that never got an answer gives up after this if every address it was given "
        "refuses the connection: nothing listens there. After an answer the full deadline counts.",
        ge=0,
        le=3600,
    )
    retry_delay_min_s: float = setting(
        0.02, "Pause before the first retry; each further one doubles it, with jitter.", gt=0, le=10
    )
    retry_delay_max_s: float = setting(
        0.5, "Longest pause between retries, short enough not to miss an election.", gt=0, le=60
    )
    try_timeout_s: float = setting(
        3.0,
        "One try of a call: if a node has not answered by then, the client asks another. Each "
        "further try that times out doubles it. Every call may be sent twice, so a slow answer "
        "costs work but never makes a duplicate.",
        gt=0,
        le=600,
    )
    view_timeout_s: float = setting(
        2.0,
        "How long `raftlog status`, `raftlog watermark` and the like wait for each node's view; a "
        "node that takes longer is shown as one that does not answer.",
        gt=0,
        le=600,
    )
    batch_bytes: int = setting(
        MIB,
        "Uncompressed bytes of records that travel as one entry. Larger ones cost less per record "
        "and wait longer.",
        ge=KIB,
        le=256 * MIB,
    )
    max_in_flight: int = setting(
        4, "Entries of one producer or attempt in flight at once.", ge=1, le=64
    )
    linger_s: float = setting(
        0.005,
        "How long a row of a producer waits for others that travel in the same entry, in seconds; "
        "while client.max_in_flight entries are unanswered, it waits longer. 0: each append is "
        "sent at once.",
        ge=0,
        le=60,
    )
    producer_idle_max_s: float = setting(
        3600.0,
        "A producer that was idle for this long, with all its appends acknowledged, continues "
        "under a new id: the log may have forgotten the old one. Keep it well below "
        "topic.producer_lease_s.",
        ge=0,
    )
    compression: Literal["lz4", "zstd", "none"] = setting(
        "lz4",
        "How the client compresses column chunks, once. zstd halves lz4's bytes for more CPU; "
        "every byte is written three times and sent twice.",
    )


class ServerSettings(Section):
    """One node: what it accepts and how long it waits."""

    entry_bytes_max: int = setting(
        8 * MIB,
        "Largest entry (command and body together). A client splits batches below it. An entry "
        "stays in memory until it is applied.",
        ge=64 * KIB,
        le=256 * MIB,
    )
    rack: str = setting(
        "",
        "Where this node stands: nodes of one rack (or zone) may fail together, so a topic's "
        "replicas are put on as many racks as there are. Empty: a rack of its own.",
    )
    requests_max: int = setting(
        4096, "Client calls that a node works on at once; further ones are Overloaded.", ge=1
    )
    connections_max: int = setting(
        4_096,
        "Connections at each port of a node; further ones are closed at once. A process of a "
        "client has one, and each can cost 96 KiB before its caller is known. At most a quarter of "
        "the open files that the process may have (ulimit -n, LimitNOFILE).",
        ge=16,
    )
    request_bytes_max: int = setting(
        256 * MIB,
        "Bytes of unanswered client writes that a node holds. Further ones are refused as "
        "Overloaded, so that a burst cannot exhaust memory.",
        ge=MIB,
    )
    request_timeout_max_s: float = setting(
        300.0, "The deadline of a call without one, or with a longer one.", gt=0, le=3600
    )
    not_yet_wait_max_s: float = setting(
        1.0,
        "How long a replica that has not applied a read's mark waits for it. Then it answers "
        "NotYet, and the client asks another.",
        ge=0,
        le=60,
    )
    reorder_wait_max_s: float = setting(
        0.05,
        "How long a writer's call that overtook its predecessor waits for it. Without the wait it "
        "would be replicated first and then refused as a gap.",
        ge=0,
        le=10,
    )
    reorder_senders_max: int = setting(
        10_000, "Writers whose call order is tracked; the longest silent is forgotten.", ge=1
    )
    staged_bytes_max: int = setting(
        0,
        "Bytes that a writer's open batch may stage, besides what is in flight; 0: as many as the "
        "disks hold. Those of a failed batch stay on disk until the topic is deleted.",
        ge=0,
    )
    staged_entries_max: int = setting(
        100_000, "Staged entries of a writer: a commit is one step.", ge=1_000, le=1_000_000
    )
    read_bytes_per_turn_max: int = setting(
        4 * MIB,
        "Bytes of bulk reads handed out or checked per turn of the loop, so that reads cannot "
        "delay heartbeats.",
        ge=64 * KIB,
    )
    turn_work_max_s: float = setting(
        0.01,
        "Time for one turn of a node's loop, over all groups: half for messages, half to apply "
        "entries. Then ticks and messages are taken before the rest continues. So heartbeats "
        "leave in time while hundreds of topics replay their logs.",
        gt=0,
        le=1,
    )
    sync_threads_max: int = setting(
        4, "Threads that write and sync logs; groups beyond them share a turn.", ge=1, le=64
    )
    peer_queue_bytes_max: int = setting(
        64 * MIB,
        "Bytes waiting for one peer. Further messages are dropped: Raft retransmits what is still "
        "needed.",
        ge=MIB,
    )
    catch_up_peer_bytes_max: int = setting(
        8 * MIB,
        "Bytes read from disk for one node that catches up and not sent yet. Enough to keep disk "
        "and wire busy; more would only delay what other topics send to it.",
        ge=MIB,
    )
    catch_up_bytes_max: int = setting(
        16 * MIB,
        "Bytes being read from disk for all nodes that catch up. Bounds memory.",
        ge=MIB,
    )
    catch_up_bytes_per_s_max: int = setting(
        32 * MIB,
        "Bytes read from disk per second for all nodes that catch up. Reading, sending and "
        "syncing them takes CPU and disk from the appends of other topics. Raise it if a node "
        "must be back soon and the others have time to spare.",
        ge=MIB,
    )
    observer_pull_interval_s: float = setting(
        0.1, "How often an observer asks a parent for what is new.", gt=0, le=10
    )
    peer_reconnect_delay_min_s: float = setting(
        0.05,
        "Pause before a lost peer is dialled again.",
        gt=0,
        le=10,
    )
    peer_routes: str = setting(
        "",
        "Addresses at which a node dials a peer, if not those that clients are told, such as "
        "through a tunnel: FROM>TO=host:port, separated by commas. Other pairs are unchanged.",
    )
    shutdown_timeout_s: float = setting(
        5.0, "How long a stopping node lets calls in flight finish.", ge=0, le=300
    )
    drain_timeout_s: float = setting(
        10.0,
        "A node that is told to stop (SIGTERM, `raftlog down`) hands the topics that it leads to "
        "other nodes first, for this long at most. 0: it stops at once, and they elect.",
        ge=0,
        le=3600,
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Lowest level of the structured log on standard error."
    )
    core_dumps: bool = setting(
        False,
        "Whether a node that crashes may write a core dump, as large as its hard limit (`ulimit "
        "-Hc`) allows. It would hold the node's private key and tokens of callers.",
    )


class StorageSettings(Section):
    """Log files. Bytes are durable once synced; a failed sync ends the process."""

    segment_bytes_max: int = setting(
        64 * MIB,
        "A log segment is sealed once it has this many bytes. The beginning of a log is dropped by "
        "whole segments.",
        ge=MIB,
        le=2 * GIB,
    )
    preallocate_bytes: int = setting(
        MIB,
        "Disk space reserved ahead of a log's end, at most, so that small appends sync faster.",
        ge=0,
        le=GIB,
    )
    full_disk_retry_s: float = setting(
        1.0, "A write that found the disk full is tried again after this.", gt=0, le=60
    )
    full_disk_reserve_bytes: int = setting(
        64 * MIB,
        "Room that a node keeps on its disk, as the file `reserve`. On a full disk it frees it, "
        "refuses records, and can still trim and delete topics and vote. 0 keeps none. If the disk "
        "is too small, there is none either.",
        ge=0,
        le=64 * GIB,
    )
    payload_cache_bytes_max: int = setting(
        64 * MIB,
        "Payloads that a node keeps in memory for followers and readers close to the end: one "
        "budget for all its topics, from which the least recently used are evicted. Others are "
        "read from the disk, mostly from the kernel's page cache.",
        ge=0,
    )
    snapshot_entries: int = setting(
        20_000,
        "A topic's leader lets all replicas take a snapshot after this many entries, and compact "
        "the records up to there. A restart replays what came since.",
        ge=8,
        le=10_000_000,
    )
    snapshot_bytes: int = setting(
        256 * MIB,
        "The same after this many bytes of entries.",
        ge=1024,
        le=1024 * GIB,
    )
    snapshot_age_s: float = setting(
        3600.0,
        "The same after this long, if anything came since: an idle topic gives back the space of "
        "records that were trimmed. Two such times may pass, because the log is kept from the "
        "snapshot before the newest.",
        ge=1,
        le=365 * 86_400,
    )
    snapshot_entries_of_node: int = setting(
        75_000,
        "Snapshots are also taken once all topics of a node together have so many entries since "
        "their last ones: in those that the node leads, the ones with the most entries first. A "
        "restart replays that many, about 25,000 in a second. A higher value costs nodes with very "
        "many busy topics fewer compactions.",
        ge=8,
        le=1_000_000_000,
    )
    compaction_backlog_max: int = setting(
        16,
        "A leader whose own compactions are behind asks for no more snapshots. Once so many times "
        "snapshot_entries or snapshot_bytes came since its last one, it takes no more records of "
        "that topic (Overloaded) until a compaction ends: a restart would replay them all.",
        ge=1,
        le=1_000_000,
    )
    compaction_share_max: float = setting(
        0.25,
        "How much of a processor a node's compaction process takes, for the sake of the appends. "
        "It takes a whole one while much waits for it: more entries than snapshot_entries_of_node, "
        "half of compaction_backlog_max in a topic, as many bytes in all topics together, or "
        "anything on a full disk.",
        ge=0.01,
        le=1,
    )
    log_behind_bytes_max: int = setting(
        GIB,
        "While a node is away, a topic's log keeps what that node lacks, up to this many bytes. "
        "One that lacks more gets the topic's newest snapshot, and the history that it does not "
        "have, before the rest of the log. Lower values save disk on the other nodes.",
        ge=0,
    )
    scrub_period_s: float = setting(
        7 * 86_400.0,
        "A node reads and checks all it has on disk once in this time; 0: by `raftlog scrub` only.",
        ge=0,
        le=365 * 86_400,
    )
    scrub_bytes_per_s_max: int = setting(
        8 * MIB,
        "Read for that in a second, at most. Each entry counts as 12 KiB more, a column as 4.",
        ge=64 * 1024,
        le=64 * GIB,
    )
    sealed_files_max: int = setting(
        4,
        "Sealed segments of a group that stay open for readers, besides the one being written. "
        "Reading another one costs opening it.",
        ge=0,
        le=1_000_000,
    )


class TopicSettings(Section):
    """How long a topic keeps unfinished work. Its other bounds are the same on all nodes."""

    epoch_lease_s: float = setting(
        86_400.0,
        "An open epoch that has staged nothing for this long is dropped. Leases are counted in log "
        "time, the latest time that a leader wrote into the log; the leader's setting counts.",
        **LEASE,
    )
    transient_writer_lease_s: float = setting(
        86_400.0,
        "How long the writer row of a batch write without txnAppId is kept, and that of a writer "
        "that never committed and has nothing open.",
        **LEASE,
    )
    producer_lease_s: float = setting(
        86_400.0,
        "A producer silent for this long is forgotten, and refused if it returns.",
        **LEASE,
    )
    lease_check_s: float = setting(
        60.0, "How often a leader checks which leases have run out.", ge=0.1, le=3600
    )
    retention_check_s: float = setting(
        60.0,
        "How often a leader looks for records that its topics' settings no longer keep "
        "(`raftlog topic config`). More often removes them in smaller portions.",
        ge=0.1,
        le=86_400,
    )


class UpSettings(Section):
    """`raftlog up`: a cluster on this machine."""

    nodes: int = setting(3, "Nodes of a new cluster.", ge=1, le=7)
    port: int = setting(
        7401, "Port of node 1 of a new cluster; the others follow.", ge=1, le=PORT_MAX
    )
    ready_timeout_s: float = setting(
        30.0,
        "How long `up` waits until all nodes answer and a controller leads. It takes 2 to 5 s; "
        "replaying long logs takes longer.",
        gt=0,
        le=3600,
    )
    stop_timeout_s: float = setting(
        15.0, "How long `up` and `down` wait for nodes told to stop.", gt=0, le=600
    )


class Settings(BaseSettings):
    """All sections. Create it with `load`; `Settings()` has only the defaults."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    client: ClientSettings = ClientSettings()
    server: ServerSettings = ServerSettings()
    raft: RaftSettings = RaftSettings()
    storage: StorageSettings = StorageSettings()
    topic: TopicSettings = TopicSettings()
    up: UpSettings = UpSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    tls: TlsSettings = TlsSettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()

    @model_validator(mode="after")
    def _together(self) -> Settings:
        validate(self)
        return self

    def given(self) -> list[str]:
        """The keys that file, environment or flags have set, as `section.key`."""
        return [
            f"{section}.{key}"
            for section in SECTIONS
            for key in sorted(getattr(self, section).model_fields_set)
        ]

    def message_bytes_max(self) -> int:
        """The largest message that a node accepts: the largest new entry and what comes with it.

        Entries logged under a higher limit come from peers in pieces of this size.
        """
        entry_bytes_max = max(self.server.entry_bytes_max, self.raft.append_bytes_max)
        return entry_bytes_max * 2 + _MESSAGE_OVERHEAD_BYTES

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
        """Use only what is given: only `load` adds the environment and the file."""
        return (sources["init_settings"],)


def load(file: Path | str | None = None, flags: Iterable[str] = ()) -> Settings:
    """The settings from all sources.

    `file` is the TOML file; None means the one that RAFTLOG_CONFIG names, or none. `flags` are
    texts `section.key=value`. Raises `InvalidOption`.
    """
    own = {each for each in os.environ if each.startswith(CREDENTIAL_PREFIX)}
    refuse_unknown_variables(SECTIONS, os.environ.keys() - own - {CONFIG_VARIABLE})
    named = file if file is not None else os.environ.get(CONFIG_VARIABLE)
    table = _read_file(Path(named)) if named is not None else {}
    table.pop(_CREDENTIALS, None)
    flag_table: dict[str, Any] = {**_read_flags(flags)}

    class FromAllSources(Settings):
        @classmethod
        def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
            from_file = InitSettingsSource(cls, init_kwargs=table)
            return (sources["init_settings"], sources["env_settings"], from_file)

    try:
        merged = FromAllSources(**flag_table)
    except ValidationError as error:
        raise invalid_value(SECTIONS, error, flag_table, named) from None
    # The plain class again, which equals any other Settings with these values.
    return Settings(**{name: getattr(merged, name) for name in SECTIONS})


SECTIONS: dict[str, type[Section]] = {
    "client": ClientSettings,
    "server": ServerSettings,
    "raft": RaftSettings,
    "storage": StorageSettings,
    "topic": TopicSettings,
    "up": UpSettings,
    "discovery": DiscoverySettings,
    "tls": TlsSettings,
    "auth": AuthSettings,
    "audit": AuditSettings,
    "metrics": MetricsSettings,
    "tracing": TracingSettings,
}


def validate(settings: Settings) -> None:
    """Refuse values that contradict one another. The `InvalidOption` names all of them."""
    found = contradiction(partial(_value, settings))
    if found is not None:
        raise found
    client = settings.client
    if (
        client.zookeeper
        and client.bootstrap_servers
        and "bootstrap_servers" in client.model_fields_set
    ):
        raise InvalidOption(
            option="client.zookeeper",
            problem="is given, and client.bootstrap_servers as well",
            advice="A client finds its cluster in one way: leave one of the two out.",
        )
    refuse_half("client", client)
    refuse_half("discovery", settings.discovery)
    refuse_half_metrics(settings.metrics)
    refuse_half_tls(settings.tls)
    refuse_half_auth(settings.auth)
    tls_files(client)
    refuse_no_reference("client.token", client.token)
    refuse_bad_proxy(client.proxy, "client.proxy")
    refuse_bad_endpoint(client.tracing_endpoint, "client.tracing_endpoint")
    refuse_bad_endpoint(settings.tracing.endpoint, "tracing.endpoint")
    raft = settings.raft
    lease_s = raft.lease_us() / 1_000_000
    if raft.leader_lease and lease_s <= raft.heartbeat_interval_s:
        raise InvalidOption(
            option="raft.leader_lease",
            problem=f"is on, but a lease would last {lease_s:.3g} s, which is no longer than "
            f"raft.heartbeat_interval_s, {raft.heartbeat_interval_s}",
            advice="Raise raft.election_timeout_min_s, or lower raft.heartbeat_interval_s, "
            "raft.tick_interval_s or raft.lease_clock_drift_share_max.",
        )
    up = settings.up
    if up.port + up.nodes - 1 > PORT_MAX:
        raise InvalidOption(
            option="up.port",
            problem=f"is {up.port}, which with up.nodes of {up.nodes} goes beyond port {PORT_MAX}",
            advice="Lower up.port: every node has a port of its own.",
        )


def refuse_bad_proxy(proxy: str, option: str) -> None:
    """Raises `InvalidOption` for what is no address: grpc would connect without a proxy."""
    if proxy and not is_address(proxy):
        raise InvalidOption(
            option=option,
            problem=f"is {shown_address(proxy)!r}, which is no address of a proxy",
            advice="Write host:port, for example proxy.example.com:3128.",
        )


def tls_files(client: ClientSettings) -> PemFiles | None:
    """What a client trusts and shows; None: it has no TLS. Raises `InvalidOption`."""
    return client_files(
        PemFiles(client.tls_ca_file, client.tls_cert_file, client.tls_key_file),
        PemFiles("client.tls_ca_file", "client.tls_cert_file", "client.tls_key_file"),
    )


def _value(settings: Settings, name: str) -> float:
    section, _, key = name.partition(".")
    value = getattr(getattr(settings, section), key)
    assert isinstance(value, int | float), f"{name} is a number"
    return value


def named_credential(name: str) -> Credential:
    """The credential of that name, as this process has it. Raises `InvalidOption`."""
    file = os.environ.get(CONFIG_VARIABLE)
    table = _read_file(Path(file)) if file is not None else {}
    return credential(name, table.get(_CREDENTIALS, {}), os.environ)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidOption(
            option="--config",
            problem=f"names a file that cannot be read: {file} ({error.strerror})",
            advice=f"Give an existing file with --config or {CONFIG_VARIABLE}; "
            "`python -m raftlog.config` prints one with every key.",
        ) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, or no TOML
        raise InvalidOption(
            option="--config",
            problem=f"names a file that is not TOML: {file} ({error})",
            advice="Correct it; `python -m raftlog.config` prints one with every key.",
        ) from error
    for section, keys in table.items():
        if section == _CREDENTIALS and isinstance(keys, dict):
            continue  # read by who uses one
        if not isinstance(keys, dict):
            refuse_unknown(SECTIONS, section, "", section)
        for key in keys or (None,):
            refuse_unknown(SECTIONS, section, key, f"{section}.{key}" if key else section)
    return table


def _read_flags(flags: Iterable[str]) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot:
            raise InvalidOption(
                option="--set",
                problem="has a value that is not section.key=value",
                advice="For example: --set raft.election_timeout_min_s=2",
            )
        refuse_unknown(SECTIONS, section, key, name.strip())
        table.setdefault(section, {})[key] = value.strip()
    return table


# ---------------------------------------------------------------- the sample file


def sample() -> str:
    """The text of conf/raftlog.toml: every key with its reason, unit, bounds and default."""
    lines = [
        "# The configuration of raftlog: every key, with its default. Give it with --config FILE",
        f"# or {CONFIG_VARIABLE}; keys left out keep their defaults. The environment",
        "# (RAFTLOG_<SECTION>__<KEY>) overrides the file, --set section.key=value overrides both.",
        "#",
        "# Generated: python -m raftlog.config > conf/raftlog.toml",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"# {section.__doc__}", f"[{name}]"]
        for key, facts in section.model_json_schema()["properties"].items():
            lines += ["", *_wrapped(facts["description"]), *_wrapped(limits(key, facts))]
            lines.append(f"{key} = {json.dumps(facts['default'])}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=98, initial_indent="# ", subsequent_indent="# ")


if __name__ == "__main__":
    sys.stdout.write(sample())
