#!/usr/bin/env bash
# What make test does not run: other versions of Python and Spark, each in an environment of its own.
#   python-3.12   the fast tests and the core of Spark's, for every Python from 3.11 on that is on
#                 PATH or in pyenv's folders
#   spark-4.1     the core of Spark's tests, for every other Spark that setup.py allows, and queries
#                 that move from there to the Spark of make test with their checkpoints
# CELLS="python-3.12 spark-4.1" names some of them; flags go to pytest. An environment is in
# .venv-CELL and has about 1 GB.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

SPARKS="4.1 4.2"
SPARK_CORE="tests/spark/test_batch.py tests/spark/test_stream_source.py tests/spark/test_stream_sink.py
    tests/spark/test_examples.py tests/spark/test_kafka_import.py"

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

run_spark_core() { # in the environment that RAFTLOG_VENV names
    VENV=$RAFTLOG_VENV STAMP=$RAFTLOG_VENV/installed.sha256
    (need_venv) && "$VENV/bin/python" -m pytest -q $SPARK_CORE "$@"
}

run_queries_that_move() { # from the Spark of this Python to the one of make test
    (unset RAFTLOG_VENV && source scripts/environment.sh && need_venv &&
        EARLIER_SPARK_PYTHON=$1 "$VENV/bin/python" -m pytest -q -m soak tests/spark/drivers/test_other_spark.py "${@:2}")
}

run_cell() {
    local cell=$1
    shift
    export RAFTLOG_VENV=.venv-$cell
    case $cell in
        python-*) scripts/test-fast.sh "$@" && run_spark_core "$@" ;;
        spark-*)
            RAFTLOG_SPARK=${cell#spark-} run_spark_core "$@" || return
            # 4.1 cannot read a topic as a stream.
            [ $cell = spark-4.1 ] || run_queries_that_move "$PWD/$RAFTLOG_VENV/bin/python" "$@"
            ;;
    esac
}

pythons=$(found_pythons)
[ -n "$pythons" ] || stop "no Python 3.11 or later was found on PATH or in pyenv's folders."
need_java
wanted=${CELLS:-$(awk '{print "python-" $1}' <<<"$pythons") $(printf 'spark-%s ' $SPARKS)}
results=()
failed=0
for cell in $wanted; do
    python=$(awk -v version="${cell#python-}" '$1 == version {print $2}' <<<"$pythons")
    say "== $cell"
    if PYTHON=$python run_cell "$cell" "$@" </dev/null; then
        results+=("$cell passed")
    else
        results+=("$cell failed")
        failed=1
    fi
done
say "$(printf '%s\n' "${results[@]}")"
exit $failed
