"""Values of raftlog's own keys can be any bytes: they end or block no reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftlog.client.log_client
import raftlog.server.main  # noqa: F401 - every kind of value is imported
from raftlog.auth.principals import Caller
from raftlog.auth.rights import Right, topic_named
from raftlog.core.types import LogIndex, Offset
from raftlog.errors import StoredValueInvalid
from raftlog.machines.kv_commands import KeyValue
from raftlog.multiraft.unread import first_unread
from raftlog.server.kv_services import OWN_VALUES, check_own_value
from raftlog.server.meters import quotas_of
from raftlog.server.rights import grants_of
from raftlog.stored_values import NAME_MAX, NUMBER_MAX, StoredValue
from raftlog.wire.reserved_keys import QueryNote, WrittenNote, written_key
from tests.multiraft.compaction_scene import topic_of

KINDS = StoredValue.__subclasses__()
KEYS = {
    "raftlog/acl/": "raftlog/acl/token:ada/topic/t",
    "raftlog/quotas/": "raftlog/quotas/token:ada",
    "raftlog/positions/": "raftlog/positions/g/t",
    "raftlog/queries/": "raftlog/queries/1f2e/q",
    "raftlog/written/": written_key("a", "t"),
}
"""A key of each kind."""
WRONG = (
    "1e999", "-1e999", "NaN", "Infinity", "-1", "1.5", "true", "null", '"1"', '"\\ud800"', "[]",
    "{}", "[" * 2000, "9" * 4300, "9" * 3000, str(NUMBER_MAX + 1), f'"{"x" * (NAME_MAX + 776)}"',
)  # fmt: skip
"""What no value of any kind has in a place of another type."""


def valid(kind: type[StoredValue]) -> dict[str, object]:
    """A value of the kind, as JSON's objects."""
    examples: dict[str, object] = {
        "rights": ["read"],
        "limits": {"streams": 1},
        "offset": 1,
        "published_us": 1,
        "epoch": 1,
    }
    return {name: examples.get(name, "a") for name in kind.model_fields} | {"v": 1}


def hostile(kind: type[StoredValue]) -> Iterator[bytes]:
    """A valid value of the kind with one place that is wrong, and what is no value at all."""
    good = valid(kind)
    kind.decode(KEYS[kind.PREFIX], json.dumps(good).encode())
    for place in good:
        texts = {name: json.dumps(each) for name, each in good.items()}
        for wrong in WRONG:
            if wrong == '"1"' and isinstance(good[place], str):
                continue
            row = ",".join(f'"{name}":{text}' for name, text in (texts | {place: wrong}).items())
            yield f"{{{row}}}".encode()
        missing = {name: each for name, each in good.items() if name != place}
        if place != "v":
            yield json.dumps(missing).encode()
    yield json.dumps(good | {"more": 1}).encode()
    yield json.dumps(good).encode() + b" " * kind.BYTES_MAX
    yield from (b"", b"\xff", b"[" * 60_000, b'{"v":' * 60_000, b'"' + b"\\" * 60_000)


def test_leaders_know_every_kind_of_value() -> None:
    assert {kind.PREFIX for kind in KINDS} == OWN_VALUES.keys() == KEYS.keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_no_value_of_its_kind_is_refused_as_that(kind: type[StoredValue]) -> None:
    key = KEYS[kind.PREFIX]
    for value in hostile(kind):
        with pytest.raises(StoredValueInvalid) as raised:
            check_own_value(key, value)
        assert len(str(raised.value)) < 1_000, value[:80]
        assert "kv delete" not in raised.value.remedy, "what is stored may be good"


@pytest.mark.parametrize(
    "key",
    [
        written_key("b", "t"),
        written_key("a", ""),
        written_key("a", "t/t"),
        written_key("a", ".t"),
        written_key("a", "t").replace("/written/", "/written/more/"),
        written_key("a", "t").replace("/written/", "/written/0"),
        "raftlog/written/anything/t",
    ],
)
def test_the_key_of_a_writers_note_names_that_writer_and_a_topic(key: str) -> None:
    """So a writer has one note about a topic."""
    with pytest.raises(StoredValueInvalid):
        check_own_value(key, WrittenNote(writer="a", epoch=1).encode())


@pytest.mark.parametrize("key", ["raftlog/queries/", "raftlog/queries/1f2e", "raftlog/queries//q"])
def test_the_key_of_a_querys_note_names_an_incarnation_and_a_query(key: str) -> None:
    value = QueryNote(query_id="a", topic="t").encode()
    with pytest.raises(StoredValueInvalid):
        check_own_value(key, value)
    check_own_value("raftlog/queries/1f2e/", value)  # a query without a name


@pytest.mark.parametrize("prefix", KEYS)
@given(name=st.text(max_size=40), value=st.binary(max_size=200))
def test_no_key_and_no_bytes_raise_anything_else(prefix: str, name: str, value: bytes) -> None:
    try:
        check_own_value(prefix + name, value)
    except StoredValueInvalid:
        pass


def stored(prefix: str) -> list[KeyValue]:
    """Keys with all that is no value of theirs, as they were stored before leaders refused it."""
    kind = next(kind for kind in KINDS if prefix == kind.PREFIX)
    return [KeyValue(KEYS[prefix], LogIndex(1), value) for value in hostile(kind)]


def test_what_cannot_be_read_grants_nothing_and_sets_no_quota() -> None:
    assert not list(quotas_of(stored("raftlog/quotas/")))
    eve = Caller(principal="token:eve")
    assert not grants_of(stored("raftlog/acl/")).allow(eve, Right.READ, topic_named("t"))


def test_what_cannot_be_read_keeps_what_retention_keeps_of_unread_records() -> None:
    topic = replace(topic_of(1), name="t")
    for each in stored("raftlog/positions/"):
        assert first_unread([each], topic, Offset(20)) == (0, "g")
