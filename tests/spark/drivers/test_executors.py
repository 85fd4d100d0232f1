"""Executors that die or are slow: only the attempts that the driver named become visible."""

from __future__ import annotations

from pathlib import Path

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.faults import KILLED, Deed, Moment
from tests.spark.relay_run import RelayRuns

BATCH_ROWS = 40


def test_rows_are_written_once_when_an_executor_dies_and_a_speculative_attempt_wins(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> None:
    """Two executors, each a process; one batch for each fault and one more after it."""
    with RelayRuns(cluster, client, tmp_path) as runs:
        faults = runs.faults("pipeline")
        runs.start("--workers", "2", "--partitions", "2", "--queries", "pipeline")
        next_batch(runs)

        faults.arm(Moment.STAGED, Deed.KILL_EXECUTOR)
        next_batch(runs)
        assert faults.happened(Moment.STAGED)
        assert f"{KILLED} java" in [line["what"] for line in faults.events()]

        faults.arm(Moment.STAGED, Deed.FAIL)
        next_batch(runs)
        assert faults.happened(Moment.STAGED)

        faults.arm(Moment.STAGED, Deed.HOLD)
        next_batch(runs)
        assert faults.happened(Moment.STAGED)
        assert staged_twice(runs), "the attempt that was held had no twin"
        faults.release(Moment.STAGED)
        next_batch(runs)
        assert sorted(runs.rows_of("pipeline")) == runs.expected("pipeline")


def next_batch(runs: RelayRuns) -> None:
    """Append rows for one more batch of the pipeline, and wait until it is done."""
    runs.append(BATCH_ROWS)
    runs.wait_for(lambda: len(runs.rows_of("pipeline")) == runs.rows, "a batch")


def staged_twice(runs: RelayRuns) -> bool:
    """Whether two attempts at one part of the newest epoch staged everything."""
    staged = [line for line in runs.faults("pipeline").events() if line["what"] == "staged"]
    newest = max(line["epoch"] for line in staged)
    parts = [line["partition"] for line in staged if line["epoch"] == newest]
    return len(parts) > len(set(parts))
