#!/usr/bin/env bash
# Measure every figure of docs/BENCHMARKS.md, in about a quarter of an hour, and in five minutes more
# those beside Kafka, if scripts/kafka.sh has fetched it. Flags for tests/bench/run.py: --only PIECE, --long, --json FILE.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
exec $VENV/bin/python -m tests.bench.run "$@"
