#!/usr/bin/env bash
# The demo on real data: three nodes and two Spark queries; the leader is killed, and every row is
# compared. Flags go to spark_jobs/demo.py, for example --keep or --zookeeper.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
case " $* " in *" --zookeeper "*) need_zookeeper ;; esac
export PATH="$PWD/$VENV/bin:$PATH"
exec $VENV/bin/python -m raftlog.spark_jobs.demo "$@"
