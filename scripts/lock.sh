#!/usr/bin/env bash
# Update requirements.lock to the newest versions that the ranges in setup.py allow, found in a
# fresh environment. Run the tests afterwards: the lock says what was tested.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
python=$(find_python)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
git archive HEAD | tar -x -C "$work" --one-top-level=source # building leaves files behind
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    "$work/source[server,pipelines,demo,dev]" "setuptools>=77"
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" -m pip freeze --all --exclude raftlog --exclude pip >"$work/pinned"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
{
    echo "# Exact versions of everything that the extras of setup.py name, as tested together, with"
    echo "# the hashes of their files. Made by scripts/lock.sh; scripts and CI install from it."
    "$work/venv/bin/uv" pip compile --quiet --no-deps --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate "$work/pinned"
} >"$work/lock"
mv "$work/lock" requirements.lock
