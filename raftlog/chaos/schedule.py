"""What will be broken, and when: drawn from a seed, before anything runs. Pure.

A round takes every class of fault once, in an order of its own. Some episodes break two things at
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
    """The closed set of faults, each a class of its own."""

    KILL = "kill"
    """SIGKILL; the node is started again at the episode's end."""
    OUTAGE = "outage"
    """All nodes are killed at once, and started again at the end."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT at the end: its connections stay."""
    CUT = "cut"
    """Bytes from one node to another, or to all others, or from all others to it, are held."""
    PARTITION = "partition"
    """One node and all others hear nothing of each other."""
    RESET = "reset"
    """All of a node's connections to the others are reset, at the begin and at the end."""
    DELAY = "delay"
    """All that a node sends to the others and gets from them comes late, or slowly."""
    SLOW_SYNC = "slow-sync"
    """Each sync of a node's disk takes so much longer."""
    FAILING_SYNC = "failing-sync"
    """A sync of a node's disk fails with EIO: the node must end, and is started again."""
    FULL_DISK = "full-disk"
    """A node's disk has no space left, until the end: the node waits for it."""
    RESTART = "restart"
    """Each node in turn is told to stop (SIGTERM) and started again."""


class Aim(StrEnum):
    """Whom a fault hits: known only when it begins."""

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
}
"""From when to when an episode's fault may last. Shorter and longer than an election timeout."""

ALONE = frozenset((Kind.OUTAGE, Kind.RESTART))
"""What breaks every node already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault to come. `draw`, from [0, 1), settles what its kind leaves open."""

    kind: Kind
    aim: Aim
    seconds: float
    draw: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One episode to come: its faults, begun one after another. Before it all is sound for
    `calm_s`."""

    number: int
    calm_s: float
    faults: tuple[Fault, ...]


def plans(seed: int, kinds: Sequence[Kind]) -> Iterator[Plan]:
    """The episodes of a seed, without end."""
    assert kinds, "there is something to break"
    random = Random(seed)
    number = 0
    while True:
        bag = list(kinds)
        random.shuffle(bag)
        while bag:
            number += 1
            chosen = [bag.pop()]
            if bag and random.random() < _TWO_AT_ONCE and not ALONE & {chosen[0], bag[-1]}:
                chosen.append(bag.pop())
            # Where the disk is small settles its node: the other fault is for another one.
            chosen.sort(key=lambda kind: kind is not Kind.FULL_DISK)
            yield Plan(
                number=number,
                calm_s=random.uniform(0.2, 1.0),
                faults=tuple(_fault(random, kind) for kind in chosen),
            )


def _fault(random: Random, kind: Kind) -> Fault:
    return Fault(
        kind=kind,
        aim=random.choice(list(Aim)),
        seconds=random.uniform(*LASTS_S[kind]),
        draw=random.random(),
    )
