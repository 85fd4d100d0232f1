#!/usr/bin/env bash
# The simulator on all cores: SEEDS seeds from START on, 10,000 from 0 unless told otherwise. It
# prints seeds per second, simulated hours and every fault by class; a seed that breaks a promise
# leaves one folder and prints the line that replays it. Flags go to tests.simulation.run.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m tests.simulation.run \
    --seeds "${SEEDS:-10000}" --start "${START:-0}" --jobs "$(nproc)" "$@"
