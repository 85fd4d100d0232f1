"""How a node asks the leader of a group, which may be itself or any other node."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar

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

_Address: TypeAlias = tuple[NodeId, str]
"""A node, and where it listens for clients."""

Request = TypeVar("Request")
Reply = TypeVar("Reply")

TRY_TIMEOUT_S = 5.0
"""One try at one node. No setting: no caller waits for it."""

_REPLY_BYTES_MAX = 8 * 1024 * 1024
"""A node that lies must not fill this one's memory. The longest sound reply is a page of keys: a
thousand of 4 KiB, and 1 MiB of values."""

_CHANNEL_OPTIONS = tuple(
    {**dict(CHANNEL_OPTIONS), "grpc.max_receive_message_length": _REPLY_BYTES_MAX}.items()
)


class LeaderCalls:
    """The calls of one node to the leader of one group. It remembers the node that answered last,
    so that a read of many pages looks for the leader once."""

    def __init__(self, others: Mapping[NodeId, str], channels: PeerChannels) -> None:
        """`others` are the other nodes that may lead the group, with the addresses where they
        listen for clients. With TLS each must show the certificate of its id: an answer can be a
        grant. A node of another cluster refuses the call."""
        self._others = others
        self._channels = channels
        self._leader: _Address | None = None

    async def ask(
        self,
        call: PlainCall[Request, Reply],
        serve: Callable[[Request], Awaitable[Reply]],
        request: Request,
        *,
        try_timeout_s: float = TRY_TIMEOUT_S,
    ) -> Reply:
        """Have `serve` answer here, if this node leads the group, else the node that does.

        Each of the others is asked at most once, and so is the leader that it names: what this
        node has heard of the leader may be late, or a guess. Raises what the leader raises, or
        `Unavailable` if it was not found: it is what this node raised, and it may have been done
        all the same.
        """
        try:
            return await serve(request)
        except (NotLeader, ReplicaQuarantined) as refused:
            asked: set[_Address] = set()
            # A node that has just joined has heard of no leader: any other knows.
            shuffled = random.sample(list(self._others.items()), len(self._others))
            for first in (self._leader, _hint_of(refused), *shuffled):
                named = first
                while named is not None and named not in asked and named[0] != refused.node:
                    asked.add(named)
                    try:
                        reply = await _ask(named, call, request, self._channels, try_timeout_s)
                    except NotLeader as error:
                        named = _hint_of(error) if named is first else None
                    except Unavailable:
                        break
                    else:
                        self._leader = named
                        return reply
            raise


def _hint_of(error: RaftlogError) -> _Address | None:
    """The leader that the error names, and its address."""
    if not isinstance(error, NotLeader) or not 0 < error.leader <= NODE_MAX:
        return None
    return (NodeId(error.leader), error.address) if is_address(error.address) else None


async def _ask(
    asked: _Address,
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
