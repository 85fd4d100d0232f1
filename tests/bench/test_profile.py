"""The stages of an append, taken from the spans of one trace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.bench.profile import WHAT, Span, stages_of
from raftlog.chaos.cluster import ProcessCluster, free_ports

CALLS = [(0, 900_000), (1_000_000, 1_100_000)]
"""Of appends: when each began and ended, ns."""


def span(name: str, began_us: int, ended_us: int, kind: int = 1, **events: int) -> Span:
    began_ns, ended_ns = (1_000_000 + 1000 * each for each in (began_us, ended_us))
    at_ns = {event: 1_000_000 + 1000 * us for event, us in events.items()}
    return Span(name=name, kind=kind, began_ns=began_ns, ended_ns=ended_ns, events=at_ns)


def trace() -> list[Span]:
    return [
        span("Append", 10, 95, kind=3),
        span("Append", 20, 90, kind=2, decoded=25),
        span("queue", 20, 30),
        span("disk", 30, 55),
        span("replicate", 55, 70),
        span("apply", 70, 80),
        span("answer", 80, 90),
        span("follow", 36, 66),
        span("follow", 40, 61),
    ]


def test_stages_follow_one_another_and_are_together_the_whole_append() -> None:
    found = stages_of(trace(), CALLS)
    assert found == {
        "client encode": 10,
        "wire": 10,
        "decode": 5,
        "propose": 5,
        "send": 10,  # to the follower that was the first to have it on disk
        "sync": 25,
        "follower": 21,
        "commit": 9,
        "apply": 10,
        "reply": 20,
        "whole append": 100,
    }
    assert found.keys() == WHAT.keys()
    beside = found["sync"] + found["whole append"]
    assert sum(found.values()) - beside == found["whole append"]


@pytest.mark.parametrize("lacking", range(9))
def test_a_trace_that_lacks_a_span_is_left_out_unless_another_follower_has_one(
    lacking: int,
) -> None:
    spans = trace()
    name = spans.pop(lacking).name
    is_enough = name in ("follow", "answer")
    assert (stages_of(spans, CALLS) is not None) is is_enough


def test_an_append_of_the_warm_up_is_left_out() -> None:
    assert stages_of(trace(), [(2_000_000, 3_000_000)]) is None
    assert stages_of(trace(), CALLS[:1]) is None


@pytest.mark.cluster
def test_a_running_clusters_stages_are_shown(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = [f"tracing.endpoint=http://{address}"]
    with ProcessCluster.start(tmp_path, settings=settings, port=free_ports(3)) as cluster:
        bench = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, "bench"]
        flags = ["--profile", "--spans-at", address, "--seconds", "2", "--warm-up", "1"]
        done = subprocess.run(
            [*bench, *flags, "-o", "json"], capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    stages = {each["name"]: each for each in json.loads(done.stdout)["stages"]}
    assert stages.keys() == WHAT.keys()
    whole = stages["whole append"]["p50_us"]
    assert 0 < stages["wire"]["p50_us"] < whole
    assert 0 < stages["follower"]["p50_us"] < whole
