"""A starting node binds its id to its store with the controller, or learns that it must stop."""

from __future__ import annotations

import asyncio

import structlog

from raftlog.core.types import NodeId, Term
from raftlog.errors import Unavailable
from raftlog.machines.rules import RULES_LATEST, RULES_WITH_MEMBERS
from raftlog.server.leader_calls import ask_leader
from raftlog.server.node import Node
from raftlog.server.services import Services
from raftlog.wire.calls import REGISTER_NODE, RegisterNodeCall

_PAUSE_S = 0.2
"""The pause between two tries. No setting: a node tries until it is registered, and waits for
nothing else meanwhile."""

_RULES_PAUSE_S = 1.0
"""The pause between two checks whether another leader took over, while the controller does not know
which rules this node knows. No setting: only an upgrade waits for it."""

log = structlog.get_logger(__name__)


async def register(node: Node, services: Services) -> None:
    """Return once the controller has bound this node's store and knows which rules it knows.

    Raises `IdentityRefused`, `NodeRemoved`.
    """
    call = RegisterNodeCall(
        node=node.node,
        store_uuid=node.identity.store_uuid,
        address=node.addresses[node.node],
        rules=RULES_LATEST,
        rack=node.settings.server.rack,
    )
    asked_leader = await _register_once(node, services, call)
    log.info("registered", node=node.node, store_uuid=node.identity.store_uuid)
    # A leader of an older program leaves out what it does not know. Its successor may know it.
    while node.multiraft.replicas.controller.behind_rules([node.node], RULES_LATEST):
        await asyncio.sleep(_RULES_PAUSE_S)
        if _leader(node) != asked_leader:
            asked_leader = await _register_once(node, services, call)
    # Under older rules the controller knows no racks.
    while _lacks_rack(node):
        await asyncio.sleep(_RULES_PAUSE_S)
        if node.multiraft.replicas.controller.rules >= RULES_WITH_MEMBERS:
            await _register_once(node, services, call)


def _lacks_rack(node: Node) -> bool:
    known = node.multiraft.replicas.controller.nodes.get(node.node)
    return known is not None and known.rack != node.settings.server.rack


async def _register_once(
    node: Node, services: Services, call: RegisterNodeCall
) -> tuple[Term, NodeId]:
    """Which leader, of which term, took the call in the end."""
    while True:
        asked = _leader(node)
        try:
            await ask_leader(
                REGISTER_NODE,
                services.register_node,
                call,
                others=node.other_addresses(),
                channels=node.channels,
            )
        except Unavailable as error:
            log.debug("registration waits", cause=error.cause)
            await asyncio.sleep(_PAUSE_S)
        else:
            return asked


def _leader(node: Node) -> tuple[Term, NodeId]:
    raft = node.multiraft.replicas.of_controller.raft
    return raft.term, raft.leader
