"""Records that came in small batches: read before compaction, and after it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from raftlog.bench.measure import MEGABYTE
from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.core.types import Offset
from raftlog.machines.commands import TopicInfo
from tests.bench.disk import NEVER_COMPACTED, views_of, wait_compacted
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.rows import SCHEMA_DDL, rows
from tests.bench.spark import Run, bare_scan, from_log, median_rate, query, run_queries

_ROWS = 1_000_000
_BATCH_ROWS = 100
_IN_FLIGHT = 8
_PATIENCE_S = 600.0
_COMPACTED = ("storage.snapshot_entries=5000",)


def crumbs(place: Place) -> Iterator[Figure]:
    """A scan into Spark of rows that were written in batches of 100."""
    with place.cluster(settings=NEVER_COMPACTED) as cluster, cluster.client() as client:
        topic = client.create_topic("crumbs", SCHEMA_DDL)
        _write(client, topic)
        before = _scans(place, cluster, "scans-before")
        log_bytes = max(view.log_bytes for view in views_of(client, [topic]))
    with place.cluster(settings=_COMPACTED) as cluster, cluster.client() as client:
        # An entry that is applied lets the leader look how many came since the last point.
        client.append(topic, rows(_ROWS, _BATCH_ROWS))
        wait_compacted(client, [topic], Offset(_ROWS), _PATIENCE_S)
        after = _scans(place, cluster, "scans-after")
        history_bytes = max(view.history_bytes for view in views_of(client, [topic]))
    about = f"{_ROWS:,} rows of five columns, written in batches of {_BATCH_ROWS}"
    rates = {
        "before_rows_per_s": median_rate(before["log"]),
        "after_rows_per_s": median_rate(after["log"]),
        "bare_source_rows_per_s": median_rate(after["bare"]),
    }
    yield Figure(
        name="crumbs_scan_ratio",
        value=rates["after_rows_per_s"] / rates["before_rows_per_s"],
        unit="times",
        about=f"rate of a scan into Spark's noop after compaction, over that before: {about}",
        detail=rates,
    )
    yield Figure(
        name="crumbs_disk_ratio",
        value=log_bytes / history_bytes,
        unit="times",
        about=f"bytes on a node's disk in the log, over those in history files: {about}",
        detail={"log_mb": log_bytes / MEGABYTE, "history_mb": history_bytes / MEGABYTE},
    )


def _write(client: LogClient, topic: TopicInfo) -> None:
    with ThreadPoolExecutor(_IN_FLIGHT) as threads:
        for _ in threads.map(
            lambda start: client.append(topic, rows(start, _BATCH_ROWS)),
            range(0, _ROWS, _BATCH_ROWS),
        ):
            pass


def _scans(place: Place, cluster: ProcessCluster, name: str) -> dict[str, list[Run]]:
    """Each scan but the first, and as many of a bare source."""
    scan = query("raftlog", from_log(place.spark_options(cluster), "crumbs"), "noop", {})
    return run_queries(place.folder / name, {}, {"log": scan, "bare": bare_scan(_ROWS)})
