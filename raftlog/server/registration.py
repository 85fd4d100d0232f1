"""A starting node binds its id to its store with the controller, or learns that it must stop."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import structlog

from raftlog.core.types import CONTROLLER_GROUP, NodeId, Term
from raftlog.errors import NotLeader, RaftlogError, Unavailable
from raftlog.machines.rules import RULES_LATEST
from raftlog.server.node import Node
from raftlog.server.services import Services
from raftlog.transport.link import CHANNEL_OPTIONS
from raftlog.wire.calls import REGISTER_NODE, SERVICE, RegisterNodeCall
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, encode_request

_TRY_TIMEOUT_S = 5.0
_PAUSE_S = 0.2
"""One try at the leader, and the pause before the next. No settings: a node tries until it is
registered, and waits for nothing else meanwhile."""

_RULES_PAUSE_S = 1.0
"""The pause between two checks whether another leader took over, while the controller does not know
which rules this node knows. No setting: only an upgrade waits for it."""

log = structlog.get_logger(__name__)


async def register(node: Node, services: Services) -> None:
    """Return once the controller has bound this node's store and knows which rules it knows.

    Raises `IdentityRefused`.
    """
    call = RegisterNodeCall(
        node=node.node,
        store_uuid=node.identity.store_uuid,
        address=node.addresses[node.node],
        rules=RULES_LATEST,
    )
    asked_leader = await _register_once(node, services, call)
    log.info("registered", node=node.node, store_uuid=node.identity.store_uuid)
    # A leader of an older program leaves out what it does not know. Its successor may know it.
    while node.multiraft.replicas.controller.behind_rules([node.node], RULES_LATEST):
        await asyncio.sleep(_RULES_PAUSE_S)
        if _leader(node) != asked_leader:
            asked_leader = await _register_once(node, services, call)


async def _register_once(
    node: Node, services: Services, call: RegisterNodeCall
) -> tuple[Term, NodeId]:
    """Which leader, of which term, took the call in the end."""
    while True:
        asked = _leader(node)
        try:
            await _ask(services, call)
        except Unavailable as error:
            log.debug("registration waits", cause=error.cause)
            await asyncio.sleep(_PAUSE_S)
        else:
            return asked


def _leader(node: Node) -> tuple[Term, NodeId]:
    raft = node.multiraft.replicas.of_controller.raft
    return raft.term, raft.leader


async def _ask(services: Services, call: RegisterNodeCall) -> None:
    """Register here, if this node leads the controller, else with the leader that it names."""
    try:
        await services.register_node(call)
        return
    except NotLeader as error:
        if not error.address:
            raise
        address = error.address
    try:
        async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
            ask = channel.unary_unary(f"/{SERVICE}/{REGISTER_NODE.name}")
            await ask(encode_request(REGISTER_NODE, call), timeout=_TRY_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        raise _typed_error(error) from None


def _typed_error(error: grpc.aio.AioRpcError) -> RaftlogError:
    """The typed error that a node sent, or `NotLeader` where the connection itself failed."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY and isinstance(value, bytes):
            return decode_error(value)
    return NotLeader(group=CONTROLLER_GROUP)
