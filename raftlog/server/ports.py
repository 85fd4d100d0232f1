"""What a node serves at which port, to which callers, and within which bounds.

Without TLS one port serves clients and nodes. With TLS nodes have a port of their own, where both
sides show certificates, and a server of its own: what a stranger does to the clients' server does
not touch the streams between nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health_pb2

from raftlog.config import ServerSettings, Settings
from raftlog.config_auth import refuse_bare_auth
from raftlog.config_hosts import PORT_MAX, is_loopback
from raftlog.errors import InvalidOption
from raftlog.server.admission import Admission, Authenticator, NodeAuthenticator
from raftlog.server.audit import AuditLog
from raftlog.server.listener import Listener, Port
from raftlog.server.node import Node
from raftlog.server.open_file_limit import share_of_open_files
from raftlog.tls import Certificates, port_credentials
from raftlog.transport.callers import host_of
from raftlog.transport.inbound import Context, PeerStreams, peer_of
from raftlog.transport.link import KEEPALIVE_OPTIONS

HEALTH_CALLS_MAX = 256
HEALTH_CALLS_OF_HOST_MAX = 32
"""This many health calls may be open at a time, of all hosts and of one. They need no identity and
cost 22 KB each, with headers 100 KB (`raftlog.server.admission`), and what is sent to them: a
window of 64 KiB, and trailers, of which grpc keeps some MB. A client that never takes its answer
(HTTP/2, a window of 0) keeps its call open as long as its connection: grpc offers a server no way
to end it. No settings: a balancer needs one."""

CALLS_OF_CONNECTION_MAX = 256
"""Open calls of one connection. grpc's clients wait with further ones. No setting: a client
has a connection for each process and node, and reads 32 topics at once."""

_QUEUED_MAX = 256
_QUEUED_S = 5
"""Calls that wait in grpc until the node's loop takes them, and for how long. grpc decodes their
headers before anything here sees them. A stranger sends a header again by a byte (RFC 7541, section
6.1), so 100 KB of them can cost 8 MB, also when their connection has ended. Clients call again. No
settings: they belong to what grpc does."""

# grpc logs each header that is not UTF-8, on the loop and with a traceback, to no handler.
logging.getLogger("grpc._cython.cygrpc").disabled = True

log = structlog.get_logger(__name__)


class Health:
    """The health service (grpc.health.v1), which answers everybody. It reads no request: a
    stranger's bytes would cost memory, and there is one answer, whatever service they name. For one
    event loop only."""

    def __init__(self) -> None:
        self._serves = False
        self._changed = asyncio.Event()
        self._open: Counter[str] = Counter()
        """Calls by the host that makes them."""

    def handler(self) -> grpc.GenericRpcHandler:
        """The handlers to register: of streams, because such a one reads what it asks for."""
        return grpc.method_handlers_generic_handler(
            health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
            {
                "Check": grpc.stream_stream_rpc_method_handler(self._check),
                "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
            },
        )

    def serves(self, *, serves: bool) -> None:
        """The node serves from now on, or no more."""
        self._serves = serves
        self._changed.set()
        self._changed = asyncio.Event()

    async def _check(self, _: object, context: Context) -> None:
        async with self._counted(context):
            await context.write(self._answer())

    async def _watch(self, _: object, context: Context) -> None:
        async with self._counted(context):
            while True:
                changed = self._changed
                await context.write(self._answer())
                await changed.wait()

    @asynccontextmanager
    async def _counted(self, context: Context) -> AsyncIterator[None]:
        host = host_of(peer_of(context))
        if self._open.total() >= HEALTH_CALLS_MAX or self._open[host] >= HEALTH_CALLS_OF_HOST_MAX:
            # A status alone: no window of HTTP/2 can keep it from leaving.
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many health calls")
        self._open[host] += 1
        try:
            yield
        finally:
            self._open[host] -= 1
            if not self._open[host]:
                del self._open[host]

    def _answer(self) -> bytes:
        answers = health_pb2.HealthCheckResponse
        status = answers.SERVING if self._serves else answers.NOT_SERVING
        return answers(status=status).SerializeToString()


def asks_callers(settings: Settings) -> bool:
    """Whether the node asks callers who they are."""
    return settings.auth.tokens_are_asked_for or settings.tls.client_certificates


def listeners_of(
    settings: Settings,
    node: Node,
    calls: grpc.GenericRpcHandler,
    health: Health,
    audit: AuditLog | None,
) -> list[Listener]:
    """A server for each port; `calls` are the handlers of clients' calls, some of which nodes make
    as well. Raises `InvalidOption`."""
    streams = PeerStreams(node, node.peer_processes, proven=node.channels.encrypted).handlers()
    address = node.addresses[node.node]
    certificates = node.channels.certificates
    asks = asks_callers(settings)
    if asks:
        refuse_bare_auth(settings.auth, encrypted=certificates is not None)
    if certificates is None:
        _check_bare(settings, address)
        server = partial(_new_server, settings, (calls, streams, health.handler()), ())
        return [Listener(server, [Port(address, None)])]
    admitted: list[Admission] = []
    nodes_admitted: list[Admission] = []
    if asks:
        has_certificates = settings.tls.client_certificates
        cluster = node.identity.cluster_id
        callers = Authenticator(settings.auth, has_certificates=has_certificates, audit=audit)
        nodes = NodeAuthenticator(cluster, node.is_peer)
        admitted = [Admission(callers, node.counts, audit)]
        nodes_admitted = [Admission(nodes, node.counts, audit)]
    of_nodes = _port_of_nodes(node, address, certificates)
    of_clients = _port_of_clients(settings, address, certificates)
    return [
        Listener(partial(_new_server, settings, handlers, admission), [port])
        for handlers, admission, port in (
            ((calls, streams), nodes_admitted, of_nodes),
            ((calls, health.handler()), admitted, of_clients),
        )
    ]


def health_listener(settings: Settings, address: str, health: Health) -> Listener:
    """A server that answers health checks alone."""
    return Listener(partial(_new_server, settings, (health.handler(),), ()), [Port(address, None)])


def _check_bare(settings: Settings, address: str) -> None:
    if settings.tls.client_certificates:
        raise InvalidOption(
            option="tls.client_certificates",
            problem="is on, and the node has no TLS",
            advice="Give tls.cert_file, tls.key_file and tls.ca_file as well.",
        )
    if not is_loopback(address.rpartition(":")[0]):
        log.warning("serves without encryption", address=address)


def _port_of_clients(settings: Settings, address: str, certificates: Certificates) -> Port:
    mutual = settings.tls.client_certificates
    return Port(address, partial(port_credentials, certificates, mutual=mutual))


def _port_of_nodes(node: Node, address: str, certificates: Certificates) -> Port:
    own = node.channels.address(address)
    if int(own.rpartition(":")[2]) > PORT_MAX:
        raise InvalidOption(
            option="tls.peer_port_offset",
            problem=f"leads from {address} to {own}, and the last port is {PORT_MAX}",
            advice="Give all nodes a lower one.",
        )
    credentials = partial(port_credentials, certificates, mutual=True)
    return Port(own, credentials, option="tls.peer_port_offset")


def _new_server(
    settings: Settings,
    handlers: Sequence[grpc.GenericRpcHandler],
    admission: Sequence[Admission],
) -> grpc.aio.Server:
    server = grpc.aio.server(options=_server_options(settings), interceptors=list(admission))
    server.add_generic_rpc_handlers(tuple(handlers))
    return server


def connections_max(settings: ServerSettings) -> int:
    """Connections at one port. The node's two ports leave half of the process's open files to its
    logs and all else."""
    return min(settings.connections_max, share_of_open_files())


def _server_options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.message_bytes_max()),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", connections_max(settings.server)),
        ("grpc.max_concurrent_streams", CALLS_OF_CONNECTION_MAX),
        ("grpc.server.max_pending_requests", _QUEUED_MAX // 2),  # from here on some are rejected
        ("grpc.server.max_pending_requests_hard_limit", _QUEUED_MAX),
        ("grpc.server_max_unrequested_time_in_server", _QUEUED_S),
        # Two nodes on one port would each answer half of the calls.
        ("grpc.so_reuseport", 0),
        # Who connects and says nothing, or half of it, holds a socket no longer than this. No
        # setting: a client or peer of raftlog sends its part at once.
        ("grpc.server_handshake_timeout_ms", 5_000),
        ("grpc.http2.settings_timeout", 5_000),
        # Else grpc widens the window of each call to many MiB, and keeps what a stranger sends to
        # calls that read nothing. A call that reads a message gets the room for it all the same.
        ("grpc.http2.bdp_probe", 0),
        *KEEPALIVE_OPTIONS,
    ]
