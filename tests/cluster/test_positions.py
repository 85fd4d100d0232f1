"""Positions of reader groups and their lag, on real nodes."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator

import pytest

from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import ExitCode, InvalidOption
from raftlog.machines.commands import TopicInfo
from tests.cluster.waiting import wait_for_store
from tests.docs.pages import ROOT, blocks

EXAMPLE = ROOT / "docs" / "examples" / "consumer.py"
PAGE = ROOT / "docs" / "OPERATIONS.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster.start(tmp_path_factory.mktemp("positions") / "data") as running:
        with running.client() as first:
            wait_for_store(first)
        yield running


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def group() -> str:
    return f"group/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(client: LogClient) -> TopicInfo:
    """A topic of ten records."""
    made = client.create_topic(f"topic-{uuid.uuid4().hex[:8]}", "id bigint")
    client.append(made, [{"id": number} for number in range(10)])
    return made


def raftlog(cluster: ProcessCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, "lag", *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, text=True)


def test_a_consumer_that_is_started_again_goes_on_after_what_it_published(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo, group: str
) -> None:
    """The example of docs/OPERATIONS.md."""

    def consume() -> list[int]:
        command = [sys.executable, str(EXAMPLE), cluster.servers, topic.name, group]
        ended = subprocess.run(command, capture_output=True, timeout=60, check=True, text=True)
        return [ast.literal_eval(line)["id"] for line in ended.stdout.splitlines()]

    assert consume() == list(range(10))
    assert consume() == []
    client.append(topic, [{"id": 10}, {"id": 11}])
    assert consume() == [10, 11]
    assert textwrap.indent(blocks(PAGE, "python")[0], "    ") in EXAMPLE.read_text()


def test_the_lag_counts_what_lies_between_position_and_end(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 4, publisher="me")
    [behind] = client.positions.lag(group)
    assert (behind.position.offset, behind.position.publisher) == (4, "me")
    assert (behind.high_water_mark, behind.records_behind, behind.records_trimmed) == (10, 6, 0)
    assert behind.bytes_behind
    assert behind.seconds_behind is not None
    assert 0 <= behind.seconds_behind < 600
    client.positions.publish(group, topic, 10)
    [caught_up] = client.positions.lag(group)
    assert (caught_up.records_behind, caught_up.bytes_behind, caught_up.seconds_behind) == (0, 0, 0)


def test_records_that_were_trimmed_count_apart_from_those_behind(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 2)
    client.trim(topic, before=5)
    [behind] = client.positions.lag(group)
    assert (behind.records_behind, behind.records_trimmed) == (5, 3)


def test_a_position_means_nothing_in_a_topic_that_was_created_again(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 4)
    client.delete_topic(topic)
    [gone] = client.positions.lag(group)
    assert (gone.high_water_mark, gone.records_behind, gone.bytes_behind) == (None, None, None)
    again = client.create_topic(topic.name, "id bigint")
    assert client.positions.get(group, again) is None
    assert client.positions.lag(group) == [gone]
    client.positions.publish(group, again, 0)
    [new] = client.positions.lag(group)
    assert (new.position.incarnation, new.high_water_mark) == (again.incarnation, 0)


def test_a_group_is_forgotten_and_others_are_kept(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 1)
    client.positions.publish(f"{group}-2", topic, 2)
    assert client.positions.forget(group) == 1
    assert client.positions.forget(group) == 0
    assert list(client.positions.scan(group)) == []
    assert [each.offset for each in client.positions.scan(f"{group}-2")] == [2]


def test_arguments_that_no_position_can_have_are_refused(
    client: LogClient, topic: TopicInfo
) -> None:
    for group, offset in (("", 1), ("g" * 250, 1), ("g", -1)):
        with pytest.raises(InvalidOption):
            client.positions.publish(group, topic, offset)


def test_the_command_shows_and_forgets_a_group(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 4, publisher="me")
    shown = raftlog(cluster, group, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    [found] = json.loads(shown.stdout)
    assert (found["position"], found["records_behind"], found["publisher"]) == (4, 6, "me")
    table = raftlog(cluster, group).stdout.splitlines()
    assert table[0].split()[:2] == ["GROUP", "TOPIC"]
    assert table[1].split()[:5] == [group, topic.name, "4", "10", "6"]
    asked = raftlog(cluster, group, "--forget")
    assert asked.returncode == ExitCode.USAGE, asked.stderr
    assert raftlog(cluster, group, "--forget", "--yes").returncode == 0
    assert raftlog(cluster, group, "--forget", "--yes").returncode == ExitCode.NOT_FOUND
