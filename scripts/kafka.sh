#!/usr/bin/env bash
# Fetch what a test of spark_jobs/kafka_import.py needs into build/kafka, with Maven: a broker, and
# Spark's Kafka source. Without it that test is skipped. About 100 MB. SPARK_KAFKA names a version of
# the source that is not the one of .venv's PySpark (RAFTLOG_VENV: of another environment).
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
KAFKA=${KAFKA:-4.1.1}

command -v mvn >/dev/null || stop "mvn is not on PATH (Debian, Ubuntu: apt-get install maven)."
need_venv
need_java
SPARK_KAFKA=${SPARK_KAFKA:-$($VENV/bin/python -c 'import pyspark; print(pyspark.__version__)')}

fetch() { # the artifact and what it depends on, into build/kafka/$1
    local folder=$1 artifact=$2 work
    work=$(mktemp -d)
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>raftlog</groupId><artifactId>$folder</artifactId><version>1</version>
  <dependencies><dependency>$artifact</dependency></dependencies>
</project>
POM
    quietly mvn --batch-mode --quiet --file "$work/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$PWD/build/kafka/$folder"
    rm -r "$work"
    say "build/kafka/$folder: $(ls "build/kafka/$folder" | wc -l) jars"
}

artifact() { printf '<groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>' "$@"; }

rm -rf build/kafka
fetch broker "$(artifact org.apache.kafka kafka_2.13 "$KAFKA")"
fetch spark "$(artifact org.apache.spark spark-sql-kafka-0-10_2.13 "$SPARK_KAFKA")"
# Those that Spark has itself would be on its class path twice.
for jar in build/kafka/spark/*.jar; do
    [ ! -e "$($VENV/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/${jar##*/}" ] ||
        rm "$jar"
done
