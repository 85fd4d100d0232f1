#!/usr/bin/env bash
# Run the fast tests on every Python from 3.11 on that is on PATH or in pyenv's folders. Each gets
# an environment of its own in .venv-VERSION. Flags go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

found_pythons() { # one path for each version, as "3.12 /path/to/python"
    local python
    for python in python3.11 python3.12 python3.13 python3.14 python3 \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
        python=$(command -v "$python" || true)
        if [ -n "$python" ] && python_serves "$python"; then
            printf '%s %s\n' \
                "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$python"
        fi
    done | sort -V | awk '!seen[$1]++'
}

pythons=$(found_pythons)
[ -n "$pythons" ] || stop "no Python 3.11 or later was found on PATH or in pyenv's folders."
failed=()
while read -r version python; do
    say "== Python $version ($python)"
    PYTHON=$python RAFTLOG_VENV=.venv-$version scripts/test-fast.sh "$@" </dev/null ||
        failed+=("$version")
done <<<"$pythons"
[ ${#failed[@]} -eq 0 ] || stop "the fast tests failed on Python ${failed[*]}."
say "the fast tests passed on Python $(awk '{print $1}' <<<"$pythons" | tr '\n' ' ')"
