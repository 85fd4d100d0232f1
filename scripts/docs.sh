#!/usr/bin/env bash
# Build the documentation into build/docs; any warning fails it. Flags go to mkdocs build.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
# The theme's advice about another tool is no warning about these pages.
export NO_MKDOCS_2_WARNING=1
# Not --quiet: it would hide the warnings from --strict as well.
exec $VENV/bin/python -m mkdocs build --strict "$@"
