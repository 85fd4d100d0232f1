"""`raftlog bench` on real nodes: it measures what it says and leaves nothing behind."""

from __future__ import annotations

import json

import pytest

from raftlog.bench.workloads import TOPIC_PREFIX
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from tests.bench.processes import RolesWatch, cpu_s
from tests.cli.command import run
from tests.cluster.waiting import leader_of

pytestmark = pytest.mark.cluster

SHORT = ("--seconds", "0.3", "--warm-up", "0.1", "--read-mib", "4")


def test_every_workload_is_measured_and_its_topic_is_gone(
    shared: ProcessCluster,
    client: LogClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = run(monkeypatch, capsys, "--servers", shared.servers, "bench", *SHORT, "-o", "json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert len(told["about"]["nodes"]) == 3
    results = {result["name"]: result for result in told["results"]}
    assert list(results) == ["append", "records", "batches", "read"]
    for result in results.values():
        assert result["seconds"] >= 0.3
        assert result["records_per_s"] > 0
    times = results["append"]["latency"]
    assert 0 < times["p50_ms"] <= times["p99_ms"] <= times["max_ms"]
    assert not [t for t in client.list_topics() if t.name.startswith(TOPIC_PREFIX)]


def test_one_workload_by_itself_as_a_table(
    shared: ProcessCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = run(
        monkeypatch, capsys, "--servers", shared.servers, "bench", "--only", "append", *SHORT
    )
    assert done.code == 0, done.err
    head, row = done.out.splitlines()
    assert head.startswith("WORKLOAD")
    assert row.startswith("append")
    assert "3 nodes" in done.err


def test_processor_time_is_told_apart_by_who_leads_a_topic(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    for log in shared.logs.values():
        with log.open("a") as file:
            file.write("a line of a library\n")
    client.create_topic(name, "id bigint")
    with RolesWatch([shared]) as watch:
        leader = leader_of(client, name)
        before_s, others_s = watch.leaders_s, watch.followers_s

        def both_have_worked() -> bool:
            client.append(name, [{"id": 1}])
            return watch.leaders_s > before_s + 0.2 and watch.followers_s > others_s + 0.2

        wait_for(
            both_have_worked, "some processor time of the leader and of the others", PATIENCE_S
        )
        client.delete_topic(name)
    whole_s = sum(cpu_s(pid, with_ended=True) for pid in shared.pids.values())
    assert watch.leaders_s + watch.followers_s == pytest.approx(whole_s, abs=0.1)

    def none_leads() -> bool:
        with RolesWatch([shared]) as now:
            return now.leaders_s == 0

    wait_for(none_leads, f"node {leader} to drop the topic", PATIENCE_S)


def test_an_unknown_workload_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(monkeypatch, capsys, "bench", "--only", "writes")
    assert done.code == 2
    assert "append, records, batches, read" in done.err
