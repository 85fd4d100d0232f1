#!/usr/bin/env bash
# Look for known holes in what requirements.lock names, by the advisories that PyPI publishes
# (pip-audit). Fails if there is one, and also if a package could not be looked up: a registry that
# publishes no advisories says nothing of them.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
python=$(find_python)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "pip-audit>=2.7,<3"
"$work/venv/bin/pip-audit" --strict --no-deps --disable-pip -r requirements.lock "$@"
