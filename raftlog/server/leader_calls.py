"""How a node asks the leader of a group, which may be itself or any other node."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import grpc
import grpc.aio

from raftlog.config_hosts import is_address
from raftlog.core.types import NodeId
from raftlog.errors import (
    MalformedRequest,
    NodeUnreachable,
    NotLeader,
    RaftlogError,
    ReplicaQuarantined,
    Unavailable,
)
from raftlog.machines.limits import NODE_MAX
from raftlog.transport.link import CHANNEL_OPTIONS
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire.calls import CLUSTER_METADATA_KEY, SERVICE, PlainCall
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, decode_reply, encode_request

Request = TypeVar("Request")
Reply = TypeVar("Reply")

TRY_TIMEOUT_S = 5.0
"""One try at one node. No setting: nobody waits for it."""

_REPLY_BYTES_MAX = 8 * 1024 * 1024
"""A node that lies must not fill this one's memory. The longest sound reply is a page of keys: a
thousand of 4 KiB, and 1 MiB of values."""

_CHANNEL_OPTIONS = tuple(
    {**dict(CHANNEL_OPTIONS), "grpc.max_receive_message_length": _REPLY_BYTES_MAX}.items()
)


async def ask_leader(
    call: PlainCall[Request, Reply],
    serve: Callable[[Request], Awaitable[Reply]],
    request: Request,
    *,
    others: Mapping[NodeId, str],
    channels: PeerChannels,
    try_timeout_s: float = TRY_TIMEOUT_S,
) -> Reply:
    """Have `serve` answer here, if this node leads the group that it needs, else the node that
    does.

    `others` are the other nodes that may lead the group, with the addresses where they listen for
    clients. With TLS each must show the certificate of its id: an answer can be a grant. A node of
    another cluster refuses the call.

    Raises what the leader raises, or `Unavailable` if it was not found: it is what this node
    raised, and it may have been done all the same.
    """
    try:
        return await serve(request)
    except (NotLeader, ReplicaQuarantined) as refused:
        hint = _hint_of(refused)
        # A node that has just joined has heard of no leader: any other knows.
        for asked in [hint] if hint else random.sample(list(others.items()), len(others)):
            try:
                return await _ask(asked, call, request, channels, try_timeout_s)
            except NotLeader as error:
                leader = None if hint else _hint_of(error)
                if leader is not None:
                    return await _ask(leader, call, request, channels, try_timeout_s)
            except Unavailable:
                continue
        raise


def _hint_of(error: RaftlogError) -> tuple[NodeId, str] | None:
    """The leader that the error names, and its address."""
    if not isinstance(error, NotLeader) or not 0 < error.leader <= NODE_MAX:
        return None
    return (NodeId(error.leader), error.address) if is_address(error.address) else None


async def _ask(
    asked: tuple[NodeId, str],
    call: PlainCall[Request, Reply],
    request: Request,
    channels: PeerChannels,
    timeout_s: float,
) -> Reply:
    """Raises what the node raises, or `NodeUnreachable` where none of this cluster answers."""
    node, address = asked
    try:
        channel = channels.kept_to(node, address, _CHANNEL_OPTIONS)
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        ask = channel.unary_unary(f"/{SERVICE}/{call.name}")
        metadata = ((CLUSTER_METADATA_KEY, channels.cluster_id),)
        data = encode_request(call, request)
        frame = await ask(data, timeout=timeout_s, metadata=metadata)
        return decode_reply(call, frame)[0]
    except MalformedRequest:
        problem = "no node of raftlog listens there"
        raise NodeUnreachable(address=address, problem=problem) from None
    except grpc.aio.AioRpcError as error:
        typed = _typed_error(error)
        if typed is None:
            channels.let_go(node)
            typed = NodeUnreachable(address=address, problem=error.details() or error.code().name)
        raise typed from None


def _typed_error(error: grpc.aio.AioRpcError) -> RaftlogError | None:
    """The typed error that a node sent; None where the connection itself failed, or no raftlog
    listens there."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY and isinstance(value, bytes):
            try:
                return decode_error(value)
            except MalformedRequest:
                break
    return None
