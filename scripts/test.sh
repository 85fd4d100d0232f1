#!/usr/bin/env bash
# Everything: lint, the fast tests, real nodes, real Spark; two files of tests at a time, because
# tests of real processes mostly wait. Flags go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
need_zookeeper
need_prometheus
unset PYTHONDONTWRITEBYTECODE # or each of hundreds of processes would compile raftlog again
scripts/lint.sh
status=0
$VENV/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder tests "$@" || status=$?
for leftover in spark-warehouse metastore_db derby.log artifacts; do
    if [ -e "$leftover" ]; then
        say "error: the tests left $leftover in the checkout"
        status=1
    fi
done
exit $status
