"""The key-value store and the events of groups, on three real nodes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.checksum import crc32c
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.errors import (
    DeadlineExceeded,
    ExitCode,
    GroupUnknown,
    IndexOverflow,
    IndexUnderflow,
    InvalidOption,
    NoSnapshot,
    VersionConflict,
)
from raftlog.machines.kv_commands import KeyChange, KeyValue
from raftlog.machines.state import KvState
from raftlog.wire.calls import (
    GET_ENTRIES,
    GET_LAST_APPLIED,
    GET_SERVERS,
    READ_KEYS,
    WATCH_KEYS,
    GroupView,
    NodeView,
)
from raftlog.wire.codec import GroupState, decode_command, decode_state
from raftlog.wire.group_calls import GetEntries, GetLastApplied, GetServers, StatePart
from raftlog.wire.kv_calls import ReadKeys, WatchKeys
from tests.cluster.waiting import leader_of_group, wait_serving


@pytest.fixture(scope="module", autouse=True)
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """Three nodes with a key-value store."""
    with shared.client() as first:
        first.kv.put("first", b"1")
    return shared


@pytest.fixture
def key() -> str:
    return f"key-{uuid.uuid4().hex[:8]}"


def raftlog(
    cluster: ProcessCluster, *words: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words]
    return subprocess.run(
        command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )


def test_a_value_is_put_read_replaced_by_version_and_deleted(client: LogClient, key: str) -> None:
    kv = client.kv
    assert kv.get(key) is None
    version = kv.put(key, b"one", expected=0)
    assert kv.get(key) == KeyValue(key, version, b"one")
    with pytest.raises(VersionConflict, match=f"has version {version}"):
        kv.put(key, b"two", expected=0)
    newer = kv.put(key, b"two", expected=version)
    assert newer > version
    assert kv.delete(key, expected=newer)
    assert not kv.delete(key)
    assert kv.get(key) is None


@pytest.mark.parametrize("consistency", ["strong", "sequential", "two-step"])
def test_every_read_sees_what_its_client_has_written(
    client: LogClient, key: str, consistency: str
) -> None:
    for number in range(20):
        client.kv.put(key, b"%d" % number)
        found = client.kv.get(key, consistency=consistency)
        assert found is not None
        assert found.value == b"%d" % number


def test_a_two_step_read_equals_the_leader_s_at_every_node(
    cluster: ProcessCluster, client: LogClient, key: str
) -> None:
    version = client.kv.put(key, b"then")
    index = client.kv.last_applied()
    assert index >= version
    client.kv.put(key, b"later")
    store = store_of(client)
    for address in cluster.servers.split(","):
        call = a_read(store, key, exactly=index)
        reply = client._connection.ask(address, READ_KEYS, call, 5)
        assert [pair.value for pair in reply.keys] == [b"then"]
        assert reply.index == index


def store_of(client: LogClient) -> int:
    group = client.kv._store(create=False)
    assert group is not None
    return group


def a_read(group: int, prefix: str, **differently: object) -> ReadKeys:
    call = ReadKeys(
        group=group, strong=False, at_least=0, exactly=0, prefix=prefix, start="", end="", limit=5
    )
    return dataclasses.replace(call, **differently)


def test_a_scan_in_pages_is_of_one_index_though_keys_change_meanwhile(
    client: LogClient, key: str
) -> None:
    for number in range(5):
        client.kv.put(f"{key}/{number}", b"before")
    found = client.kv.scan(f"{key}/", limit=5)
    first = next(found)
    client.kv.put(f"{key}/4", b"after")
    assert [first.key, *(each.key for each in found)] == [f"{key}/{n}" for n in range(5)]
    assert [p.key for p in client.kv.scan(f"{key}/", start=f"{key}/1", end=f"{key}/3")] == [
        f"{key}/1",
        f"{key}/2",
    ]
    before = client.kv.last_applied()
    client.kv.delete(f"{key}/0")
    assert len(list(client.kv.scan(f"{key}/", at=before))) == 5
    assert len(list(client.kv.scan(f"{key}/"))) == 4


def test_a_watcher_gets_each_change_once_and_resumes_at_an_index(
    client: LogClient, key: str
) -> None:
    begin = client.kv.last_applied()
    versions = [client.kv.put(f"{key}/{number}", b"x") for number in range(4)]
    client.kv.put("other", b"y")
    client.kv.delete(f"{key}/0")
    last = client.kv.put(f"{key}/4", b"x")
    seen = list(itertools.islice(client.kv.watch(f"{key}/", after=begin), 6))
    assert [each.index for each in seen[:4]] == versions
    assert (seen[4].deleted, seen[4].key) == (True, f"{key}/0")
    assert seen[5].index == last
    assert list(client.kv.watch(f"{key}/", after=last, idle_timeout_s=0.1)) == []
    resumed = client.kv.watch(f"{key}/", after=seen[1].index)
    assert list(itertools.islice(resumed, 4)) == seen[2:]


def test_a_watcher_is_told_at_once_what_another_client_writes(
    cluster: ProcessCluster, client: LogClient, key: str
) -> None:
    after = client.kv.last_applied()
    with cluster.client() as other:
        writer = threading.Timer(0.2, other.kv.put, (key, b"news"))
        writer.start()
        change = next(client.kv.watch(key, after=after))
        writer.join()
    assert (change.key, change.value, change.deleted) == (key, b"news", False)


def test_an_index_beyond_the_end_of_the_log_is_refused_and_not_only_at_the_deadline(
    client: LogClient, key: str
) -> None:
    far = client.kv.last_applied() + 1_000_000
    with pytest.raises(IndexOverflow, match=f"Index {far} is not there yet"):
        client.kv.get(key, at=far)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"key": "", "value": b""}, "key"),
        ({"key": "k" * 1025, "value": b""}, "key"),
        ({"key": "\ud800", "value": b""}, "key"),
        ({"key": 1, "value": b""}, "key"),
        ({"key": "k", "value": "text"}, "value"),
        ({"key": "k", "value": b"x" * 65_537}, "value"),
        ({"key": "k", "value": b"", "expected": -1}, "expected"),
        ({"key": "k", "value": b"", "expected": 1 << 63}, "expected"),
    ],
)
def test_an_argument_that_no_call_can_have_is_refused_at_once(
    client: LogClient, arguments: dict[str, object], named: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        client.kv.put(**arguments)
    assert refused.value.option == named


def test_no_entry_is_before_the_first(client: LogClient, key: str) -> None:
    client.kv.put(key, b"now")
    with pytest.raises(InvalidOption, match=r"Option 'at' is 0.\s+Give 1 to"):
        client.kv.get(key, at=0)


def test_a_deletion_is_seen_by_later_reads_at_any_node(client: LogClient, key: str) -> None:
    """The client knows how far a node must be that it reads from."""
    client.kv.put(key, b"value")
    written = client.kv._seen
    assert client.kv.delete(key)
    assert client.kv._seen > written
    assert client.kv.get(key, consistency="sequential") is None


def test_a_refused_write_has_seen_what_refused_it(
    cluster: ProcessCluster, client: LogClient, key: str
) -> None:
    with cluster.client() as other:
        version = other.kv.put(key, b"value")
        with pytest.raises(VersionConflict):
            client.kv.put(key, b"mine", expected=0)
        assert client.kv._seen >= version
        found = client.kv.get(key, consistency="sequential")
        assert found is not None
        assert other.kv.delete(key)
        with pytest.raises(VersionConflict):
            client.kv.put(key, b"mine", expected=version)
        assert client.kv.get(key, consistency="sequential") is None
        assert client.kv._seen > version


def test_a_key_and_a_value_as_long_as_can_be(client: LogClient) -> None:
    key, value = "\U0001f600" * 1_024, b"\xff" * 65_536
    client.kv.put(key, value)
    found = client.kv.get(key, consistency="two-step")
    assert found is not None
    assert found.value == value
    assert [pair.key for pair in client.kv.scan(key)] == [key]
    client.kv.delete(key)


def test_a_group_that_is_not_the_store_s_is_refused_whether_it_exists_or_not(
    client: LogClient, key: str
) -> None:
    live, deleted = (client.create_topic(f"{key}-{n}", "id bigint") for n in (1, 2))
    client.delete_topic(deleted.name)
    for group in (0, live.group, deleted.group, 99):
        call = a_read(group, "", strong=True)
        with pytest.raises(GroupUnknown) as refused:
            client._connection.call_leader(group, READ_KEYS, call)
        assert refused.value.group == group


def test_a_forked_child_writes_in_a_session_of_its_own(client: LogClient, key: str) -> None:
    """Else the log would take one's write for the other's, sent again."""
    client.kv.put(key, b"parent")
    session = client.kv._session
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"%r" % client.kv._session)
        os._exit(0)
    os.waitpid(child, 0)
    assert session
    assert os.read(reading, 20) == b"''"


def test_everybody_says_who_votes_and_the_leader_how_far_it_is(
    cluster: ProcessCluster, client: LogClient
) -> None:
    store = store_of(client)
    last = client._connection.call_leader(store, GET_LAST_APPLIED, GetLastApplied(group=store))
    for address in cluster.servers.split(","):
        servers = client._connection.ask(address, GET_SERVERS, GetServers(group=store), 5)
        assert sorted(node.address for node in servers.voters) == sorted(cluster.servers.split(","))
        assert servers.leader_address in cluster.servers
        assert servers.leader
        assert (servers.learners, servers.observers) == ((), ())
        assert servers.applied_index <= last.index


def test_committed_entries_are_told_by_every_node_and_no_others(
    cluster: ProcessCluster, client: LogClient, key: str
) -> None:
    store = store_of(client)
    version = client.kv.put(key, b"value")
    told = set()
    for address in cluster.servers.split(","):
        call = GetEntries(group=store, index=version, entries_max=1)
        reply = client._connection.retry(
            lambda try_s, at=address, call=call: client._connection.ask(
                at, GET_ENTRIES, call, try_s
            ),
            client._connection.deadline("the entry"),
        )
        (entry,) = reply.entries
        told.add((entry.index, entry.term, entry.kind, entry.command, entry.body))
        assert decode_command(entry.command).value == b"value"
        many = dataclasses.replace(call, index=1, entries_max=10_000)
        entries = client._connection.ask(address, GET_ENTRIES, many, 5).entries
        assert [each.index for each in entries] == list(range(1, len(entries) + 1))
        beyond = dataclasses.replace(call, index=reply.commit_index + 1_000)
        with pytest.raises(IndexOverflow):
            client._connection.ask(address, GET_ENTRIES, beyond, 5)
        with pytest.raises(IndexUnderflow) as refused:
            client._connection.ask(address, GET_ENTRIES, dataclasses.replace(call, index=0), 5)
        assert refused.value.earliest == reply.first_index == 1
    assert len(told) == 1


def test_events_tell_how_a_group_is_and_then_what_changes(client: LogClient, key: str) -> None:
    store = store_of(client)
    events = client.groups.events(store)
    first = [next(events) for _ in range(3)]
    assert [each.kind for each in first] == ["leader_changed", "voters_changed", "state_changed"]
    assert first[0].leader
    assert [node.node for node in first[1].voters] == [1, 2, 3]
    version = client.kv.put(key, b"")
    for event in events:
        assert event.kind == "state_changed"
        if event.index >= version:
            break


def test_the_commands_do_what_the_client_does(cluster: ProcessCluster, key: str) -> None:
    put = raftlog(cluster, "kv", "put", key, "-", stdin=b"a\0b")
    assert put.returncode == 0, put.stderr
    version = put.stdout.decode().strip()
    assert raftlog(cluster, "kv", "get", key).stdout == b"a\0b"
    told = json.loads(raftlog(cluster, "kv", "get", key, "-o", "json").stdout)
    assert told == {"key": key, "version": int(version), "value": "a\0b", "owner": ""}
    conflict = raftlog(cluster, "kv", "cas", key, "0", "new")
    assert conflict.returncode == ExitCode.REFUSED
    assert b"the write expects it to be absent" in conflict.stderr
    assert raftlog(cluster, "kv", "cas", key, version, "new").returncode == 0
    scanned = raftlog(cluster, "kv", "scan", key, "--consistency", "two-step").stdout.decode()
    assert scanned.split()[:3] == ["KEY", "VERSION", "VALUE"]
    assert scanned.split()[-1] == "new"
    watched = raftlog(cluster, "kv", "watch", key, "--after", str(int(version) - 1), "-n", "2")
    assert [line.split("\t")[1:] for line in watched.stdout.decode().splitlines()] == [
        ["put", key, r"a\x00b"],
        ["put", key, "new"],
    ]
    assert raftlog(cluster, "kv", "delete", key).returncode == 0
    assert raftlog(cluster, "kv", "delete", key).returncode == ExitCode.NOT_FOUND
    assert raftlog(cluster, "kv", "get", key).returncode == ExitCode.NOT_FOUND
    assert raftlog(cluster, "kv", "put", key, os.fsdecode(b"\xff")).returncode == 0
    assert raftlog(cluster, "kv", "get", key).stdout == b"\xff", "the bytes that were typed"
    no_text = raftlog(cluster, "kv", "put", os.fsdecode(b"\xff"), "x")
    assert no_text.returncode == ExitCode.USAGE
    assert b"which UTF-8 cannot hold" in no_text.stderr
    events = raftlog(cluster, "events", "-n", "2").stdout.decode().splitlines()
    assert events[0].startswith("leader_changed: node ")
    assert events[1].startswith("voters_changed: voters 1 (")
    assert raftlog(cluster, "events", "(controller)", "-n", "2").stdout.decode() == "\n".join(
        [*events, ""]
    )
    of_store = raftlog(cluster, "events", "(kv)", "-n", "1", "-o", "json")
    assert json.loads(of_store.stdout)["event"] == "leader_changed"


# ------------------------------------------------------------ kills, snapshots, elections


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes that compact after a few hundred entries."""
    settings = ["storage.snapshot_entries=100", "storage.log_behind_bytes_max=1"]
    with ProcessCluster.start(tmp_path / "data", settings=settings) as running:
        with running.client() as first:
            first.kv.put("first", b"1")
        yield running


def a_view(client: LogClient, store: int, node: int) -> GroupView:
    (answer,) = (each for each in client.views([store]) if each.node == node)
    assert isinstance(answer.answer, NodeView)
    (view,) = answer.answer.groups
    return view


@pytest.mark.slow
def test_a_node_that_missed_all_gets_the_state_and_serves_it_and_no_older_one(
    small: ProcessCluster,
) -> None:
    with small.client() as client:
        client.kv.put("kept", b"0")
        store = store_of(client)
        begin = client.kv.last_applied()
        leader = next(client.groups.events(store)).leader
        away = leader % 3 + 1
        small.kill(away)
        for number in range(1_000):
            client.kv.put(f"key-{number % 50}", b"%d" % number)
        wait_for(
            lambda: a_view(client, store, leader).log_start_index > begin + 100,
            "the log to be dropped",
            PATIENCE_S,
        )
        small.serve(away)
        index = client.kv.last_applied()
        call = a_read(store, "key-", exactly=index, limit=1_000)
        found = client._connection.retry(
            lambda try_s: client._connection.ask(small.address(away), READ_KEYS, call, try_s),
            client._connection.deadline("a read at the node that was away"),
        )
        assert found.keys == tuple(client.kv.scan("key-", at=index))
        assert {int(pair.value) for pair in found.keys} == set(range(950, 1_000))
        for _ in range(6):
            assert client.kv.get("kept", at=index) is not None
        for _ in range(6):
            assert client.kv.get("kept", at=begin) is not None, "the other nodes keep it"
            assert next(client.kv.watch("key-", after=begin)).value == b"0"
        old = dataclasses.replace(call, exactly=begin)
        with pytest.raises(IndexUnderflow) as refused:
            client._connection.ask(small.address(away), READ_KEYS, old, 5)
        assert begin < refused.value.earliest <= index
        watch = WatchKeys(group=store, prefix="", after=begin, seconds=1)
        with pytest.raises(IndexUnderflow):
            list(client._connection.stream(small.address(away), WATCH_KEYS, watch, 5))
        hashes = {a_view(client, store, node).state for node in (1, 2, 3)}
        assert "diverged" not in hashes


@pytest.mark.slow
def test_restarted_nodes_tell_states_from_before_their_snapshots(small: ProcessCluster) -> None:
    """Their machines begin with the newest snapshot: what was before is made again, and only what
    no log leads to from a snapshot is refused."""
    with small.client() as client:
        client.kv.put("key-0", b"first")
        store = store_of(client)
        then: dict[int, tuple[KeyValue, ...]] = {}
        held: dict[str, KeyValue] = {}
        for number in range(400):
            key, value = f"key-{number % 7}", b"%0300d" % number
            version = client.kv.put(key, value)
            held[key] = KeyValue(key, version, value)
            then[version] = tuple(held[each] for each in sorted(held))
        wait_for(
            lambda: all(a_view(client, store, node).log_start_index > 101 for node in (1, 2, 3)),
            "the log to be dropped at every node",
            PATIENCE_S,
        )
        for node in (1, 2, 3):
            small.kill(node)
            small.serve(node)
            wait_for(
                lambda at=node: serves(client, store, at), "the node to serve again", PATIENCE_S
            )
        newest = max(a_view(client, store, node).snapshot_index for node in (1, 2, 3))
        told = [index for index in then if index < newest and told_at(client, index, then[index])]
        assert newest - told[0] > 90, "the snapshot before the newest is kept, with its log"
        assert told[-60:] == [index for index in then if index < newest][-60:], "without a gap"
        got = raftlog(small, "kv", "get", "key-3", "--at", str(told[-1]))
        assert got.stdout == next(each.value for each in then[told[-1]] if each.key == "key-3")
        refused = raftlog(small, "kv", "get", "key-3", "--at", "1")
        assert refused.returncode == ExitCode.DATA_LOSS
        assert b"Index 1 is no longer kept: the next one here is " in refused.stderr


def serves(client: LogClient, store: int, node: int) -> bool:
    answers = {each.node: each.answer for each in client.views([store])}
    return isinstance(answers.get(node), NodeView)


def told_at(client: LogClient, index: int, expected: tuple[KeyValue, ...]) -> bool:
    try:
        found = tuple(client.kv.scan("key-", at=index))
    except IndexUnderflow:
        return False
    assert len(expected) < 7 or found == expected, index
    return True


@pytest.mark.slow
def test_a_killed_leader_is_followed_by_another_and_no_write_is_lost_or_done_twice(
    small: ProcessCluster,
) -> None:
    with small.client() as client, small.client() as other:
        client.kv.put("counter", b"0")
        store = store_of(client)
        events = other.groups.events(store)
        seen = [next(events)]
        terms = {seen[0].term}
        for round_ in range(2):
            killed = leader_of_group(client, store)
            small.kill(killed)
            for _ in range(20):
                found = client.kv.get("counter")
                assert found is not None
                client.kv.put("counter", b"%d" % (int(found.value) + 1), expected=found.version)
            while seen[-1].leader == killed:
                seen.append(next(each for each in events if each.kind == "leader_changed"))
                assert seen[-1].term not in terms, "each term is told once"
                terms.add(seen[-1].term)
            found = client.kv.get("counter", consistency="two-step")
            assert found is not None
            assert found.value == b"%d" % (20 * (round_ + 1)), "each was done, and once"
            small.serve(killed)
        terms_in_order = [each.term for each in seen]
        assert terms_in_order == sorted(terms_in_order)


@pytest.mark.slow
def test_reads_of_followers_go_on_without_a_leader_and_strong_ones_do_not(
    small: ProcessCluster,
) -> None:
    with small.client() as client:
        client.kv.put("key", b"value")
        index = client.kv.last_applied()
        left = next(client.groups.events(store_of(client))).leader % 3 + 1
        wait_for(
            lambda: a_view(client, store_of(client), left).applied_index >= index, "it", PATIENCE_S
        )
    for node in {1, 2, 3} - {left}:
        small.kill(node)
    with (
        LogClient(Connection(settings_of(small.address(left)))) as alone,
        LogClient(Connection(settings_of(small.address(left), request_timeout_s=4.0))) as hasty,
    ):
        found = alone.kv.get("key", consistency="sequential")
        assert found is not None
        assert found.value == b"value"
        assert alone.kv.get("key", at=index) == found
        with pytest.raises(DeadlineExceeded):
            hasty.kv.get("key")
        with pytest.raises(DeadlineExceeded):
            hasty.kv.get("key", consistency="two-step")


def settings_of(address: str, request_timeout_s: float = PATIENCE_S) -> ClientSettings:
    return ClientSettings(bootstrap_servers=address, request_timeout_s=request_timeout_s)


@pytest.mark.slow
def test_a_node_that_stops_ends_its_watchers_at_once_and_they_go_on_elsewhere(
    small: ProcessCluster,
) -> None:
    with small.client() as client:
        client.kv.put("key", b"1")
        index = client.kv.last_applied()
        seen: list[KeyChange] = []
        watchers = [
            threading.Thread(
                target=lambda: seen.append(next(client.kv.watch("key", after=index))), daemon=True
            )
            for _ in range(6)
        ]
        for watcher in watchers:
            watcher.start()
        small.terminate(1)
        wait_for(lambda: not small.runs(1), "the node to stop", PATIENCE_S)
        assert "calls cut off" not in small.logs[1].read_text(), "it did not wait for them"
        client.kv.put("key", b"2")
        for watcher in watchers:
            watcher.join(PATIENCE_S)
        assert [each.value for each in seen] == [b"2"] * 6


def a_large_state(client: LogClient) -> int:
    """Three parts or more, and a snapshot of it at every node. Returns the store's group."""
    store = store_of(client)
    for number in range(140):
        client.kv.put(f"large/{number % 50:02}", b"%03d" % number * 20_000)
    wait_for(
        lambda: all(a_view(client, store, node).snapshot_index > 100 for node in (1, 2, 3)),
        "a snapshot at every node",
        PATIENCE_S,
    )
    return store


def the_keys(parts: list[StatePart]) -> tuple[KeyValue, ...]:
    """What the parts say together, checked as a client checks it."""
    content = b"".join(part.data for part in parts)
    assert [part.offset for part in parts] == [
        0, *itertools.accumulate(len(part.data) for part in parts[:-1])
    ]  # fmt: skip
    assert len(content) == parts[-1].byte_count
    assert {(part.index, part.crc) for part in parts} == {(parts[0].index, crc32c(content))}
    state = decode_state(content.partition(b"\n")[2])
    assert isinstance(state, GroupState)
    assert isinstance(state.machine, KvState)
    return state.machine.keys


@pytest.mark.slow
def test_a_state_is_copied_part_by_part_while_newer_snapshots_come(small: ProcessCluster) -> None:
    with small.client() as client:
        store = a_large_state(client)
        parts = client.groups.state(store)
        copied = [next(parts)]
        assert not copied[0].done
        for number in range(400):
            client.kv.put(f"small/{number % 7}", b"later")
        wait_for(
            lambda: all(
                a_view(client, store, node).snapshot_index > copied[0].index + 200
                for node in (1, 2, 3)
            ),
            "newer snapshots at every node",
            PATIENCE_S,
        )
        copied += parts
        assert copied[-1].done
        assert the_keys(copied) == tuple(client.kv.scan("", at=copied[0].index))


@pytest.mark.slow
def test_a_copy_goes_on_at_other_nodes_and_in_another_client(small: ProcessCluster) -> None:
    with small.client() as client:
        store = a_large_state(client)
        expected = next(client.groups.state(store)).index
    copied: list[StatePart] = []
    for away in (1, 2, 3):
        with small.client() as client:
            last = copied[-1] if copied else None
            begun = {} if last is None else {
                "index": last.index, "offset": last.end, "crc": last.crc
            }  # fmt: skip
            copied.append(next(client.groups.state(store, **begun)))
        small.kill(away)
        small.serve(away)
        wait_serving(small)
    with small.client() as client:
        last = copied[-1]
        copied += client.groups.state(store, index=last.index, offset=last.end, crc=last.crc)
        assert last.index == expected
        assert the_keys(copied) == tuple(client.kv.scan("", at=expected))
        with pytest.raises(IndexUnderflow):
            next(client.groups.state(store, index=last.index, offset=1, crc=last.crc ^ 1))
        with pytest.raises(NoSnapshot, match="at index 999999 here: the newest is at"):
            next(client.groups.state(store, index=999_999))
        with pytest.raises(InvalidOption, match="offset"):
            client.groups.state(store, offset=-1)
