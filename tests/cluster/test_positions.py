"""Positions of reader groups and their lag, on real nodes."""

from __future__ import annotations

import ast
import json
import runpy
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from raftlog import GroupStart
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.client.positions import SPARK_PUBLISHER
from raftlog.core.types import NO_INDEX, Offset
from raftlog.errors import (
    DataLoss,
    EpochContentMismatch,
    ExitCode,
    InvalidOption,
    OffsetTrimmed,
    PositionMoved,
    RunFenced,
    TopicRecreated,
)
from raftlog.machines.commands import TopicInfo
from raftlog.wire.reader_positions import encode, key_of
from tests.cli.command import Finished, run
from tests.cluster.waiting import wait_trimmed
from tests.docs.pages import ROOT, blocks

EXAMPLE = ROOT / "docs" / "examples" / "consumer.py"
PIPELINE = ROOT / "docs" / "examples" / "exactly_once.py"
PAGE = ROOT / "docs" / "OPERATIONS.md"


@pytest.fixture(scope="module", autouse=True)
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """Three nodes with a key-value store."""
    with shared.client() as first:
        first.kv.put("first", b"1")
    return shared


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
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False, text=True)


def test_a_consumer_that_is_started_again_goes_on_after_what_it_published(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo, group: str
) -> None:
    """The example of docs/OPERATIONS.md."""

    def consume() -> list[int]:
        command = [sys.executable, str(EXAMPLE), cluster.servers, topic.name, group]
        ended = subprocess.run(
            command, capture_output=True, timeout=PATIENCE_S, check=True, text=True
        )
        return [ast.literal_eval(line)["id"] for line in ended.stdout.splitlines()]

    assert consume() == list(range(10))
    assert consume() == []
    client.append(topic, [{"id": 10}, {"id": 11}])
    assert consume() == [10, 11]
    assert textwrap.indent(blocks(PAGE, "python")[0], "    ") in EXAMPLE.read_text()


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column("id").to_pylist()]


def test_a_group_goes_on_after_its_last_commit_and_takes_the_rest_again(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    reader = client.follow(topic, group=group, idle_timeout_s=0)
    assert ids([next(reader)]) == list(range(10))
    assert (reader.committed, reader.position) == (0, 10)
    reader.commit()
    client.append(topic, [{"id": number} for number in range(10, 15)])
    assert ids([next(reader)]) == list(range(10, 15)), "not committed"
    again = client.follow(topic, group=group, idle_timeout_s=0)
    assert ids(again) == list(range(10, 15))
    assert again.commit(12).offset == 12
    assert (again.committed, again.position) == (12, 15)
    assert ids(client.follow(topic, group=group, idle_timeout_s=0)) == [12, 13, 14]
    client.append(topic, [{"id": 15}])
    assert ids(again) == [15], "it goes on where it had ended"
    for elsewhere in (11, 17):
        with pytest.raises(InvalidOption, match=r"\[12, 16\]"):
            again.commit(elsewhere)


def test_a_group_without_a_position_begins_where_it_is_told_to(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    starts: dict[GroupStart, int] = {"earliest": 0, "latest": 10, 7: 7}
    for start, offset in starts.items():
        reader = client.follow(topic, group=group, group_start=start, idle_timeout_s=0)
        assert reader.position == offset
    reader = client.follow(topic, group=group, group_start="latest", idle_timeout_s=0)
    reader.commit()
    client.append(topic, [{"id": 10}])
    assert ids(client.follow(topic, group=group, group_start=3, idle_timeout_s=0)) == [10]


def test_a_position_that_cannot_be_gone_on_from_is_an_error_until_somebody_moves_it(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    running = client.follow(topic, group=group, idle_timeout_s=0)
    running.commit()
    client.trim(topic, before=5)
    wait_trimmed(client, topic.name, 5)
    for follow in (lambda: next(running), lambda: client.follow(topic, group=group)):
        with pytest.raises(OffsetTrimmed) as trimmed:
            follow()
        assert f"client.positions.publish({group!r}, {topic.name!r}, 5)" in trimmed.value.remedy
    client.positions.publish(group, topic, 5)
    assert ids(client.follow(topic, group=group, idle_timeout_s=0)) == [5, 6, 7, 8, 9]
    beyond = replace(client.positions.publish(group, topic, 10), offset=Offset(11))
    client.kv.put(key_of(group, topic.name), encode(beyond))  # as after a restored backup
    [lag] = client.positions.lag(group)
    assert (lag.records_behind, lag.bytes_behind) == (-1, 0)
    with pytest.raises(DataLoss, match="ends at 10"):
        client.follow(topic, group=group)
    client.delete_topic(topic)
    again = client.create_topic(topic.name, "id bigint")
    with pytest.raises(TopicRecreated) as recreated:
        client.follow(again, group=group)
    assert f"client.positions.publish({group!r}, {topic.name!r}, 0)" in recreated.value.remedy
    client.positions.publish(group, again, 0)
    assert client.follow(again, group=group).position == 0


def test_of_two_readers_of_a_group_the_one_that_commits_later_is_refused(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    first, second = (client.follow(topic, group=group, idle_timeout_s=0) for _ in range(2))
    assert ids(first) == ids(second) == list(range(10))
    second.commit(4)
    with pytest.raises(PositionMoved, match="to offset 4"):
        first.commit()
    second.commit()
    client.positions.publish(group, topic, 2, publisher="an operator")
    with pytest.raises(PositionMoved, match="to offset 2 by an operator"):
        second.commit()
    third = client.follow(topic, group=group, idle_timeout_s=0)
    assert ids(third) == list(range(2, 10))
    client.positions.forget(group)
    with pytest.raises(PositionMoved, match="was removed"):
        third.commit()


def test_a_commit_whose_answer_was_lost_is_the_reader_s_own(
    client: LogClient, topic: TopicInfo, group: str
) -> None:
    reader = client.follow(topic, group=group, idle_timeout_s=0)
    next(reader)
    reader.commit(3)
    reader._version = NO_INDEX  # as if that commit had failed without an answer
    assert reader.commit().offset == 10


KILLED = """
import os, runpy, signal, sys, raftlog

when, sys.argv = sys.argv[1], sys.argv[2:]
commit = raftlog.LogClient.commit_epoch


def commit_and_die(*arguments, **named):
    if when == "after":
        commit(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)


raftlog.LogClient.commit_epoch = commit_and_die
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The example, in a process that is killed when its rows are staged, or when they are visible."""


def test_a_process_that_is_killed_around_its_commit_writes_each_result_once(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo
) -> None:
    """The example of docs/EXACTLY_ONCE.md."""
    output = client.create_topic(f"{topic.name}-squares", "id bigint, square bigint")
    words = [str(PIPELINE), cluster.servers, topic.name, output.name, "squares"]

    def run(*command: str) -> int:
        ended = subprocess.run([sys.executable, *command, *words], timeout=PATIENCE_S, check=False)
        return ended.returncode

    for when, visible in (("before", 0), ("after", 10)):
        assert run("-c", KILLED, when) == -signal.SIGKILL
        assert client.read_high_water_mark(output).high_water_mark == visible
    client.append(topic, [{"id": 10}])
    assert run() == 0
    rows = pa.Table.from_batches(client.read(output)).to_pylist()
    assert rows == [{"id": number, "square": number**2} for number in range(11)]
    row = client.writers.describe(output, "squares")
    assert (row.last_epoch, row.last_start, row.last_end) == (1, 10, 11)
    assert json.loads(row.plan) == [topic.incarnation, 11]
    for block in blocks(ROOT / "docs" / "EXACTLY_ONCE.md", "python"):
        assert textwrap.indent(block, " " * 8) in PIPELINE.read_text()


def test_two_processes_under_one_name_cannot_both_write(
    client: LogClient, topic: TopicInfo
) -> None:
    output = client.create_topic(f"{topic.name}-squares", "id bigint, square bigint")
    pipeline = runpy.run_path(str(PIPELINE))["Pipeline"]
    first, second = (pipeline(client, topic, output, "squares") for _ in range(2))
    assert second.step()
    client.append(topic, [{"id": 10}])
    with pytest.raises(EpochContentMismatch):
        first.step()
    with pytest.raises(RunFenced):
        second.step()
    assert pipeline(client, topic, output, "squares").step()
    rows = pa.Table.from_batches(client.read(output)).to_pylist()
    assert [row["id"] for row in rows] == list(range(11))


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


def test_groups_that_are_behind_in_one_topic_share_its_calls(
    client: LogClient, topic: TopicInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        client.append(topic, [{"id": number} for number in range(10)])
    positions = {f"{topic.name}-{offset:02}": offset for offset in range(51)}
    for group, offset in positions.items():
        client.positions.publish(group, topic, offset)
    calls: list[str] = []
    for name in ("_call", "send_leader", "stream"):
        inner = getattr(Connection, name)

        def noting(self: Connection, *given: Any, inner: Any = inner, **named: Any) -> Any:
            calls.append(next(each.name for each in given if hasattr(each, "name")))
            return inner(self, *given, **named)

        monkeypatch.setattr(Connection, name, noting)
    lags = {lag.position.group: lag for lag in client.positions.lag()}
    found = [lags[group] for group in positions]
    assert [lag.records_behind for lag in found] == [50 - offset for offset in positions.values()]
    sizes = [lag.bytes_behind for lag in found]
    assert all(size is not None for size in sizes)
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (client.read_high_water_mark(topic).record_bytes, 0)
    ages_s = [lag.seconds_behind for lag in found]
    assert ages_s[-1] == 0
    assert 0 < ages_s[-2] < ages_s[0]
    counts = {name: calls.count(name) for name in ("ReadSizes", "Read", "ReadHighWaterMark")}
    assert max(counts.values()) < len(positions), f"some are sent again to a leader: {counts}"


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
    for group, offset in (("", 1), ("g" * 250, 1), ("g", -1), ("g", 11)):
        with pytest.raises(InvalidOption):
            client.positions.publish(group, topic, offset)
    with pytest.raises(InvalidOption, match=r"group_start.* holds \[0, 10\)"):
        client.follow(topic, group="g", group_start=11)


def test_the_command_shows_and_forgets_a_group(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo, group: str
) -> None:
    client.positions.publish(group, topic, 4, publisher="me")
    shown = raftlog(cluster, "lag", group, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    [found] = json.loads(shown.stdout)
    assert (found["position"], found["records_behind"], found["publisher"]) == (4, 6, "me")
    table = raftlog(cluster, "lag", group).stdout.splitlines()
    assert table[0].split()[:2] == ["GROUP", "TOPIC"]
    assert table[1].split()[:5] == [group, topic.name, "4", "10", "6"]
    asked = raftlog(cluster, "groups", "forget", group)
    assert asked.returncode == ExitCode.USAGE, asked.stderr
    forgotten = raftlog(cluster, "groups", "forget", group, "--yes", "-o", "json")
    assert json.loads(forgotten.stdout) == {"group": group, "removed_positions": 1}
    for words in (("groups", "forget", group, "--yes"), ("lag", group)):
        gone = raftlog(cluster, *words)
        assert (gone.returncode, gone.stdout) == (ExitCode.NOT_FOUND, "")
        assert f"There is no reader group {group!r}" in gone.stderr


@pytest.fixture
def reset(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cluster: ProcessCluster,
    group: str,
) -> Callable[..., Finished]:
    """`raftlog groups reset` of the test's group, without another process."""
    words = ("--servers", cluster.servers, "groups", "reset", group, "--to")
    return lambda *more: run(monkeypatch, capsys, *words, *more)


def test_a_group_is_moved_in_one_topic_or_in_all(
    client: LogClient, topic: TopicInfo, group: str, reset: Callable[..., Finished]
) -> None:
    other = client.create_topic(f"{topic.name}-2", "id bigint")
    client.append(other, [{"id": 1}])
    assert reset("earliest").code == ExitCode.NOT_FOUND, "the group has no position"
    here = ("--topic", topic.name, "-o", "json")

    def at() -> dict[str, int]:
        return {each.topic: each.offset for each in client.positions.scan(group)}

    row = {"group": group, "topic": topic.name, "former_position": None, "position": 7}
    assert json.loads(reset("7", *here, "--dry-run").out) == [row]
    assert at() == {}
    assert json.loads(reset("7", *here).out) == [row]
    client.positions.publish(group, other, 0)
    running = client.follow(topic, group=group, idle_timeout_s=0)
    assert ids(running) == [7, 8, 9]
    assert reset("latest").code == 0
    assert at() == {topic.name: 10, other.name: 1}
    with pytest.raises(PositionMoved, match="to offset 10 by raftlog groups reset"):
        running.commit()
    for to, offset in {"1d": 0, "2020-01-01": 0, "@4000000000": 10, "earliest": 0}.items():
        assert reset(to, *here).code == 0
        assert at()[topic.name] == offset
    client.delete_topic(topic)
    moved = reset("latest")
    assert (moved.code, f"topic {topic.name} is gone" in moved.err) == (0, True)
    again = client.create_topic(topic.name, "id bigint")
    assert json.loads(reset("earliest", *here).out) == [row | {"position": 0}]
    assert client.positions.get(group, again) is not None


def test_a_position_is_not_moved_to_where_no_record_can_be(
    client: LogClient, topic: TopicInfo, group: str, reset: Callable[..., Finished]
) -> None:
    client.positions.publish(group, topic, 4)
    for words, part in {
        ("3",): "Name the topic with --topic",
        ("11", "--topic", topic.name): "holds [0, 10)",
        ("9" * 5_000, "--topic", topic.name): "nor a time",
        ("soon",): "nor a time",
    }.items():
        finished = reset(*words)
        assert (finished.code, part in finished.err) == (ExitCode.USAGE, True), finished.err
    assert [each.offset for each in client.positions.scan(group)] == [4]


def test_of_a_query_s_position_it_is_said_that_its_checkpoint_decides(
    client: LogClient, topic: TopicInfo, group: str, reset: Callable[..., Finished]
) -> None:
    client.positions.publish(group, topic, 4, publisher=f"{SPARK_PUBLISHER}driver-1")
    finished = reset("earliest")
    assert finished.code == ExitCode.USAGE
    assert "Spark on driver-1" in finished.err
    assert "checkpoint decides" in finished.err
    assert [each.offset for each in client.positions.scan(group)] == [4]
