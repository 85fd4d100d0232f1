#!/usr/bin/env bash
# The long tests: MINUTES (30) of faults on real processes, as long again on a cluster that is closed
# to strangers and whose certificates, keys and tokens are replaced every minute, then every test
# that is marked `soak`, then make test beside eight busy loops: no test may take a slow machine for
# a fault. Flags go to `raftlog chaos`. Takes some hours.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
need_class_archive
status=0
$VENV/bin/python -m raftlog chaos --minutes "${MINUTES:-30}" "$@" || status=$?
$VENV/bin/python -m raftlog chaos --closed --minutes "${MINUTES:-30}" "$@" || status=$?
$VENV/bin/python -m pytest -q -m soak tests || status=$?
loops=()
trap 'kill "${loops[@]}"' EXIT
for _ in {1..8}; do
    $VENV/bin/python -c 'while True: pass' &
    loops+=($!)
done
scripts/test.sh --strict-costs || status=$?
exit $status
