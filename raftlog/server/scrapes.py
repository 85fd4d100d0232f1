"""A node as it stands, for a scraper's thread: read on the node's loop, some groups at a turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from raftlog.certificates import ends_at
from raftlog.core.ready import Role
from raftlog.errors import ReplicaQuarantined, StoredValueInvalid, TopicRecreated
from raftlog.metrics.state import NodeState, PeerState, PositionState
from raftlog.server.node import Node
from raftlog.server.rpc import CallGate
from raftlog.server.views import group_view
from raftlog.wire import reader_positions
from raftlog.wire.calls import GroupView
from raftlog.wire.reader_positions import ReaderPosition

_GROUPS_PER_TURN = 50
"""So many groups are read before other work has its turn: 2 ms or so. No setting."""

_PATIENCE_S = 5.0
"""How long a scrape waits for the loop. No setting: Prometheus gives up after ten."""


class Scrapes:
    """Reads the state of one node. Make it on the node's loop."""

    def __init__(self, node: Node, gate: CallGate, data: Path) -> None:
        """`data` is where the node's files are."""
        self._node = node
        self._gate = gate
        self._data = data
        self._version = version("raftlog")
        self._loop = asyncio.get_running_loop()

    def read(self) -> NodeState | None:
        """The node as it stands; None where the loop does not say so in time. For other threads
        than the loop's."""
        state = asyncio.run_coroutine_threadsafe(self._state(), self._loop)
        try:
            return state.result(_PATIENCE_S)
        except TimeoutError:
            state.cancel()
            return None

    async def _state(self) -> NodeState:
        multiraft = self._node.multiraft
        disk = os.statvfs(self._data)
        return NodeState(
            node=self._node.node,
            cluster_id=self._node.identity.cluster_id,
            version=self._version,
            groups=await self._groups(),
            quarantined=len(multiraft.replicas.quarantined),
            peers=[
                PeerState(peer, link.connected, link.queued_bytes, link.dropped_messages)
                for peer, link in sorted(self._node.links.items())
            ],
            disk_keeps_up=multiraft.disk.keeps_up,
            disk_full=multiraft.disk.full is not None,
            disk_free_bytes=disk.f_bavail * disk.f_frsize,
            disk_bytes=disk.f_blocks * disk.f_frsize,
            calls_in_flight=self._gate.in_flight,
            campaigns_waiting=multiraft.campaigns.waiting,
            loop_behind=multiraft.dirty.lags,
            budgets={
                "server.requests_max": self._gate.used,
                "server.request_bytes_max": multiraft.admission.used,
                "server.catch_up_bytes_max": multiraft.catch_up_budget.used,
            },
            positions=list(self._positions()),
            rules=multiraft.replicas.controller.rules,
            certificate_ends_s=self._certificate_ends_s(),
        )

    def _certificate_ends_s(self) -> float | None:
        certificates = self._node.channels.certificates
        return None if certificates is None else ends_at(certificates.current().cert).timestamp()

    def _positions(self) -> Iterator[PositionState]:
        """Those of reader groups that are shown, if this node leads the key-value store."""
        replicas = self._node.multiraft.replicas
        store = replicas.controller.kv
        local = replicas.get(store.group) if store is not None else None
        if local is None or local.raft.role is not Role.LEADER:
            return
        found = local.kv_machine.pairs(
            reader_positions.KEY_PREFIX, "", "", local.replica.applied_index
        )
        for each in islice(found, self._node.settings.metrics.topics_max):
            with contextlib.suppress(StoredValueInvalid):  # such as one of a later version
                yield self._position(reader_positions.decode(each.key, each.value))

    def _position(self, position: ReaderPosition) -> PositionState:
        replicas = self._node.multiraft.replicas
        topic = replicas.controller.known_topic(position.topic)
        behind = None
        if topic is not None and topic.incarnation == position.incarnation:
            local = None
            with contextlib.suppress(ReplicaQuarantined, TopicRecreated):  # no lag is known here
                local = replicas.of_topic(topic.group, topic.incarnation)
            if local is not None:
                behind = max(0, local.topic_machine.high_water_mark - position.offset)
        return PositionState(position.group, position.topic, position.offset, behind)

    async def _groups(self) -> list[GroupView]:
        replicas = self._node.multiraft.replicas
        shown: list[GroupView] = []
        for number, group in enumerate(list(replicas)):
            if number % _GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
            local = replicas.get(group)
            if local is not None:  # it may have been removed meanwhile
                shown.append(group_view(self._node, local))
        return shown
