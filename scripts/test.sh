#!/usr/bin/env bash
# Everything: lint, the fast tests and the simulator on two cores, then real nodes and real Spark, one
# test at a time: they share the machine with what they start. Flags go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
scripts/lint.sh
status=0
ran=0

run() { # pytest; flags that select nothing here may select something in the other half
    local code=0
    $VENV/bin/python -m pytest -q "$@" || code=$?
    case $code in
        0) ran=1 ;;
        5) ;;
        *) ran=1 status=$code ;;
    esac
}

run -n 2 --dist worksteal tests --ignore tests/cluster --ignore tests/spark "$@"
run tests/cluster tests/spark "$@"
if [ $ran = 0 ]; then
    say "error: no test ran"
    status=5
fi
for leftover in spark-warehouse metastore_db derby.log artifacts; do
    if [ -e "$leftover" ]; then
        say "error: the tests left $leftover in the checkout"
        status=1
    fi
done
exit $status
