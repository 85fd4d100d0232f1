"""`LogClient.kv`: small values by key, written once each and read as strongly as is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

from raftlog.client.arguments import (
    seconds_argument,
    text_argument,
    whole_argument,
    wrong_type,
)
from raftlog.client.connection import Connection, Judge
from raftlog.client.doubts import GroupDoubts
from raftlog.client.forks import in_each_child
from raftlog.client.groups import Groups
from raftlog.client.watching import replies, watch_seconds
from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX, GroupId, LogIndex
from raftlog.errors import IndexUnderflow, InvalidOption, VersionConflict
from raftlog.machines.kv_commands import ANY_VERSION, KeyChange, KeyValue
from raftlog.machines.limits import KEY_CHARACTERS_MAX, VALUE_BYTES_MAX
from raftlog.wire.calls import (
    DELETE_KEY,
    OPEN_KV,
    OPEN_SESSION,
    PUT_KEY,
    READ_KEYS,
    WATCH_KEYS,
    PlainCall,
    Request,
)
from raftlog.wire.kv_calls import (
    KEYS_PER_PAGE_MAX,
    DeleteKeyCall,
    KeyChanges,
    KeyPages,
    KeysReply,
    OpenKv,
    OpenSessionCall,
    PutKeyCall,
    ReadKeys,
    WatchKeys,
    WriteReply,
)

Consistency = Literal["strong", "sequential", "two-step"]
"""How a read is done. `strong`: by the leader, linearizable. `sequential`: by any node, as far as
it has applied the log; never behind what this object has seen. `two-step`: the leader says how far
the log is applied, and any node tells the state there; linearizable, and the leader reads nothing.
"""


class KeyValueStore:
    """The cluster's key-value store, made with the first write. Thread-safe; usable in a forked
    child.

    It is for small things: values of at most 65,536 bytes, 100,000 keys, 64 MiB in all. Every node
    holds them in memory. Writes are done exactly once, also when an answer is lost and the client
    sends them again. One object does one write at a time: its session, by which a repeated write is
    known, has one in flight. Every call may raise `DeadlineExceeded` or `NodeUnreachable`: then a
    write may or may not have been done.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._groups = Groups(connection)
        self._group: GroupId | None = None
        self._seen = NO_INDEX
        """The highest index that a reply has told: reads never go back behind it."""
        self._saw_absent = False
        """A refusal told that a key is absent, and no index: the next read asks for one."""
        self._begin_again()
        in_each_child(self, KeyValueStore._begin_again)

    def _begin_again(self) -> None:
        """Also in a forked child: it must not number its writes as its parent does."""
        self._lock = threading.Lock()
        self._session = ""
        self._given_up = ""
        """The session before, if one of its writes may still be done."""
        self._sequence = 0

    # ------------------------------------------------------------ writing

    def put(self, key: str, value: bytes, *, expected: int | None = None) -> LogIndex:
        """Write a value. Durable on a majority when it returns.

        Args:
            key: 1 to 1,024 characters.
            value: 0 to 65,536 bytes.
            expected: Write only if the key has this version; 0: only if it is absent. Default:
                whatever version it has.

        Returns:
            The version that the key has now.

        Raises:
            VersionConflict: The key has another version than is expected.
            TooMany: The store has no room for more keys or bytes.
            UnknownSession: 10,000 other sessions wrote since this object's last write.
        """
        _check_key("key", key)
        if not isinstance(value, bytes):
            raise wrong_type("value", value, "Give bytes; encode a text first.")
        if len(value) > VALUE_BYTES_MAX:
            raise InvalidOption(
                option="value",
                problem=f"has {len(value)} bytes",
                advice=f"Give at most {VALUE_BYTES_MAX}: write what is larger to a topic.",
            )
        version = _expected(expected)
        with self._lock:
            group, session, sequence = self._next_write()
            call = PutKeyCall(
                group=group,
                session=session,
                sequence=sequence,
                key=key,
                value=value,
                expected=version,
            )
            return self._write(group, PUT_KEY, call).version

    def delete(self, key: str, *, expected: int | None = None) -> bool:
        """Remove a key. Durable on a majority when it returns.

        Args:
            key: 1 to 1,024 characters.
            expected: As for `put`.

        Returns:
            Whether it was there.

        Raises:
            VersionConflict: The key has another version than is expected.
            UnknownSession: As for `put`.
        """
        _check_key("key", key)
        version = _expected(expected)
        with self._lock:
            group, session, sequence = self._next_write()
            call = DeleteKeyCall(
                group=group, session=session, sequence=sequence, key=key, expected=version
            )
            return self._write(group, DELETE_KEY, call).previous != NO_INDEX

    def _next_write(self) -> tuple[GroupId, str, int]:
        group = self._store(create=True)
        assert group is not None, "it was created"
        if not self._session:
            call = OpenSessionCall(group=group, ends=self._given_up)
            self._session = self._connection.call_leader(group, OPEN_SESSION, call).session
            self._given_up = ""
            self._sequence = 0
        self._sequence += 1
        return group, self._session, self._sequence

    def _write(
        self, group: GroupId, call: PlainCall[Request, WriteReply], request: Request
    ) -> WriteReply:
        # Not every error has used up the number, and a write that was given up may be on its way.
        # So the next session ends this one, and the write is not done after what comes next.
        session, self._session = self._session, ""
        self._given_up = session
        try:
            written = self._connection.call_leader(group, call, request)
        except VersionConflict as conflict:
            self._session, self._given_up = session, ""
            self._seen = LogIndex(max(self._seen, conflict.found))
            self._saw_absent = self._saw_absent or not conflict.found
            raise
        self._session, self._given_up = session, ""
        self._seen = max(self._seen, written.index)
        return written

    # ------------------------------------------------------------ reading

    def get(
        self, key: str, *, consistency: Consistency = "strong", at: int | None = None
    ) -> KeyValue | None:
        """Read a key.

        Args:
            key: 1 to 1,024 characters.
            consistency: `strong`, `sequential` or `two-step`.
            at: Read the state after this entry instead, 1 or above, at any node.

        Returns:
            The key with its version and value; None if it is absent.

        Raises:
            IndexUnderflow: No node keeps the state at index `at` any more.
            IndexOverflow: The log has not got to `at` yet.
        """
        _check_key("key", key)
        reply = self._page(KeyPages(), _Range("", key, key + "\0"), 1, consistency, at)
        return reply.keys[0] if reply is not None and reply.keys else None

    def scan(
        self,
        prefix: str = "",
        *,
        start: str = "",
        end: str = "",
        limit: int | None = None,
        consistency: Consistency = "strong",
        at: int | None = None,
    ) -> Iterator[KeyValue]:
        """Read the keys of [start, end) that begin with a prefix, in order of their code points.

        All of them are as of one index, which the first page decides.

        Args:
            prefix: What the keys begin with. Default: anything.
            start: The first key. Default: the first there is.
            end: The key to stop before. Default: none.
            limit: The most keys to give: 1 or more. Default: all.
            consistency: `strong`, `sequential` or `two-step`.
            at: As for `get`.

        Yields:
            The keys with their versions and values.

        Raises:
            IndexUnderflow: No node keeps the state at the index any more.
            IndexOverflow: The log has not got to `at` yet.
        """
        for name, text in (("prefix", prefix), ("start", start), ("end", end)):
            text_argument(name, text, most=KEY_CHARACTERS_MAX)
        if limit is not None:
            whole_argument("limit", limit, least=1)
        return self._scan(_Range(prefix, start, end), limit, consistency, at)

    def _scan(
        self, wanted: _Range, limit: int | None, consistency: Consistency, at: int | None
    ) -> Iterator[KeyValue]:
        pages = KeyPages()
        while True:
            page = KEYS_PER_PAGE_MAX if limit is None else min(limit, KEYS_PER_PAGE_MAX)
            reply = self._page(pages, wanted, page, consistency, at)
            if reply is None:
                return
            yield from reply.keys
            if limit is not None:
                limit -= len(reply.keys)
            if not reply.more or limit == 0:
                return
            wanted, at = _Range(wanted.prefix, reply.keys[-1].key + "\0", wanted.end), reply.index

    def _page(
        self,
        pages: KeyPages,
        wanted: _Range,
        limit: int,
        consistency: Consistency,
        at: int | None,
    ) -> KeysReply | None:
        """None: there is no store."""
        if consistency not in get_args(Consistency):
            known = ", ".join(get_args(Consistency))
            raise InvalidOption(
                option="consistency", problem=f"is {consistency!r}", advice=f"Give one of {known}."
            )
        exactly = NO_INDEX if at is None else LogIndex(whole_argument("at", at, least=1))
        group = self._store(create=False, any_node=consistency == "sequential" or at is not None)
        if group is None:
            return None
        strong = consistency == "strong" and at is None
        if consistency == "two-step" and at is None:
            exactly = self.last_applied()
        if self._saw_absent and not strong and at is None:
            self._seen = max(self._seen, self.last_applied())
            self._saw_absent = False
        call = ReadKeys(
            group=group,
            strong=strong,
            at_least=self._seen if at is None else NO_INDEX,
            exactly=exactly,
            prefix=wanted.prefix,
            start=wanted.start,
            end=wanted.end,
            limit=limit,
        )
        if strong:
            reply = self._connection.call_leader(group, READ_KEYS, call)
        else:
            judge = GroupDoubts(self._connection, group)
            reply = self._connection.call_that_has(READ_KEYS, call, judge)
        pages.check(call, reply)
        if at is None:
            self._seen = max(self._seen, reply.index)
        return reply

    def last_applied(self) -> LogIndex:
        """Ask the leader how far the log is applied, linearizably.

        Returns:
            The index. Reads `at` it see every write that was answered before; 0: there is no store.
        """
        group = self._store(create=False)
        if group is None:
            return NO_INDEX
        return self._groups.last_applied(group)

    def watch(
        self,
        prefix: str = "",
        *,
        after: int | None = None,
        idle_timeout_s: float | None = None,
    ) -> Iterator[KeyChange]:
        """Watch the keys that begin with a prefix.

        Args:
            prefix: What the keys begin with. Default: anything.
            after: Begin with the change after this index: that of the last change that was seen, or
                of a read. Default: what happens from now on.
            idle_timeout_s: End when nothing was heard for so long. Default: never.

        Yields:
            The changes in order, each once.

        Raises:
            IndexUnderflow: No node keeps all changes after `after` any more: each keeps the last
                10,000, and none from before its last snapshot when it starts.
            IndexOverflow: The log has not got to `after` yet.
        """
        text_argument("prefix", prefix, most=KEY_CHARACTERS_MAX)
        if after is not None:
            whole_argument("after", after)
        if idle_timeout_s is not None:
            seconds_argument("idle_timeout_s", idle_timeout_s)
        group = self._store(create=True)
        assert group is not None, "it was created"
        index = self.last_applied() if after is None else LogIndex(after)
        return self._changes(group, prefix, index, idle_timeout_s)

    def _changes(
        self, group: GroupId, prefix: str, index: LogIndex, idle_timeout_s: float | None
    ) -> Iterator[KeyChange]:
        heard_s = time.monotonic()
        longest_s = watch_seconds(self._connection)
        if idle_timeout_s is not None:
            longest_s = max(0, min(longest_s, round(idle_timeout_s)))

        def request() -> WatchKeys:
            return WatchKeys(group=group, prefix=prefix, after=index, seconds=longest_s)

        judge = GroupDoubts(self._connection, group)
        for reply in _from_any_that_keeps(self._connection, request, judge):
            if reply is not None:
                index = reply.index
                for change in reply.changes:
                    heard_s = time.monotonic()
                    yield change
            if idle_timeout_s is not None and time.monotonic() - heard_s >= idle_timeout_s:
                return

    # ------------------------------------------------------------ parts

    def _store(self, *, create: bool, any_node: bool = False) -> GroupId | None:
        """The store's group, asked for once; None: there is none, and none is to be made. With
        `any_node` it takes no leader if any node that is asked knows of it."""
        if self._group is None:
            call = OpenKv(create=create, any_node=any_node)
            if any_node:
                reply = self._connection.call_any(OPEN_KV, call)
            else:
                reply = self._connection.call_leader(CONTROLLER_GROUP, OPEN_KV, call)
            self._group = reply.kvs[0].group if reply.kvs else None
        return self._group


def _from_any_that_keeps(
    connection: Connection, request: Callable[[], WatchKeys], judge: Judge
) -> Iterator[KeyChanges | None]:
    """As `replies`. A node that no longer keeps what is asked for, because it was restarted, is
    left for another; raises `IndexUnderflow` if none of them keeps it."""
    refusals = 0
    while True:
        try:
            for reply in replies(connection, WATCH_KEYS, request, judge):
                refusals = 0
                yield reply
        except IndexUnderflow:
            refusals += 1
            if refusals >= len(connection.addresses()):
                raise


class _Range(NamedTuple):
    """The keys of [start, end) that begin with `prefix`."""

    prefix: str
    start: str
    end: str


def _expected(version: object) -> int:
    return ANY_VERSION if version is None else LogIndex(whole_argument("expected", version))


def _check_key(name: str, key: object) -> None:
    if not text_argument(name, key, most=KEY_CHARACTERS_MAX):
        raise InvalidOption(option=name, problem="is empty", advice="Give 1 or more characters.")
