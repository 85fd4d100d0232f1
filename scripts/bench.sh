#!/usr/bin/env bash
# Every figure of docs/BENCHMARKS.md in one run, about six minutes. Flags go to tests/bench/run.py:
# --only PIECE, --long, --json FILE.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
exec $VENV/bin/python -m tests.bench.run "$@"
