"""Spark's queries that read from observers, and go on when there is none any more."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.joining import with_observers
from tests.spark.conftest import Lab, wait_until


def test_a_stream_and_a_batch_read_from_an_observer_and_go_on_without_it(
    spark, tmp_path: Path
) -> None:
    with with_observers(tmp_path, {4: (1, 2, 3)}) as (cluster, client, joined):
        lab = Lab(spark, cluster, client, tmp_path / "lab")
        lab.create()
        preferred = {"readPreference": "observer", "raftlog.client.rack": "nowhere"}
        seen: list[int] = []
        stream = lab.read_stream(startingOffsets="earliest", **preferred)
        query = lab.collect(stream, seen, processingTime="0 seconds")
        try:
            lab.append(*range(10))
            wait_until(lambda: len(seen) == 10, "the first rows", query)
            rows = lab.read(**preferred).collect()
            assert sorted(row.id for row in rows) == list(range(10))
            joined[4].end()
            lab.append(*range(10, 20))
            wait_until(lambda: len(seen) == 20, "the rows without the observer", query)
        finally:
            query.stop()
        assert seen == list(range(20)) == lab.ids()
