#!/usr/bin/env bash
# Format, lint, types, and the documentation as a site; layers and tidiness are tests
# (tests/test_layering.py, tests/test_tidy.py).
# `scripts/lint.sh --fix` fixes what can be fixed.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
if [ "${1:-}" = --fix ]; then
    $VENV/bin/ruff check --quiet --fix . || true
    $VENV/bin/ruff format --quiet .
fi
$VENV/bin/ruff format --check --quiet . || stop "not formatted; scripts/lint.sh --fix formats it"
$VENV/bin/ruff check --quiet .
# .mypy_cache makes all runs but the first quick.
$VENV/bin/mypy --no-error-summary || stop "types do not agree; the settings are in pyproject.toml"
site=$(scripts/docs.sh 2>&1) || stop "$site"
# The page of the Python API is generated.
grep -q 'id="raftlog.connect"' build/docs/reference/python.html ||
    stop "build/docs/reference/python.html does not describe raftlog.connect"
