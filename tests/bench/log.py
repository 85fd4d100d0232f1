"""The log by itself: appends, small records, large batches, reads, and the nodes' memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from raftlog.bench.measure import MEGABYTE, Measured
from raftlog.bench.workloads import (
    Plan,
    append_latency,
    large_batches,
    read_over_and_over,
    readable_topic,
    small_records,
)
from raftlog.chaos.cluster import ProcessCluster
from tests.bench.figures import Figure
from tests.bench.processes import MemoryWatch, cpu_s

PLAN = Plan(seconds=10.0, warm_up_s=2.0)


def log(folder: Path) -> Iterator[Figure]:
    """Three nodes and one client, nothing else running."""
    with ProcessCluster.start(folder / "log") as cluster, cluster.client() as client:
        pids = list(cluster.pids.values())
        with MemoryWatch(pids) as memory:
            yield from _append_figures(append_latency(client, PLAN))
            yield _rate("records_per_s", small_records(client, PLAN))
            yield _throughput("batches_mb_per_s", large_batches(client, PLAN))
            with readable_topic(client, PLAN) as (topic, end):
                read_over_and_over(client, dataclasses.replace(PLAN, seconds=0.001), topic, end)
                # The nodes' CPU time is known only for the whole measurement.
                plan = dataclasses.replace(PLAN, warm_up_s=0)
                before_s = sum(map(cpu_s, pids))
                measured = read_over_and_over(client, plan, topic, end)
                nodes_cpu_s = sum(map(cpu_s, pids)) - before_s
            yield _throughput("read_mb_per_s", measured)
            yield Figure(
                name="read_nodes_cpu_s_per_gb",
                value=nodes_cpu_s / (measured.data_bytes / (1000 * MEGABYTE)),
                unit="s/GB",
                about="CPU of all nodes for each GB that a client reads",
                detail={"client_cpu_s_per_gb": measured.client_cpu_s_per_gb},
            )
        yield Figure(
            name="node_memory_mb",
            value=memory.most("RssAnon") / MEGABYTE,
            unit="MB",
            about="highest anonymous memory of any node under all of the above",
            detail={
                "rss_mb": memory.most("VmRSS") / MEGABYTE,
                "mapped_files_mb": memory.most("RssFile") / MEGABYTE,
            },
        )


def _append_figures(measured: Measured) -> Iterator[Figure]:
    times = measured.latency
    assert times is not None
    detail = {
        "p90_ms": times.p90_ms,
        "p99_9_ms": times.p999_ms,
        "max_ms": times.max_ms,
        "count": measured.operations,
    }
    yield Figure(
        name="append_p50_ms", value=times.p50_ms, unit="ms", about=measured.what, detail=detail
    )
    yield Figure(name="append_p99_ms", value=times.p99_ms, unit="ms", about="of the same appends")


def _rate(name: str, measured: Measured) -> Figure:
    return Figure(
        name=name,
        value=measured.records_per_s,
        unit="records/s",
        about=measured.what,
        detail={"mb_per_s": measured.mb_per_s, "client_cpu_s_per_gb": measured.client_cpu_s_per_gb},
    )


def _throughput(name: str, measured: Measured) -> Figure:
    return Figure(
        name=name,
        value=measured.mb_per_s,
        unit="MB/s",
        about=measured.what,
        detail={"client_cpu_s_per_gb": measured.client_cpu_s_per_gb},
    )
