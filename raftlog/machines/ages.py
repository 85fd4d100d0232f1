"""What a machine keeps by age: the log's own time, and names ordered by their last activity.

Ages are counted in log time, which is the same on every replica. A clock that started at each
election would start over with every new leader, and under frequent elections nothing would expire.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from sys import intern
from typing import Generic, NamedTuple, TypeVar

from raftlog.machines.columns import pack, unpack
from raftlog.machines.digest import StateDigest
from raftlog.machines.state import AgesState

KeyT = TypeVar("KeyT", bound=Hashable)


class LogClock:
    """Log time: the latest time that a leader wrote into the entries so far. It never falls."""

    __slots__ = ("now_us",)

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us
        """Microseconds since 1970 UTC; 0 before the first entry that carries a time."""

    def advance(self, timestamp_us: int) -> int:
        """Advance log time to an entry's time, unless it is later already. Returns log time."""
        self.now_us = max(self.now_us, timestamp_us)
        return self.now_us


class Ended(NamedTuple):
    """How many keys of one table an `Expire` ended, and when the youngest of them was last active.

    Both are 0 if it ended none. Times are microseconds of log time.
    """

    number: int
    active_us: int


class ByAge(Generic[KeyT]):
    """Keys ordered by when they were last active, the longest silent first. Each step is O(1)."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        # Not a plain dict: it would step over every entry removed at its front, each time.
        self._times: OrderedDict[KeyT, int] = OrderedDict()

    def restore(self, keys: Sequence[KeyT], state: AgesState) -> None:
        """Fill the empty table with what `state` gave; `keys` are those that it was given."""
        assert not self._times
        times = zip(unpack(state.keys), unpack(state.times_us), strict=True)
        self._times.update((keys[place], active_us) for place, active_us in times)

    def state(self, keys: Iterable[KeyT]) -> AgesState:
        """The table's state. `keys` are all its keys, and may be more, in an order that the caller
        gives again to `restore`."""
        places = {key: place for place, key in enumerate(keys)}
        return AgesState(
            keys=pack(array("q", [places[key] for key in self._times])),
            times_us=pack(array("q", self._times.values())),
        )

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._times

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._times)

    def touch(self, key: KeyT, now_us: int) -> None:
        """Record that `key` was active at `now_us`. It becomes the last in the order."""
        self._times[key] = now_us
        self._times.move_to_end(key)

    def drop(self, key: KeyT) -> None:
        """Forget the key; does nothing if it is not in the table."""
        self._times.pop(key, None)

    def oldest_us(self) -> int | None:
        """When the longest silent key was last active; None if the table is empty."""
        return next(iter(self._times.values()), None)

    def items(self) -> Iterable[tuple[KeyT, int]]:
        """Each key and when it was last active, the longest silent first."""
        return self._times.items()

    def silent_since(self, until_us: int) -> Iterator[tuple[KeyT, int]]:
        """Yield each key last active at or before `until_us`, oldest first, with that time.

        The caller must drop or touch each key before it asks for the next one.
        """
        while self._times:
            key, active_us = next(iter(self._times.items()))
            if active_us > until_us:
                return
            yield key, active_us


class Shares(Generic[KeyT]):
    """The keys of a table by owner, so that the owner with the most makes room for the others.

    Each owner's keys are ordered by their last activity, like all of them in the `ByAge` beside it:
    a key must be touched and dropped in both.
    """

    __slots__ = ("_keys", "_owners", "_touches")

    def __init__(self) -> None:
        self._owners: dict[KeyT, str] = {}
        self._keys: dict[str, OrderedDict[KeyT, int]] = {}
        """By owner, its keys, each with the number of its last touch: the longest silent first."""
        self._touches = 0

    def touch(self, key: KeyT, owner: str) -> None:
        """Record that `key` was active, and that it belongs to `owner` from now on."""
        self.drop(key)
        self._touches += 1
        owner = self._owners[key] = intern(owner)
        self._keys.setdefault(owner, OrderedDict())[key] = self._touches

    def drop(self, key: KeyT) -> None:
        """Forget the key; does nothing if it is not in the table."""
        owner = self._owners.pop(key, None)
        if owner is not None:
            del self._keys[owner][key]
            if not self._keys[owner]:
                del self._keys[owner]

    def owner(self, key: KeyT) -> str:
        """The key's owner. The key must be in the table."""
        return self._owners[key]

    def first_to_go(self) -> KeyT:
        """The longest silent key of the owner with the most keys, or of all owners with as many.
        The table must not be empty. O(owners)."""
        most = max(map(len, self._keys.values()))
        oldest = (next(iter(keys.items())) for keys in self._keys.values() if len(keys) == most)
        return min(oldest, key=itemgetter(1))[0]


class Forgotten:
    """The `names_max` names forgotten last, so that a name that returns is not taken for new."""

    __slots__ = ("_names", "_names_max")

    def __init__(self, names_max: int, names: Iterable[str] = ()) -> None:
        """`names` are those of a state, in its order."""
        assert names_max > 0
        self._names_max = names_max
        self._names: OrderedDict[str, None] = OrderedDict.fromkeys(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> tuple[str, ...]:
        """The names in the order in which they will be dropped."""
        return tuple(self._names)

    def add(self, name: str) -> None:
        """Remember the name. If there are too many, the one forgotten first is dropped."""
        self._names[name] = None
        if len(self._names) > self._names_max:
            self._names.popitem(last=False)

    def digest_into(self, digest: StateDigest) -> None:
        """Write the names into `digest`, in the order in which they will be dropped."""
        digest.number(len(self._names))
        for name in self._names:
            digest.text(name)
