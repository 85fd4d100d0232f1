#!/usr/bin/env bash
# Plant 130 one-line bugs, one at a time in a copy of the tree, and count those that the fast tests
# or 200 seeds of the simulator notice. Prints a table; the exit status is 1 under 95 %. By estimate
# it takes an hour on two idle cores. Flags go to tests.mutants.run, for example --resume.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m tests.mutants.run --jobs "$(nproc)" "$@"
