#!/usr/bin/env bash
# Fetch Delta for the Spark of .venv (RAFTLOG_VENV: of another environment) into build/delta, with
# Maven: a test of spark_jobs/archive.py is skipped without it. DELTA names another version.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
source scripts/maven.sh
DELTA=${DELTA:-4.4.0}

need_maven
need_venv
need_java
MINOR=$($VENV/bin/python -c 'import pyspark; print(".".join(pyspark.__version__.split(".")[:2]))')

rm -rf build/delta
# Its own parts only: what else it needs, Spark has.
fetch_jars build/delta io.delta "delta-spark_${MINOR}_2.13" "$DELTA" -DincludeGroupIds=io.delta ||
    { say "$maven_said"; stop "there is no Delta $DELTA for Spark $MINOR."; }
