#!/usr/bin/env bash
# Run all tests that need neither Java, started nodes nor hundreds of seeds and are not marked slow:
# half a minute on two idle cores. Property tests try a quarter of the examples that make test tries.
# Flags go to pytest, for example -k election.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
unset PYTHONDONTWRITEBYTECODE # or every run would compile all tests again, a fifth of its time
# Their files are in memory, where a sync takes no time. make test has them on a disk.
TMPDIR=$(mktemp -d -p /dev/shm raftlog-XXXXXX 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
started=$SECONDS
status=0
$VENV/bin/python -m pytest -q -n 2 --dist worksteal tests --ignore tests/cluster --ignore tests/spark \
    -m "not cluster and not slow and not simulation and not soak" --fewer-examples 4 "$@" ||
    status=$?
say "fast tests: $((SECONDS - started)) s"
exit $status
