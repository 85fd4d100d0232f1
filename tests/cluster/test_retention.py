"""Retention from end to end: a topic's settings, and what is removed because of them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import ExitCode, InvalidOption
from raftlog.machines.settings import SETTINGS

DDL = "id bigint"
CHECKS = ("topic.retention_check_s=0.2",)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One node: these tests are not about the consensus."""
    folder = tmp_path_factory.mktemp("retention") / "data"
    with ProcessCluster.start(folder, nodes=1, settings=CHECKS) as running:
        yield running


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


def verb(cluster: ProcessCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return raftlog(cluster, "topic", *words)


def raftlog(cluster: ProcessCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def settings(cluster: ProcessCluster, *words: str) -> Any:
    ended = verb(cluster, *words, "-o", "json")
    assert ended.returncode == ExitCode.OK, ended.stderr
    return json.loads(ended.stdout)["settings"]


def test_settings_are_created_shown_changed_and_removed(cluster: ProcessCluster) -> None:
    unset = dict.fromkeys(SETTINGS)
    assert settings(cluster, "create", "plain", "--schema", DDL) == unset
    week = unset | {"retention_s": 7 * 86_400}
    words = ("create", "weekly", "--schema", DDL, "--retention-s", "7d")
    assert settings(cluster, *words) == week
    assert settings(cluster, "config", "weekly", "retention_bytes=10MiB") == week | {
        "retention_bytes": 10 * 1024**2
    }
    words = ("config", "weekly", "retention_unread_s=14d")
    assert settings(cluster, *words)["retention_unread_s"] == 14 * 86_400
    shown = verb(cluster, "config", "weekly").stdout
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["retention_s", "7d"],
        ["retention_bytes", "10MiB"],
        ["retention_records", "none", "(default)"],
        ["retention_unread_s", "14d"],
        ["retention_unread_bytes", "none", "(default)"],
    ]
    words = ("config", "weekly", *(f"{name}=none" for name in SETTINGS))
    assert settings(cluster, *words) == unset
    assert settings(cluster, "describe", "weekly") == unset


def test_a_topic_that_exists_keeps_its_settings_and_says_so(cluster: ProcessCluster) -> None:
    words = ("create", "kept", "--schema", DDL, "--if-not-exists", "--retention-s")
    said = "kept exists already, and its settings are as before: `raftlog topic config kept"
    for days, notice in (("7d", False), ("7d", False), ("8d", True)):
        ended = verb(cluster, *words, days)
        assert ended.returncode == ExitCode.OK, ended.stderr
        assert (said in ended.stderr) == notice
        assert "7d" in ended.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("retention=7d", "Option 'retention' is no setting of a topic."),
        ("retention=7", "A topic's settings are retention_s, retention_bytes, retention_records"),
        ("retention_s=7w", "one with a unit (d, h, m, s)"),
        ("retention_s", "Write NAME=VALUE, such as retention_s=7d."),
        ("retention_s=0", "on the command line none, to keep all records"),
    ],
)
def test_a_change_that_no_topic_can_have_says_what_is_possible(
    cluster: ProcessCluster, client: LogClient, change: str, said: str
) -> None:
    client.create_topic("config", DDL, if_not_exists=True)
    ended = verb(cluster, "config", "config", change)
    assert ended.returncode == ExitCode.USAGE
    assert said in ended.stderr


def test_the_client_refuses_what_is_no_setting(client: LogClient) -> None:
    client.create_topic("refused", DDL)
    for wrong in (
        {"retention": 1},
        {"retention_s": -1},
        {"retention_s": 1.5},
        {"retention_s": 0},
        ["retention_s"],
    ):
        with pytest.raises(InvalidOption):
            client.alter_topic("refused", wrong)  # type: ignore[arg-type]
    assert client.alter_topic("refused", {}).settings == ()


def append(client: LogClient, topic: str, count: int) -> None:
    """One entry for each record."""
    for _ in range(count):
        client.append(topic, [{"id": 0}])


def log_start(client: LogClient, topic: str) -> int:
    return client.read_high_water_mark(topic).log_start_offset


def test_the_newest_records_stay(client: LogClient) -> None:
    client.create_topic("counted", DDL, settings={"retention_records": 3})
    append(client, "counted", 5)
    wait_for(lambda: log_start(client, "counted") == 2, "the first trim", PATIENCE_S)
    append(client, "counted", 2)
    wait_for(lambda: log_start(client, "counted") == 4, "the second trim", PATIENCE_S)
    client.alter_topic("counted", {"retention_records": None})
    append(client, "counted", 3)
    client.alter_topic("counted", {"retention_records": 6})
    assert log_start(client, "counted") == 4
    assert sum(batch.num_rows for batch in client.read("counted")) == 6


def test_a_small_part_of_a_batch_stays_with_it_until_it_is_a_64th_of_the_topic(
    client: LogClient,
) -> None:
    client.create_topic("whole", DDL, settings={"retention_records": 640})
    client.append("whole", [{"id": each} for each in range(640)])
    append(client, "whole", 10)
    client.create_topic("other", DDL, settings={"retention_records": 1})
    append(client, "other", 2)
    wait_for(lambda: log_start(client, "other") == 1, "a later check", PATIENCE_S)
    assert log_start(client, "whole") == 0, "10 * 64 < 650"
    append(client, "whole", 1)
    wait_for(lambda: log_start(client, "whole") == 11, "the trim of a part", PATIENCE_S)
    rows = sum(batch.num_rows for batch in client.read("whole"))
    assert rows == 640
    client.alter_topic("whole", {"retention_records": 11})
    wait_for(lambda: log_start(client, "whole") == 640, "the trim of the batch", PATIENCE_S)


def test_the_newest_bytes_stay(client: LogClient) -> None:
    client.create_topic("sized", DDL)
    append(client, "sized", 10)
    each = client.read_high_water_mark("sized").record_bytes // 10
    client.alter_topic("sized", {"retention_bytes": 3 * each})
    wait_for(lambda: log_start(client, "sized") == 7, "the trim", PATIENCE_S)


def test_a_topic_that_age_has_emptied_goes_on(client: LogClient) -> None:
    client.create_topic("aged", DDL, settings={"retention_s": 1})
    with client.producer("aged") as producer:
        producer.append([{"id": 1}, {"id": 2}])
        producer.flush()
        wait_for(lambda: log_start(client, "aged") == 2, "the trim", PATIENCE_S)
        held = client.read_high_water_mark("aged")
        assert (held.high_water_mark, held.record_bytes) == (2, 0)
        client.alter_topic("aged", {"retention_s": None})
        producer.append([{"id": 3}])
    rows = [row for batch in client.read("aged", columns=["id", "_offset"]) for row in
            batch.to_pylist()]  # fmt: skip
    assert rows == [{"id": 3, "_offset": 2}]


def test_a_slow_group_holds_records_back_and_everybody_is_told_which_it_is(
    cluster: ProcessCluster, client: LogClient
) -> None:
    waiting = {"retention_records": 2, "retention_unread_s": 3_600}
    client.create_topic("waiting", DDL)
    append(client, "waiting", 6)
    client.positions.publish("slow", "waiting", 1)
    client.positions.publish("fast", "waiting", 6)
    topic = client.alter_topic("waiting", waiting)

    def held_back() -> tuple[int, int, str]:
        mark = client.watermark(topic)
        return mark.log_start_offset, mark.records_held, mark.held_for

    wait_for(lambda: held_back() == (1, 3, "slow"), "the trim and a look", PATIENCE_S)
    held = {lag.position.group: lag.records_held for lag in client.positions.lag()}
    assert held == {"slow": 3, "fast": 0}
    line = (
        "waiting keeps 3 records longer, because reader group slow has not read them. If it is "
        "gone for good: raftlog groups forget slow"
    )
    assert line in verb(cluster, "describe", "waiting").stderr
    # While a leader is elected, the status names the topic that waits for one instead.
    wait_for(
        lambda: line in raftlog(cluster, "status").stderr, "the line in the status", PATIENCE_S
    )
    row = {"topic": "waiting", "records": 3, "held_for": "slow"}

    def rows() -> object:
        return json.loads(raftlog(cluster, "status", "-o", "json").stdout)["topics_held_back"]

    wait_for(lambda: rows() == [row], "its row in the status", PATIENCE_S)
    assert raftlog(cluster, "groups", "forget", "slow", "--yes").returncode == ExitCode.OK
    wait_for(lambda: log_start(client, "waiting") == 4, "the trim without it", PATIENCE_S)
    wait_for(lambda: client.watermark(topic).records_held == 0, "a look", PATIENCE_S)
    client.positions.forget("fast")


def test_a_leader_learns_of_groups_also_if_another_node_leads_the_store(tmp_path: Path) -> None:
    with (
        ProcessCluster.start(tmp_path / "data", settings=CHECKS) as cluster,
        cluster.client() as client,
    ):
        topics = [_led_by(cluster, client, node) for node in (1, 2, 3)]
        for name in topics:
            append(client, name, 3)
            client.positions.publish("slow", name, 1)
            client.alter_topic(name, {"retention_records": 1, "retention_unread_s": 3_600})
        for name in topics:
            wait_for(lambda name=name: log_start(client, name) == 1, "the trim", PATIENCE_S)
            wait_for(
                lambda name=name: client.watermark(name).held_for == "slow", "a look", PATIENCE_S
            )
            client.positions.publish("slow", name, 3)
        for name in topics:
            wait_for(lambda name=name: log_start(client, name) == 2, "the rest", PATIENCE_S)


def test_one_clock_that_is_a_year_ahead_removes_nothing(tmp_path: Path) -> None:
    """It is the leader's. It does not stamp its records a year ahead, either."""
    program = "tests.cluster.fast_clock_node"
    with (
        ProcessCluster.start(tmp_path / "data", settings=CHECKS, program=program) as cluster,
        cluster.client() as client,
    ):
        cluster.kill(1)
        cluster.serve(1)
        kept, counted = (_led_by(cluster, client, 1) for _ in range(2))
        append(client, kept, 3)
        client.alter_topic(kept, {"retention_s": 3_600})
        append(client, counted, 2)
        client.alter_topic(counted, {"retention_records": 1})
        wait_for(lambda: log_start(client, counted) == 1, "a check of that leader", PATIENCE_S)
        cluster.wait_caught_up(client, counted)
        assert log_start(client, kept) == 0
        (last,) = [
            row["_timestamp"]
            for batch in client.read(kept, 2, columns=["_timestamp"])
            for row in batch.to_pylist()
        ]
        assert abs(last.timestamp() - time.time()) < 3_600


def _led_by(cluster: ProcessCluster, client: LogClient, node: int) -> str:
    """A new topic that the node leads."""
    for number in itertools.count():
        assert number < 100, "the node leads nothing"
        name = f"led-{uuid.uuid4().hex[:8]}"
        client.create_topic(name, DDL)
        if cluster.wait_caught_up(client, name).leader == node:
            return name
    raise AssertionError
