"""A stream whose topic moves from log to history and is trimmed, while drivers are killed.

The cluster takes a snapshot every few entries, so what the pipeline reads is now in the log, now in
history, and gone once no replay of a batch can ask for it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from raftlog.spark.offsets import Reached, parse
from tests.spark.drivers.test_driver_kills import AROUND_THE_WRITE, FIRST_SEED, Kill, Rounds, plan
from tests.spark.faults import Deed, Moment
from tests.spark.relay_run import RelayRuns

SETTINGS = (
    "storage.snapshot_entries=12",
    "storage.snapshot_age_s=1",
    "storage.preallocate_bytes=0",
)
TRIM_INTERVAL_S = 0.3
FILES = 20
FILE_ROWS_MAX = 30


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes that compact all the time."""
    with ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as started:
        yield started


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as opened:
        yield opened


class Trimmer:
    """Trims the pipeline's topic up to the last batch that Spark may still ask for again."""

    def __init__(self, runs: RelayRuns) -> None:
        self._runs = runs
        self._topic = runs.parts.topics["ingest"]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trimmer")
        self._problem: RaftlogError | None = None
        self.trimmed_to = 0

    def _run(self) -> None:
        while not self._stop.wait(TRIM_INTERVAL_S):
            end = self._read_for_good()
            if end <= self.trimmed_to:
                continue
            try:
                self.trimmed_to = self._runs.client.trim(self._topic, before=end)
            except RaftlogError as error:
                self._problem = error
                return

    def _read_for_good(self) -> int:
        """The end of the batch before the last one that is done, whose commits/N a test may
        remove."""
        checkpoint = self._runs.parts.checkpoints["pipeline"]
        done = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdecimal()]
        if not done or max(done) == 0:
            return 0
        logged = (checkpoint / "offsets" / str(max(done) - 1)).read_text().splitlines()
        reached = parse(json.loads(logged[-1]))[self._topic]
        return reached.end if isinstance(reached, Reached) else 0

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(PATIENCE_S)
        assert self._problem is None, f"a trim failed: {self._problem}"


def rows_arrive_once(runs: RelayRuns, kills: Sequence[Kill]) -> None:
    """Kill a driver whose pipeline is half through, then as planned, and let another finish."""
    trimmer, random = Trimmer(runs), Random(FIRST_SEED)
    rounds = Rounds(runs, random)
    with trimmer.running():
        for _ in range(FILES):
            runs.add_file(random.randint(1, FILE_ROWS_MAX))
        runs.start()
        runs.wait_for(lambda: trimmer.trimmed_to > runs.rows // 3, "trims behind the pipeline")
        runs.faults("pipeline").arm(Moment.COMMITTED, Deed.KILL_DRIVER)
        runs.wait_end()
        for number, kill in enumerate(kills, 1):
            rounds.run(kill)
            print(f"{number}: {kill.words} in {kill.query}", flush=True)
        rounds.finish_all()
    assert runs.faults("pipeline").happened(Moment.COMMITTED)
    runs.assert_arrived_once("pipeline")
    history, log_start = held(runs, "ingest")
    print(f"{runs.rows} rows; trimmed to {log_start}, history to {history}")
    assert log_start == trimmer.trimmed_to > 0
    assert history > log_start, "the pipeline read no history"
    assert held(runs, "pipeline")[0] > 0, "the result is read from history"


def held(runs: RelayRuns, query: str) -> tuple[int, int]:
    """How far history goes on the replica that has least, and where the log of records starts."""
    watermark = runs.client.watermark(runs.parts.topics[query])
    return min(each.history_end for each in watermark.replicas), watermark.log_start_offset


@pytest.mark.soak
def test_each_row_arrives_once_though_its_place_changes_and_the_driver_is_killed(
    cluster: ProcessCluster, client: LogClient, tmp_path: Path
) -> None:
    print(f"seed {FIRST_SEED}: repeat with START={FIRST_SEED}")
    with RelayRuns(cluster, client, tmp_path) as runs:
        rows_arrive_once(runs, [])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_row_arrives_once_through_many_kills(
    cluster: ProcessCluster, client: LogClient, tmp_path: Path
) -> None:
    print(f"seed {FIRST_SEED}: repeat with START={FIRST_SEED}")
    with RelayRuns(cluster, client, tmp_path) as runs:
        rows_arrive_once(runs, plan(Random(FIRST_SEED), AROUND_THE_WRITE, at_random=6))
