#!/usr/bin/env bash
# Fetch Kafka into build/kafka with Maven: a broker, and Spark's Kafka connector. The test of
# spark_jobs/kafka_import.py and the piece `kafka` of make bench are left out without them. About
# 100 MB. The connector is of the version of .venv's PySpark (RAFTLOG_VENV: of another environment).
# Maven has it later than PyPI has PySpark; until then it is the newest earlier x.y.0 that Maven has.
# SPARK_KAFKA names another version, KAFKA one of the broker.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
source scripts/maven.sh
KAFKA=${KAFKA:-4.1.1}

need_maven
need_venv
need_java

connectors() { # the versions to try: PySpark's own, then the earlier minor versions
    local own major minor
    own=$($VENV/bin/python -c 'import pyspark; print(pyspark.__version__)')
    IFS=. read -r major minor _ <<<"$own"
    printf '%s\n' "$own"
    while [ $((minor -= 1)) -ge 0 ]; do printf '%s\n' "$major.$minor.0"; done
}

fetch() { # or stop, with what Maven said
    fetch_jars "$@" || { say "$maven_said"; stop "no version of $3 was fetched."; }
}

rm -rf build/kafka
fetch build/kafka/broker org.apache.kafka kafka_2.13 "$KAFKA"
fetch build/kafka/spark org.apache.spark spark-sql-kafka-0-10_2.13 "${SPARK_KAFKA:-$(connectors)}"
# Those that Spark has itself, in whatever version, would be on its class path twice.
spark=$($VENV/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars
for jar in build/kafka/spark/*.jar; do
    name=${jar##*/}
    # Not what only begins with the name: lz4-java-1.10.1.jar is lz4-java-[0-9]*.jar.
    ! compgen -G "$spark/${name%-*}-[0-9]*.jar" >/dev/null || rm "$jar"
done
