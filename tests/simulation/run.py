"""Run seeds of the simulator from the command line, and see a failing one again.

    python -m tests.simulation.run --seed 7             one seed, with what happened in it
    python -m tests.simulation.run --seeds 1000 --jobs 2  many, with faults by class

A failure prints the seed and the command that replays it, and leaves a folder with the settings,
the error, the time line, what clients were told, and every node's files. The exit status is 1 if
any seed failed.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from raftlog.errors import RaftlogError
from raftlog.storage.contract import ROOT
from tests.simulation.cluster import Result, Simulation
from tests.simulation.promises import noticed_by
from tests.simulation.swarm import FAULTS, WEATHER
from tests.storage.memory import MemoryFileSystem

REPLAY = ".venv/bin/python -m tests.simulation.run --seed {seed}"

FAILURES = (AssertionError, RaftlogError, ArithmeticError, LookupError, TypeError, ValueError,
            AttributeError, RuntimeError, OSError)  # fmt: skip
"""The errors that a broken promise, or a defect anywhere in a replica, may raise."""


class Failure(NamedTuple):
    """A seed that broke a promise."""

    seed: int
    noticed_by: str
    error: str
    folder: str

    def __str__(self) -> str:
        replay = REPLAY.format(seed=self.seed)
        return f"seed {self.seed}: {self.error}\n  replay: {replay}\n  all of it: {self.folder}"


def run_seed(seed: int, *, keep: bool = True) -> Result | Failure:
    """Run a seed; a failure leaves its folder if `keep`."""
    simulation = Simulation(seed)
    try:
        return simulation.go()
    except FAILURES as error:
        folder = str(_write_folder(simulation, error)) if keep else ""
        return Failure(seed, noticed_by(error), f"{type(error).__name__}: {error}", folder)


def run_seeds(seeds: Iterable[int], jobs: int) -> Iterator[Result | Failure]:
    """Run all seeds in `jobs` processes; results come in the order of the seeds."""
    if jobs == 1:
        _collect_seldom()
        yield from map(run_seed, seeds)
        return
    with workers(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=2)


def workers(jobs: int) -> ProcessPoolExecutor:
    """Processes of their own making: a fork would inherit the locks and signal handlers of ours.

    One that dies fails the command. Ctrl-C is the parent's to hear, and ends them.
    """
    return ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
    )


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _collect_seldom()


def _collect_seldom() -> None:
    """A simulation leaves its cycles behind only as a whole."""
    gc.freeze()  # what was imported stays: no collection looks at it again
    gc.set_threshold(100_000)


def _write_folder(simulation: Simulation, error: BaseException) -> Path:
    folder = (
        Path(tempfile.gettempdir()) / "raftlog-simulation" / f"seed-{simulation.simulator.seed}"
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    replay = REPLAY.format(seed=simulation.simulator.seed)
    (folder / "settings.txt").write_text("\n".join([replay, *simulation.settings.lines()]) + "\n")
    (folder / "error.txt").write_text("".join(traceback.format_exception(error)))
    with (folder / "timeline.txt").open("w") as file:
        for moment, *facts in simulation.simulator.trace.lines:
            file.write(f"{moment:>12} us  {' '.join(map(str, facts))}\n")
    with (folder / "history.txt").open("w") as file:
        for topic, history in simulation.topics.values():
            file.writelines(f"{topic.name}: {line}\n" for line in history.lines())
    for node in simulation.nodes.values():
        _write_files(node.disk.fs, ROOT, folder / f"node-{node.node}")
    return folder


def _write_files(fs: MemoryFileSystem, source: str, target: Path) -> None:
    """The simulated files as a process would read them, synced or not."""
    target.mkdir()
    for name in fs.list(source):
        path = f"{source}/{name}" if source else name
        if fs.is_folder(path):
            _write_files(fs, path, target / name)
        else:
            file = fs.open(path, create=False)
            (target / name).write_bytes(file.read_at(0, file.size()))


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="run only this seed and show what happened")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        seeds, jobs = range(arguments.seed, arguments.seed + 1), 1
    else:
        seeds, jobs = range(arguments.start, arguments.start + arguments.seeds), arguments.jobs
    started, cpu_started = time.monotonic(), _cpu_seconds()
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
    seconds, cpu_seconds = time.monotonic() - started, _cpu_seconds() - cpu_started
    print(
        f"{len(seeds)} seeds from {seeds[0]}, {failures} failed\n"
        f"{seconds:.1f} s, {len(seeds) / seconds:.1f} seeds/s; {cpu_seconds:.1f} s of processor "
        f"time, {len(seeds) / cpu_seconds:.1f} seeds/s of one core\n"
        f"{simulated_us / 3.6e9:.2f} simulated hours, {records} records acknowledged"
    )
    _print_counts("faults", {name: counts.pop(name, 0) for name in (*FAULTS, *WEATHER)})
    _print_counts("what else happened", counts)
    return 1 if failures else 0


def _cpu_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _print_counts(title: str, counts: dict[str, int]) -> None:
    print(f"{title}:")
    for name, count in sorted(counts.items()):
        print(f"  {count:>9}  {name}")


if __name__ == "__main__":
    sys.exit(main())
