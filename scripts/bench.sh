#!/usr/bin/env bash
# Measure every figure of docs/BENCHMARKS.md, or compare this tree with another revision:
# make bench ARGS="--only log --against HEAD~5 --rounds 6". --help lists the flags. The comparison with
# Kafka needs scripts/kafka.sh before it, and that with etcd and NATS scripts/peers.sh.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
exec $VENV/bin/python -m tests.bench.run "$@"
