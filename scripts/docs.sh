#!/usr/bin/env bash
# Build the documentation into build/docs. Any warning makes it fail. Flags go to mkdocs build.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
# The theme advertises another tool in a warning, which would fail the build.
export NO_MKDOCS_2_WARNING=1
# Not --quiet: it would also hide the warnings from --strict.
$VENV/bin/python -m mkdocs build --strict "$@"
# The page of the Python API is generated.
grep -q 'id="raftlog.connect"' build/docs/reference/python.html ||
    stop "build/docs/reference/python.html does not describe raftlog.connect"
