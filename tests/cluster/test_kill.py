"""Real node processes killed with -9 under load: what was acknowledged is there, once, in order."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.errors import RaftlogError
from tests.cluster.kept import NewLines
from tests.cluster.load import NumberedLoad, numbers_in
from tests.cluster.waiting import leader_of

ACKNOWLEDGED_MIN = 300
"""A load that acknowledges fewer has stalled and proves nothing."""

SAME_LEADER_MAX = 20
"""With so many topics, all are led by the first one's leader only once in a billion times."""


def test_a_killed_leader_loses_duplicates_and_reorders_nothing(cluster: ProcessCluster) -> None:
    """CHECKLIST 24, 25, 26, 27, 31."""
    with cluster.client() as client:
        client.create_topic("load", "number bigint")
        with NumberedLoad(client, "load") as load:
            for _ in range(3):
                load.wait_for_more(100)
                leader = leader_of(client, "load")
                cluster.kill(leader)
                load.wait_for_more(100)
                cluster.serve(leader)
                cluster.wait_caught_up(client, "load", lag_entries_max=50)
        load.check(client, acknowledged_min=ACKNOWLEDGED_MIN)


def test_a_crash_of_native_code_leaves_in_the_log_where_it_happened(
    cluster: ProcessCluster,
) -> None:
    lines = NewLines(cluster)
    os.kill(cluster.pids[1], signal.SIGSEGV)
    wait_for(lambda: not cluster.runs(1), "the node to end", PATIENCE_S)
    log = lines.of(1)
    assert "Segmentation fault" in log
    assert "raftlog/server/main.py" in log


def test_a_killed_follower_stops_no_write_and_catches_up(cluster: ProcessCluster) -> None:
    """CHECKLIST 13, 14, 29."""
    with cluster.client() as client:
        client.create_topic("load", "number bigint")
        with NumberedLoad(client, "load") as load:
            load.wait_for_more(100)
            follower = leader_of(client, "load") % 3 + 1
            cluster.kill(follower)
            load.wait_for_more(300)
            cluster.serve(follower)
            mark = cluster.wait_caught_up(client, "load", lag_entries_max=50)
        assert mark.high_water_mark >= 400
        load.check(client, acknowledged_min=ACKNOWLEDGED_MIN)


def test_nodes_stopped_one_after_another_fail_no_write_and_end_cleanly(
    cluster: ProcessCluster,
) -> None:
    """A rolling restart: writes in flight finish before the logs are closed."""
    lines = NewLines(cluster)
    with cluster.client() as client, contextlib.ExitStack() as stack:
        names = [f"load-{each}" for each in range(4)]
        for name in names:
            client.create_topic(name, "number bigint")
        loads = [stack.enter_context(NumberedLoad(client, name)) for name in names]
        for node in (1, 2, 3):
            loads[0].wait_for_more(20)
            cluster.terminate(node)
            cluster.serve(node)
            for name in names:
                cluster.wait_caught_up(client, name, lag_entries_max=50)
    for load in loads:
        assert not load.failed
        assert load.acknowledged
    for node in cluster.pids:
        assert lines.of(node).count('"stopping"') == 1
        assert "Traceback" not in lines.of(node)


def test_all_nodes_killed_at_once_come_back_with_every_acknowledged_record(
    cluster: ProcessCluster,
) -> None:
    """CHECKLIST 21, 29, 77: two of three down refuse writes, and nothing acknowledged is lost."""
    with cluster.client() as client, NumberedLoad(client, "load") as load:
        client.create_topic("load", "number bigint")
        for _ in range(2):
            load.wait_for_more(200)
            for node in (1, 2, 3):
                cluster.kill(node)
            for node in (1, 2, 3):
                cluster.serve(node)
            load.wait_for_more(50)
    with cluster.client() as client:
        cluster.wait_caught_up(client, "load")
        load.failed = [text for text in load.failed if "There is no topic" not in text]
        load.check(client, acknowledged_min=ACKNOWLEDGED_MIN)
        for node in (1, 2, 3):
            cluster.kill(node)
        with cluster.client(request_timeout_s=1.0) as hasty, pytest.raises(RaftlogError):
            hasty.append("load", [{"number": -1}])


def test_a_deleted_topic_stays_deleted_on_a_node_that_was_down_meanwhile(
    cluster: ProcessCluster,
) -> None:
    """Replicas end only by the controller's log, however late a node applies it."""
    with cluster.client() as client:
        former = client.create_topic("load", "number bigint")
        client.append("load", [{"number": 1}])
        cluster.wait_caught_up(client, "load")
        cluster.kill(2)
        client.delete_topic("load")
        latter = client.create_topic("load", "number bigint")
        client.append("load", [{"number": 2}])
        cluster.serve(2)
        cluster.wait_caught_up(client, "load")
        groups = cluster.data / "node-2" / "groups"
        wait_for(
            lambda: not (groups / str(former.group)).exists(),
            f"group {former.group} to be gone",
            PATIENCE_S,
        )
        assert (groups / str(latter.group)).is_dir()
        assert numbers_in(client, "load") == [2]
        cluster.kill(2)
        cluster.serve(2)
        cluster.wait_caught_up(client, "load")


def test_one_topics_failover_does_not_affect_another_topic(cluster: ProcessCluster) -> None:
    """CHECKLIST 20."""
    with cluster.client() as client:
        client.create_topic(hit := "hit", "number bigint")
        doomed = leader_of(client, hit)
        # Which node leads is random.
        for number in range(SAME_LEADER_MAX):
            client.create_topic(spared := f"spared-{number}", "number bigint")
            if leader_of(client, spared) != doomed:
                break
        else:
            pytest.fail(f"node {doomed} was elected for every topic")
        cluster.kill(doomed)
        client.append(spared, [{"number": 1}])
        client.append(hit, [{"number": 2}])
        for name in (spared, hit):
            assert leader_of(client, name) != doomed


def test_records_below_a_known_mark_are_read_without_a_leader(cluster: ProcessCluster) -> None:
    """CHECKLIST 67."""
    with cluster.client() as client:
        topic = client.create_topic("load", "number bigint")
        client.append("load", [{"number": 7}])
        cluster.wait_caught_up(client, "load")
        wait_for(
            lambda: all(each.high_water_mark == 1 for each in client.watermark(topic).replicas),
            "every replica to serve the record",
            PATIENCE_S,
        )
        for node in (1, 2):
            cluster.kill(node)
        wait_for(
            lambda: client.watermark(topic).leader == 0, "the last node to give up", PATIENCE_S
        )
        (batch,) = client.read(topic, 0, 1, mark=1)
        assert batch.to_pylist() == [{"number": 7}]
        with cluster.client(request_timeout_s=1.0) as hasty, pytest.raises(RaftlogError):
            hasty.read_high_water_mark(topic)
