"""Files -> topic -> topic, while the driver is killed again and again: each row once, in order.

Some kills come at a random time, some at a critical moment of a micro-batch. Some of these leave an
orphan: a process of the dead driver that stages or commits long after its successor has taken over.
The pipeline invents some rows, so a replayed batch has others, and another number of them.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.faults import Deed, Moment
from tests.spark.relay_run import QUERIES, TOO_BUSY, MachineTooBusy, RelayRuns

FIRST_SEED = int(os.environ.get("START") or 1)

FILES_WAITING = 12
"""Enough that no kill finds the queries idle, if there are so many when it is armed."""
FILE_ROWS_MAX = 30
ROWS_PER_KILL_MIN = 10
"""Rows through both queries for each kill; with fewer, the runs were too short to show anything."""
PAUSE_MAX_S = 3.0
STARTS_MAX = 20
"""Drivers that may end by themselves for one kill, on a machine too busy for Spark."""
FORGET_SHARE = 0.3
"""How often the checkpoint loses its newest commits/N, as on a disk that lost power."""

AROUND_THE_WRITE = (
    (Moment.STAGING, Deed.ORPHAN),
    (Moment.STAGED, Deed.KILL_DRIVER),
    (Moment.COMMITTING, Deed.ORPHAN),
    (Moment.COMMITTED, Deed.KILL_DRIVER),
)
WITH_ORPHANS = ((Moment.STAGING, Deed.ORPHAN), (Moment.COMMITTING, Deed.ORPHAN))
EVERYWHERE = (
    *AROUND_THE_WRITE,
    (Moment.OFFSETS, Deed.KILL_DRIVER),
    (Moment.PLANNED, Deed.KILL_DRIVER),
    (Moment.STAGING, Deed.KILL_DRIVER),
    (Moment.COMMITTING, Deed.KILL_DRIVER),
)
BETWEEN_TWO_TOPICS = (Moment.BETWEEN, Deed.KILL_DRIVER)
REFUSED = "orphans refused: RunFenced"
OF_THE_SOURCE = (Moment.OFFSETS, Moment.PLANNED)
OF_THE_PIPELINE = (*OF_THE_SOURCE, Moment.BETWEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill of the driver."""

    query: str
    moment: Moment | None
    """None: at a random time."""
    deed: Deed
    early: bool
    """In a run's first batch, which may be a replay; or after a batch of this run is done."""
    pause_s: float
    """For a kill at a random time: how long after the start, or after that batch."""

    @property
    def words(self) -> str:
        when = "at random" if self.moment is None else f"at {self.moment.value}"
        return f"{self.deed.value} {when}"


def plan(
    rng: random.Random,
    moments: Sequence[tuple[Moment, Deed]],
    at_random: int,
    sinks: Sequence[str] = QUERIES,
) -> list[Kill]:
    """A kill at each of the moments and some at random times, in random order. `sinks` are the
    queries whose sink has moments."""
    wanted = [*moments, *[(None, Deed.KILL_DRIVER)] * at_random]
    kills = [
        Kill(
            query="pipeline" if moment in OF_THE_PIPELINE else rng.choice(sinks),
            moment=moment,
            deed=deed,
            early=rng.random() < 0.5 and deed is not Deed.ORPHAN,
            pause_s=rng.uniform(0.0, PAUSE_MAX_S),
        )
        for moment, deed in wanted
    ]
    rng.shuffle(kills)
    return kills


class Rounds:
    """One kill after another on the same checkpoints, and what happened to the orphans."""

    def __init__(self, runs: RelayRuns, rng: random.Random) -> None:
        self._runs = runs
        self._rng = rng
        self._orphan: Kill | None = None
        self.struck: Counter[str] = Counter()

    def run(self, kill: Kill) -> None:
        """Carry out the kill, with another driver if the machine was too busy for Spark."""
        for _ in range(STARTS_MAX):
            try:
                self._run(kill)
                return
            except MachineTooBusy:
                self._runs.faults(kill.query).disarm()
                self.struck[f"not a kill: {TOO_BUSY}"] += 1
        raise AssertionError(f"the machine was too busy {STARTS_MAX} times")

    def _run(self, kill: Kill) -> None:
        """Start a driver, kill it as planned, and see where the kill hit."""
        runs = self._runs
        self._add_files()
        early = kill.early and self._orphan is None
        if early and kill.moment is not None:
            runs.faults(kill.query).arm(kill.moment, kill.deed)
        runs.start()
        if not early:
            self._wait_progress()
        self.settle_orphan()
        if kill.moment is None:
            if early:
                runs.wait_ready()
            threading.Event().wait(kill.pause_s)
            runs.kill()
        else:
            if not early:
                runs.faults(kill.query).arm(kill.moment, kill.deed)
                self._add_files()  # one query may have done all while the other began
            runs.wait_for(lambda: runs.faults(kill.query).happened(kill.moment), kill.words)
            runs.wait_end()
        if kill.deed is Deed.ORPHAN:
            self._orphan = kill
        self._look(kill)

    def _add_files(self) -> None:
        while self._runs.files_waiting < FILES_WAITING:
            self._runs.add_file(self._rng.randint(1, FILE_ROWS_MAX))

    def finish_all(self, *, again: bool) -> None:
        """Let a driver do all that is left. `again`: then remove each query's last commits/N, and
        let another driver find that the batch is in the topic."""
        self._write_all()
        for query in QUERIES if again else ():
            self._forget(query, self._runs.progress(query).done)
        if again:
            self._write_all()

    def _write_all(self) -> None:
        """Run in large batches until nothing is left and both queries are idle, then kill."""
        runs = self._runs
        for _ in range(STARTS_MAX):
            runs.start("--files-per-batch", "100", "--rows-per-batch", "100000")
            try:
                runs.wait_for(self._all_is_written, "the last row")
                self.settle_orphan()
                runs.kill()
                return
            except MachineTooBusy:
                self.struck[f"not a kill: {TOO_BUSY}"] += 1
        raise AssertionError(f"the machine was too busy {STARTS_MAX} times")

    def _all_is_written(self) -> bool:
        runs = self._runs
        return len(runs.rows_of("pipeline")) == runs.rows and all(
            runs.progress(query).is_idle for query in QUERIES
        )

    def settle_orphan(self) -> None:
        """Let the orphan of an earlier run continue, now that another run has taken over."""
        kill = self._orphan
        if kill is None:
            return
        assert kill.moment is not None
        self._runs.faults(kill.query).release(kill.moment)
        self._runs.wait_for(self._one_more_refused, "the orphan's refusal")
        self._orphan = None
        self.struck[REFUSED] += 1

    def _one_more_refused(self) -> bool:
        notes = [line["what"] for query in QUERIES for line in self._runs.faults(query).events()]
        return sum(note.endswith("RunFenced") for note in notes) > self.struck[REFUSED]

    def _wait_progress(self) -> None:
        """Wait for a batch of this run in both topics: nothing is armed yet that could stop one."""
        runs = self._runs
        before = {each: runs.end_of(each) for each in QUERIES}
        for each, end in before.items():
            runs.wait_for(lambda each=each, end=end: runs.end_of(each) > end, f"a batch of {each}")

    def _look(self, kill: Kill) -> None:
        self.struck[kill.words] += 1
        for query in QUERIES:
            progress = self._runs.progress(query)
            self.struck[f"{query} {progress.words}"] += 1
            # A pipeline that is faster than its ingest begins with an empty batch.
            assert progress.done <= max(0, progress.visible), (
                f"{query}: in commits/, not in the topic"
            )
            if progress.is_idle and self._rng.random() < FORGET_SHARE:
                self._forget(query, progress.done)

    def _forget(self, query: str, batch: int) -> None:
        self._runs.forget_batch(query, batch)
        self.struck["commits/N deleted"] += 1


def rows_are_written_once(runs: RelayRuns, seed: int, kills: Sequence[Kill]) -> None:
    """Kill the driver as planned, let the last run finish, and compare with the files."""
    print(f"\nseed {seed}, {len(kills)} kills in {runs.parts.work}", flush=True)
    rounds = Rounds(runs, random.Random(seed))
    for number, kill in enumerate(kills, 1):
        rounds.run(kill)
        print(f"{number}: {kill.words} in {kill.query}", flush=True)
    through = len(runs.rows_of("pipeline"))
    rounds.finish_all(again=len(kills) > 1)
    print(f"{runs.rows} rows, {through} of them done before the last kill")
    for what, times in sorted(rounds.struck.items()):
        print(f"{times:4} {what}", flush=True)
    runs.assert_each_row_once()
    runs.assert_in_order()
    if runs.evolving:
        runs.assert_evolved()
    if len(kills) > 1:
        least = len(kills) * ROWS_PER_KILL_MIN
        assert through >= least, "stalled queries prove nothing"


@pytest.mark.timeout(1200)
def test_each_row_is_written_once_while_a_dead_drivers_commit_comes_late(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> None:
    with RelayRuns(cluster, client, tmp_path) as runs:
        orphan = (Moment.COMMITTING, Deed.ORPHAN)
        kills = plan(random.Random(FIRST_SEED), [orphan], at_random=0)
        rows_are_written_once(runs, FIRST_SEED, kills)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_each_row_is_written_once_while_the_driver_is_killed_three_times(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> None:
    with RelayRuns(cluster, client, tmp_path) as runs:
        kills = plan(random.Random(FIRST_SEED), WITH_ORPHANS, at_random=1)
        rows_are_written_once(runs, FIRST_SEED, kills)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 5))
def test_each_row_is_written_once_while_the_driver_is_killed_ten_times(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path, seed: int
) -> None:
    """Fifty kills over five seeds. Replay: START=<seed> pytest -s -m soak <this file>."""
    with RelayRuns(cluster, client, tmp_path) as runs:
        first = seed % len(EVERYWHERE)
        moments = (*EVERYWHERE[first:], *EVERYWHERE[:first])[:5]
        rows_are_written_once(runs, seed, plan(random.Random(seed), moments, at_random=5))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 5))
def test_each_row_is_written_once_while_columns_come_and_the_driver_is_killed_ten_times(
    cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path, seed: int
) -> None:
    """Fifty kills over five seeds, of a pipeline that finds its topic by a pattern, is limited by
    bytes and writes two topics. Replay: START=<seed> pytest -s -m soak <this file>."""
    with RelayRuns(cluster, client, tmp_path, evolving=True) as runs:
        first = seed % len(EVERYWHERE)
        moments = (BETWEEN_TWO_TOPICS, *EVERYWHERE[first:], *EVERYWHERE[:first])[:5]
        kills = plan(random.Random(seed), moments, at_random=5, sinks=["ingest"])
        rows_are_written_once(runs, seed, kills)
