#!/usr/bin/env bash
# Lint, the fast tests, real nodes and real Spark; four files of tests at a time on two cores, because
# tests of real processes also wait. Flags go to pytest. The long versions are in soak.sh.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
need_venv
need_java
need_zookeeper
need_prometheus
unset PYTHONDONTWRITEBYTECODE # or each of hundreds of processes would compile raftlog again
need_class_archive &
archive=$!
# Else four processes compile all modules at the same time. What is wrong shows below.
$VENV/bin/python -m pytest --collect-only -q tests >/dev/null 2>&1 &
scripts/lint.sh
wait $archive
wait
status=0
$VENV/bin/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder tests "$@" || status=$?
for leftover in spark-warehouse metastore_db derby.log artifacts; do
    if [ -e "$leftover" ]; then
        say "error: the tests left $leftover in the checkout"
        status=1
    fi
done
exit $status
