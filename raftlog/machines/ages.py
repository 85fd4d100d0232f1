"""What a machine keeps by age: the log's own time, and names in the order of their last activity.

A clock since an election would begin again with each leader, and with frequent elections nothing
would ever be old. So ages are counted in log time, which every replica has alike.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from raftlog.machines.digest import StateDigest

KeyT = TypeVar("KeyT", bound=Hashable)


class LogClock:
    """Log time: the latest of the leaders' clocks in the entries so far. It never falls."""

    __slots__ = ("now_us", "seen_us")

    def __init__(self) -> None:
        self.now_us = 0
        """Microseconds since 1970 UTC; 0 before the first entry that carries a time."""
        self.seen_us = 0
        """The latest time of any stage: under rules 1 stages do not move log time."""

    def advance(self, timestamp_us: int) -> int:
        """Take in an entry's time; returns log time."""
        self.now_us = max(self.now_us, timestamp_us)
        return self.now_us

    def see(self, timestamp_us: int) -> None:
        """Note a stage's time without moving log time."""
        self.seen_us = max(self.seen_us, timestamp_us)


class Ended(NamedTuple):
    """What an `Expire` ended in one table, and when the youngest of it was last active."""

    number: int
    active_us: int


class ByAge(Generic[KeyT]):
    """Keys and when they were last active, the longest silent first. Every step costs O(1)."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        # An OrderedDict: what leaves at the front of a dict must be stepped over each time.
        self._times: OrderedDict[KeyT, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._times

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._times)

    def touch(self, key: KeyT, now_us: int) -> None:
        """`key` was active now, after all others."""
        self._times[key] = now_us
        self._times.move_to_end(key)

    def drop(self, key: KeyT) -> None:
        """Forget the key, if it is here."""
        self._times.pop(key, None)

    def oldest(self) -> KeyT:
        """The longest silent key; there is one."""
        return next(iter(self._times))

    def oldest_us(self) -> int | None:
        """When the longest silent key was last active; None without a key."""
        return next(iter(self._times.values()), None)

    def items(self) -> Iterable[tuple[KeyT, int]]:
        """Each key and when it was last active, the longest silent first."""
        return self._times.items()

    def silent_since(self, until_us: int) -> Iterator[tuple[KeyT, int]]:
        """Each key last active at or before `until_us`, the oldest first, with that time.

        The caller drops or touches each before it asks for the next.
        """
        while self._times:
            key, active_us = next(iter(self._times.items()))
            if active_us > until_us:
                return
            yield key, active_us


class Forgotten:
    """The last `names_max` names that were forgotten: who returns under one is no newcomer."""

    __slots__ = ("_names", "_names_max")

    def __init__(self, names_max: int) -> None:
        assert names_max > 0
        self._names_max = names_max
        self._names: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Remember the name; the one forgotten first makes room."""
        self._names[name] = None
        if len(self._names) > self._names_max:
            self._names.popitem(last=False)

    def digest_into(self, digest: StateDigest) -> None:
        """Write the names into `digest`, in the order in which they will go."""
        digest.number(len(self._names))
        for name in self._names:
            digest.text(name)
