"""Tasks that fail, die or lose: only the attempts that the driver named become visible."""

from __future__ import annotations

from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import finish
from tests.spark.faults import Deed, Moment
from tests.spark.relay_run import RelayRuns

BATCH_ROWS = 40


@pytest.mark.parametrize(
    ("moment", "deed", "staged"),
    [
        (Moment.STAGING, Deed.KILL_WORKER, [1]),
        (Moment.STAGED, Deed.KILL_WORKER, [0, 1]),
        (Moment.STAGED, Deed.FAIL, [0, 1]),
    ],
)
def test_a_task_that_dies_or_fails_is_retried_and_its_rows_are_written_once(
    lab, moment, deed, staged
):
    """What its first attempt staged is in the log and never visible."""
    lab.faults.arm(moment, deed)
    lab.rows_file("a", 1, 2)
    lab.rows_file("b", 3)
    finish(lab.faulty_sink(lab.file_stream()).start())
    assert lab.faults.happened(moment)
    assert lab.ids() == [1, 2, 3]
    attempts = [line["attempt"] for line in lab.faults.events() if line.get("epoch") == 0]
    assert sorted(attempts) == staged


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
