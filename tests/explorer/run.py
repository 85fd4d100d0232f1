"""Walk the scenarios from the command line.

    python -m tests.explorer.run --situations 1200000 --jobs 2
    python -m tests.explorer.run --scenario changes --situations 5000

A broken promise is printed with a shortest history that leads to it; there is nothing random, so
the same command shows it again. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.explorer.explorer import Broken, Explorer
from tests.explorer.scenarios import SCENARIOS


def walked(name: str, situations_max: int) -> tuple[int, str]:
    """How many situations of the scenario were met, and what there is to say."""
    began_s = time.monotonic()
    explorer = Explorer(SCENARIOS[name]())
    try:
        whole = explorer.walk(situations_max)
    except Broken as broken:
        return 0, f"{name}: broken: {broken}"
    met = len(explorer.seen)
    extent = "all" if whole else "the nearest"
    return met, (
        f"{name}: {extent} {met:,} situations in {time.monotonic() - began_s:.0f} s, "
        f"{explorer.members_met:,} states of members, {explorer.messages_met:,} messages"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Walk every order of events of small clusters.")
    parser.add_argument("--situations", type=int, default=1_200_000, help="of all scenarios")
    parser.add_argument("--scenario", choices=SCENARIOS, help="one only")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    names = [given.scenario] if given.scenario else list(SCENARIOS)
    walk = partial(walked, situations_max=-(-given.situations // len(names)))
    total = 0
    with ProcessPoolExecutor(
        given.jobs, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for met, said in pool.map(walk, names):
            print(said, flush=True)
            if not met:
                return 1
            total += met
    print(f"{total:,} situations, no promise broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
