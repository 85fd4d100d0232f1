"""Plant each bug and count the seeds until it is noticed: the test of the simulator itself.

    python -m tests.simulation.hunt --jobs 2            every bug without a script, as a table
    python -m tests.simulation.hunt --bug vote_not_synced --seeds 1000
    python -m tests.simulation.hunt --jobs 2 --record   where the tests begin: after a change of
                                                        what the simulator does

The exit status is 1 if no seed noticed some bug.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.simulation.planted import BUGS
from tests.simulation.run import Failure, run_seed, workers
from tests.simulation.scripted import SCRIPTS

FIRST_SEEDS = Path(__file__).with_name("first_seeds.txt")
"""Where to begin each hunt: a line for each bug, with a seed that notices it at little cost."""


CANDIDATES = 4
LEEWAY = 5
"""So many seeds before the recorded one are tried as well."""


class Found(NamedTuple):
    """`seeds` is how many it took, the failing one included; 0: it was not noticed."""

    bug: str
    seeds: int
    noticed_by: str
    error: str
    spent_s: float
    """Processor time of the failing seed."""


def first_seeds() -> dict[str, int]:
    """The recorded seeds."""
    lines = [line.split() for line in FIRST_SEEDS.read_text().splitlines()]
    return {bug: int(seed) for bug, seed in lines}


def cheapest(bug: str, *, start: int, seeds_max: int) -> tuple[str, int]:
    """The bug, and the least costly of the first seeds that notice it; -1: none."""
    costs: list[tuple[float, int]] = []
    seed, end = start, start + seeds_max
    while seed < end and len(costs) < CANDIDATES:
        found = hunt(bug, start=seed, seeds_max=end - seed)
        if not found.seeds:
            break
        seed += found.seeds
        costs.append((found.spent_s, seed - 1))
    return bug, min(costs)[1] if costs else -1


def record(bugs: list[str], *, seeds_max: int, jobs: int) -> None:
    """Write `FIRST_SEEDS` again, beginning each hunt where it began last time."""
    known = first_seeds()
    starts = [max(0, known.get(bug, 0) - LEEWAY) for bug in bugs]
    with workers(jobs) as pool:
        tried = [
            pool.submit(cheapest, bug, start=start, seeds_max=seeds_max)
            for bug, start in zip(bugs, starts, strict=True)
        ]
        for each in tried:
            bug, seed = each.result()
            print(f"{bug} {seed if seed >= 0 else 'was not noticed'}", flush=True)
            if seed >= 0:
                known[bug] = seed
                lines = [f"{name} {its}\n" for name, its in sorted(known.items())]
                FIRST_SEEDS.write_text("".join(lines))


def hunt(bug: str, *, start: int, seeds_max: int) -> Found:
    """Run seeds from `start` with the bug in place, until one fails."""
    with BUGS[bug]():
        for count, seed in enumerate(range(start, start + seeds_max), 1):
            before_s = time.process_time()
            result = run_seed(seed, keep=False)
            if isinstance(result, Failure):
                # A bug that no longer fits the classes proves nothing.
                assert "in tests/simulation/plant" not in result.noticed_by, result.error
                assert not result.noticed_by.startswith("TypeError"), result.error
                spent_s = time.process_time() - before_s
                return Found(bug, count, result.noticed_by, result.error, spent_s)
    return Found(bug, 0, "", "", 0.0)


def hunt_all(bugs: list[str], *, start: int, seeds_max: int, jobs: int) -> Iterator[Found]:
    """Hunt them in `jobs` processes; the answers come in the order of the bugs."""
    with workers(jobs) as pool:
        yield from pool.map(partial(hunt, start=start, seeds_max=seeds_max), bugs)


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bug", action="append", choices=sorted(BUGS), help="only this one")
    parser.add_argument("--seeds", type=int, default=500, help="at most so many (default 500)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument(
        "--record", action="store_true", help=f"write {FIRST_SEEDS.name}, where the tests begin"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    arguments = parser.parse_args()
    bugs = arguments.bug or [bug for bug in BUGS if bug not in SCRIPTS]
    if arguments.record:
        record(bugs, seeds_max=arguments.seeds, jobs=arguments.jobs)
        return 0
    unnoticed = 0
    print("| bug | noticed by | seeds |\n|---|---|---|")
    for found in hunt_all(
        bugs,
        start=arguments.start,
        seeds_max=arguments.seeds,
        jobs=arguments.jobs,
    ):
        seeds = found.seeds or f"not in {arguments.seeds}"
        unnoticed += not found.seeds
        print(f"| {found.bug.replace('_', ' ')} | {found.noticed_by} | {seeds} |", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
