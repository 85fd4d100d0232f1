"""Observers on real processes: nodes that pull what is committed, and answer what followers do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.core.types import GroupId, NodeId, Offset
from raftlog.errors import ChangeUnfinished, NotLeader, NotYet, ObserverRefused, RaftlogError
from raftlog.machines.commands import RegisterNode, TopicInfo
from raftlog.records.batch_codec import decode_batch
from raftlog.wire.calls import (
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    GET_LAST_APPLIED,
    GET_SERVERS,
    PUT_KEY,
    READ,
    READ_HIGH_WATER_MARK,
    READ_KEYS,
    REGISTER_NODE,
    WATCH_GROUPS,
    DeleteTopicCall,
    DescribeCluster,
    GroupView,
    ReadCall,
    ReadHighWaterMark,
    WatchGroups,
)
from raftlog.wire.group_calls import GetLastApplied, GetServers
from raftlog.wire.kv_calls import PutKeyCall, ReadKeys
from tests.cluster.joining import Joined, with_observers
from tests.cluster.test_images import SETTINGS as SMALL_LOGS
from tests.cluster.test_members import ROWS, Load
from tests.cluster.waiting import leader_of


def view_of(connection: Connection, address: str, group: GroupId) -> GroupView | None:
    try:
        view = connection.ask(address, WATCH_GROUPS, WatchGroups(groups=(group,)), PATIENCE_S)
    except RaftlogError:
        return None
    return next(iter(view.groups), None)


def read_at(
    connection: Connection, address: str, topic: TopicInfo, end: int, column: str = "id"
) -> list[int]:
    """The rows [0, end) as this one node has them."""
    call = ReadCall(
        group=topic.group, incarnation=topic.incarnation, start=Offset(0), end=Offset(end),
        mark=Offset(end), field_ids=(), all_fields=True, verify=False,
    )  # fmt: skip
    found: list[int] = []
    for reply, body in connection.stream(address, READ, call, PATIENCE_S):
        batch = decode_batch(reply.batch, body, topic.schema, [column])
        found += batch.column(column).to_pylist()
    return found[:end]


def wait_at(connection: Connection, address: str, topic: TopicInfo, mark: int) -> None:
    def is_there() -> bool:
        view = view_of(connection, address, topic.group)
        return view is not None and view.high_water_mark >= mark

    wait_for(is_there, f"{address} to reach {mark}", PATIENCE_S)


def test_a_chain_three_deep_converges_under_appends_over_the_loss_of_a_parent(
    tmp_path: Path,
) -> None:
    """CHECKLIST 19, 43, 45, 54, 55."""
    with (
        with_observers(tmp_path, {4: (1, 2), 5: (4,), 6: (5,)}) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic = client.create_topic("t", "id bigint")
        deepest = cluster.address(6)
        with Load(cluster, topic) as load:
            for parent in (4, 5):
                wait_for(lambda: len(load.written) > 5 * ROWS, "appends", PATIENCE_S)
                wait_at(connection, deepest, topic, len(load.written))
                joined[parent].restart()
                so_far = len(load.written)
                wait_for(lambda at=so_far: len(load.written) > at + 5 * ROWS, "more", PATIENCE_S)
                wait_at(connection, deepest, topic, so_far)
        assert load.failed == []
        mark = len(load.written)
        views = []
        for node in (leader_of(client, "t"), 4, 5, 6):
            wait_at(connection, cluster.address(node), topic, mark)
            assert read_at(connection, cluster.address(node), topic, mark) == load.written
            views.append(view_of(connection, cluster.address(node), topic.group))
        assert [each and each.role for each in views] == ["leader"] + ["observer"] * 3
        assert len({(each.applied_index, each.state_hash) for each in views if each}) == 1
        servers = connection.ask(deepest, GET_SERVERS, GetServers(group=topic.group), PATIENCE_S)
        assert [each.node for each in servers.observers] == [4, 5, 6]
        assert {each.node for each in servers.voters} == {1, 2, 3}
        assert servers.leader == leader_of(client, "t")
        wait_for(lambda: client.members.lags() == {4: 0, 5: 0, 6: 0}, "no lag", PATIENCE_S)
        assert _levels(cluster) == [(1, 4, "1, 2", 0), (2, 5, "4", 0), (3, 6, "5", 0)]
        _remove_in_the_middle(cluster, client, connection, topic, mark)


def _levels(cluster: ProcessCluster) -> list[tuple[int, int, str, int]]:
    """What `raftlog cluster status` says of observers."""
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers]
    command += ["cluster", "status", "-o", "json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    rows = json.loads(said.stdout)["levels"]
    return [(row["level"], row["node"], row["pulls_from"], row["lag"]) for row in rows]


def _remove_in_the_middle(
    cluster: ProcessCluster, client: LogClient, connection: Connection, topic: TopicInfo, mark: int
) -> None:
    """What pulled from a node that goes, pulls from voters then; cycles are refused before."""
    with pytest.raises(ObserverRefused, match="pulls from it"):
        client.members.set_parents(4, [6])
    list(client.members.remove(5, timeout_s=PATIENCE_S))
    client.append(topic, [{"id": -1}])
    wait_at(connection, cluster.address(6), topic, mark + 1)
    nodes = {each.node: each for each in client.members.placements().nodes}
    assert sorted(nodes) == [1, 2, 3, 4, 6]
    assert (nodes[6].observer, nodes[6].parents, nodes[6].level) == (True, (), 1)
    moved = client.create_topic("wide", "id bigint", replicas=3)
    assert set(moved.voters) == {1, 2, 3}, "nothing is placed on an observer"
    client.members.add(9, cluster.address(9))
    wait_for(lambda: 9 in _known_at(connection, cluster.address(6)), "node 9", PATIENCE_S)
    controllers = connection.ask(cluster.address(6), GET_SERVERS, GetServers(group=0), PATIENCE_S)
    assert {each.node for each in controllers.voters} == {1, 2, 3}, "no log names them yet"


def test_a_lost_observer_is_replaced_by_one_that_its_children_pull_from(tmp_path: Path) -> None:
    with (
        with_observers(tmp_path, {4: (1, 2), 5: (4,)}, spare=1) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic = client.create_topic("t", "id bigint")
        client.append(topic, [{"id": each} for each in range(7)])
        joined[4].end()
        members, address = client.members, cluster.address(6)
        with pytest.raises(ChangeUnfinished, match=r"was started, and does not answer at 127\."):
            members.wait_for(4, 0.1)
        assert members.add_replacement(4, 6, address)
        register = RegisterNode(
            node=NodeId(6), store_uuid="s", address=address, rules=1, boot_id="b6"
        )
        with pytest.raises(NotLeader):  # 5 cannot have heard of it, and does not send it away
            connection.ask(cluster.address(5), REGISTER_NODE, register, PATIENCE_S)
        six = Joined(cluster.servers, 6, tmp_path / "node-6")
        try:
            members.wait_for(6, PATIENCE_S)
            assert list(members.replace(4, 6, timeout_s=PATIENCE_S)) == []
            nodes = {each.node: each for each in members.placements().nodes}
            assert sorted(nodes) == [1, 2, 3, 5, 6]
            assert (nodes[6].observer, nodes[6].parents, nodes[5].parents) == (True, (1, 2), (6,))
            assert read_at(connection, address, topic, 7) == list(range(7)), "it was filled"
            client.append(topic, [{"id": 7}])
            wait_at(connection, cluster.address(5), topic, 8)
        finally:
            six.end()


def _known_at(connection: Connection, address: str) -> list[int]:
    """The nodes that this one knows."""
    described = connection.ask(address, DESCRIBE_CLUSTER, DescribeCluster(), PATIENCE_S)
    return [each.node for each in described.nodes]


def test_an_observer_answers_what_followers_do_and_names_the_leader_for_the_rest(
    tmp_path: Path,
) -> None:
    """CHECKLIST 53, 57. It goes on with no voter left."""
    with (
        with_observers(tmp_path, {4: ()}) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic = client.create_topic("t", "id bigint")
        client.append(topic, [{"id": each} for each in range(7)])
        client.kv.put("k", b"v")
        address, leader = cluster.address(4), leader_of(client, "t")
        wait_at(connection, address, topic, 7)
        key_values = (
            connection.ask(cluster.address(1), WATCH_GROUPS, WatchGroups(groups=()), PATIENCE_S)
            .groups[-1]
            .group
        )
        group, incarnation = topic.group, topic.incarnation
        for call, request in (
            (READ_HIGH_WATER_MARK, ReadHighWaterMark(group=group, incarnation=incarnation)),
            (GET_LAST_APPLIED, GetLastApplied(group=group)),
        ):
            with pytest.raises(NotLeader) as refused:
                connection.ask(address, call, request, PATIENCE_S)
            assert (refused.value.leader, refused.value.address) == (
                leader, cluster.address(leader)
            )  # fmt: skip
        put = PutKeyCall(group=key_values, session="1", sequence=1, key="k", value=b"", expected=-1)
        with pytest.raises(NotLeader):
            connection.ask(address, PUT_KEY, put, PATIENCE_S)
        with pytest.raises(NotLeader):
            connection.ask(
                address, DELETE_TOPIC, DeleteTopicCall(name="t", incarnation=""), PATIENCE_S
            )
        keys = ReadKeys(
            group=key_values, strong=False, at_least=0, exactly=0, prefix="", start="", end="",
            limit=9,
        )  # fmt: skip

        def has_key() -> bool:
            try:
                found = connection.ask(address, READ_KEYS, keys, PATIENCE_S).keys
            except RaftlogError:
                return False
            return [(each.key, each.value) for each in found] == [("k", b"v")]

        wait_for(has_key, "the observer to have the key", PATIENCE_S)
        for node in (1, 2, 3):
            cluster.kill(node)
        joined[4].restart()
        wait_at(connection, address, topic, 7)
        assert read_at(connection, address, topic, 7) == list(range(7))
        wait_for(has_key, "the key to be read again", PATIENCE_S)
        with pytest.raises(NotYet):
            read_at(connection, address, topic, 8)


def test_an_observer_below_its_parents_logs_takes_an_image_and_serves_no_read_meanwhile(
    tmp_path: Path,
) -> None:
    """CHECKLIST 56, 50."""
    parents = {4: (1, 2, 3), 5: (4,)}
    with (
        with_observers(tmp_path, parents, settings=SMALL_LOGS) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic = client.create_topic("t", "number bigint, text string")

        def append(start: int, end: int) -> None:
            for number in range(start, end):
                client.append(topic, [{"number": number, "text": os.urandom(50_000).hex()}])

        append(0, 10)
        for node in parents:
            wait_at(connection, cluster.address(node), topic, 10)
        for node in parents:
            joined[node].end()
        view = view_of(connection, cluster.address(1), topic.group)
        assert view is not None
        append(10, 40)

        def all_dropped() -> bool:
            views = [view_of(connection, cluster.address(n), topic.group) for n in (1, 2, 3)]
            return all(each and each.log_start_index > view.last_index + 1 for each in views)

        wait_for(all_dropped, "all voters to drop their logs", PATIENCE_S)
        refused = 0
        for node in parents:
            joined[node].restart()
            log = joined[node].log
            address = cluster.address(node)

            def stands(log: Path = log, address: str = address) -> bool:
                nonlocal refused
                try:
                    assert read_at(connection, address, topic, 10, "number") == list(range(10))
                except NotYet:
                    refused += 1
                except RaftlogError:
                    pass  # it starts
                return "installed an image" in log.read_text()

            wait_for(stands, "the observer to take an image", PATIENCE_S)
            wait_at(connection, address, topic, 40)
            assert read_at(connection, address, topic, 40, "number") == list(range(40))
        assert refused, "an observer that lacks what its parents dropped serves no read"


def test_what_is_damaged_at_an_observer_comes_again_from_its_parents(tmp_path: Path) -> None:
    """CHECKLIST 54. It is told by the reader that met the damage, who reads on elsewhere."""
    with (
        with_observers(tmp_path, {4: (1, 2, 3)}) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic, address = client.create_topic("t", "id bigint, text string"), cluster.address(4)
        node = tmp_path / "node-4" / "node-4"

        def segment() -> Path:
            (only,) = (node / "groups" / str(topic.group)).glob("*.log")
            return only

        def wait_on_disk(number: int) -> None:
            wait_at(connection, address, topic, number + 1)
            # Its mark does not wait for its own disk. The body comes after the command's bounds.
            wait_for(
                lambda: segment().read_bytes().count(f"record {number}".encode()) > 1,
                f"record {number} to be written",
                PATIENCE_S,
            )

        for number in range(200):
            client.append(topic, [{"id": number, "text": f"record {number}"}])
        wait_on_disk(199)
        joined[4].restart()  # its log has been proven to here when the next append follows
        client.append(topic, [{"id": 200, "text": "record 200"}])
        wait_on_disk(200)
        joined[4].end()
        data = bytearray(segment().read_bytes())
        # In the body: what is damaged in the command before it is healed another way.
        data[data.rindex(b"record 100")] ^= 1
        segment().write_bytes(data)
        joined[4].restart()
        wait_at(connection, address, topic, 201)
        found = client.read(topic, 0, 201, mark=201, preference="observer")
        assert [each for batch in found for each in batch.column("id").to_pylist()] == list(
            range(201)
        )

        def is_healed() -> bool:
            view = view_of(connection, address, topic.group)
            return view is not None and view.damage_found == view.damage_healed == 1

        wait_for(is_healed, "the observer to heal", PATIENCE_S)
        assert read_at(connection, address, topic, 201) == list(range(201))


def test_readers_that_prefer_observers_read_there_and_elsewhere_when_none_answers(
    tmp_path: Path,
) -> None:
    with (
        with_observers(tmp_path, {4: (1, 2, 3)}) as (cluster, client, joined),
        closing(Connection(client.settings)) as connection,
    ):
        topic = client.create_topic("t", "id bigint")
        client.append(topic, [{"id": each} for each in range(50)])
        wait_at(connection, cluster.address(4), topic, 50)

        def knows_the_observer() -> bool:
            """The node that it asks may hear of the observer later than the observer serves."""
            list(client.read(topic, 0, 50, mark=50, preference="observer"))
            return bool(client._connection.observers)

        wait_for(knows_the_observer, "the client to hear of the observer", PATIENCE_S)
        for node in (1, 2, 3):
            cluster.pause(node)
        batches = list(client.read(topic, 0, 50, mark=50, preference="observer"))
        assert sum(batch.num_rows for batch in batches) == 50, "no voter was asked"
        for node in (1, 2, 3):
            cluster.resume(node)
        joined[4].end()
        client.append(topic, [{"id": 50}])
        batches = list(client.read(topic, 0, 51, mark=51, preference="observer"))
        assert sum(batch.num_rows for batch in batches) == 51
