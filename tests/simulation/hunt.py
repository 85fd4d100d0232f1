"""Plant each bug and count the seeds until it is noticed: the test of the simulator itself.

    python -m tests.simulation.hunt --jobs 2            every bug without a script, as a table
    python -m tests.simulation.hunt --bug vote_not_synced --seeds 1000

The exit status is 1 if no seed noticed some bug.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.simulation.planted import BUGS
from tests.simulation.run import Failure, run_seed, workers
from tests.simulation.scripted import SCRIPTS


class Found(NamedTuple):
    """`seeds` is how many it took, the failing one included; 0: it was not noticed."""

    bug: str
    seeds: int
    noticed_by: str
    error: str


def hunt(bug: str, *, start: int, seeds_max: int) -> Found:
    """Run seeds from `start` with the bug in place, until one fails."""
    with BUGS[bug]():
        for count, seed in enumerate(range(start, start + seeds_max), 1):
            result = run_seed(seed, keep=False)
            if isinstance(result, Failure):
                # A bug that no longer fits the classes proves nothing.
                assert "in tests/simulation/plant" not in result.noticed_by, result.error
                assert not result.noticed_by.startswith("TypeError"), result.error
                return Found(bug, count, result.noticed_by, result.error)
    return Found(bug, 0, "", "")


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
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    arguments = parser.parse_args()
    unnoticed = 0
    print("| bug | noticed by | seeds |\n|---|---|---|")
    for found in hunt_all(
        arguments.bug or [bug for bug in BUGS if bug not in SCRIPTS],
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
