#!/usr/bin/env bash
# Build the documentation into build/docs. Any warning makes it fail. Flags go to mkdocs build.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
# The theme advertises another tool in a warning, which would fail the build.
export NO_MKDOCS_2_WARNING=1
# Not --quiet: it would also hide the warnings from --strict.
exec $VENV/bin/python -m mkdocs build --strict "$@"
