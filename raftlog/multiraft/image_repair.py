"""Healing damaged files of images, and what only an image has left: fetched from the peers.

The peers are asked in turn. Replicas cut their history at the same snapshot points, so a peer that
stands at the same point has a file of the same records. One that stands at a later point, which
this replica has applied with the same state, gives its image as a compaction here would make it.
So a snapshot point is passed that cannot be compacted here, whatever of the log is damaged.

Nothing is restarted, and the leader does it as well. The files are published by `Compactions`, in
turn with the compactions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from raftlog.core.types import LogIndex, NodeId
from raftlog.image.incoming import mended_image, wanted_image
from raftlog.image.manifest import Image, kept_snapshots
from raftlog.multiraft.compaction import Compactions
from raftlog.multiraft.image_exchange import ImageExchange
from raftlog.multiraft.local_replica import LocalReplica


class Fetched(NamedTuple):
    """How the repair of an image has ended."""

    done: bool
    damaged: frozenset[str]
    """The files that it was for."""
    answered: bool = True
    """Every peer has said what it has."""


@dataclass(slots=True)
class _Repair:
    local: LocalReplica
    damaged: frozenset[str]
    index: LogIndex
    """An entry that the image must reach; 0: none."""
    peers: deque[NodeId] = field(default_factory=deque)
    """Those still to be asked; the first one is, while `fetching`."""
    fetching: bool = False
    answered: bool = True


class ImageRepairs:
    """The repairs of one node's images. For the thread of its `MultiRaft` only."""

    def __init__(
        self,
        *,
        images: ImageExchange,
        compactions: Compactions,
        ended: Callable[[LocalReplica, Fetched], None],
    ) -> None:
        """`ended` is told how a repair went."""
        self._images = images
        self._compactions = compactions
        self._ended = ended
        self._repairs: dict[LocalReplica, _Repair] = {}

    def forget(self, local: LocalReplica) -> None:
        """The replica is gone from here, or has another image now."""
        self._repairs.pop(local, None)
        local.adopting = False

    def begin(self, local: LocalReplica, damaged: frozenset[str], index: LogIndex) -> None:
        """Have the files of these names, and what is in the log up to entry `index`, from a peer.
        Does nothing while a repair of the replica is on its way."""
        if local in self._repairs:
            return
        repair = self._repairs[local] = _Repair(local, damaged, index)
        own = local.image.manifest
        alone = mended_image(own, own, damaged)
        if alone is not None and not index and not alone.names() & damaged:
            self._adopt(repair, alone, frozenset())  # older snapshots are done without
            return
        repair.peers.extend(local.others)

    def write_manifest(self, local: LocalReplica) -> None:
        """Write both copies of the manifest again, as it is in memory."""
        if local not in self._repairs:
            own = local.image.manifest
            repair = self._repairs[local] = _Repair(local, frozenset(), LogIndex(0))
            self._adopt(repair, replace(own, generation=own.generation + 1), frozenset())

    def tick(self) -> None:
        """One tick of the clock has passed: ask the next peer, where none is asked."""
        for repair in list(self._repairs.values()):
            if repair.fetching or repair.local.adopting or repair.local.compacting:
                continue
            if not repair.peers:
                self._end(repair, Fetched(False, repair.damaged, repair.answered))
                continue
            repair.fetching = self._images.fetch(
                repair.local,
                repair.peers[0],
                wanted=partial(self._wanted, repair),
                here=partial(_whole_here, repair),
                whole=partial(self._adopt, repair),
                failed=partial(self._failed, repair),
            )

    def _wanted(self, repair: _Repair, theirs: Image) -> Image | None:
        local, own = repair.local, repair.local.image.manifest
        if theirs.index > own.index:
            point = next((p for p in local.replica.points if p.index == theirs.index), None)
            newest = theirs.snapshots[-1]
            if point is None or theirs.index < repair.index:
                return None
            if (point.term, point.state_hash) != (newest.term, newest.state_hash):
                return None
            wanted = wanted_image(theirs, own, repair.damaged)
            whole = [each for each in own.snapshots if each.name not in repair.damaged]
            return replace(wanted, snapshots=kept_snapshots([*whole, newest]))
        if repair.index > own.index or not own.snapshots:
            return None
        return mended_image(theirs, own, repair.damaged)

    def _failed(self, repair: _Repair, answered: bool) -> None:
        repair.fetching = False
        repair.answered = repair.answered and answered
        repair.peers.popleft()

    def _adopt(self, repair: _Repair, image: Image, received: frozenset[str]) -> None:
        """All files are here and checked."""
        local = repair.local
        repair.fetching = False
        local.adopting = True

        def ended(done: bool) -> None:
            local.adopting = False
            if self._repairs.get(local) is repair:
                self._end(repair, Fetched(done, repair.damaged, answered=False))

        self._compactions.adopt(local, image, received, ended)

    def _end(self, repair: _Repair, how: Fetched) -> None:
        del self._repairs[repair.local]
        self._ended(repair.local, how)


def _whole_here(repair: _Repair) -> frozenset[str]:
    return repair.local.image.manifest.names() - repair.damaged
