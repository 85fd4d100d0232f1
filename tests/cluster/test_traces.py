"""Real nodes and clients tell a collector what an append, a read and an epoch took, and where."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.errors import TopicNotFound
from raftlog.machines.commands import AttemptReference
from tests.tracing.collector import Collector, KeptSpan, collecting
from tests.tracing.staged_rows import KEY, TOPIC

NODES = 3
CLIENT, SERVER = 3, 2
"""Kinds of spans, as OTLP numbers them."""
STAGES = {"queue", "disk", "replicate", "apply", "answer"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(
    collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessCluster]:
    settings = [f"tracing.endpoint={collector.endpoint}"]
    folder = tmp_path_factory.mktemp("traced")
    with ProcessCluster.start(
        folder, nodes=NODES, settings=settings, port=free_ports(NODES)
    ) as started:
        with started.client() as untraced:
            untraced.create_topic("t", "id bigint")
            untraced.append("t", [{"id": 0}])
        yield started


def traced(servers: str, endpoint: str, ratio: float = 1.0) -> LogClient:
    settings = {
        "bootstrap_servers": servers,
        "tracing_endpoint": endpoint,
        "tracing_sample_ratio": ratio,
    }
    return connect(settings=load().client.model_copy(update=settings))


def trace_with(collector: Collector, name: str, spans: int, writes: int = 0) -> list[KeptSpan]:
    """The one trace that begins with a client's call of this name, once it has so many spans, and
    so many writes with all their parts: what is sent twice has more spans."""
    found: list[KeptSpan] = []

    def is_there() -> bool:
        of_name = [
            trace
            for trace in collector.traces().values()
            if any(span.name == name and not span.parent for span in trace)
        ]
        assert len(of_name) <= 1
        found[:] = of_name[0] if of_name else []
        served = (span for span in found if span.kind == SERVER and not span.failed)
        whole = sum(is_whole_write(parts(found, span)) for span in served)
        return len(found) >= spans and whole >= writes

    wait_for(is_there, f"a trace of {name}", PATIENCE_S)
    return found


def parts(trace: list[KeptSpan], of: KeptSpan) -> list[KeptSpan]:
    return [span for span in trace if span.parent == of.id]


def is_whole_write(within: list[KeptSpan]) -> bool:
    """Whether these are all stages of a write, and both others that followed."""
    others = {span.node for span in within if span.name == "follow"}
    return {span.name for span in within} >= STAGES and len(others) == NODES - 1


def served_within(trace: list[KeptSpan], asked: KeptSpan) -> KeptSpan:
    """The call as the node served it that did what was asked."""
    (served,) = [span for span in parts(trace, asked) if span.kind == SERVER and not span.failed]
    assert asked.began_ns <= served.began_ns
    assert served.ended_ns <= asked.ended_ns
    return served


def check_write(trace: list[KeptSpan], served: KeptSpan) -> None:
    """A write's stages at its leader follow one another, and both others had it on disk."""
    within = parts(trace, served)
    stages = {span.name: span for span in within if span.name in STAGES}
    assert stages.keys() == STAGES
    assert {span.node for span in stages.values()} == {served.node}
    ordered = [stages[name] for name in ("queue", "disk", "replicate", "apply", "answer")]
    for span, following in pairwise(ordered):
        assert abs(span.ended_ns - following.began_ns) < 1_000_000
    follows = [span for span in within if span.name == "follow"]
    assert {span.node for span in follows} == {1, 2, 3} - {served.node}
    assert min(span.began_ns for span in follows) >= served.began_ns
    assert min(span.ended_ns for span in follows) <= stages["replicate"].ended_ns + 1_000_000


def test_an_append_is_one_trace_of_client_leader_and_followers(
    cluster: ProcessCluster, collector: Collector
) -> None:
    with traced(cluster.servers, collector.endpoint) as client:
        client.append("t", [{"id": 1}])
        trace = trace_with(collector, "Append", 2 + len(STAGES) + 2, writes=1)
    (asked,) = [span for span in trace if not span.parent]
    assert (asked.kind, asked.service, asked.failed) == (CLIENT, "raftlog-client", False)
    served = served_within(trace, asked)
    assert served.attributes["raftlog.topic"] == "t"
    check_write(trace, served)


def test_a_read_is_a_trace_of_client_and_replica(
    cluster: ProcessCluster, collector: Collector
) -> None:
    with traced(cluster.servers, collector.endpoint) as client:
        assert sum(batch.num_rows for batch in client.read("t")) > 0
        trace = trace_with(collector, "Read", 2)
    (asked,) = [span for span in trace if not span.parent]
    served = served_within(trace, asked)
    assert served.attributes["raftlog.topic"] == "t"
    assert int(served.attributes["raftlog.sent_bytes"]) > 0


def test_an_epoch_is_one_trace_of_all_processes_that_write_it(
    cluster: ProcessCluster, collector: Collector
) -> None:
    program = (sys.executable, "-m", "tests.tracing.staged_rows")
    tasks = [
        subprocess.Popen(
            [*program, cluster.servers, collector.endpoint, str(rows)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rows in (1, 2)
    ]
    attempts = [
        AttemptReference(**json.loads(task.communicate(timeout=PATIENCE_S)[0])) for task in tasks
    ]
    with traced(cluster.servers, collector.endpoint) as client:
        client.commit_epoch(TOPIC, KEY, attempts)
        trace = trace_with(collector, "Epoch", 1 + 3 * (2 + len(STAGES) + 2), writes=3)
    (root,) = [span for span in trace if not span.parent]
    asked = parts(trace, root)
    assert sorted(span.name for span in asked) == ["CommitEpoch", "Stage", "Stage"]
    for span in asked:
        check_write(trace, served_within(trace, span))


def test_what_fails_says_of_what_kind_it_was_and_nothing_more(
    cluster: ProcessCluster, collector: Collector
) -> None:
    with traced(cluster.servers, collector.endpoint) as client:
        with pytest.raises(TopicNotFound):
            client.describe_topic("s3cret-canary")

        def failures() -> list[KeptSpan]:
            return [span for span in collector.spans if span.failed]

        wait_for(lambda: len(failures()) >= 2, "the failed spans", PATIENCE_S)
    assert {span.attributes["error.type"] for span in failures()} >= {"TopicNotFound"}
    assert not any(b"canary" in raw for raw in collector.raw)


def test_no_process_makes_spans_of_what_is_not_sampled(
    cluster: ProcessCluster, collector: Collector
) -> None:
    before = collector.traces().keys()
    with cluster.client() as untraced, traced(cluster.servers, collector.endpoint, 0.0) as never:
        for client in (untraced, never):
            client.append("t", [{"id": 2}])
            assert len(list(client.read("t"))) > 0
    with traced(cluster.servers, collector.endpoint) as client:
        client.list_topics()
        trace = trace_with(collector, "ListTopics", 2)  # sent after what there would be of those
    assert collector.traces().keys() - before == {trace[0].trace}


def test_a_share_of_the_requests_is_traced_and_each_as_a_whole(
    cluster: ProcessCluster, collector: Collector
) -> None:
    def whole() -> list[list[KeptSpan]]:
        asked = (
            trace
            for trace in collector.traces().values()
            if any(span.name == "GetLastApplied" for span in trace)
        )
        return [trace for trace in asked if {span.kind for span in trace} == {CLIENT, SERVER}]

    with traced(cluster.servers, collector.endpoint, 0.3) as client:
        topic = client.describe_topic("t")
        for _ in range(200):
            client.groups.last_applied(topic.group)
    # Beyond these bounds it is less often than once in 10 ** 12 tries.
    wait_for(lambda: 20 < len(whole()) < 110, "a share of the traces", PATIENCE_S)


def test_a_node_whose_collector_is_gone_serves_and_says_so(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)}"
    with ProcessCluster.start(
        tmp_path / "data", nodes=1, settings=[f"tracing.endpoint={nowhere}"], port=free_ports(1)
    ) as cluster:
        with traced(cluster.servers, nowhere) as client:
            client.create_topic("t", "id bigint")
            client.append("t", [{"id": 1}])

        def complains() -> bool:
            return "spans are lost" in cluster.logs[1].read_text(encoding="utf-8")

        wait_for(complains, "the node's line", PATIENCE_S)
        with cluster.client() as client:
            assert client.append("t", [{"id": 2}]).end == 2
