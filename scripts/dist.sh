#!/usr/bin/env bash
# Build the wheel and the sdist of the last commit into dist/, and check what an index would object
# to. Two builds of one commit are identical, byte for byte. Flags go to scripts/dist.py, for example
# --out FOLDER or another revision.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
exec $VENV/bin/python scripts/dist.py "$@"
