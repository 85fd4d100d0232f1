"""The calls of the key-value store, as typed values (`raftlog.wire.calls` says what a call is)."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import GroupId, LogIndex
from raftlog.errors import MalformedRequest
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv_commands import KeyChange, KeyValue
from raftlog.machines.limits import KvLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenKv:
    """Leader of the controller (linearizable): the key-value store, made if it is to be. With
    `any_node` any node that knows of it answers."""

    create: bool
    any_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KvReply:
    """The key-value store; none: there is none yet."""

    kvs: tuple[KvInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSessionCall:
    """Leader: a new session of writes, which belongs to the caller. One whose answer is lost is
    never used."""

    group: GroupId
    ends: str
    """A session of the caller's to end before; "": none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKeyCall:
    """Leader."""

    group: GroupId
    session: str
    sequence: int
    key: str
    value: bytes
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKeyCall:
    """Leader."""

    group: GroupId
    session: str
    sequence: int
    key: str
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReply:
    """A put or delete was done. 0: the key is, or was, absent."""

    version: LogIndex
    """The version that the key has now."""
    previous: LogIndex
    """The version that it had."""
    index: LogIndex
    """How far the leader has applied the log: at least this write."""


KEYS_PER_PAGE_MAX = 1_000
KEY_BYTES_PER_PAGE_MAX = 1024 * 1024
"""Keys in one `KeysReply`, and bytes of keys and values, which the last one may exceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadKeys:
    """The keys of [start, end) that begin with `prefix`; an `end` of "" is none.

    With `strong` only the leader answers, linearizably. Any other replica answers with what it has
    applied, once that is at least `at_least`. With `exactly` (0: unset) it tells the state after
    that entry, also if it has to make it again from a snapshot and the log. Raises `IndexOverflow`,
    `IndexUnderflow` if it cannot, `Overloaded` while it makes another one.
    """

    group: GroupId
    strong: bool
    at_least: LogIndex
    exactly: LogIndex
    prefix: str
    start: str
    end: str
    limit: int
    """1 or more; at most `KEYS_PER_PAGE_MAX` are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysReply:
    """The keys as they are after entry `index`. `more`: there are others after the last one."""

    index: LogIndex
    keys: tuple[KeyValue, ...]
    more: bool


class KeyPages:
    """Checks the pages of one read. The node that answers may lie, and must neither be read without
    end nor fill the reader's memory."""

    def __init__(self) -> None:
        limits = KvLimits()
        self._keys_left, self._bytes_left = limits.keys_max, limits.bytes_max

    def check(self, call: ReadKeys, page: KeysReply) -> None:
        """Raises `MalformedRequest` unless the page has keys that were asked for, in order, at
        least one if there are `more`, and all pages together no more than a store may hold."""
        least = call.start
        for each in page.keys:
            if each.key < least or not each.key.startswith(call.prefix):
                raise _wrong(f"key {each.key[:100]!r} is out of order or was not asked for")
            least = each.key + "\0"
            self._bytes_left -= len(each.key.encode()) + len(each.value)
        self._keys_left -= len(page.keys)
        if call.end and page.keys and page.keys[-1].key >= call.end:
            raise _wrong(f"key {page.keys[-1].key[:100]!r} is not before {call.end[:100]!r}")
        if len(page.keys) > call.limit or (page.more and not page.keys):
            raise _wrong(f"a page has {len(page.keys)} keys, of {call.limit} at most")
        if self._keys_left < 0 or self._bytes_left < 0:
            raise _wrong("the pages of a read have more than a key-value store holds")


def _wrong(what: str) -> MalformedRequest:
    return MalformedRequest(call=ReadKeys.__name__, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchKeys:
    """Any replica: the changes of keys that begin with `prefix` after entry `after`, as they come,
    for `seconds`. Raises `IndexUnderflow` if they are no longer kept."""

    group: GroupId
    prefix: str
    after: LogIndex
    seconds: int
    """0 to `WATCH_SECONDS_MAX`; 0: those that there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """All changes up to entry `index` that were not told before; there may be none."""

    index: LogIndex
    changes: tuple[KeyChange, ...]
