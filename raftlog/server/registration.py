"""A starting node binds its id to its store with the controller."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from raftlog.core.types import CONTROLLER_GROUP, LogIndex
from raftlog.errors import RaftlogError, Unavailable
from raftlog.machines.commands import RegisterNode
from raftlog.machines.rules import RULES_LATEST
from raftlog.server.leader_calls import LeaderCalls
from raftlog.server.node import Node
from raftlog.server.services import Services
from raftlog.wire.calls import REGISTER_NODE

_PAUSE_S = 0.2
"""The pause between two tries. No setting: a node tries until it is registered, and waits for
nothing else meanwhile."""

_REJECTED_PAUSE_S = 2.0
"""The pause after a rejection, which lasts until a person acts. No setting, for the same reason."""

_APPLIED_WAIT_S = 30.0
"""For so long a registration may not be applied here before the node asks again: the controller's
log here may be far behind, and each registration is an entry of it. No setting, as above."""

_LOOK_S = 0.02
"""So often it looks whether its registration is applied here, which takes milliseconds."""

log = structlog.get_logger(__name__)


async def register(node: Node, services: Services) -> None:
    """Return once the controller has bound this node's store to its id.

    A node that answers as the controller's leader may lie. Its rejection is only logged: the links
    learn what a majority says (`Node`). That it has registered this process counts only once the
    controller's log says so, as far as it is applied here.
    """
    rejection = ""
    call = RegisterNode(
        node=node.node,
        store_uuid=node.identity.store_uuid,
        address=node.addresses[node.node],
        rules=RULES_LATEST,
        rack=node.settings.server.rack,
        boot_id=node.boot_id,
        earlier_boot_ids=node.earlier_boot_ids,
        registered_at=node.registered_at,
    )
    while (index := _registered_at(node)) is None:
        try:
            leader = LeaderCalls(node.may_lead(CONTROLLER_GROUP), node.channels)
            await leader.ask(REGISTER_NODE, services.register_node, call)
        except Unavailable as error:
            log.debug("registration waits", cause=error.cause)
            await asyncio.sleep(_PAUSE_S)
        except RaftlogError as error:
            if error.cause != rejection:
                rejection = error.cause
                log.warning("registration rejected", cause=error.cause, remedy=error.remedy)
            await asyncio.sleep(_REJECTED_PAUSE_S)
        else:
            await _applied(node)
    node.multiraft.replicas.registered(index)
    log.info(
        "registered",
        node=node.node,
        store_uuid=node.identity.store_uuid,
        boot_id=node.boot_id,
    )


def _registered_at(node: Node) -> LogIndex | None:
    """The entry with which the controller's log, as it is applied here, registers this process."""
    known = node.multiraft.replicas.controller.nodes.get(node.node)
    if known is None or known.boot_id != node.boot_id:
        return None
    return known.registered_at


async def _applied(node: Node) -> None:
    """Wait until the process is registered as far as it is applied here, at most a while."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_APPLIED_WAIT_S):
            while _registered_at(node) is None:
                await asyncio.sleep(_LOOK_S)
