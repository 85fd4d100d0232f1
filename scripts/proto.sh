#!/usr/bin/env bash
# Generate raftlog/wire/raftlog_pb2.py and .pyi from raftlog.proto; a test compares them.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python -m raftlog.wire.generate "$@"
