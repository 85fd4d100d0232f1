"""The key-value store's state machine: small values by key, and exactly-once writes of sessions.

A client that gets no answer sends its write again. The machine remembers the last write of each
session by a digest, with what it came to, refusals too, so a repeat gets the first outcome however
late it arrives (Raft dissertation, section 6.3). A session has one write in flight, and belongs to
the identity that opened it. When there are too many, the identity with the most sessions loses its
least recently used one, so one identity cannot end those of another.

A key belongs to the principal that wrote it last, and each principal has a share of the store: half
of the room, and for raftlog's own keys, which rights on topics allow to write, a tenth. So one
principal cannot keep all others from writing. Keys that an admin writes are in no share.

The last changes are kept besides the state, for reads at an earlier index and for watchers. They
decide no outcome and are no part of a snapshot: a machine made from one begins without any. States
before them are made again from a snapshot and the log (`raftlog.multiraft.past_states`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from enum import IntEnum
from heapq import merge
from sys import intern
from typing import ClassVar, NamedTuple, assert_never, get_args

from raftlog.core.types import NO_INDEX, LogIndex
from raftlog.machines.commands import KvCommand, Rules, SnapshotPoint
from raftlog.machines.digest import StateDigest
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv_commands import (
    ANY_VERSION,
    DeleteKey,
    KeyChange,
    KeyValue,
    KeyWrite,
    OpenSession,
    PutKey,
)
from raftlog.machines.limits import KvLimits
from raftlog.machines.outcomes import (
    KeyWritten,
    KvOutcome,
    Refused,
    RulesApplied,
    SessionOpened,
    SnapshotPointApplied,
    refused,
)
from raftlog.machines.rules import known_rules, next_rules
from raftlog.machines.state import KvState, SessionState
from raftlog.machines.validity import (
    malformed,
    problem_of_key_write,
    problem_of_session,
    problem_of_snapshot_point,
)

CHANGES_KEPT = 10_000
CHANGE_BYTES_KEPT = 16 * 1024 * 1024
"""So many changes are kept, and as many bytes of keys and values in them. No setting: a watcher
that is further behind reads the keys again."""

SYSTEM_PREFIX = "raftlog/"
"""Keys under it are raftlog's own."""

PREFIXES_WITH_RESERVE = ("raftlog/acl/", "raftlog/quotas/")
"""A part of the room is kept for these keys, so that an admin can revoke the right of a caller that
has filled the store."""
_RESERVED_PART = 10
"""One tenth."""
_SHARE_PART = 2
_OWN_SHARE_PART = 10
"""One principal's keys may take half of the room, and those under `SYSTEM_PREFIX` a tenth."""


class Result(IntEnum):
    """How a write was judged. The numbers are part of the state."""

    DONE = 0
    CONFLICT = 1
    TOO_MANY_KEYS = 2
    TOO_MANY_BYTES = 3
    TOO_MANY_KEYS_IN_SHARE = 4
    TOO_MANY_BYTES_IN_SHARE = 5


class _Last(NamedTuple):
    """The last write of a session, and what it came to."""

    sequence: int
    digest: bytes
    """Of what it asked for (`_digest`)."""
    result: Result
    version: LogIndex
    """The key's version after it."""
    previous: LogIndex
    """And before it."""


_NO_WRITE = _Last(0, b"", Result.DONE, NO_INDEX, NO_INDEX)


class _Share(NamedTuple):
    """A principal's keys of one kind."""

    owner: str
    is_own: bool
    """Whether they are raftlog's own."""


class _Change(NamedTuple):
    change: KeyChange
    before: KeyValue | None
    """None: the key was absent."""
    byte_count: int


class KvMachine:
    """The state of the key-value store's group. A refused command changes no key."""

    commands: ClassVar[frozenset[type]] = frozenset(get_args(KvCommand))

    def __init__(self, info: KvInfo, limits: KvLimits | None = None) -> None:
        self.info = info
        self.rules = known_rules(info.rules, group=info.group, index=NO_INDEX)
        self._limits = limits or KvLimits()
        self._values: dict[str, KeyValue] = {}
        self._keys: list[str] = []
        """Those of `_values` in order."""
        self._byte_count = 0
        self._share_keys: Counter[_Share] = Counter()
        self._share_bytes: Counter[_Share] = Counter()
        self._sessions: dict[str, OrderedDict[str, _Last]] = {}
        """By owner, its sessions: the longest silent first."""
        self._last_index = NO_INDEX
        self._changes: deque[_Change] = deque()
        self._change_bytes = 0
        self.changes_after = NO_INDEX
        """Every change after this entry is kept."""

    @classmethod
    def restore(cls, info: KvInfo, state: KvState, limits: KvLimits | None = None) -> KvMachine:
        """The machine with this state, after entry `state.last_index`.

        `raftlog.machines.state_validity` has checked the state. Raises `LogFromNewerVersion` if
        this program does not know the state's rules.
        """
        machine = cls(info, limits)
        machine.rules = known_rules(state.rules, group=info.group, index=state.last_index)
        machine._values = {each.key: each._replace(owner=intern(each.owner)) for each in state.keys}
        machine._keys = [each.key for each in state.keys]
        machine._byte_count = sum(map(_size, state.keys))
        for pair in machine._values.values():
            machine._count(pair, 1)
        for each in state.sessions:
            last = _Last(
                each.sequence, each.digest, Result(each.result), each.version, each.previous
            )
            machine._sessions.setdefault(each.owner, OrderedDict())[each.session] = last
        machine._last_index = machine.changes_after = state.last_index
        return machine

    def state(self) -> KvState:
        """The whole state. O(state)."""
        return KvState(
            rules=self.rules,
            last_index=self._last_index,
            keys=tuple(self._values[key] for key in self._keys),
            sessions=tuple(
                SessionState(
                    session=session,
                    owner=owner,
                    sequence=last.sequence,
                    digest=last.digest,
                    result=int(last.result),
                    version=last.version,
                    previous=last.previous,
                )
                for owner, sessions in self._sessions.items()
                for session, last in sessions.items()
            ),
        )

    # ------------------------------------------------------------ commands

    def apply(self, index: LogIndex, command: KvCommand) -> KvOutcome:
        """Apply the command of entry `index`, which is above every one before it."""
        assert index > self._last_index, f"entry {index} after entry {self._last_index}"
        self._last_index = index
        match command:
            case OpenSession():
                return self._open_session(command)
            case PutKey() | DeleteKey():
                return self._write(index, command)
            case Rules():
                self.rules = next_rules(
                    self.rules, command.version, group=self.info.group, index=index
                )
                return RulesApplied(version=self.rules)
            case SnapshotPoint():
                problem = problem_of_snapshot_point(command)
                if problem is not None:
                    return malformed("SnapshotPoint", problem)
                return SnapshotPointApplied(keep_from=command.keep_from)
            case _:
                assert_never(command)

    def _open_session(self, command: OpenSession) -> SessionOpened | Refused:
        problem = problem_of_session(command)
        if problem is not None:
            return malformed("OpenSession", problem)
        if command.ends in self._sessions.get(command.owner, {}):
            self._end_session(command.owner, command.ends)
        own = self._sessions.setdefault(command.owner, OrderedDict())
        own[command.session] = _NO_WRITE
        if sum(map(len, self._sessions.values())) > self._limits.sessions_max:
            most = max(self._sessions, key=lambda owner: len(self._sessions[owner]))
            self._end_session(most, next(iter(self._sessions[most])))
        return SessionOpened(session=command.session)

    def _end_session(self, owner: str, session: str) -> None:
        del self._sessions[owner][session]
        if not self._sessions[owner]:
            del self._sessions[owner]

    def _write(self, index: LogIndex, command: KeyWrite) -> KeyWritten | Refused:
        problem = problem_of_key_write(command)
        if problem is not None:
            return malformed(type(command).__name__, problem)
        session, sequence = command.session, command.sequence
        own = self._sessions.get(command.owner, OrderedDict())
        last = own.get(session)
        if last is None:
            return refused("UnknownSession", session=session)
        if sequence < last.sequence:
            return refused(
                "SequencePassed",
                session=session,
                sequence=sequence,
                last_sequence=last.sequence,
            )
        if sequence > last.sequence + 1:
            due = last.sequence + 1
            return refused("SequenceGap", producer=session, sequence=sequence, expected=due)
        digest = _digest(command)
        if sequence == last.sequence and digest != last.digest:
            return refused("SequenceReused", producer=session, sequence=sequence)
        own.move_to_end(session)
        if sequence > last.sequence:
            last = own[session] = self._judge(index, command, digest)
        return self._outcome(command, last)

    def _judge(self, index: LogIndex, command: KeyWrite, digest: bytes) -> _Last:
        """Do what the write asks for, if its condition holds and there is room."""
        before = self._values.get(command.key)
        found = before.version if before is not None else NO_INDEX
        after = None
        result = Result.DONE
        if command.expected not in (ANY_VERSION, found):
            result = Result.CONFLICT
        elif isinstance(command, PutKey):
            after = KeyValue(command.key, index, command.value, intern(command.share))
            result = self._room(before, after)
        if result is not Result.DONE:
            return _Last(command.sequence, digest, result, found, found)
        if before is not None or after is not None:
            self._set(index, command.key, before, after)
        version = after.version if after else NO_INDEX
        return _Last(command.sequence, digest, result, version, found)

    def _room(self, before: KeyValue | None, after: KeyValue) -> Result:
        keys_max, bytes_max = self._bounds(after.key)
        if before is None and len(self._keys) >= keys_max:
            return Result.TOO_MANY_KEYS
        if self._byte_count + _size(after) - _size(before) > bytes_max:
            return Result.TOO_MANY_BYTES
        return self._room_in_share(before, after) if after.owner else Result.DONE

    def _room_in_share(self, before: KeyValue | None, after: KeyValue) -> Result:
        share = _share_of(after)
        keys_max, bytes_max = self._share_bounds(after.key)
        if before is not None and before.owner != after.owner:
            before = None  # it is in another share
        if before is None and self._share_keys[share] >= keys_max:
            return Result.TOO_MANY_KEYS_IN_SHARE
        if self._share_bytes[share] + _size(after) - _size(before) > bytes_max:
            return Result.TOO_MANY_BYTES_IN_SHARE
        return Result.DONE

    def _share_bounds(self, key: str) -> tuple[int, int]:
        """How many keys and bytes a principal's share that the key belongs to may have."""
        keys_max, bytes_max = self._bounds("")
        part = _OWN_SHARE_PART if key.startswith(SYSTEM_PREFIX) else _SHARE_PART
        return max(1, keys_max // part), max(1, bytes_max // part)

    def _bounds(self, key: str) -> tuple[int, int]:
        """How many keys and bytes there may be after a put of the key."""
        keys_max, bytes_max = self._limits.keys_max, self._limits.bytes_max
        if key.startswith(PREFIXES_WITH_RESERVE):
            return keys_max, bytes_max
        return keys_max - keys_max // _RESERVED_PART, bytes_max - bytes_max // _RESERVED_PART

    def _set(
        self, index: LogIndex, key: str, before: KeyValue | None, after: KeyValue | None
    ) -> None:
        if after is not None:
            self._values[key] = after
            if before is None:
                insort(self._keys, key)
        else:
            del self._values[key]
            del self._keys[bisect_left(self._keys, key)]
        self._byte_count += _size(after) - _size(before)
        self._count(before, -1)
        self._count(after, 1)
        self._keep(index, key, before, after)

    def _count(self, pair: KeyValue | None, sign: int) -> None:
        """Add the key to its owner's share, or with a `sign` of -1 take it out."""
        if pair is None or not pair.owner:
            return
        share = _share_of(pair)
        self._share_keys[share] += sign
        self._share_bytes[share] += sign * _size(pair)
        if not self._share_keys[share]:
            del self._share_keys[share], self._share_bytes[share]

    def _keep(
        self, index: LogIndex, key: str, before: KeyValue | None, after: KeyValue | None
    ) -> None:
        value = after.value if after is not None else b""
        change = KeyChange(index=index, key=key, value=value, deleted=after is None)
        self._changes.append(_Change(change, before, _size(before) + _size(after)))
        self._change_bytes += self._changes[-1].byte_count
        while len(self._changes) > CHANGES_KEPT or self._change_bytes > CHANGE_BYTES_KEPT:
            dropped = self._changes.popleft()
            self._change_bytes -= dropped.byte_count
            self.changes_after = dropped.change.index

    def _outcome(self, command: KeyWrite, last: _Last) -> KeyWritten | Refused:
        match last.result:
            case Result.DONE:
                return KeyWritten(version=last.version, previous=last.previous)
            case Result.CONFLICT:
                return refused(
                    "VersionConflict",
                    key=command.key,
                    expected=command.expected,
                    found=last.previous,
                )
            case Result.TOO_MANY_KEYS | Result.TOO_MANY_BYTES:
                what, bounds = "The key-value store", self._bounds(command.key)
            case Result.TOO_MANY_KEYS_IN_SHARE | Result.TOO_MANY_BYTES_IN_SHARE:
                what = f"The share of {command.owner} in the key-value store"
                bounds = self._share_bounds(command.key)
            case _:
                assert_never(last.result)
        of_keys = last.result in (Result.TOO_MANY_KEYS, Result.TOO_MANY_KEYS_IN_SHARE)
        limit, unit = (bounds[0], "keys") if of_keys else (bounds[1], "bytes")
        return refused("TooMany", what=what, limit=limit, unit=unit)

    # ------------------------------------------------------------ queries

    def knows(self, at: LogIndex) -> bool:
        """Can the state after entry `at`, which is applied, still be told?"""
        return at >= self.changes_after

    def pairs(self, prefix: str, start: str, end: str, at: LogIndex) -> Iterator[KeyValue]:
        """The keys of [start, end) that begin with `prefix`, in order, as they were after entry
        `at`, which the machine `knows`. An `end` of "" is none."""
        assert self.knows(at), f"the changes up to {self.changes_after} are dropped"
        undone, first = self._undone(at), max(prefix, start)
        gone = sorted(key for key in undone if key not in self._values and key >= first)
        place = bisect_left(self._keys, first)
        after = (self._keys[at] for at in range(place, len(self._keys)))
        for key in merge(after, gone):
            if (end and key >= end) or not key.startswith(prefix):
                return
            found = undone[key] if key in undone else self._values.get(key)
            if found is not None:
                yield found

    def changes_since(self, at: LogIndex) -> int:
        """How many changes at most `pairs` and `changes` walk over to tell what was at entry `at`,
        which is applied. O(1)."""
        return max(0, min(self._last_index - at, len(self._changes)))

    def _undone(self, at: LogIndex) -> dict[str, KeyValue | None]:
        """What the keys that were changed after entry `at` were then."""
        undone: dict[str, KeyValue | None] = {}
        for each in reversed(self._changes):
            if each.change.index <= at:
                break
            undone[each.change.key] = each.before
        return undone

    def changes(self, after: LogIndex, prefix: str) -> list[KeyChange]:
        """The changes after entry `after`, which the machine `knows`, of keys that begin with
        `prefix`, in order."""
        assert self.knows(after), f"the changes up to {self.changes_after} are dropped"
        found = []
        for each in reversed(self._changes):
            if each.change.index <= after:
                break
            if each.change.key.startswith(prefix):
                found.append(each.change)
        found.reverse()
        return found

    def progress(self) -> dict[str, int]:
        """See `StateMachine.progress`."""
        return {"rules": self.rules, "last_index": self._last_index}

    def fingerprint(self) -> bytes:
        """A digest of the whole state. O(state)."""
        digest = StateDigest()
        digest.number(self.rules)
        digest.number(len(self._keys))
        for key in self._keys:
            digest.text(key)
            digest.number(self._values[key].version)
            digest.raw(self._values[key].value)
            digest.text(self._values[key].owner)
        for owner, sessions in self._sessions.items():
            for session, last in sessions.items():
                digest.text(owner)
                digest.text(session)
                digest.raw(last.digest)
                for number in (last.sequence, int(last.result), last.version, last.previous):
                    digest.number(number)
        return digest.finish()


def _digest(command: KeyWrite) -> bytes:
    """Of all that a write asks for."""
    digest = StateDigest()
    digest.text(type(command).__name__)
    digest.text(command.key)
    digest.number(command.expected)
    if isinstance(command, PutKey):
        digest.raw(command.value)
    return digest.finish()


def _share_of(pair: KeyValue) -> _Share:
    return _Share(pair.owner, pair.key.startswith(SYSTEM_PREFIX))


def _size(pair: KeyValue | None) -> int:
    return len(pair.key.encode()) + len(pair.value) if pair is not None else 0
