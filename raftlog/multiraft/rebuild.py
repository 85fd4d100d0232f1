"""Replicas that a majority has outvoted get another replica's image, and go on from there.

Such a replica votes and acknowledges all the time, because its log is as good as any. So nothing is
asked of the group but an image of its leader, which takes the place of its own; the log stays and
is replayed. A state that went wrong in memory is right again after that, and a history that was
written wrong is another replica's. This happens at most twice in 24 hours: what goes wrong again so
soon has a reason that a person must find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from raftlog.comparison import Trust
from raftlog.core.types import NO_NODE, GroupId
from raftlog.image.outvoted import Outvoted
from raftlog.machines.group_info import ControllerInfo
from raftlog.multiraft.disk import NodeDisk
from raftlog.multiraft.effects import Effects, RebuildsSpent, ReplicaRebuilding
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.image_exchange import ImageExchange
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.multiraft.looks import looks_at

_LOOK_TICKS = 20
"""How often a rebuild is tried (`looks_at`). No setting: to fetch an image takes longer anyway."""


class Rebuilds:
    """Of one node. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        effects: Effects,
        disk: NodeDisk,
        store: GroupStore,
        images: ImageExchange,
        groups: Mapping[GroupId, LocalReplica],
        now_us: Callable[[LocalReplica], int],
    ) -> None:
        """`now_us` is the time, as the group's voters confirm it."""
        self._effects = effects
        self._disk = disk
        self._store = store
        self._images = images
        self._groups = groups
        self._now_us = now_us
        self._noting: set[LocalReplica] = set()
        """Replicas whose note about being outvoted is being written."""
        self._told: dict[GroupId, type] = {}
        """What was told last of each replica that has diverged."""
        self._ticks = 0
        self._stopped = False

    def stop(self) -> None:
        """Begin nothing from now on."""
        self._stopped = True

    def tick(self) -> None:
        """One tick of the clock has passed."""
        self._ticks += 1
        if not looks_at(self._ticks, _LOOK_TICKS, self._groups):
            return
        for local in self._groups.values():
            if local.replica.diverged or local.outvoted.history or local.group in self._told:
                self.look_at(local)

    def look_at(self, local: LocalReplica) -> None:
        """What is known of the replica may have changed: note it durably, and do what follows."""
        if isinstance(local.info, ControllerInfo) or local.installing or self._stopped:
            return
        if local.replica.has_news:
            return  # it is told first: an image would be the end of it
        outvoted = local.replica.histories.trust is Trust.DIVERGED
        if outvoted is not local.outvoted.history and local not in self._noting:
            self._noting.add(local)
            value = replace(local.outvoted, history=outvoted)
            self._disk.queue_job(
                partial(self._store.note_outvoted, local.group, value),
                partial(self._noted, local, value),
            )
        if not local.replica.diverged:
            self._told.pop(local.group, None)
        elif not local.outvoted.may_rebuild(self._now_us(local)):
            self._tell_once(RebuildsSpent(group=local.group, info=local.info))
        elif local.raft.leader not in (NO_NODE, local.replica.node) and local not in self._noting:
            peer = local.raft.leader
            self._tell_once(ReplicaRebuilding(group=local.group, info=local.info, peer=peer))
            self._images.rebuild(local, peer)

    def _noted(self, local: LocalReplica, value: Outvoted, _: None) -> None:
        self._noting.discard(local)
        local.outvoted = value

    def _tell_once(self, event: RebuildsSpent | ReplicaRebuilding) -> None:
        if self._told.get(event.group) is not type(event):
            self._told[event.group] = type(event)
            self._effects.tell(event)
