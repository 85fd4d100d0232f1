"""Every order of events of a small cluster, up to a number of situations.

Messages are never taken off the wire: each may arrive at any time, again and again, or never. So
loss, repetition and any order come by themselves, and a cut needs no event of its own. What costs
is bounded by a scenario: elections, heartbeats, restarts, writes, changes.

What happens to a member depends on nothing but that member. So each event is carried out once for
each `Local`, however many situations of the cluster it is part of, and walking a situation is a
few lookups. Situations are visited in the order of their distance, so a broken promise is shown by
a shortest history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftlog.core.messages import RaftMessage
from raftlog.core.types import NodeId
from tests.core.member import Member
from tests.explorer.events import FREE, TIME_AND_DISK, Arrive, Cost, Event, Persist, outcome
from tests.explorer.local import Local
from tests.explorer.promises import Past, check_complete, check_match, remembered


class Situation(NamedTuple):
    """A cluster between two events, as numbers of what the explorer has met."""

    locals: tuple[int, ...]
    wire: int
    """The messages that were ever sent, a bit for each."""
    past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Where a walk begins, and what may happen."""

    members: Sequence[Member]
    allowed: Cost
    events: Sequence[Event] = ()
    """What may happen besides what may always: changes, transfers."""
    prelude: Sequence[tuple[int, Event]] = ()
    """What has happened before, to which member (by its place). After each, all that was sent
    has arrived and all writes are durable; nothing of it is left on the wire."""


@dataclass(frozen=True, slots=True)
class Broken(Exception):
    """A promise that a history breaks."""

    promise: str
    history: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.history, 1))
        return f"{self.promise}, after\n{steps}"


class Explorer:
    """A walk over the situations of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._events = (*TIME_AND_DISK, *scenario.events)
        self._persist = next(
            (number, each) for number, each in enumerate(self._events) if isinstance(each, Persist)
        )
        self._locals: list[Local] = []
        self._local_numbers: dict[tuple[int, bytes], int] = {}
        self._arrivals: list[Arrive] = []
        self._message_numbers: dict[RaftMessage, int] = {}
        self._to: list[int] = [0 for _ in scenario.members]
        """The messages to each member."""
        self._pasts: list[Past] = []
        self._past_numbers: dict[Past, int] = {}
        self._outcomes: dict[tuple[int, int], tuple[int, int] | None] = {}
        """By local and event (messages as negative numbers): the local after it, what it sent."""
        self._inert: list[int] = []
        """By local: the messages that do nothing to it."""
        self._remembered: dict[tuple[int, int], int] = {}
        self._sound: set[tuple[int, ...]] = set()
        """Pairs of a past and a local, and of two locals (as they are told apart by length)."""
        self._places = {member.node: place for place, member in enumerate(scenario.members)}
        self.seen: dict[Situation, list[Cost]] = {}
        """What each situation was met with: nothing there allows all that another does."""
        self._came: dict[Situation, tuple[Situation, int, int] | None] = {}
        first = tuple(
            self._local(place, Local(each)) for place, each in enumerate(scenario.members)
        )
        begin = Situation(first, 0, self._past(Past()))
        for place, event in scenario.prelude:
            begin = self._settled(begin, place, event)
        self._begin = begin
        self._allowed = scenario.allowed

    # ------------------------------------------------------------ the walk

    def walk(self, situations_max: int) -> bool:
        """Visit so many situations, or all; True: all. Raises `Broken`."""
        self.seen = {self._begin: [self._allowed]}
        self._came = {self._begin: None}
        now = [(self._begin, self._allowed)]
        while now:
            following = []
            for situation, left in now:
                for place, number, after, rest in self._next(situation, left):
                    if self._is_new(after, rest):
                        if after not in self._came:
                            self._came[after] = (situation, place, number)
                        following.append((after, rest))
                if len(self.seen) >= situations_max:
                    return False
            now = following
        return True

    @property
    def members_met(self) -> int:
        """How many different members were met."""
        return len(self._locals)

    @property
    def messages_met(self) -> int:
        """How many different messages were sent."""
        return len(self._arrivals)

    @property
    def leaders_met(self) -> set[int]:
        """Who led in some situation."""
        return {node for past in self._pasts for _, node in past.leaders}

    @property
    def memberships_met(self) -> set[tuple[tuple[NodeId, ...], bool]]:
        """What members took for the voters, and whether that was joint."""
        met = {local.raft.membership for local in self._locals}
        return {(each.voters, each.is_joint) for each in met}

    def _is_new(self, situation: Situation, left: Cost) -> bool:
        known = self.seen.get(situation)
        if known is None:
            self.seen[situation] = [left]
            return True
        if any(each.covers(left) for each in known):
            return False
        known[:] = [each for each in known if not left.covers(each)]
        known.append(left)
        return True

    def _next(self, situation: Situation, left: Cost) -> Iterator[tuple[int, int, Situation, Cost]]:
        for place, local in enumerate(situation.locals):
            for number, event in enumerate(self._events):
                rest = left if event.cost == FREE else left.less(event.cost)
                if rest is None:
                    continue
                after = self._step(situation, place, number, event)
                if after is not None and after != situation:
                    yield place, number, after, rest
            waiting = situation.wire & self._to[place] & ~self._inert[local]
            while waiting:
                bit = waiting & -waiting
                waiting ^= bit
                number = -bit.bit_length()
                after = self._step(situation, place, number, self._arrivals[-1 - number])
                if after is not None and after != situation:
                    yield place, number, after, left

    def _step(
        self, situation: Situation, place: int, number: int, event: Event
    ) -> Situation | None:
        """What one event makes of the cluster; None: it cannot happen."""
        try:
            found = self._outcome(place, situation.locals[place], number, event)
            return None if found is None else self._with(situation, place, *found)
        except AssertionError as error:
            history = (*self._history(situation), self._said(place, event))
            raise Broken(str(error), history) from error

    def _outcome(self, place: int, local: int, number: int, event: Event) -> tuple[int, int] | None:
        key = (local, number)
        if key not in self._outcomes:
            found = self._outcomes[key] = self._carried_out(place, local, event)
            if found == (local, 0) and number < 0:
                self._inert[local] |= 1 << (-1 - number)
        return self._outcomes[key]

    def _carried_out(self, place: int, local: int, event: Event) -> tuple[int, int] | None:
        found = outcome(self._locals[local], event)
        if found is None:
            return None
        after, messages = found
        return self._local(place, after), self._bits(messages)

    def _with(self, situation: Situation, place: int, became: int, sent: int) -> Situation:
        """The situation once this member is another one and has sent something."""
        if became == situation.locals[place]:
            return (
                situation
                if not sent & ~situation.wire
                else situation._replace(wire=situation.wire | sent)
            )
        locals_ = (*situation.locals[:place], became, *situation.locals[place + 1 :])
        past = self._checked(situation.past, locals_, place)
        return Situation(locals_, situation.wire | sent, past)

    def _checked(self, past: int, locals_: tuple[int, ...], place: int) -> int:
        """The past with what the member at this place does now; the promises hold."""
        key = (past, locals_[place])
        if key not in self._remembered:
            became = remembered(self._pasts[past], self._locals[locals_[place]])
            self._remembered[key] = self._past(became)
        new = self._remembered[key]
        for at, local in enumerate(locals_):
            if new != past or at == place:
                self._complete(new, local)
            if at != place:
                self._match(min(local, locals_[place]), max(local, locals_[place]))
        return new

    def _complete(self, past: int, local: int) -> None:
        if (past, local) not in self._sound:
            check_complete(self._pasts[past], self._locals[local])
            self._sound.add((past, local))

    def _match(self, one: int, other: int) -> None:
        if (one, other, 0) not in self._sound:
            check_match(self._locals[one], self._locals[other])
            self._sound.add((one, other, 0))

    # ------------------------------------------------------------ numbers for what is met

    def _local(self, place: int, local: Local) -> int:
        number = self._local_numbers.setdefault((place, local.key), len(self._locals))
        if number == len(self._locals):
            self._locals.append(local)
            self._inert.append(0)
        return number

    def _past(self, past: Past) -> int:
        number = self._past_numbers.setdefault(past, len(self._pasts))
        if number == len(self._pasts):
            self._pasts.append(past)
        return number

    def _bits(self, messages: Sequence[RaftMessage]) -> int:
        bits = 0
        for message in messages:
            if message.to not in self._places:
                continue  # nobody of that name is part of the scenario
            number = self._message_numbers.setdefault(message, len(self._arrivals))
            if number == len(self._arrivals):
                self._arrivals.append(Arrive(FREE, message))
                self._to[self._places[message.to]] |= 1 << number
            bits |= 1 << number
        return bits

    # ------------------------------------------------------------ histories

    def _settled(self, situation: Situation, place: int, event: Event) -> Situation:
        """After this event, everything that was sent has arrived once, everything is durable."""
        found = self._carried_out(place, situation.locals[place], event)
        assert found is not None, f"a prelude's event cannot happen: {event}"
        after, arrived = self._with(situation, place, *found), 0
        while True:
            for at in range(len(after.locals)):
                while (written := self._step(after, at, *self._persist)) is not None:
                    after = written
            waiting = after.wire & ~arrived
            if not waiting:
                return after._replace(wire=0)
            bit = waiting & -waiting
            arrived |= bit
            message = self._arrivals[bit.bit_length() - 1]
            at = self._places[message.message.to]
            stepped = self._step(after, at, -bit.bit_length(), message)
            assert stepped is not None, "a message always arrives"
            after = stepped

    def _history(self, situation: Situation) -> Iterator[str]:
        steps = []
        came = self._came.get(situation)
        while came is not None:
            situation, place, number = came
            event = self._events[number] if number >= 0 else self._arrivals[-1 - number]
            steps.append(self._said(place, event))
            came = self._came[situation]
        return reversed(steps)

    def _said(self, place: int, event: Event) -> str:
        node = next(node for node, at in self._places.items() if at == place)
        return f"member {node} {event}"
