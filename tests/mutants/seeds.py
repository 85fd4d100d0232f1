"""Run seeds of the simulator until one fails: `python -m tests.mutants.seeds 200`.

It prints what noticed the failure; the exit status is 1 then, and 0 if no seed failed.
"""

from __future__ import annotations

import sys

from tests.simulation.run import Failure, run_seed


def main(seeds_max: int) -> int:
    """Run seeds from 0 on; the exit status."""
    for seed in range(seeds_max):
        result = run_seed(seed, keep=False)
        if isinstance(result, Failure):
            print(f"seed {seed}: {result.noticed_by}: {result.error.splitlines()[0]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
