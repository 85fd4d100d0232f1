#!/usr/bin/env bash
# Fetch Kafka into build/kafka with Maven: a broker, and Spark's Kafka connector. The test of
# spark_jobs/kafka_import.py and the piece `kafka` of make bench are left out without them. About
# 100 MB. The connector is of the version of .venv's PySpark (RAFTLOG_VENV: of another environment).
# Maven has it later than PyPI has PySpark; until then it is the newest earlier x.y.0 that Maven has.
# SPARK_KAFKA names another version, KAFKA one of the broker.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
KAFKA=${KAFKA:-4.1.1}

command -v mvn >/dev/null || stop "mvn is not on PATH (Debian, Ubuntu: apt-get install maven)."
need_venv
need_java

connectors() { # the versions to try: PySpark's own, then the earlier minor versions
    local own major minor
    own=$($VENV/bin/python -c 'import pyspark; print(pyspark.__version__)')
    IFS=. read -r major minor _ <<<"$own"
    printf '%s\n' "$own"
    while [ $((minor -= 1)) -ge 0 ]; do printf '%s\n' "$major.$minor.0"; done
}

fetch() { # folder group artifact version...: the first that Maven has, and what it depends on
    local folder=$1 group=$2 artifact=$3 version work said
    shift 3
    work=$(mktemp -d)
    for version; do
        cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>raftlog</groupId><artifactId>$folder</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
        if said=$(mvn --batch-mode --quiet --file "$work/pom.xml" dependency:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory="$PWD/build/kafka/$folder" 2>&1); then
            rm -r "$work"
            say "build/kafka/$folder: $artifact $version, $(ls "build/kafka/$folder" | wc -l) jars"
            return
        fi
        say "Maven did not fetch $artifact $version"
    done
    rm -r "$work"
    say "$said"
    stop "no version of $artifact was fetched."
}

rm -rf build/kafka
fetch broker org.apache.kafka kafka_2.13 "$KAFKA"
fetch spark org.apache.spark spark-sql-kafka-0-10_2.13 ${SPARK_KAFKA:-$(connectors)}
# Those that Spark has itself, in whatever version, would be on its class path twice.
spark=$($VENV/bin/python -c 'import pyspark; print(pyspark.__path__[0])')/jars
for jar in build/kafka/spark/*.jar; do
    name=${jar##*/}
    # Not what only begins with the name: lz4-java-1.10.1.jar is lz4-java-[0-9]*.jar.
    ! compgen -G "$spark/${name%-*}-[0-9]*.jar" >/dev/null || rm "$jar"
done
