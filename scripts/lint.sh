#!/usr/bin/env bash
# Format, lint and types; layers and tidiness are tests (tests/test_layering.py, tests/test_tidy.py).
# `scripts/lint.sh --fix` mends what can be mended.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
if [ "${1:-}" = --fix ]; then
    $VENV/bin/ruff check --quiet --fix . || true
    $VENV/bin/ruff format --quiet .
fi
$VENV/bin/ruff format --check --quiet . || stop "not formatted; scripts/lint.sh --fix does it"
$VENV/bin/ruff check --quiet .
# .mypy_cache makes all but the first run quick.
$VENV/bin/mypy --no-error-summary || stop "types do not agree; the settings are in pyproject.toml"
