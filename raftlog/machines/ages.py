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


class _Share(Generic[KeyT]):
    """What one owner has."""

    __slots__ = ("byte_count", "keys")

    def __init__(self) -> None:
        self.byte_count = 0
        self.keys: OrderedDict[KeyT, int] = OrderedDict()
        """Each with the number of its last touch: the longest silent first."""


class Shares(Generic[KeyT]):
    """The keys of a table and their bytes by owner, so that the owner with the most makes room for
    the others. All but `first_to_go` is O(1).

    Each owner's keys are ordered by their last activity, like all of them in the `ByAge` beside it:
    a key must be touched and dropped in both.
    """

    __slots__ = ("_keys", "_shares", "_touches", "byte_count")

    def __init__(self) -> None:
        self._keys: dict[KeyT, tuple[str, int]] = {}
        """The owner and the bytes of each."""
        self._shares: dict[str, _Share[KeyT]] = {}
        self._touches = 0
        self.byte_count = 0
        """Of all keys."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._keys

    def touch(self, key: KeyT, owner: str, byte_count: int) -> None:
        """Record that `key` was active just now, its owner, and its bytes from now on."""
        self.drop(key)
        self._touches += 1
        owner = intern(owner)
        self._keys[key] = owner, byte_count
        share = self._shares.setdefault(owner, _Share())
        share.keys[key] = self._touches
        share.byte_count += byte_count
        self.byte_count += byte_count

    def drop(self, key: KeyT) -> None:
        """Forget the key; does nothing if it is not in the table."""
        if key not in self._keys:
            return
        owner, byte_count = self._keys.pop(key)
        share = self._shares[owner]
        del share.keys[key]
        share.byte_count -= byte_count
        self.byte_count -= byte_count
        assert share.byte_count >= 0
        if not share.keys:
            del self._shares[owner]

    def owner(self, key: KeyT) -> str:
        """The key's owner. The key must be in the table."""
        return self._keys[key][0]

    def bytes_of(self, key: KeyT) -> int:
        """The key's bytes; 0 if it is not in the table."""
        return self._keys[key][1] if key in self._keys else 0

    def share_of(self, owner: str) -> tuple[int, int]:
        """How many keys the owner has, and their bytes."""
        share = self._shares.get(owner)
        return (len(share.keys), share.byte_count) if share is not None else (0, 0)

    def first_to_go(self, keys_max: int, bytes_max: int) -> KeyT | None:
        """The key that has to make room; None if there are neither too many nor too many bytes.

        It is the longest silent one of the owner with the most keys, or else with the most bytes,
        or of all owners with as many. O(owners)."""
        if len(self._keys) > keys_max:
            sizes = {owner: len(share.keys) for owner, share in self._shares.items()}
        elif self.byte_count > bytes_max:
            sizes = {owner: share.byte_count for owner, share in self._shares.items()}
        else:
            return None
        most = max(sizes.values())
        oldest = (
            next(iter(self._shares[owner].keys.items()))
            for owner, size in sizes.items()
            if size == most
        )
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
