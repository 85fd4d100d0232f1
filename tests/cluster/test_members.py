"""Nodes that join, leave and take another's place, on real processes and under load."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.cli.cluster_folder import open_folder
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.errors import (
    AddressTaken,
    ChangeUnfinished,
    DeadlineExceeded,
    ExitCode,
    InvalidOption,
    NodeExists,
    NodeRemoved,
    NodeUnknown,
    QuorumAtRisk,
    TooFewNodes,
)
from raftlog.machines.commands import RegisterNode
from raftlog.placement import Move
from raftlog.wire.calls import REGISTER_NODE, NodeView
from tests.cluster.joining import Joined, grown
from tests.cluster.load import ROWS, Load, rows_of
from tests.cluster.waiting import groups_led


def places(client: LogClient) -> dict[str, tuple[int, ...]]:
    return {each.topic: each.voters for each in client.members.placements().groups}


SILENT_MS = 3_000
"""Longer than an election timeout, after which a node counts as silent."""


def silent_ms(client: LogClient, node: int) -> int:
    """For how long the controller's leader has not heard of the node."""
    views = [reply for _, _, reply in client.views([CONTROLLER_GROUP])]
    groups = [group for view in views if isinstance(view, NodeView) for group in view.groups]
    followers = [each for group in groups for each in group.followers]
    return next((each.contact_ms_ago for each in followers if each.node == node), 0)


def ended(cluster: ProcessCluster, node: int) -> None:
    wait_for(lambda: not cluster.runs(node), f"node {node} to end", PATIENCE_S)


def test_all_first_nodes_go_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    """CHECKLIST 44, 73 to 77 on nodes. A client that knows only the first nodes goes on."""
    with grown(tmp_path, 2) as (cluster, client, joined):
        topic = client.create_topic("moved", "id bigint", replicas=3)
        alone = client.create_topic("alone", "id bigint", replicas=1)
        client.append(alone, [{"id": 7}])
        first = client.create_topic("first", "id bigint", replicas=2)
        with Load(cluster, topic) as load:
            for node in (1, 2):
                list(client.members.remove(node, timeout_s=PATIENCE_S))
                ended(cluster, node)
            assert places(client)[""] == places(client)["moved"] == (3, 4, 5)
            assert rows_of(client, alone) == [7], "it may be on the node that is killed next"
            joined[0].restart()
            cluster.kill(3)
            so_far = len(load.written)
            wait_for(lambda: len(load.written) > so_far + 10 * ROWS, "appends to go on", PATIENCE_S)
        assert load.failed == []
        assert rows_of(client, topic) == load.written
        assert set(places(client)["first"]) <= {3, 4, 5}
        assert client.describe_topic(first).voters == places(client)["first"]
        assert set(open_folder(cluster.data).addresses) == {3}, "`up` will not start the others"


def test_a_lost_node_is_replaced_under_load(tmp_path: Path) -> None:
    with grown(tmp_path, 1) as (cluster, client, (four,)):
        topic = client.create_topic("moved", "id bigint")
        kept = client.create_topic("kept", "id bigint", replicas=1)
        client.append(kept, [{"id": 7}])
        lost = next(node for node in (1, 2, 3) if node not in places(client)["kept"])
        with Load(cluster, topic) as load:
            cluster.kill(lost)
            list(client.members.replace(lost, four.node, timeout_s=PATIENCE_S))
            so_far = len(load.written)
            wait_for(lambda: len(load.written) > so_far + 10 * ROWS, "appends to go on", PATIENCE_S)
        assert load.failed == []
        assert rows_of(client, topic) == load.written
        assert lost not in {*places(client)[""], *places(client)["moved"]}
        with pytest.raises(NodeRemoved):
            client.members.add(lost, cluster.address(lost))
        cluster.serve(lost)
        wait_for(lambda: cluster.exit_code(lost) is not None, "it to be refused", PATIENCE_S)
        assert cluster.exit_code(lost) == ExitCode.NODE_REFUSED


def test_a_group_that_comes_back_to_a_node_is_filled_again(tmp_path: Path) -> None:
    """What the node promised in it before is kept: it counts for nothing until it has the log."""
    with grown(tmp_path, 1) as (cluster, client, _):
        topic = client.create_topic("moved", "id bigint", replicas=3)
        with Load(cluster, topic) as load:
            for leaving in (1, 2, 3, 4, 1):
                group = next(g for g in client.members.placements().groups if g.topic == "moved")
                voters = tuple(node for node in (1, 2, 3, 4) if node != leaving)
                move = Move(group.group, group.topic, group.voters, voters)
                list(client.members.carry_out([move], timeout_s=PATIENCE_S))
        assert load.failed == []
        assert rows_of(client, topic) == load.written
        mark = cluster.wait_caught_up(client, "moved", timeout_s=PATIENCE_S)
        assert {each.node for each in mark.replicas} == {2, 3, 4}


def test_a_node_that_was_down_removes_what_left_it_meanwhile(tmp_path: Path) -> None:
    """It learns that from the group's log, once it is back; also where one voter remains."""
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topic = client.create_topic("t", "id bigint")
        client.append(topic, [{"id": 7}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        wait_for(lambda: silent_ms(client, 3) > SILENT_MS, "node 3 to count as silent", PATIENCE_S)
        alone = Move(topic.group, topic.name, topic.voters, topic.voters[:1])
        list(client.members.carry_out([alone], timeout_s=PATIENCE_S))
        replicas = [cluster.data / f"node-{node}" / "groups" / str(topic.group) for node in (2, 3)]
        wait_for(lambda: not replicas[0].exists(), "node 2 to remove its replica", PATIENCE_S)
        assert replicas[1].exists()
        cluster.serve(3)
        wait_for(lambda: not replicas[1].exists(), "node 3 to remove its replica", PATIENCE_S)

        def members() -> tuple[int, ...]:
            views = [view for _, _, view in client.views([topic.group])]
            groups = [g for view in views if isinstance(view, NodeView) for g in view.groups]
            return tuple(each.node for group in groups for each in group.followers)

        wait_for(lambda: members() == topic.voters[:1], "it to be taken out", PATIENCE_S)
        assert rows_of(client, topic) == [7]


def test_a_reader_that_was_told_of_former_voters_finds_the_replica(cluster: ProcessCluster) -> None:
    """The node that had it stays in the cluster, and says that the topic is elsewhere."""
    with cluster.client() as client:
        topic = client.create_topic("alone", "id bigint", replicas=1)
        client.append(topic, [{"id": 7}])
        (former,) = topic.voters
        to = NodeId(former % 3 + 1)
        move = Move(topic.group, topic.name, topic.voters, (to,))
        list(client.members.carry_out([move], timeout_s=PATIENCE_S))
        assert rows_of(client, topic) == [7]
        assert client.read_sizes(topic, 0, 1, mark=1, pieces_max=1).offsets == (0, 1)


def test_what_would_do_harm_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("three", "id bigint")
        members = client.members
        before = members.placements()
        with pytest.raises(TooFewNodes, match="needs 3 nodes, and 2 can hold"):
            list(members.remove(3, timeout_s=PATIENCE_S))
        with pytest.raises(NodeExists, match="Node 2 exists already, at"):
            members.add(2, "127.0.0.1:9")
        with pytest.raises(AddressTaken, match="is node 2's"):
            members.add(4, cluster.address(2))
        with pytest.raises(InvalidOption, match="not host:port"):
            members.add(4, "nowhere")
        for host in ("\N{SNOWMAN}", "a b", "../x"):
            with pytest.raises(InvalidOption, match="not host:port"):
                members.add(4, f"{host}:7401")
        for number in (-1, 0, 1 << 63, 10**30):
            with pytest.raises(InvalidOption, match="Give 1 to"):
                members.add(number, cluster.address(4))
            with pytest.raises(InvalidOption, match="'parents' is"):
                members.add(4, cluster.address(4), observer=True, parents=[1, number])
            for refused in (members.set_parents, members.plan_replacement):
                with pytest.raises(InvalidOption, match="'node' is"):
                    refused(number, [])
            for asked in (members.plan_removal, members.end_drain):
                with pytest.raises((InvalidOption, NodeUnknown)):
                    asked(number)
            with pytest.raises(InvalidOption, match="'to' is"):
                members.transfer(0, number, timeout_s=PATIENCE_S)
        with pytest.raises(InvalidOption, match="is 3, the node to replace"):
            list(members.replace(3, 3, timeout_s=PATIENCE_S))
        with pytest.raises(TooFewNodes, match="topic 'three' needs 3 nodes, and 2 can hold"):
            list(members.replace(3, 2, timeout_s=PATIENCE_S))
        with pytest.raises(NodeUnknown, match="Node 9 is none"):
            list(members.replace(3, 9, timeout_s=PATIENCE_S))
        with pytest.raises(TooFewNodes, match="needs 5 nodes, and 3 can hold"):
            client.create_topic("five", "id bigint", replicas=5)
        assert members.placements() == before
        assert members.add(4, cluster.address(4))
        assert not members.add(4, cluster.address(4)), "it was added before"
        for node in (1, 2, 3):
            taken = RegisterNode(
                node=NodeId(4),
                store_uuid="4" * 32,
                address=cluster.address(node),
                rules=1,
                boot_id="b4",
            )
            with (
                closing(Connection(client.settings)) as connection,
                pytest.raises(AddressTaken, match=f"is node {node}'s"),
            ):
                connection.call_leader(CONTROLLER_GROUP, REGISTER_NODE, taken)
        with pytest.raises(ChangeUnfinished, match="has not been started") as late:
            members.wait_for(4, 0.5)
        assert "--timeout-s" in late.value.remedy
        moved = Move(members.placements().groups[1].group, "three", (1, 2, 3), (2, 4))
        with pytest.raises(QuorumAtRisk, match="of its voters 2, 4, these can be reached: 2"):
            list(members.carry_out([moved], timeout_s=PATIENCE_S))
        outside = Joined(cluster.servers, 5, tmp_path / "node-5")
        assert outside.process.wait(PATIENCE_S) == ExitCode.REFUSED, "nobody added it"


def test_groups_are_spread_over_new_nodes(tmp_path: Path) -> None:
    with grown(tmp_path, 1) as (_, client, _four):
        for number in range(4):
            client.create_topic(f"t{number}", "id bigint", replicas=2)
        # Topics pass over a node that the leader has not heard yet, as it has just come.
        list(client.members.carry_out(client.members.plan_rebalance(), timeout_s=PATIENCE_S))
        held = [voters for topic, voters in places(client).items() if topic]
        assert sorted(sum(node in voters for voters in held) for node in (1, 2, 3, 4)) == [2] * 4
        more = client.members.plan_replicas(client.describe_topic("t0").group, 4)
        list(client.members.carry_out(more, timeout_s=PATIENCE_S))
        assert places(client)["t0"] == (1, 2, 3, 4)
        fewer = client.members.plan_replicas(client.describe_topic("t0").group, 1)
        list(client.members.carry_out(fewer, timeout_s=PATIENCE_S))
        assert len(places(client)["t0"]) == 1
        list(client.members.remove(4, timeout_s=PATIENCE_S))
        list(client.members.carry_out(client.members.plan_rebalance(), timeout_s=PATIENCE_S))
        assert client.members.plan_rebalance() == []


def test_the_verbs_plan_carry_out_take_back_and_tell(tmp_path: Path) -> None:
    with grown(tmp_path, 1) as (cluster, client, _four):
        client.create_topic("t", "id bigint", replicas=3)

        def run(*words: str) -> list[dict[str, Any]]:
            """The JSON documents that a verb prints, one a line."""
            command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
            assert done.returncode == 0, done.stderr
            return [json.loads(line) for line in done.stdout.splitlines()]

        (plan,) = run("cluster", "remove", "3", "--dry-run", "-o", "json")
        moves = {move["topic"]: (move["from"], move["to"]) for move in plan["moves"]}
        assert moves == {"(controller)": ([1, 2, 3], [1, 2, 4]), "t": ([1, 2, 3], [1, 2, 4])}
        assert places(client)["t"] == (1, 2, 3), "a plan changes nothing"
        told = run("cluster", "remove", "3", "--yes", "-o", "json")
        assert [(each["done"], each["total"]) for each in told] == [(1, 2), (2, 2)]
        (shown,) = run("cluster", "status", "-o", "json")
        assert [(node["node"], node["state"]) for node in shown["nodes"]] == [
            (1, "in service"), (2, "in service"), (4, "in service"),
        ]  # fmt: skip
        assert {group["state"] for group in shown["groups"]} == {"there"}
        assert run("cluster", "remove", "3", "--yes", "-o", "json") == [], "it was done before"
        assert run("cluster", "rebalance", "-o", "json") == []
        (more,) = run("topic", "replicas", "t", "2", "-o", "json")
        assert (more["topic"], len(more["to"])) == ("t", 2)


def test_two_nodes_are_replaced_at_the_same_time_under_load(tmp_path: Path) -> None:
    """Each by a command of its own, as two operators would."""
    with grown(tmp_path, 2) as (cluster, client, _):
        topics = [client.create_topic(f"t{number}", "id bigint") for number in range(3)]
        client.kv.put("k", b"v")

        def replace(old: int, new: int) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, "-m", "raftlog", "--servers", cluster.servers, "cluster",
                 "replace", str(old), "--with", str(new), "--address", cluster.address(new),
                 "--yes"],
                stderr=subprocess.PIPE,
                text=True,
            )  # fmt: skip

        with Load(cluster, topics[0]) as load:
            for command in [replace(1, 4), replace(2, 5)]:
                _, told = command.communicate(timeout=PATIENCE_S)
                assert command.returncode == ExitCode.OK, told
            so_far = len(load.written)
            wait_for(lambda: len(load.written) > so_far + 10 * ROWS, "appends to go on", PATIENCE_S)
        assert load.failed == []
        assert set(places(client).values()) == {(3, 4, 5)}
        assert [each.node for each in client.members.placements().nodes] == [3, 4, 5]
        assert rows_of(client, topics[0]) == load.written
        for node in (1, 2):
            ended(cluster, node)


def test_a_removal_that_cannot_end_is_taken_back(tmp_path: Path) -> None:
    """The node that takes the places is gone before it is filled."""
    with grown(tmp_path, 1) as (_, client, (four,)):
        topic = client.create_topic("t", "id bigint", replicas=3)
        client.append(topic, [{"id": 1}])
        moves = client.members.plan_removal(3)
        four.end()
        wait_for(lambda: silent_ms(client, four.node) > SILENT_MS, "it to be missed", PATIENCE_S)
        with pytest.raises(DeadlineExceeded, match="node 4 does not answer"):
            list(client.members.carry_out(moves, timeout_s=3))
        assert not all(each.reached for each in client.members.placements().groups)
        list(client.members.keep(3, timeout_s=PATIENCE_S))
        (stays,) = (each for each in client.members.placements().nodes if each.node == 3)
        assert (stays.draining, stays.leaving) == (False, False)
        assert places(client)["t"] == places(client)[""] == (1, 2, 3)
        assert all(each.reached for each in client.members.placements().groups)
        assert rows_of(client, topic) == [1]


def test_a_lost_node_to_which_groups_move_is_removed(tmp_path: Path) -> None:
    """They stay where they were."""
    with grown(tmp_path, 1) as (_, client, (four,)):
        topic = client.create_topic("t", "id bigint", replicas=3)
        client.append(topic, [{"id": 1}])
        group = client.describe_topic("t").group
        four.end()
        move = Move(group, "t", (1, 2, 3), (1, 2, four.node))
        with pytest.raises(ChangeUnfinished):
            list(client.members.carry_out([move], timeout_s=2))
        list(client.members.remove(four.node, timeout_s=PATIENCE_S))
        assert places(client)["t"] == (1, 2, 3)
        assert [each.node for each in client.members.placements().nodes] == [1, 2, 3]
        assert rows_of(client, topic) == [1]


def test_a_drained_node_leads_nothing_also_after_a_restart(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topics = [client.create_topic(f"t{number}", "id bigint") for number in range(6)]
        with Load(cluster, topics[0]) as load:
            for node in (1, 2):
                client.members.drain(node, timeout_s=PATIENCE_S)
            wait_for(
                lambda: groups_led(client, 1, 2) == {1: 0, 2: 0},
                "node 3 to lead all",
                PATIENCE_S,
            )
            cluster.terminate(1)
            cluster.serve(1)
            cluster.terminate(2)
            cluster.serve(2)
            cluster.wait_caught_up(client, "t5", timeout_s=PATIENCE_S)
            wait_for(
                lambda: groups_led(client, 1, 2) == {1: 0, 2: 0},
                "node 3 to lead all",
                PATIENCE_S,
            )
            list(client.members.keep(1, timeout_s=PATIENCE_S))  # nobody removes it: nothing to end
            assert [e.node for e in client.members.placements().nodes if e.draining]
            client.members.end_drain(1)
            cluster.kill(3)
            so_far = len(load.written)
            wait_for(lambda: len(load.written) > so_far + 10 * ROWS, "appends to go on", PATIENCE_S)
        assert load.failed == []
        assert rows_of(client, topics[0]) == load.written
        wait_for(lambda: groups_led(client, 1) == {1: 7}, "node 1 to lead all", PATIENCE_S)


def test_new_topics_are_put_on_nodes_that_answer(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data", nodes=4) as cluster, cluster.client() as client:
        cluster.kill(4)
        wait_for(lambda: silent_ms(client, 4) > SILENT_MS, "node 4 to be missed", PATIENCE_S)
        made = [client.create_topic(f"later-{each}", "id bigint") for each in range(4)]
        assert [each.voters for each in made] == [(1, 2, 3)] * 4
        everywhere = client.create_topic("everywhere", "id bigint", replicas=4)
        assert everywhere.voters == (1, 2, 3, 4), "it may come back"
