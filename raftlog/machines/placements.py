"""Where the groups of a cluster should be: a part of the controller's state.

Two truths are kept apart. What is here is a *wish* with a generation. Which members a group really
has, its own log says (`raftlog.core.membership`), and there the wish's generation is written with
the change. The group's leader makes the change, step by step, and its new voters report it when it
is committed. Only then may a node that is not wanted any more remove its replica: until then its
vote may count. Reports may be false, so the node asks its replica's own log as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from raftlog.core.types import GroupId, NodeId
from raftlog.machines.commands import PlaceGroup, ReportPlacement
from raftlog.machines.digest import StateDigest
from raftlog.machines.outcomes import GroupPlaced, PlacementReported, Refused, refused
from raftlog.machines.state import PlacementState


class Placement(NamedTuple):
    """Where a group should be."""

    voters: tuple[NodeId, ...]
    """Those that should vote, rising."""
    generation: int
    """How often it was placed elsewhere."""
    reached: int
    """The generation that the group's voters reported last."""
    former: tuple[NodeId, ...]
    """Where the group was when `reached` was reported: a change can be taken back to there."""

    @property
    def is_reached(self) -> bool:
        """Are the voters those of the group, as its log has committed it?"""
        return self.reached == self.generation


class Placements(Mapping[GroupId, Placement]):
    """The groups that were ever placed elsewhere than where they were made."""

    def __init__(self) -> None:
        self._placements: dict[GroupId, Placement] = {}

    @classmethod
    def restore(cls, placements: Iterable[PlacementState]) -> Placements:
        """Those of a state."""
        restored = cls()
        for each in placements:
            restored._placements[each.group] = Placement(
                each.voters, each.generation, each.reached, each.former
            )
        return restored

    def state(self) -> tuple[PlacementState, ...]:
        """All of them, by group."""
        rising = sorted(self._placements.items())
        return tuple([PlacementState(group=group, **each._asdict()) for group, each in rising])

    def __getitem__(self, group: GroupId) -> Placement:
        return self._placements[group]

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._placements)

    def __len__(self) -> int:
        return len(self._placements)

    # ------------------------------------------------------------ commands

    def place(self, command: PlaceGroup, usable: Collection[NodeId]) -> GroupPlaced | Refused:
        """Wish the group elsewhere; `usable` are the nodes that take replicas. One change at a
        time: another can only take it back. A voter that leaves may stay for now: when two nodes
        leave at once, each has a change of its own."""
        made = Placement(command.former, 0, 0, command.former)
        now = self._placements.get(command.group, made)
        if command.generation != now.generation:
            if (command.generation + 1, command.voters) == (now.generation, now.voters):
                return GroupPlaced(generation=now.generation)  # a lost answer
            return refused("PlacementOutdated", group=command.group, generation=now.generation)
        if not now.is_reached and command.voters != now.former:
            return refused(
                "PlacementUnderWay",
                group=command.group,
                voters=_listed(now.voters),
                former=_listed(now.former),
            )
        strange = [each for each in command.voters if each not in usable and each not in now.voters]
        if strange and command.voters != now.former:
            return refused("NodeUnknown", node=strange[0], known=_listed(sorted(usable)))
        changed = now._replace(voters=command.voters, generation=now.generation + 1)
        self._placements[command.group] = changed
        return GroupPlaced(generation=changed.generation)

    def report(self, command: ReportPlacement) -> PlacementReported:
        """The group's log has committed the change of this generation."""
        now = self._placements.get(command.group)
        if now is None or command.generation != now.generation or now.is_reached:
            return PlacementReported(done=False)
        self._placements[command.group] = now._replace(reached=now.generation, former=now.voters)
        return PlacementReported(done=True)

    def forget(self, group: GroupId) -> None:
        """The group is deleted."""
        self._placements.pop(group, None)

    # ------------------------------------------------------------ queries

    def under_way(self) -> Iterator[GroupId]:
        """The groups whose last change is not reported yet."""
        return (group for group, each in self._placements.items() if not each.is_reached)

    def is_under_way(self, group: GroupId, generation: int) -> bool:
        """Is this the group's last change, and not reported yet?"""
        placed = self._placements.get(group)
        return placed is not None and not placed.is_reached and placed.generation == generation

    def digest_into(self, digest: StateDigest) -> None:
        digest.number(len(self._placements))
        for group, each in sorted(self._placements.items()):
            digest.number(group)
            digest.number(each.generation)
            digest.number(each.reached)
            for nodes in (each.voters, each.former):
                digest.number(len(nodes))
                for node in nodes:
                    digest.number(node)


def _listed(nodes: Iterable[NodeId]) -> str:
    return ", ".join(map(str, nodes))
