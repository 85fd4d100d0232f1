#!/usr/bin/env bash
# Plant one-line bugs, one at a time in a copy of the tree, and count those that the fast tests or
# some seeds of the simulator notice. `--random 60 --seed 7` draws 60 other ones, as many of each
# part of the program. Prints a table; the exit status is 1 under 95 %. Flags go to
# tests.mutants.run.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m tests.mutants.run --jobs "$(nproc)" "$@"
