"""`raftlog tail`: which records it shows, with a leader and without one."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from raftlog import LogClient
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.errors import DeadlineExceeded, ExitCode, TopicNotFound, TopicRecreated

TOPIC = "numbers"


@pytest.fixture(scope="module")
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """Three nodes with the topic."""
    with shared.client() as client:
        client.create_topic(TOPIC, "id bigint, kind string")
        for start in (0, 1_500):
            rows = [{"id": i, "kind": "ab"[i % 2]} for i in range(start, start + 1_500)]
            client.append(TOPIC, rows)
        shared.wait_caught_up(client, TOPIC)
    return shared


WITHOUT_LEADER_S = 5
"""How long a command waits for a leader that there is not."""


def tail(
    cluster: ProcessCluster, *words: str, wait_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """The verb with its output in a pipe. It waits so long for a leader."""
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers]
    command += ["--set", f"client.request_timeout_s={wait_s}", "tail", *words, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def ids(ended: subprocess.CompletedProcess[str]) -> list[int]:
    return [json.loads(line)["id"] for line in ended.stdout.splitlines()]


def test_tail_in_a_pipe_ends_at_the_present_end(cluster: ProcessCluster) -> None:
    ended = tail(cluster, TOPIC, "-n", "2")
    assert (ended.returncode, ids(ended), ended.stderr) == (ExitCode.OK, [2_998, 2_999], "")


def test_the_last_records_are_those_that_a_condition_wants(cluster: ProcessCluster) -> None:
    """However far back they are."""
    assert ids(tail(cluster, TOPIC, "-n", "2", "--where", "kind = 'a'")) == [2_996, 2_998]
    shown = tail(cluster, TOPIC, "-n", "3", "--where", "_offset < 4 and id > 0", "--columns", "id")
    assert [json.loads(line) for line in shown.stdout.splitlines()] == [
        {"id": i} for i in (1, 2, 3)
    ]
    assert ids(tail(cluster, TOPIC, "--where", "id in (5, 2000)")) == [5, 2_000]
    refused = tail(cluster, TOPIC, "--where", "nobody = 1")
    assert refused.returncode == ExitCode.USAGE
    assert "--where" in refused.stderr


def test_without_a_leader_tail_shows_what_is_known_to_be_committed_and_says_so(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client:
        [stamps] = (b.column(0) for b in client.read(TOPIC, 1_500, 1_501, columns=["_timestamp"]))
        second_s = int(stamps.to_numpy().astype("int64")[0]) / 1e6
    for node in (1, 3):
        cluster.kill(node)
    try:
        ended = tail(cluster, TOPIC, "-n", "2", wait_s=WITHOUT_LEADER_S)
        assert ended.returncode == ExitCode.UNAVAILABLE
        assert ids(ended) == [2_998, 2_999]
        assert "no leader answers: showing the records below 3000" in ended.stderr
        assert "told by 1 of its 3 voters" in ended.stderr
        assert "Newer records may exist" in ended.stderr
        since = tail(cluster, TOPIC, "--since", f"@{second_s:.6f}", wait_s=WITHOUT_LEADER_S)
        assert ids(since)[0] == 1_500
        of_a = ("-n", "1", "--where", "kind = 'a'")
        wanted = tail(cluster, TOPIC, *of_a, wait_s=WITHOUT_LEADER_S)
        assert ids(wanted) == [2_998]
        unknown = tail(cluster, "unheard-of", wait_s=WITHOUT_LEADER_S)
        assert unknown.returncode == ExitCode.UNAVAILABLE
        assert "no leader answers" in unknown.stderr
        assert "knows of a topic 'unheard-of': it may exist" in unknown.stderr
        assert json.loads(unknown.stderr.splitlines()[-1])["retriable"]
        with cluster.client() as client, cluster.client(WITHOUT_LEADER_S) as hasty:
            check_descriptions(client, hasty)
    finally:
        for node in (1, 3):
            cluster.serve(node)
    assert tail(cluster, "unheard-of").returncode == ExitCode.NOT_FOUND


def check_descriptions(client: LogClient, hasty: LogClient) -> None:
    """Only who asks for it is told what a minority knows."""
    with pytest.raises(DeadlineExceeded):
        hasty.describe_topic(TOPIC)
    known = client.describe_topic(TOPIC, linearizable=False)
    assert client.describe_topic(known, linearizable=False) == known
    with pytest.raises(TopicNotFound):
        client.describe_topic("unheard-of", linearizable=False)
    other = dataclasses.replace(known, incarnation="0" * 32)
    with pytest.raises(TopicRecreated):
        client.describe_topic(other, linearizable=False)


def test_what_follows_waits_for_a_leader_however_long(cluster: ProcessCluster) -> None:
    """Longer than one request may take, and shows what comes then."""
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers]
    command += [f"--set=client.request_timeout_s={WITHOUT_LEADER_S}", "tail", TOPIC]
    command += ["-n", "1", "--follow"]
    follower = subprocess.Popen(
        [*command, "--columns", "id", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stderr is not None
    try:
        assert json.loads(follower.stdout.readline())["id"] == 2_999
        for node in (1, 3):
            cluster.kill(node)
        lines = iter(follower.stderr.readline, "")  # others say why
        waits = (line for line in lines if "still waiting" in line)
        for _ in range(2):
            next(waits)
        for node in (1, 3):
            cluster.serve(node)
        with cluster.client() as client:
            client.append(TOPIC, [{"id": 7, "kind": "a"}])
        assert json.loads(follower.stdout.readline()) == {"id": 7}
    finally:
        follower.kill()
        follower.communicate(timeout=PATIENCE_S)
