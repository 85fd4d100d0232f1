"""Pages of a node that lies: a client neither reads them without end nor takes what it did not ask
for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, repeat

import pytest

from raftlog.core.types import GroupId, LogIndex, Offset, Term
from raftlog.errors import MalformedRequest
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.limits import VALUE_BYTES_MAX
from raftlog.wire.calls import (
    GET_ENTRIES,
    GET_LAST_APPLIED,
    GET_STATE,
    LIST_WRITERS,
    OPEN_KV,
    READ_KEYS,
    WRITERS_PER_PAGE_MAX,
    WritersReply,
    WriterView,
)
from raftlog.wire.codec import encode_reply
from raftlog.wire.group_calls import EntriesReply, LastApplied, LogEntry, StatePart
from raftlog.wire.kv_calls import KEYS_PER_PAGE_MAX, KeysReply, KvReply
from tests.client.answering import Handler, unary
from tests.client.test_doubts import STORE, client_of
from tests.client.test_reader import TOPIC

GROUP = GroupId(7)


def keys(*names: str, value_bytes: int = 0) -> KeysReply:
    found = tuple(KeyValue(name, LogIndex(1), bytes(value_bytes)) for name in names)
    return KeysReply(index=LogIndex(9), keys=found, more=True)


def rising(per_page: int) -> Iterator[list[str]]:
    """Names in order, without end."""
    return ([f"k/{page:09}-{each:04}" for each in range(per_page)] for page in count())


ENDLESS_KEYS: dict[str, Callable[[], Iterator[KeysReply]]] = {
    "large values": lambda: (keys(*page, value_bytes=VALUE_BYTES_MAX) for page in rising(50)),
    "many keys": lambda: (keys(*page) for page in rising(KEYS_PER_PAGE_MAX)),
    "empty pages": lambda: repeat(keys()),
    "the same page": lambda: repeat(keys("k/1")),
    "no order": lambda: repeat(keys("k/2", "k/1")),
    "one key twice": lambda: repeat(keys("k/1", "k/1")),
    "another prefix": lambda: repeat(keys("l")),
}


def store_of(pages: Iterator[KeysReply]) -> dict[str, Handler]:
    return {
        OPEN_KV.name: unary(lambda _: encode_reply(OPEN_KV, KvReply(kvs=(STORE,)))),
        READ_KEYS.name: unary(lambda _: encode_reply(READ_KEYS, next(pages))),
    }


@pytest.mark.slow
@pytest.mark.parametrize("pages", ENDLESS_KEYS)
def test_a_scan_of_keys_ends(pages: str) -> None:
    with client_of(store_of(ENDLESS_KEYS[pages]())) as client, pytest.raises(MalformedRequest):
        list(client.kv.scan("k/"))


def test_a_read_gives_no_key_that_was_not_asked_for() -> None:
    with client_of(store_of(repeat(keys("l")))) as client:
        with pytest.raises(MalformedRequest, match="not before"):
            client.kv.get("k")
        with pytest.raises(MalformedRequest, match="not before"):
            list(client.kv.scan(end="k"))


def test_a_page_with_more_keys_than_were_asked_for_is_not_taken() -> None:
    with (
        client_of(store_of(repeat(keys("k/1", "k/2")))) as client,
        pytest.raises(MalformedRequest, match="2 keys, of 1 at most"),
    ):
        list(client.kv.scan("k/", limit=1))


def writers(*names: str) -> WritersReply:
    found = tuple(
        WriterView(
            writer=name, kind="stream", owner="", query_id="q", run="r", last_epoch=0,
            open_epochs=0, staged_bytes=0, active_us=0, plan="", last_start=Offset(0),
            last_end=Offset(0), stream="", stream_batch=-1,
        )
        for name in names
    )  # fmt: skip
    return WritersReply(writers=found, more=True)


ENDLESS_WRITERS: dict[str, Callable[[], Iterator[WritersReply]]] = {
    "many writers": lambda: (writers(*page) for page in rising(WRITERS_PER_PAGE_MAX)),
    "empty pages": lambda: repeat(writers()),
    "the same page": lambda: repeat(writers("w")),
}


def test_a_scan_of_writers_goes_on_after_a_page_of_few() -> None:
    """Long texts fill a page."""
    last = WritersReply(writers=writers("d").writers, more=False)
    replies = iter((writers("a"), writers("b", "c"), last))
    handlers = {LIST_WRITERS.name: unary(lambda _: encode_reply(LIST_WRITERS, next(replies)))}
    with client_of(handlers) as client:
        assert [each.writer for each in client.writers.scan(TOPIC)] == ["a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("pages", ENDLESS_WRITERS)
def test_a_scan_of_writers_ends(pages: str) -> None:
    replies = ENDLESS_WRITERS[pages]()
    handlers = {LIST_WRITERS.name: unary(lambda _: encode_reply(LIST_WRITERS, next(replies)))}
    with client_of(handlers) as client, pytest.raises(MalformedRequest):
        list(client.writers.scan(TOPIC))


@pytest.mark.parametrize(("offset", "data"), [(0, b""), (0, b"x"), (2, b"x")])
def test_a_copy_of_a_state_ends(offset: int, data: bytes) -> None:
    """It goes on where the last part ended, if at all."""
    part = StatePart(
        index=LogIndex(9), term=Term(1), offset=offset, data=data, byte_count=100, crc=1
    )
    handlers = {GET_STATE.name: unary(lambda _: encode_reply(GET_STATE, part))}
    with client_of(handlers) as client, pytest.raises(MalformedRequest):
        list(client.groups.state(GROUP))


@pytest.mark.parametrize("indexes", [(), (1,), (3,), (2, 1), range(1, 2000)])
def test_a_read_of_entries_ends(indexes: tuple[int, ...]) -> None:
    found = tuple(
        LogEntry(index=LogIndex(index), term=Term(1), kind="noop", command=b"", body=b"")
        for index in indexes
    )
    reply = EntriesReply(first_index=LogIndex(1), commit_index=LogIndex(9), entries=found)
    handlers = {
        GET_LAST_APPLIED.name: unary(
            lambda _: encode_reply(GET_LAST_APPLIED, LastApplied(index=LogIndex(9)))
        ),
        GET_ENTRIES.name: unary(lambda _: encode_reply(GET_ENTRIES, reply)),
    }
    with client_of(handlers) as client, pytest.raises(MalformedRequest, match="do not follow"):
        list(client.groups.entries(GROUP))
