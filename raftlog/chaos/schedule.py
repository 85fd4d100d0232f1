"""Which faults will happen, and when: drawn from a seed before anything runs. Pure.

A round contains every class of fault once, in a random order. Some episodes have two faults at
once, at two different nodes: then there may be no majority for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

_TWO_AT_ONCE = 0.2
"""The share of episodes with two faults."""


class Kind(StrEnum):
    """The closed set of faults. Each is a class in the verdict."""

    KILL = "kill"
    """SIGKILL. The node is started again at the end of the episode."""
    OUTAGE = "outage"
    """All nodes are killed at once, and started again at the end."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT at the end. The node's connections stay open."""
    CUT = "cut"
    """Bytes from one node to another, to all others, or from all others to it, are held."""
    PARTITION = "partition"
    """One node and all others hear nothing from each other."""
    RESET = "reset"
    """All of a node's connections to the others are reset, at the begin and at the end."""
    DELAY = "delay"
    """Everything that a node sends to the others and gets from them is late, or slow."""
    SLOW_SYNC = "slow-sync"
    """Each sync of a node's disk takes longer."""
    FAILING_SYNC = "failing-sync"
    """A sync of a node's disk fails with EIO. The node must end, and is started again."""
    FULL_DISK = "full-disk"
    """A node's disk has no space left until the end. The node waits for space."""
    RESTART = "restart"
    """Each node in turn is told to stop (SIGTERM) and started again."""
    ADD = "add"
    """A node joins the cluster."""
    REMOVE = "remove"
    """All that a node holds goes to others, and it leaves. If there are only three, one joins
    first."""
    REPLACE = "replace"
    """A node is killed for good, and a new one takes its places."""
    REBALANCE = "rebalance"
    """Groups are spread evenly over the nodes that there are."""
    DRAIN = "drain"
    """A node gives up all that it leads, and may lead again after it."""
    TRANSFER = "transfer"
    """A node is made the leader of every topic that it holds."""
    OBSERVE = "observe"
    """An observer joins, which pulls from one node; that may be an observer as well."""
    UNOBSERVE = "unobserve"
    """An observer leaves. If there is none, one joins first."""


class Aim(StrEnum):
    """Which node a fault hits. Known only when it begins."""

    LEADER = "leader"
    FOLLOWER = "follower"
    ANY = "any"


LASTS_S: dict[Kind, tuple[float, float]] = {
    Kind.KILL: (0.1, 3.0),
    Kind.OUTAGE: (0.1, 1.0),
    Kind.PAUSE: (0.1, 5.0),
    Kind.CUT: (0.3, 5.0),
    Kind.PARTITION: (0.3, 5.0),
    Kind.RESET: (0.1, 0.5),
    Kind.DELAY: (0.5, 4.0),
    Kind.SLOW_SYNC: (0.5, 4.0),
    Kind.FAILING_SYNC: (0.2, 2.0),
    Kind.FULL_DISK: (0.5, 2.0),
    Kind.RESTART: (0.0, 0.0),
    Kind.ADD: (0.0, 0.0),
    Kind.REMOVE: (0.0, 0.0),
    Kind.REPLACE: (0.0, 0.0),
    Kind.REBALANCE: (0.0, 0.0),
    Kind.DRAIN: (0.0, 0.0),
    Kind.TRANSFER: (0.0, 0.0),
    Kind.OBSERVE: (0.0, 0.0),
    Kind.UNOBSERVE: (0.0, 0.0),
}
"""The range of a fault's duration: shorter and longer than an election timeout. Those of 0 last
until they are done."""

ADDING = frozenset((Kind.ADD, Kind.REMOVE, Kind.REPLACE, Kind.OBSERVE, Kind.UNOBSERVE))
"""What an operator does that adds a node, or may have to."""

DEEDS = ADDING | {Kind.REBALANCE, Kind.DRAIN, Kind.TRANSFER}
"""What an operator does: one at a time, and also while a fault lasts."""

ALONE = frozenset((Kind.OUTAGE, Kind.RESTART))
"""Faults that hit every node, so that no second fault is made with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planned fault. `draw`, in [0, 1), decides what its kind leaves open."""

    kind: Kind
    aim: Aim
    seconds: float
    draw: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One planned episode: its faults, begun one after another, after `calm_s` seconds without
    any."""

    number: int
    calm_s: float
    faults: tuple[Fault, ...]


def plans(seed: int, kinds: Sequence[Kind]) -> Iterator[Plan]:
    """The endless sequence of a seed's episodes. Needs at least one kind."""
    assert kinds, "there must be something to break"
    random = Random(seed)
    number = 0
    while True:
        bag = list(kinds)
        random.shuffle(bag)
        while bag:
            number += 1
            chosen = [bag.pop()]
            if bag and random.random() < _TWO_AT_ONCE and _may_be_together(chosen[0], bag[-1]):
                chosen.append(bag.pop())
            # Only one node has a small disk: the other fault must hit another node.
            chosen.sort(key=lambda kind: kind is not Kind.FULL_DISK)
            yield Plan(
                number=number,
                calm_s=random.uniform(0.2, 1.0),
                faults=tuple(_fault(random, kind) for kind in chosen),
            )


def _may_be_together(one: Kind, other: Kind) -> bool:
    return not ALONE & {one, other} and not {one, other} <= DEEDS


def _fault(random: Random, kind: Kind) -> Fault:
    return Fault(
        kind=kind,
        aim=random.choice(list(Aim)),
        seconds=random.uniform(*LASTS_S[kind]),
        draw=random.random(),
    )
