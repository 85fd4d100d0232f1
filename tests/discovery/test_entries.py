"""What stands in ZooKeeper is hostile input: bounded, validated, never part of a path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.discovery.entries import (
    ENTRY_BYTES_MAX,
    VOTERS_MAX,
    ClusterEntry,
    FounderEntry,
    LeaderEntry,
    NodeEntry,
    Unusable,
    can_be_announced,
    number_of,
    parse,
)

NODE = NodeEntry(node=3, cluster_id="c-1", store_uuid="a" * 32, addresses=("db3:7401",))
LEADER = LeaderEntry(
    group=7, topic="flights", cluster_id="c-1", term=4, node=3, address="[::1]:7401"
)
CLUSTER = ClusterEntry(
    cluster_id="c-1", founders=(FounderEntry(node=3, address="10.0.0.3:7401", store_uuid="t"),)
)


@pytest.mark.parametrize("entry", [NODE, LEADER, CLUSTER])
def test_an_entry_is_read_as_it_was_written_and_later_fields_are_passed_over(entry) -> None:
    assert parse(type(entry), entry.encode()) == entry
    later = {**json.loads(entry.encode()), "added": {"later": [1]}}
    assert parse(type(entry), json.dumps(later).encode()) == entry


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("node", 0),
        ("node", -1),
        ("node", 2**31),
        ("node", "3"),
        ("node", 3.0),
        ("node", None),
        ("cluster_id", ""),
        ("cluster_id", "a" * 65),
        ("cluster_id", "../../etc"),
        ("cluster_id", "a\n"),
        ("store_uuid", ["a"]),
        ("addresses", []),
        ("addresses", ["a:1"] * 5),
        ("addresses", "a:1"),
        ("addresses", ["a"]),
        ("addresses", ["a:0"]),
        ("addresses", ["a:65536"]),
        ("addresses", ["a:1\n"]),
        ("addresses", ["unix:socket:1"]),
        ("addresses", ["unix:///run/docker.sock"]),
        ("addresses", ["dns://8.8.8.8/a:1"]),
        ("addresses", ["a" * 300 + ":1"]),
        ("addresses", ["a b:1"]),
    ],
)
def test_a_value_that_no_node_writes_makes_an_entry_unusable(field: str, value: object) -> None:
    forged = {**json.loads(NODE.encode()), field: value}
    with pytest.raises(Unusable, match=field):
        parse(NodeEntry, json.dumps(forged).encode())


@pytest.mark.parametrize("term", [0, -1, 2**63, "4"])
def test_a_term_that_no_leader_has_makes_an_entry_unusable(term: object) -> None:
    forged = {**json.loads(LEADER.encode()), "term": term}
    with pytest.raises(Unusable, match="term"):
        parse(LeaderEntry, json.dumps(forged).encode())


def test_entries_are_bounded_and_reasons_do_not_repeat_them() -> None:
    with pytest.raises(Unusable, match="bytes"):
        parse(NodeEntry, NODE.encode() + b" " * ENTRY_BYTES_MAX)
    with pytest.raises(Unusable) as refused:
        parse(NodeEntry, b'{"node": 1, "cluster_id": "<script>"}')
    assert "script" not in str(refused.value)
    longest = FounderEntry(node=2**31 - 1, address="a" * 60 + ":65535", store_uuid="t" * 36)
    full = ClusterEntry(cluster_id="c" * 36, founders=(longest,) * VOTERS_MAX)
    assert parse(ClusterEntry, full.encode()) == full


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_bytes_are_an_entry_or_unusable(data: bytes) -> None:
    for kind in (NodeEntry, LeaderEntry, ClusterEntry):
        try:
            entry = parse(kind, data)
        except Unusable:
            continue
        assert isinstance(entry, kind)


@given(st.text(max_size=25))
def test_a_name_is_a_number_only_as_that_number_is_written(name: str) -> None:
    number = number_of(name)
    assert number is None or str(number) == name


def test_names_that_look_like_numbers_are_not_taken_for_them() -> None:
    assert [number_of(name) for name in ("3", "0", "03", "+3", "-3", "3/..", "٣", "9" * 20)] == [
        3, 0, None, None, None, None, None, None
    ]  # fmt: skip


def test_only_host_and_port_can_be_announced() -> None:
    assert can_be_announced("node-1.example.org:7401")
    assert can_be_announced("[fe80::1]:7401")
    assert not can_be_announced("::1:7401")
    assert not can_be_announced("host:")
