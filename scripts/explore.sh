#!/usr/bin/env bash
# Walk every order of events of small clusters on all cores, up to SITUATIONS (1,200,000), and check
# Raft's promises in each. Flags go to tests.explorer.run.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m tests.explorer.run \
    --situations "${SITUATIONS:-1200000}" --jobs "$(nproc)" "$@"
