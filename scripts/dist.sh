#!/usr/bin/env bash
# Build the wheel and the sdist of the last commit into dist/, and check what an index would show of
# them. Two builds of one commit are identical, byte for byte. Flags go to scripts/dist.py, for
# example --out FOLDER or another revision.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
built=$($VENV/bin/python scripts/dist.py "$@")
say "$built"
exec $VENV/bin/python -m twine check --strict $(awk '{print $2}' <<<"$built")
