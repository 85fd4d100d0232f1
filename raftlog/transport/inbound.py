"""The incoming half of a node pair. A peer that opens a stream first says who it is.

It must belong to this cluster. Once the controller has bound its node id to a store, it must have
that very store: a node whose folder was wiped has forgotten its votes, so it must not speak under
its old id.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn, Protocol, TypeAlias

import grpc
import grpc.aio
import structlog

from raftlog.certificates import end_of_certificate_s
from raftlog.core.messages import PeerMessage
from raftlog.core.types import NodeId
from raftlog.errors import (
    DataFolderForeign,
    FormatUnsupported,
    IdentityRefused,
    MalformedRequest,
    NodeRemoved,
    PeerUnproven,
    RaftlogError,
    StoreCopied,
    TooMany,
)
from raftlog.tls import node_of, peer_name
from raftlog.transport.callers import LogLimit, brief, host_of
from raftlog.transport.peer_processes import PeerProcesses
from raftlog.wire.calls import PEER_SERVICE
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    PeerFrames,
    decode_hello,
    encode_error,
    encode_welcome,
)
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome
from raftlog.wire.traced import TracedEntry

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
"""A call or stream as grpc's server passes it to a handler. Its frames are not decoded."""

_HELLO_WAIT_S = 5.0
"""How long a stream may take to send its greeting. No setting: a peer sends it at once."""

_STREAMS_MAX = 2
"""A peer has so many streams at a time: one, and the lost one before it until that is noticed. No
setting: a peer opens another one only when it has lost the last."""

log = structlog.get_logger(__name__)


class PeerReceiver(Protocol):
    """What the peer streams require of their node."""

    def welcome(self) -> PeerWelcome:
        """The answer to a peer's greeting."""
        ...

    def cluster_id(self) -> str:
        """The id of this node's cluster."""
        ...

    def is_peer(self, node: NodeId) -> bool:
        """Is it another node of this cluster? Raises `NodeRemoved` if it was one; False while that
        is in the log and not known to be committed."""
        ...

    def known_store(self, node: NodeId) -> str | None:
        """The store that the controller bound to the node id; None if this node knows of none."""
        ...

    def check_copy(self, hello: PeerHello) -> None:
        """Raises `StoreCopied` if the process of the peer that registered last had another copy of
        its folder."""
        ...

    def is_registered(self, node: NodeId, boot_id: str) -> bool:
        """Is it the process of the peer that registered last, as far as this node can know?"""
        ...

    def greeted(self, hello: PeerHello) -> None:
        """A process of the peer has come, with what it says of itself."""
        ...

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None:
        """Take messages, one or more, which are from `peer` and to this node."""
        ...

    def traced(self, entries: Sequence[TracedEntry]) -> None:
        """The messages that come next carry these entries, which are traced."""
        ...

    def peer_closed(self, peer: NodeId) -> None:
        """The peer's last stream ended: its process died, or the connection was reset."""
        ...


class PeerStreams:
    """The streams that other nodes opened to this one. For one event loop only.

    Streams from any that is no node of the cluster are refused.
    """

    def __init__(self, receiver: PeerReceiver, processes: PeerProcesses, *, proven: bool) -> None:
        """`proven`: a peer's certificate must say which node of which cluster it is."""
        self._receiver = receiver
        self._processes = processes
        self._proven = proven
        self._open: Counter[NodeId] = Counter()
        """Streams per peer. A peer that reconnects has two until the lost one is noticed."""
        self._greeting: Counter[NodeId] = Counter()
        """Streams whose greeting is waited for, by the node that the certificate names."""
        self._waiting: Counter[NodeId] = Counter()
        """Streams that wait for those of the peer's former process to end."""
        self._log_limit = LogLimit("peer refused")

    def handlers(self) -> grpc.GenericRpcHandler:
        """The handler to register with a node's grpc server."""
        return grpc.method_handlers_generic_handler(
            PEER_SERVICE, {"Stream": grpc.stream_stream_rpc_method_handler(self._stream)}
        )

    async def _stream(self, frames: AsyncIterator[bytes], context: Context) -> None:
        try:
            hello = await self._greeted(frames, context)
            self._check(hello)
            await self._alone(hello)
            _check_count(self._open, hello.node)
        except RaftlogError as error:
            self._log_refused(error, peer_of(context))
            await refuse(context, error)
        if self._is_new(peer_of(context), f"node {hello.node}"):
            log.info("peer connected", peer=hello.node, boot_id=hello.boot_id)
        process = self._processes.opened(hello.node, hello.boot_id)
        if process.streams == 1:
            self._receiver.greeted(hello)
        self._open[hello.node] += 1
        ends_s = end_of_certificate_s(context.auth_context()) if self._proven else math.inf
        try:
            welcome = self._receiver.welcome()
            await context.write(encode_welcome(welcome))
            assembly = PeerFrames(hello.node, welcome.node)
            async for message in frames:
                if time.time() >= ends_s:
                    break  # an honest peer connects again with its new certificate
                is_peer = self._receiver.is_peer(hello.node)  # it may have been removed since
                self._receiver.check_copy(hello)  # another one may have registered since
                self._processes.heard(process)
                messages = assembly.add(message)
                if not is_peer:
                    continue  # its removal is in the log, and may come to nothing
                if assembly.traced:
                    self._receiver.traced(assembly.traced)
                if messages:
                    self._receiver.receive(hello.node, messages)
        except (MalformedRequest, NodeRemoved, StoreCopied) as error:
            if self._is_new(peer_of(context), f"node {hello.node} {type(error).__name__}"):
                log.warning("peer frame refused", cause=brief(error.cause), peer=hello.node)
            await refuse(context, error)
        finally:
            self._processes.closed(process)
            self._open[hello.node] -= 1
            if not self._open[hello.node]:
                self._receiver.peer_closed(hello.node)

    def _log_refused(self, error: RaftlogError, peer: str) -> None:
        if self._is_new(peer, type(error).__name__):
            log.warning(
                "peer refused", cause=brief(error.cause), remedy=brief(error.remedy), peer=peer
            )

    def _is_new(self, peer: str, reason: str) -> bool:
        """Whether to name the peer's host in the log for this reason: it was not named lately."""
        return self._log_limit.admits(host_of(peer), reason)

    async def _alone(self, hello: PeerHello) -> None:
        """Wait until no other process of the peer may speak. Raises `StoreCopied` if one does.

        The one that registered last need not wait: another one that came first, since this node
        started, is the later of the two, or has ended.
        """
        if self._receiver.is_registered(hello.node, hello.boot_id):
            return
        _check_count(self._waiting, hello.node)
        self._waiting[hello.node] += 1
        try:
            await self._processes.check_alone(hello.node, hello.boot_id)
        finally:
            self._waiting[hello.node] -= 1

    async def _greeted(self, frames: AsyncIterator[bytes], context: Context) -> PeerHello:
        """The greeting. It may be as long as any message, so where certificates prove who comes,
        it is received only from peers, and from each on few streams at a time."""
        if not self._proven:
            return decode_hello(await _first(frames))
        node = self._certified_peer(context)
        _check_count(self._greeting, node)
        self._greeting[node] += 1
        try:
            hello = decode_hello(await _first(frames))
        finally:
            self._greeting[node] -= 1
        self._check_certificate(hello, context)
        return hello

    def _certified_peer(self, context: Context) -> NodeId:
        """The peer that the connection's certificate names."""
        cluster_id = self._receiver.cluster_id()
        shown = _names_of(context)
        named = [node for name in shown if (node := node_of(name, cluster_id)) is not None]
        if not named:
            wanted = peer_name(cluster_id, 0).replace("node-0", "node-N")
            raise PeerUnproven(node=0, wanted=wanted, shown=", ".join(shown))
        for node in named:
            if self._receiver.is_peer(node):
                return node
        raise _no_peer(named[0], f"of node {named[0]}")

    def _check_certificate(self, hello: PeerHello, context: Context) -> None:
        shown = _names_of(context)
        wanted = peer_name(self._receiver.cluster_id(), hello.node)
        if wanted not in shown:
            raise PeerUnproven(node=hello.node, wanted=wanted, shown=", ".join(shown))

    def _check(self, hello: PeerHello) -> None:
        peer = f"Node {hello.node} at {hello.address}"
        FormatUnsupported.check(peer, hello.format, self._receiver.welcome().format)
        folder = f"of node {hello.node} at {hello.address}"
        cluster_id = self._receiver.cluster_id()
        if hello.cluster_id != cluster_id:
            raise DataFolderForeign(
                folder=folder,
                found=f"cluster {hello.cluster_id}",
                wanted=f"cluster {cluster_id}",
            )
        if not self._receiver.is_peer(hello.node):
            raise _no_peer(hello.node, folder)
        known = self._receiver.known_store(hello.node)
        if known is not None and known != hello.store_uuid:
            raise IdentityRefused(
                node=hello.node, store_uuid=hello.store_uuid, known_store_uuid=known
            )
        self._receiver.check_copy(hello)


def _no_peer(node: NodeId, folder: str) -> DataFolderForeign:
    return DataFolderForeign(
        folder=folder, found=f"node {node}", wanted="another node of this cluster"
    )


def _check_count(streams: Counter[NodeId], node: NodeId) -> None:
    if streams[node] >= _STREAMS_MAX:
        raise TooMany(what=f"Node {node}", limit=_STREAMS_MAX, unit="streams to this one")


async def _first(frames: AsyncIterator[bytes]) -> bytes:
    try:
        async with asyncio.timeout(_HELLO_WAIT_S):
            return await anext(frames, b"")
    except TimeoutError:
        what = f"no greeting within {_HELLO_WAIT_S:g} s"
        raise MalformedRequest(call="Stream", what=what) from None


def peer_of(context: Context) -> str:
    """From where the call comes, as grpc names it. It has no name for a call whose deadline had
    passed when it arrived."""
    return context.peer() or "(unknown)"


def end_with(context: Context, error: RaftlogError) -> None:
    """Let the call end with the typed error once its handler returns. Unlike `refuse` this raises
    nothing: grpc keeps that exception with the call, and the exception the frames that name it, so
    the call and its metadata would stay until the garbage is collected."""
    context.set_code(grpc.StatusCode[error.grpc_status])
    context.set_details(brief(str(error)))
    context.set_trailing_metadata(((ERROR_METADATA_KEY, encode_error(error)),))


async def refuse(context: Context, error: RaftlogError) -> NoReturn:
    """End the call with the typed error. Never returns."""
    await context.abort(
        grpc.StatusCode[error.grpc_status],
        brief(str(error)),
        ((ERROR_METADATA_KEY, encode_error(error)),),
    )
    raise AssertionError("abort always raises")


def _names_of(context: Context) -> list[str]:
    """The names in the certificate that the stream's connection was made with, unless it has
    ended."""
    shown = context.auth_context()
    if time.time() >= end_of_certificate_s(shown):
        return []
    names = shown.get("peer_dns", ())
    return [name.decode(errors="replace") for name in names]
