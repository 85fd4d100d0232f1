#!/usr/bin/env bash
# The long tests: MINUTES (30) of faults on real processes, then every test that is marked `soak`.
# Flags go to `raftlog chaos`. Takes more than an hour.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
status=0
$VENV/bin/python -m raftlog chaos --minutes "${MINUTES:-30}" "$@" || status=$?
$VENV/bin/python -m pytest -q -m soak tests || status=$?
exit $status
