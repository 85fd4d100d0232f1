"""Images of this node that other nodes are fetching: their files, and the log after them, stay. So
does the file of a snapshot that clients copy.

A pin lapses when its peer has made no progress for a while, when it is old, or when the disk is
full. Nothing depends on it but time: a node that finds a file gone asks for the manifest again, and
keeps what both have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.image.manifest import Image, SnapshotInfo

COPIED_MAX = 4
"""So many snapshots of a group may be copied by clients at a time, by any number of them. No
setting: each is as large as the machine's state."""


_AGE_FACTOR = 30
"""A pin lapses after this many times its idle ticks, whatever its peer was given: after an hour. At
the slowest `server.catch_up_bytes_per_s_max` that is 3.5 GiB. No setting: history files that came
by then are not fetched again."""


@dataclass(slots=True)
class _Pin:
    image: Image
    idle_ticks: int = 0
    age_ticks: int = 0
    given: dict[str, int] = field(default_factory=dict)
    """How far the peer was given each file."""
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.image.names()


class ImagePins:
    """The pins of one node. For the thread of its `MultiRaft` only."""

    def __init__(self, idle_ticks_max: int) -> None:
        """A pin lapses after `idle_ticks_max` ticks without progress: nothing was given that the
        peer had not been given before."""
        self._idle_ticks_max = idle_ticks_max
        self._pins: dict[GroupId, dict[NodeId, _Pin]] = {}
        self._copied: dict[GroupId, dict[SnapshotInfo, int]] = {}
        """Snapshots that clients copy, and the ticks since a part of each was asked for."""

    def pin(self, group: GroupId, peer: NodeId, image: Image) -> None:
        """The peer fetches this image from now on, and no other one of the group. It is the present
        one, so a request that is repeated keeps nothing that would be gone without it."""
        self._pins.setdefault(group, {})[peer] = _Pin(image)

    def names_for(self, group: GroupId, peer: NodeId) -> frozenset[str]:
        """The names of the files that the peer may have; none after a lapse."""
        pin = self._pins.get(group, {}).get(peer)
        return frozenset() if pin is None else pin.names

    def gave(self, group: GroupId, peer: NodeId, name: str, end: int) -> None:
        """The peer was given bytes of the file up to `end`."""
        pin = self._pins.get(group, {}).get(peer)
        if pin is not None and name in pin.names and end > pin.given.get(name, 0):
            pin.given[name] = end
            pin.idle_ticks = 0

    def copied(self, group: GroupId, snapshot: SnapshotInfo) -> bool:
        """A client copies the snapshot, from now on or still. False: `COPIED_MAX` others are."""
        copied = self._copied.setdefault(group, {})
        if snapshot not in copied and len(copied) >= COPIED_MAX:
            return False
        copied[snapshot] = 0
        return True

    def copied_at(self, group: GroupId, index: LogIndex) -> SnapshotInfo | None:
        """The snapshot at the index, if clients copy it."""
        copied = self._copied.get(group, {})
        return next((each for each in copied if each.index == index), None)

    def tick(self, *, disk_full: bool) -> None:
        """One tick of the clock has passed."""
        for group in list(self._copied):
            idle = {each: ticks + 1 for each, ticks in self._copied.pop(group).items()}
            left = {each: ticks for each, ticks in idle.items() if ticks <= self._idle_ticks_max}
            if left and not disk_full:
                self._copied[group] = left
        for group in list(self._pins):
            pins = self._pins[group]
            for peer, pin in list(pins.items()):
                pin.idle_ticks += 1
                pin.age_ticks += 1
                is_old = pin.age_ticks > _AGE_FACTOR * self._idle_ticks_max
                if disk_full or is_old or pin.idle_ticks > self._idle_ticks_max:
                    del pins[peer]
            if not pins:
                del self._pins[group]

    def forget(self, group: GroupId) -> None:
        """The group is gone from here, or has other files now."""
        self._pins.pop(group, None)
        self._copied.pop(group, None)

    def names(self, group: GroupId) -> frozenset[str]:
        """The files of the group that must stay."""
        pins = self._pins.get(group, {}).values()
        copied = {each.name for each in self._copied.get(group, {})}
        return frozenset(copied).union(*(pin.names for pin in pins))

    def index(self, group: GroupId) -> LogIndex | None:
        """The group's log must stay after this entry; None: nothing of it is pinned."""
        return min((pin.image.index for pin in self._pins.get(group, {}).values()), default=None)
