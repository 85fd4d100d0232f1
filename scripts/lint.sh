#!/usr/bin/env bash
# Format and lint; layers and tidiness are tests (tests/test_layering.py, tests/test_tidy.py).
# `scripts/lint.sh --fix` mends what can be mended.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
if [ "${1:-}" = --fix ]; then
    $VENV/bin/ruff check --quiet --fix . || true
    $VENV/bin/ruff format --quiet .
fi
$VENV/bin/ruff format --check --quiet . || stop "not formatted; scripts/lint.sh --fix does it"
$VENV/bin/ruff check --quiet .
