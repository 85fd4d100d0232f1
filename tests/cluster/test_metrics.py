"""Prometheus itself scrapes real nodes, and its alerts fire on faults and clear."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import TopicNotFound
from tests.cluster.scraped import Prometheus, prometheus
from tests.metrics.certificates import certificate_files
from tests.metrics.test_documents import RULES, alerts

OFFSET = 3
"""From a node's own port to the one where it is scraped, and as much again to that for nodes:
three nodes have nine neighbouring ones."""
DASHBOARD = RULES.with_name("grafana-dashboard.json")
ALERT_CASES = Path(__file__).parents[1] / "metrics" / "alerts.yml"


def test_every_alert_fires_on_its_fault_and_clears() -> None:
    """By Prometheus's own tool, on series as nodes tell them."""
    tested = {
        case["alertname"]
        for test in yaml.safe_load(ALERT_CASES.read_text(encoding="utf-8"))["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert tested == {rule["alert"] for rule in alerts()}
    ran = subprocess.run(
        ["promtool", "test", "rules", str(ALERT_CASES)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def panel_queries() -> list[str]:
    """Those of the dashboard, as Grafana sends them for this server's job."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [
        target["expr"].replace("$job", "raftlog").replace("$__rate_interval", "1m")
        for panel in panels
        for target in panel["targets"]
    ]


def _cluster(
    folder: Path, settings: list[str], nodes: int = OFFSET, *, tls: bool = False
) -> ProcessCluster:
    return ProcessCluster.start(
        folder / "data", nodes=nodes, settings=settings, port=free_ports(3 * OFFSET), tls=tls
    )


def test_prometheus_scrapes_nodes_over_tls_and_alerts_of_one_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, cert, key = certificate_files(tmp_path)
    monkeypatch.setenv("METRICS_TOKEN", "s3cret-canary")
    settings = [
        f"tls.peer_port_offset={2 * OFFSET}",
        f"metrics.listen=127.0.0.1:+{OFFSET}",
        f"metrics.cert_file={cert}",
        f"metrics.key_file={key}",
        "metrics.token=env:METRICS_TOKEN",
    ]
    with _cluster(tmp_path, settings, tls=True) as cluster:
        ports = [int(each.rpartition(":")[2]) + OFFSET for each in cluster.servers.split(",")]
        targets = [f"127.0.0.1:{port}" for port in ports]
        with cluster.client() as client:
            client.create_topic("t", "id bigint")
            for number in range(50):
                client.append("t", [{"id": number}])
            client.positions.publish("etl", "t", 20)
        job = {
            "scheme": "https",
            "tls_config": {"ca_file": str(ca)},
            "authorization": {"credentials": "s3cret-canary"},
        }
        with prometheus(tmp_path, targets, job=job) as server:

            def marks_are_there() -> bool:
                marks = server.query('raftlog_group_high_water_mark{topic="t"}')
                return marks == dict.fromkeys(targets, 50.0)

            wait_for(lambda: server.all_up(3) and marks_are_there(), "all marks", PATIENCE_S)
            ends = _of_all(server, "raftlog_node_certificate_ends_timestamp_seconds - time()")
            assert min(ends.values()) > 360 * 86_400
            appends = 'sum(raftlog_calls_total{call="Append",outcome="ok"})'
            # A client repeats what is not answered in time.
            wait_for(lambda: server.query(appends).get("", 0) >= 50, "the appends", PATIENCE_S)
            wait_for(lambda: _behind(server) == [30], "the position, told by one node", PATIENCE_S)
            budget = 'raftlog_node_budget_used_ratio{budget="server.requests_max"}'
            _of_all(server, budget)
            assert min(_of_all(server, "raftlog_disk_write_seconds_count").values()) > 0
            assert max(_of_all(server, 'raftlog_elections_total{outcome="won"}').values()) > 0
            with cluster.client() as client:
                for query in panel_queries():
                    shows = partial(_shows, server, client, query)
                    wait_for(shows, f"data of {query}", PATIENCE_S)
            leader = _leader(server)
            down = partial(server.fires, "RaftlogNodeDown", instance=leader)
            # On a machine that starves the nodes others may fire, rightly.
            wait_for(lambda: not down(), "the node to be up", PATIENCE_S)
            cluster.kill(1 + targets.index(leader))
            wait_for(down, "the alert", PATIENCE_S)
            cluster.serve(1 + targets.index(leader))
            wait_for(lambda: not down(), "no alert", PATIENCE_S)
        for said in (*cluster.logs.values(), tmp_path / "prometheus.log"):
            assert "canary" not in said.read_text(encoding="utf-8")


def _of_all(server: Prometheus, query: str) -> dict[str, float]:
    """The values of all three nodes: a scrape that takes too long leaves one out."""
    found: dict[str, float] = {}

    def are_there() -> bool:
        found.clear()
        found.update(server.query(query))
        return len(found) == 3

    wait_for(are_there, f"{query} of all nodes", PATIENCE_S)
    return found


def _shows(server: Prometheus, client: LogClient, query: str) -> bool:
    """Whether the query has data while the cluster is busy, also with calls that are refused."""
    client.append("t", [{"id": 1}])
    assert len(list(client.read("t"))) > 0
    with pytest.raises(TopicNotFound):
        client.describe_topic("u")
    return server.has_data(query)


def _behind(server: Prometheus) -> list[float]:
    """Records that the group `etl` is behind, as each node tells it that leads the key-value
    store: leaders may just be moving."""
    query = 'raftlog_reader_behind_records{reader_group="etl",topic="t"}'
    return list(server.query(query).values())


def _leader(server: Prometheus) -> str:
    """The node that leads the topic, once exactly one says so."""
    found: list[str] = []

    def one_leads() -> bool:
        leads = server.query('raftlog_group_leads{topic="t"}')
        found[:] = [target for target, value in leads.items() if value]
        return len(found) == 1 and len(leads) == 3

    wait_for(one_leads, "one leader", PATIENCE_S)
    return found[0]


def _scrape(url: str) -> dict[str, Metric]:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def _leads(url: str) -> float:
    samples = _scrape(url)["raftlog_node_replicas"].samples
    return sum(sample.value for sample in samples if sample.labels["role"] == "leader")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogClient, str]]:
    """A client of a lone node with 120 topics, and where that is scraped."""
    settings = [f"metrics.listen=127.0.0.1:+{OFFSET}", "metrics.topics_max=20"]
    folder = tmp_path_factory.mktemp("scraped")
    with _cluster(folder, settings, nodes=1) as cluster, cluster.client() as client:
        for number in range(120):
            client.create_topic(f"t{number:03}", "id bigint")
        port = int(cluster.servers.rpartition(":")[2]) + OFFSET
        yield client, f"http://127.0.0.1:{port}/metrics"


@pytest.mark.slow
def test_a_scrape_of_many_topics_is_bounded(scraped: tuple[LogClient, str]) -> None:
    _, url = scraped
    wait_for(lambda: _leads(url) == 121, "all groups", PATIENCE_S)
    found = _scrape(url)
    shown = {sample.labels["topic"] for sample in found["raftlog_group_term"].samples}
    assert shown == {"(controller)"} | {f"t{number:03}" for number in range(20)}
    assert found["raftlog_node_topics_without_series"].samples[0].value == 100


@pytest.mark.slow
def test_the_stages_of_a_write_are_all_of_its_time(scraped: tuple[LogClient, str]) -> None:
    def seconds(found: dict[str, Metric], name: str, label: str) -> dict[str, float]:
        """The sums by a label; the numbers of writes as `count`."""
        samples = found[name].samples
        sums = {s.labels[label]: s.value for s in samples if s.name == f"{name}_sum"}
        counts = [s.value for s in samples if s.name == f"{name}_count"]
        return sums | {"count": min(counts)}

    client, url = scraped
    client.append("t000", [{"id": 0}])
    before = _scrape(url)
    for number in range(50):
        client.append("t000", [{"id": number}])
    after = _scrape(url)
    name = "raftlog_write_stage_seconds"
    began, ended = (seconds(found, name, "stage") for found in (before, after))
    took = {stage: ended[stage] - began[stage] for stage in ended}
    assert took.pop("count") == 50
    assert set(took) == {"queue", "disk", "replicate", "apply", "answer"}
    assert min(took.values()) >= 0
    calls = [seconds(found, "raftlog_call_seconds", "call")["Append"] for found in (before, after)]
    assert sum(took.values()) == pytest.approx(calls[1] - calls[0])
    assert took["disk"] > 0.0001, "a sync takes longer"


def test_who_scrapes_without_the_token_or_in_plain_text_gets_nothing(tmp_path: Path) -> None:
    ca, cert, key = certificate_files(tmp_path)
    (tmp_path / "token").write_text("s3cret-canary")
    settings = [
        f"metrics.listen=127.0.0.1:+{OFFSET}",
        f"metrics.cert_file={cert}",
        f"metrics.key_file={key}",
        f"metrics.token=file:{tmp_path}/token",
    ]
    with _cluster(tmp_path, settings, nodes=1) as cluster:
        port = int(cluster.servers.rpartition(":")[2]) + OFFSET
        trusting = ssl.create_default_context(cafile=str(ca))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(
                f"https://127.0.0.1:{port}/metrics", timeout=PATIENCE_S, context=trusting
            )
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S)
        with cluster.client() as client:
            assert client.list_topics() == []
