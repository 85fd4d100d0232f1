"""A node's process from start to end: its data folder, its server, its signals, its last words."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import uvloop
from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from raftlog.auth import grant_keys, quota_keys
from raftlog.config import Settings
from raftlog.config_metrics import listen_of
from raftlog.config_tls import PemFiles
from raftlog.core.ready import Role
from raftlog.core.types import NodeId
from raftlog.crash_dumps import set_core_dumps
from raftlog.errors import (
    DiskFailed,
    ExitCode,
    NodeRefused,
    Overloaded,
    RaftlogError,
    ResourceShortage,
    shortage_of,
)
from raftlog.machines.topic import TopicMachine
from raftlog.metrics.port import MetricsPort
from raftlog.metrics.state import StateCollector
from raftlog.redaction import without_keys
from raftlog.server.announcing import announce, announcer_of
from raftlog.server.audit import AuditLog
from raftlog.server.compactor import COMPACTION_PROGRAM, Compactor
from raftlog.server.leases import expiry_due
from raftlog.server.memory import collect_seldom, give_back_freed_memory, keep_freed_memory
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.open_file_limit import allow_open_files
from raftlog.server.ports import Health, asks_callers, listeners_of
from raftlog.server.registration import register
from raftlog.server.rights import Rights
from raftlog.server.rpc import CallGate, client_handlers
from raftlog.server.scrapes import Scrapes
from raftlog.server.services import Services
from raftlog.storage.contract import FileSystem
from raftlog.storage.folder import DataFolder
from raftlog.storage.posix import PosixFileSystem
from raftlog.tls import Certificates
from raftlog.transport.peer_channels import PeerChannels

_GRANTS_TRY_S = 1.0
"""How long one node is given to tell the grants: what is taken away acts within seconds, also
while a node is stuck."""

_PLACE_PAUSE_S = 0.2
"""The pause before grants are read again that could not be read because the controller's log does
not say yet where they are. No setting: a node that starts applies that log within moments."""

log = structlog.get_logger(__name__)


def run_node(
    *,
    settings: Settings,
    cluster_id: str,
    node: int,
    addresses: dict[int, str],
    data: Path,
    fs: FileSystem | None = None,
    compaction: str = COMPACTION_PROGRAM,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises `RaftlogError` where this process must not serve, and
    `OSError` if `data` cannot be a folder.

    `addresses` names nodes of the cluster, this one included; from the others it hears of the rest.
    `data` is a store that was made and completed (`raftlog.storage.folder`). `fs` is its file
    system; None: the real one. `compaction` is the program that compacts beside the node. A disk
    that fails ends the process at once with `ExitCode.NODE_REFUSED`, a defect of ours with
    `FAILED`. The log says why.
    """
    assert __debug__, "raftlog serves with its assertions on: do not start it with python -O"
    os.umask(0o077)
    if data.exists() and not data.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(data))
    set_core_dumps(wanted=settings.server.core_dumps)
    keep_freed_memory()
    collect_seldom()
    log_to_stderr(settings.server.log_level)
    allow_open_files()
    folder = DataFolder.open(
        fs if fs is not None else PosixFileSystem(data),
        cluster_id=cluster_id,
        node=NodeId(node),
    )
    peers = {NodeId(peer): address for peer, address in addresses.items()}
    compactor = Compactor(data, settings.storage.compaction_share_max, compaction)
    # A crash of native code (grpc, uvloop) says nothing else of where it happened.
    faulthandler.enable()
    uvloop.run(_serve(settings, folder, compactor, NodeId(node), peers, data))


async def _serve(
    settings: Settings,
    folder: DataFolder,
    compactor: Compactor,
    node_id: NodeId,
    addresses: dict[NodeId, str],
    data: Path,
) -> None:
    stop = asyncio.Event()
    failure: list[RaftlogError] = []

    def fail(error: BaseException) -> None:
        if isinstance(error, NodeRefused) and not isinstance(error, DiskFailed):
            failure.append(error)
            stop.set()
            return
        _die(error)

    asyncio.get_running_loop().set_exception_handler(partial(_on_loop_exception, fail))
    channels = _channels(settings, folder.identity.cluster_id, node_id)
    node = Node(
        settings=settings,
        folder=folder,
        compactor=compactor,
        addresses=addresses,
        channels=channels,
        fail=fail,
    )
    services = _services(settings, node)
    gate = _gate(settings, node, services)
    metrics = _metrics_port(settings, node, gate, addresses[node_id], data)
    health = Health()
    listeners = listeners_of(settings, node, client_handlers(services, gate), health, gate.audit)
    announcer = announcer_of(node) if settings.discovery.zookeeper else None
    await node.start()
    # Not before: a client that connects to a port without an answer yet waits there in vain.
    for listener in listeners:
        await listener.start()
        node.spawn(listener.keep())
    health.serves(serves=True)
    _stop_on_signals(stop)
    node.spawn(_answer_scrapes(metrics))
    node.spawn(register(node, services))
    node.spawn(_watch_leases(node))
    node.spawn(give_back_freed_memory())
    node.spawn(_follow_keys(services, settings.auth.rights_check_s))
    if announcer is not None:
        node.spawn(announce(node, announcer))
    if gate.audit is not None:
        gate.audit.changed("NodeStarted", {"settings": settings.given()})
    log.info("serving", node=node_id, address=addresses[node_id], pid=os.getpid())
    await stop.wait()
    log.info("stopping", node=node_id)
    if not failure:
        stop.clear()  # a second signal ends the wait
        await node.hand_over(stop.is_set)
    health.serves(serves=False)
    await gate.close()
    # At once: the peers' streams never end by themselves.
    for listener in listeners:
        await listener.stop()
    await node.stop()
    if gate.audit is not None:
        gate.audit.stop()
    if failure:
        raise failure[0]


def _services(settings: Settings, node: Node) -> Services:
    """What answers calls."""
    rights = Rights(settings.auth, asked=asks_callers(settings))
    meters = Meters(settings.auth, node.counts.quotas, requests_max=settings.server.requests_max)
    return Services(node, rights, meters)


def _gate(settings: Settings, node: Node, services: Services) -> CallGate:
    """What every call passes, with the audit log, if there is to be one. Raises `PathUnusable`."""
    return CallGate(
        settings.server,
        node.identity.cluster_id,
        node.counts,
        services.allowed,
        services.meters,
        services.scans,
        node.traces,
        AuditLog(settings.audit, node.node) if settings.audit.file else None,
    )


def _channels(settings: Settings, cluster_id: str, node: NodeId) -> PeerChannels:
    """The node's channels to others, with its certificate. Raises `InvalidOption`."""
    files = settings.tls.files_of(node)
    certificates = None
    if files is not None:
        certificates = Certificates(
            files,
            PemFiles("tls.ca_file", "tls.cert_file", "tls.key_file"),
            lambda problem: log.error("new certificate refused", cause=problem),
        )
    return PeerChannels(cluster_id, certificates, settings.tls.peer_port_offset)


def _metrics_port(
    settings: Settings, node: Node, gate: CallGate, own_address: str, data: Path
) -> MetricsPort | None:
    """The port for Prometheus, bound; None: there is to be none. Raises `AddressInUse`,
    `InvalidOption`."""
    listen = listen_of(settings.metrics, int(own_address.rpartition(":")[2]))
    if listen is None:
        return None
    scrapes = Scrapes(node, gate, data)
    registry = node.counts.registry
    registry.register(StateCollector(scrapes.read, settings.metrics.topics_max))
    for process in (ProcessCollector, PlatformCollector, GCCollector):
        process(registry=registry)
    return MetricsPort(
        settings.metrics,
        listen,
        registry,
        lambda problem: log.error("new secret of the metrics refused", cause=problem),
    )


async def _answer_scrapes(port: MetricsPort | None) -> None:
    """Until the node stops."""
    if port is None:
        return
    port.start()
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(port.stop)


async def _follow_keys(services: Services, every_s: float) -> None:
    """Follow grants and quotas until the node stops, if it asks callers who they are."""
    read = partial(services.keys.read, try_timeout_s=_GRANTS_TRY_S)
    while services.rights.asked:
        # At the same time, so that one round among the replicas does for both.
        await asyncio.gather(
            services.rights.look(
                partial(read, grant_keys.KEY_PREFIX), has_store=services.keys.has_store
            ),
            services.meters.look(partial(read, quota_keys.KEY_PREFIX)),
        )
        await asyncio.sleep(_PLACE_PAUSE_S if services.keys.waits_for_place else every_s)


async def _watch_leases(node: Node) -> None:
    """Propose the expiry of what outlived its lease, in the groups that this node leads."""
    leases = node.settings.topic
    while True:
        await asyncio.sleep(leases.lease_check_s)
        for local in node.multiraft.replicas.values():
            machine = local.machine
            if not isinstance(machine, TopicMachine) or local.raft.role is not Role.LEADER:
                continue
            command = expiry_due(machine, leases, node.now_us(local), local.clock_steps)
            if command is None:
                continue
            # Writes go first; the next check finds it again.
            with suppress(Overloaded, ResourceShortage):
                node.multiraft.propose(local, local.payload(command), lambda _: None)


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def _on_loop_exception(
    fail: Callable[[BaseException], None], _: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """A callback of ours that raised left a replica half done: the process exits.

    What else comes here is a task that is no longer awaited, such as a call whose client left.
    """
    error = context.get("exception")
    if error is not None and "handle" in context:
        fail(error)
    else:
        log.warning("task", message=context.get("message"), exc_info=error)


def _die(error: BaseException) -> None:
    """End now, without another write: the disk or our own state is not to be trusted.

    `os._exit` and no clean-up, because a clean-up would sync, and a sync that failed must never be
    tried again.
    """
    code = ExitCode.FAILED
    error = shortage_of(error, "a part of the node") or error
    if isinstance(error, RaftlogError):
        code = error.exit_code
        log.critical("the node exits", cause=error.cause, remedy=error.remedy)
    else:
        log.critical("the node exits: a defect of raftlog", exc_info=error)
    sys.stderr.flush()
    os._exit(code)


def _hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """What callers name in a wrong place, such as a token as a topic, is logged as well."""
    return {key: without_keys(v) if isinstance(v, str) else v for key, v in event.items()}


def log_to_stderr(level: str) -> None:
    """One JSON object a line on standard error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _hide_secrets,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
