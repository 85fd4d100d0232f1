#!/usr/bin/env bash
# Run the simulator on all cores: SEEDS seeds from START on, by default 10,000 from 0. It prints
# seeds per second, simulated hours and the faults by class. A seed that breaks a promise leaves one
# folder and prints the command that replays it. Flags go to tests.simulation.run.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m tests.simulation.run \
    --seeds "${SEEDS:-10000}" --start "${START:-0}" --jobs "$(nproc)" "$@"
