"""What may happen to one member: the steps of which the explorer makes every order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.messages import RaftMessage
from raftlog.core.ready import Role
from raftlog.errors import RaftlogError
from raftlog.errors.unavailable import Unavailable
from tests.core.member import Member
from tests.explorer.local import Local


class Cost(NamedTuple):
    """How often each kind of event may still happen in a history."""

    elections: int = 0
    silences: int = 0
    heartbeats: int = 0
    restarts: int = 0
    proposals: int = 0
    changes: int = 0
    transfers: int = 0

    def less(self, other: Cost) -> Cost | None:
        """What is left of it; None: it does not suffice."""
        left = Cost(*(have - need for have, need in zip(self, other, strict=True)))
        return None if min(left) < 0 else left

    def covers(self, other: Cost) -> bool:
        """Does it allow everything that `other` allows?"""
        return all(mine >= its for mine, its in zip(self, other, strict=True))


FREE = Cost()


class NotNow(Exception):
    """The event cannot happen to the member as it is."""


@dataclass(frozen=True, slots=True)
class Event(ABC):
    """Something that may happen to any member at any time."""

    cost: Cost

    @abstractmethod
    def happen(self, member: Member) -> None:
        """Let it happen. Raises `NotNow`, or what the core says to refuse it."""


@dataclass(frozen=True, slots=True)
class Arrive(Event):
    """A message comes: for the first time or again, soon or long after it was sent."""

    message: RaftMessage

    def happen(self, member: Member) -> None:
        member.step(self.message)

    def __str__(self) -> str:
        message = self.message
        named = ((name, getattr(message, name)) for name in type(message).__slots__)
        said = ", ".join(f"{name} {value}" for name, value in named if name not in _KNOWN)
        return f"hears {type(message).__name__} from {message.sender}: {said}"


_KNOWN = ("group", "sender", "to")


@dataclass(frozen=True, slots=True)
class Persist(Event):
    """The oldest write that waits becomes durable."""

    def happen(self, member: Member) -> None:
        if not member.unsynced:
            raise NotNow
        member.persist(1)

    def __str__(self) -> str:
        return "has written its oldest write"


@dataclass(frozen=True, slots=True)
class Miss(Event):
    """Nothing is heard for the shortest election timeout: it would vote for another."""

    def happen(self, member: Member) -> None:
        raft = member.raft
        until = min(member.timing.election_ticks_min, raft.timer.timeout_ticks - 1)
        if raft.role is Role.LEADER or raft.timer.elapsed_ticks >= until:
            raise NotNow
        member.tick(until - raft.timer.elapsed_ticks)

    def __str__(self) -> str:
        return "hears nobody for the shortest timeout"


@dataclass(frozen=True, slots=True)
class TimeOut(Event):
    """Nothing is heard until it campaigns; or, if it leads, until it gives up."""

    def happen(self, member: Member) -> None:
        raft = member.raft
        role = raft.role
        wait = 2 * member.timing.election_ticks_min
        if role is not Role.LEADER:
            wait = max(1, raft.timer.timeout_ticks - raft.timer.elapsed_ticks)
        for _ in range(wait):
            member.tick()
            if role is Role.LEADER and raft.role is not Role.LEADER:
                return

    def __str__(self) -> str:
        return "hears nobody for its election timeout"


@dataclass(frozen=True, slots=True)
class Beat(Event):
    """A leader's heartbeat falls due."""

    def happen(self, member: Member) -> None:
        if member.raft.role is not Role.LEADER:
            raise NotNow
        member.tick(member.timing.heartbeat_ticks)

    def __str__(self) -> str:
        return "sends a heartbeat"


@dataclass(frozen=True, slots=True)
class Restart(Event):
    """The process dies, with what was not durable, and starts again."""

    def happen(self, member: Member) -> None:
        member.start()

    def __str__(self) -> str:
        return "restarts"


@dataclass(frozen=True, slots=True)
class Propose(Event):
    """A client writes."""

    def happen(self, member: Member) -> None:
        member.propose("w")

    def __str__(self) -> str:
        return "is asked to write"


@dataclass(frozen=True, slots=True)
class Change(Event):
    """Somebody changes the membership."""

    voters: tuple[int, ...]
    learners: tuple[int, ...] = ()

    def happen(self, member: Member) -> None:
        member.change(*self.voters, learners=self.learners)

    def __str__(self) -> str:
        return f"is asked for the voters {self.voters} and the learners {self.learners}"


@dataclass(frozen=True, slots=True)
class Transfer(Event):
    """Somebody asks for another leader."""

    to: int

    def happen(self, member: Member) -> None:
        member.transfer(self.to)

    def __str__(self) -> str:
        return f"is asked to hand its role to {self.to}"


ELECTION, SILENCE = Cost(elections=1), Cost(silences=1)
BEAT, RESTART = Cost(heartbeats=1), Cost(restarts=1)
WRITE, CHANGE, TRANSFER = Cost(proposals=1), Cost(changes=1), Cost(transfers=1)

TIME_AND_DISK = (
    Persist(FREE), Miss(SILENCE), TimeOut(ELECTION), Beat(BEAT), Restart(RESTART), Propose(WRITE),
)  # fmt: skip


def outcome(local: Local, event: Event) -> tuple[Local, tuple[RaftMessage, ...]] | None:
    """What the event makes of the member, and what it sends; None: it cannot happen to it now.

    Raises `AssertionError` for a broken promise, and an error of the core that no honest member
    can cause.
    """
    try:
        return local.after(event.happen)
    except NotNow:
        return None
    except (Unavailable, RaftlogError) as error:
        if isinstance(event, Propose | Change | Transfer):
            return None  # it says why it does not do it
        raise AssertionError(f"{type(error).__name__}: {error}") from error
