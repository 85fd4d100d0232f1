"""The nodes that a client asks first, if ZooKeeper knows them: `client.zookeeper`.

What ZooKeeper names is asked before it is used: it must be a node of the cluster at that path, and
of the one that the client spoke to before. That tells old and mistaken entries apart, not an
attacker who answers in a node's place: only TLS would.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from raftlog.config import ClientSettings
from raftlog.config_ensemble import parse_ensemble
from raftlog.core.types import GroupId
from raftlog.errors import RaftlogError, Unauthenticated, ZooKeeperUnavailable
from raftlog.redaction import without_controls
from raftlog.wire.calls import ClusterDescription

if TYPE_CHECKING:
    from raftlog.discovery.directory import Directory

_REASONS_MAX = 3
"""So many reasons are told why entries were of no use. No setting: the first ones say it."""
_PROBLEM_CHARACTERS_MAX = 500
"""What an impostor says of itself is told no longer than this. No setting: it bounds a message."""


class Found(NamedTuple):
    """A cluster, as one of its nodes described it."""

    addresses: tuple[str, ...]
    leaders: dict[GroupId, str]
    """Who leads what, as far as ZooKeeper names one of these addresses. A hint."""


class ZooKeeperServers:
    """Looks up and checks the nodes of one cluster. For one thread at a time."""

    def __init__(
        self, settings: ClientSettings, describe: Callable[[str, float], ClusterDescription]
    ) -> None:
        """`describe(address, seconds)` asks a node. Contacts no server yet. Raises
        `InvalidOption`."""
        self._ensemble = parse_ensemble(settings.zookeeper, "client.zookeeper")
        self._settings = settings
        self._describe = describe
        self._cluster_id = ""
        """The cluster that the client uses; "" before any node answered."""

    def find(self, timeout_s: float) -> Found:
        """Ask ZooKeeper, and then the nodes that it names, until one belongs to the cluster.

        Takes at most about `timeout_s`. Raises `ZooKeeperUnavailable`, `InvalidOption`, and
        `Unauthenticated` if nodes answered and do not know who calls.
        """
        from raftlog.discovery.directory import look_up  # kazoo: only where it is needed

        end_s = time.monotonic() + timeout_s
        directory = look_up(self._settings, timeout_s=timeout_s)
        cluster_id = directory.cluster.cluster_id if directory.cluster is not None else ""
        if not cluster_id:
            forged = (
                "the entry at this path is not raftlog's; a running node of the cluster restores it"
            )
            problem = forged if directory.passed_over else "no cluster has this path"
            raise self._unusable(problem, directory)
        if self._cluster_id not in ("", cluster_id):
            raise self._unusable(
                f"it names the cluster {cluster_id}, and this client uses {self._cluster_id}",
                directory,
            )
        candidates = list(directory.addresses())
        random.shuffle(candidates)
        why_not = "no node of the cluster is registered now"
        stranger: Unauthenticated | None = None
        for address in candidates:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            try:
                described = self._describe(address, left_s / 2)  # so that others get their turn
            except Unauthenticated as error:
                stranger = error
                continue
            except RaftlogError as error:
                why_not = error.cause
                continue
            if described.cluster_id != cluster_id:
                why_not = f"what answers at {address} is of the cluster {described.cluster_id}"
                continue
            self._cluster_id = cluster_id
            addresses = tuple(node.address for node in described.nodes)
            leaders = {GroupId(each.group): each.address for each in directory.leaders}
            known = {group: leader for group, leader in leaders.items() if leader in addresses}
            return Found(addresses, known)
        if stranger is not None:
            raise stranger
        raise self._unusable(why_not, directory)

    def unknown(self, problem: str) -> ZooKeeperUnavailable:
        """The error that no node is known."""
        hosts, root = self._ensemble
        shown = without_controls(problem[:_PROBLEM_CHARACTERS_MAX])
        return ZooKeeperUnavailable(ensemble=hosts + root, problem=shown)

    def _unusable(self, problem: str, directory: Directory) -> ZooKeeperUnavailable:
        reasons = "; ".join(directory.passed_over[:_REASONS_MAX])
        return self.unknown(f"{problem} ({reasons})" if reasons else problem)
