"""Leaders that hand their role over, on real processes and under load. CHECKLIST 71, 72."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.connect import connect
from raftlog.config import load
from raftlog.core.types import CONTROLLER_GROUP
from raftlog.errors import ChangeUnfinished, ExitCode, NotAVoter, TransferRefused
from tests.cluster.kept import Kept, NewLines
from tests.cluster.load import Load, rows_of
from tests.cluster.waiting import LEADERS_STAY, groups_led, leader_of, let_lead


@pytest.fixture(scope="module")
def _steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    settings = [LEADERS_STAY, "server.drain_timeout_s=60"]
    with Kept(tmp_path_factory.mktemp("steady"), settings=settings) as kept:
        yield kept


@pytest.fixture
def steady(_steady: Kept) -> ProcessCluster:
    """Three nodes, of which one leads another group only because of what the test does."""
    return _steady.whole()


def test_a_topic_s_leadership_goes_where_it_is_asked_under_load(cluster: ProcessCluster) -> None:
    with cluster.client() as client:
        topic = client.create_topic("moved", "id bigint")
        with Load(cluster, topic) as load:
            for to in (1, 2, 3, 2, 1, 3) * 3 + (1,):
                let_lead(client, topic.group, to)
                load.goes_on()
            let_lead(client, CONTROLLER_GROUP, 2)
            let_lead(client, CONTROLLER_GROUP, 2)
        assert load.failed == []
        assert rows_of(client, topic) == load.written


def test_what_is_in_flight_when_the_leader_changes_is_sent_again_once(
    steady: ProcessCluster,
) -> None:
    """And what comes after it goes into the log once, not first as a gap."""
    batches, in_flight = 300, 4
    with steady.client() as client:
        topic = client.create_topic("t", "text string")
        # No try ends by its own time: it would be sent again as well.
        patient = client.settings.model_copy(update={"try_timeout_s": PATIENCE_S})
        with (
            connect(settings=patient) as writer,
            writer.producer(topic, batch_bytes=1024, max_in_flight=in_flight) as producer,
        ):
            for number in range(batches):
                producer.append([{"text": f"{number:04}" * 300}])
                if number in (100, 200):
                    leader = leader_of(client, "t")
                    steady.pause(leader)  # what follows is in flight when it dies
                if number in (102, 202):
                    steady.kill(leader)
                    steady.serve(leader)
        entries = list(client.groups.entries(topic.group))
        bodies = sum(bool(entry.body) for entry in entries)
        changes = len({entry.term for entry in entries}) - 1  # a busy machine may cause others
        assert batches <= bodies <= batches + changes * in_flight


def test_a_rolling_restart_under_load_fails_no_call(steady: ProcessCluster) -> None:
    """Each node hands over what it leads before it ends."""
    lines = NewLines(steady)
    with steady.client() as client:
        topic = client.create_topic("rolled", "id bigint")
        others = [client.create_topic(f"t{number}", "id bigint") for number in range(5)]
        with Load(steady, topic) as load:
            for node in (1, 2, 3):
                for each in (topic, *others):
                    let_lead(client, each.group, node)
                steady.terminate(node)
                assert "stops as the leader" not in lines.of(node)
                # Nobody had to find out by itself: all were led elsewhere when it ended.
                assert all(leader_of(client, each.name) != node for each in (topic, *others))
                steady.serve(node)
                steady.wait_caught_up(client, "t4", timeout_s=PATIENCE_S)
                load.goes_on()
        assert load.failed == []
        assert rows_of(client, topic) == load.written


def test_leaders_are_spread_and_come_back_after_a_restart(tmp_path: Path) -> None:
    settings = ["raft.preferred_leader_delay_s=1", "raft.preferred_leader_moves_per_s_max=100"]
    with (
        ProcessCluster.start(tmp_path / "data", settings=settings) as cluster,
        cluster.client() as client,
    ):
        for number in range(5):  # with the controller's group that makes two for each node
            client.create_topic(f"t{number}", "id bigint")
        even = {1: 2, 2: 2, 3: 2}
        wait_for(lambda: groups_led(client, 1, 2, 3) == even, "leaders to be spread", PATIENCE_S)
        cluster.kill(2)
        wait_for(
            lambda: sum((groups_led(client, 1, 3) or {}).values()) == 6,
            "all groups to be led",
            PATIENCE_S,
        )
        cluster.serve(2)
        wait_for(
            lambda: groups_led(client, 1, 2, 3) == even, "leaders to be spread again", PATIENCE_S
        )


def test_a_writer_that_was_told_of_the_leader_only_outlives_it(cluster: ProcessCluster) -> None:
    """It hears no refusal that names another node, so it asks which there are."""
    with cluster.client() as client:
        topic = client.create_topic("t", "id bigint")
        leader = leader_of(client, "t")
        settings = load().client.model_copy(
            update={"bootstrap_servers": cluster.address(leader), "zookeeper": ""}
        )
        with connect(settings=settings) as told, told.producer(topic) as producer:
            producer.append_and_flush([{"id": 1}])
            cluster.kill(leader)
            producer.append_and_flush([{"id": 2}])
        assert rows_of(client, topic) == [1, 2]


def test_what_cannot_lead_is_refused_with_the_reason(steady: ProcessCluster) -> None:
    with steady.client() as client:
        alone = client.create_topic("alone", "id bigint", replicas=1)
        topic = client.create_topic("three", "id bigint")
        holder = leader_of(client, "alone")
        other = next(node for node in (1, 2, 3) if node != holder)
        with pytest.raises(NotAVoter, match=f"no vote there. These nodes have: {holder}"):
            client.members.transfer(alone.group, other, timeout_s=PATIENCE_S)
        leader = leader_of(client, "three")
        silent = next(node for node in (1, 2, 3) if node != leader)
        steady.pause(silent)
        try:
            with pytest.raises(TransferRefused, match="does not answer"):
                client.members.transfer(topic.group, silent, timeout_s=10)
            client.append("three", [{"id": 1}])  # writes were given back
            with pytest.raises(ChangeUnfinished, match="gave no answer"):
                client.members.drain(silent, timeout_s=10)
        finally:
            steady.resume(silent)
            client.members.end_drain(silent)


def test_the_command_line_transfers(steady: ProcessCluster) -> None:
    with steady.client() as client:
        topic = client.create_topic("three", "id bigint")

        def raftlog(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "raftlog", "--servers", steady.servers, *words]
            return subprocess.run(command, capture_output=True, text=True, check=False)

        for to in (1, 2, 3):
            let_lead(client, topic.group, to % 3 + 1)

            def transfers(to: int = to) -> bool:
                """On a busy machine a transfer may fail, or not last."""
                done = raftlog("cluster", "transfer", "three", "--to", str(to))
                said = (done.returncode, done.stderr.strip())
                return said == (0, f"node {to} leads three") and leader_of(client, "three") == to

            wait_for(transfers, f"node {to} to lead", PATIENCE_S)
        wait_for(
            lambda: raftlog("cluster", "transfer", "(controller)", "--to", "2").returncode == 0,
            "node 2 to lead the controller",
            PATIENCE_S,
        )
        wrong = raftlog("cluster", "transfer", "thre", "--to", "2")
        assert "Did you mean three?" in " ".join(wrong.stderr.split())
        wrong = raftlog("cluster", "transfer", "three", "--to", "9")
        assert wrong.returncode == ExitCode.REFUSED
