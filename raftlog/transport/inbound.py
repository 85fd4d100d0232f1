"""The incoming half of a node pair: whoever streams here says first who it is.

A peer must belong to this cluster and, once the controller has bound its node id to a store, come
from that very store: a folder that was wiped has forgotten its votes, so its node may not speak
under its old id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NoReturn, Protocol

import grpc
import grpc.aio
import structlog

from raftlog.core.messages import PeerMessage
from raftlog.core.types import NodeId
from raftlog.errors import DataFolderForeign, IdentityRefused, MalformedRequest, RaftlogError
from raftlog.wire.calls import PEER_SERVICE, PeerHello, PeerWelcome
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_hello,
    decode_peer_messages,
    encode_error,
    encode_welcome,
)

log = structlog.get_logger(__name__)


class PeerReceiver(Protocol):
    """What the streams' receiver needs of its node."""

    def welcome(self) -> PeerWelcome: ...

    def cluster_id(self) -> str: ...

    def known_store(self, node: NodeId) -> str | None:
        """The store that the controller bound to the node id, as far as this node knows."""
        ...

    def receive(self, peer: NodeId, messages: Sequence[PeerMessage]) -> None: ...

    def peer_opened(self, hello: PeerHello) -> None: ...

    def peer_closed(self, peer: NodeId) -> None:
        """The peer's stream ended: its process died, or the wire was cut with a reset."""
        ...


class PeerStreams:
    """The streams that other nodes opened to this one. One event loop's own."""

    def __init__(self, receiver: PeerReceiver) -> None:
        self._receiver = receiver

    def handlers(self) -> grpc.GenericRpcHandler:
        """The handler to register with a node's grpc server."""
        return grpc.method_handlers_generic_handler(
            PEER_SERVICE, {"Stream": grpc.stream_stream_rpc_method_handler(self._stream)}
        )

    async def _stream(
        self, frames: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> None:
        try:
            hello = decode_hello(await anext(frames, b""))
            _check(self._receiver, hello)
        except RaftlogError as error:
            log.warning("peer refused", cause=error.cause, peer=context.peer())
            await refuse(context, error)
        self._receiver.peer_opened(hello)
        try:
            await context.write(encode_welcome(self._receiver.welcome()))
            async for frame in frames:
                self._receive(hello.node, frame)
        except MalformedRequest as error:
            log.warning("peer frame refused", cause=error.cause, peer=hello.node)
            await refuse(context, error)
        finally:
            self._receiver.peer_closed(hello.node)

    def _receive(self, peer: NodeId, frame: bytes) -> None:
        messages = decode_peer_messages(frame)
        if any(message.sender != peer for message in messages):
            raise MalformedRequest(call="Stream", what="a message in another node's name")
        self._receiver.receive(peer, messages)


async def refuse(context: grpc.aio.ServicerContext, error: RaftlogError) -> NoReturn:
    """End the call with the error, typed; never returns."""
    await context.abort(
        grpc.StatusCode[error.grpc_status],
        str(error),
        ((ERROR_METADATA_KEY, encode_error(error)),),
    )
    raise AssertionError("abort always raises")


def _check(receiver: PeerReceiver, hello: PeerHello) -> None:
    if hello.cluster_id != receiver.cluster_id():
        raise DataFolderForeign(
            folder=f"of node {hello.node} at {hello.address}",
            found=f"cluster {hello.cluster_id}",
            wanted=f"cluster {receiver.cluster_id()}",
        )
    known = receiver.known_store(hello.node)
    if known is not None and known != hello.store_uuid:
        raise IdentityRefused(node=hello.node, store_uuid=hello.store_uuid, known_store_uuid=known)
