"""Run seeds of the simulator from the command line, and see a failing one again.

    python -m tests.simulation.run --seed 7             one seed, with what happened in it
    python -m tests.simulation.run --seeds 1000 --jobs 2  many, with faults by class

A failure prints the seed, the command that replays it, and leaves a folder with the settings, the
error and the time line. The exit status is 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from raftlog.errors import RaftlogError
from tests.simulation.cluster import Result, Run

REPLAY = ".venv/bin/python -m tests.simulation.run --seed {seed}"

FAILURES = (AssertionError, RaftlogError, ArithmeticError, LookupError, TypeError, ValueError,
            AttributeError, RuntimeError, OSError)  # fmt: skip
"""What a broken promise, or a defect anywhere in a replica, may come out as."""


class Failure(NamedTuple):
    """A seed that broke a promise."""

    seed: int
    error: str
    folder: str

    def __str__(self) -> str:
        replay = REPLAY.format(seed=self.seed)
        return f"seed {self.seed}: {self.error}\n  replay: {replay}\n  time line: {self.folder}"


def run_seed(seed: int) -> Result | Failure:
    """Run a seed; a failure leaves its folder."""
    run = Run(seed)
    try:
        return run.go()
    except FAILURES as error:
        folder = _write_folder(run, error)
        return Failure(seed, f"{type(error).__name__}: {error}", str(folder))


def run_seeds(seeds: Iterable[int], jobs: int) -> Iterator[Result | Failure]:
    """Run all seeds in `jobs` processes; results come in the order of the seeds."""
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # Forked, so that a bug planted in this process is in its children as well.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(run_seed, seeds, chunksize=2)


def _write_folder(run: Run, error: BaseException) -> Path:
    folder = Path(tempfile.gettempdir()) / "raftlog-simulation" / f"seed-{run.simulator.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.txt").write_text("\n".join(run.settings.lines()) + "\n")
    (folder / "error.txt").write_text("".join(traceback.format_exception(error)))
    with (folder / "timeline.txt").open("w") as file:
        for moment, *facts in run.simulator.trace.lines:
            file.write(f"{moment:>12} us  {' '.join(map(str, facts))}\n")
    return folder


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="run this seed alone and show what happened")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        seeds, jobs = range(arguments.seed, arguments.seed + 1), 1
    else:
        seeds, jobs = range(arguments.start, arguments.start + arguments.seeds), arguments.jobs
    started = time.monotonic()
    counts: Counter[str] = Counter()
    simulated_us = records = failures = 0
    for result in run_seeds(seeds, jobs):
        if isinstance(result, Failure):
            failures += 1
            print(result, flush=True)
            continue
        counts.update(result.counts)
        simulated_us += result.simulated_us
        records += result.acknowledged_records
        if len(seeds) == 1:
            print(f"seed {result.seed}: trace {result.trace}")
    seconds = time.monotonic() - started
    print(
        f"{len(seeds)} seeds in {seconds:.1f} s ({len(seeds) / seconds:.1f} seeds/s), "
        f"{simulated_us / 3.6e9:.3f} simulated hours, {records} records acknowledged, "
        f"{failures} seeds failed"
    )
    for name, count in sorted(counts.items()):
        print(f"  {count:>9}  {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
