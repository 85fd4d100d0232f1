"""A node tells ZooKeeper that it serves, and what it leads (`discovery.zookeeper`)."""

from __future__ import annotations

import asyncio

import structlog

from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId
from raftlog.discovery.announcer import Announcement, Announcer
from raftlog.discovery.entries import (
    VOTERS_MAX,
    ClusterEntry,
    FounderEntry,
    LeaderEntry,
    NodeEntry,
    can_be_announced,
)
from raftlog.errors import InvalidOption
from raftlog.machines.topic import TopicMachine
from raftlog.server.node import Node

_LOOK_S = 0.5
"""How often a node looks what it leads. No setting: clients that ask the wrong node are told."""
_STOP_S = 1.0
"""How long a stopping node waits for its entry to be removed; then the session's end removes it."""

log = structlog.get_logger(__name__)


def announcer_of(node: Node) -> Announcer:
    """What announces the node. Raises `InvalidOption`."""
    identity = node.identity
    nodes = node.cluster_nodes()[:VOTERS_MAX]
    for each in nodes:
        if not can_be_announced(each.address):
            raise InvalidOption(
                option="discovery.zookeeper",
                problem=f"is given, and node {each.node} has the address {each.address!r}",
                advice="ZooKeeper's entries hold host:port; write an IPv6 address as [::1]:7401.",
            )
    founders = tuple(map(FounderEntry.of, identity.founders))
    return Announcer(
        node.settings.discovery,
        cluster=ClusterEntry(cluster_id=identity.cluster_id, founders=founders),
        node=NodeEntry(
            node=node.node,
            cluster_id=identity.cluster_id,
            store_uuid=identity.store_uuid,
            addresses=(node.addresses[node.node],),
        ),
        tell=_tell,
    )


async def announce(node: Node, announcer: Announcer) -> None:
    """Keep the announcer told, until cancelled."""
    announcer.start()
    try:
        while True:
            announcer.announce(_announcement(node, announcer))
            await asyncio.sleep(_LOOK_S)
    finally:
        await asyncio.to_thread(announcer.stop, _STOP_S)


def _announcement(node: Node, announcer: Announcer) -> Announcement:
    replicas = node.multiraft.replicas
    leads = {}
    for local in replicas.values():
        if local.raft.role is Role.LEADER:
            machine = local.machine
            leads[int(local.group)] = LeaderEntry(
                group=local.group,
                topic=machine.info.name if isinstance(machine, TopicMachine) else "",
                cluster_id=node.identity.cluster_id,
                term=local.raft.term,
                node=node.node,
                address=announcer.entry.addresses[0],
            )
    gone: frozenset[int] = frozenset()
    if CONTROLLER_GROUP in leads:
        is_deleted = replicas.controller.is_deleted
        gone = frozenset(group for group in announcer.listed if is_deleted(GroupId(group)))
    return Announcement(leads=leads, gone=gone)


def _tell(state: str, problem: str) -> None:
    if problem:
        log.warning("zookeeper: " + state, problem=problem)
    else:
        log.info("zookeeper: " + state)
