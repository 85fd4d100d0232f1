#!/usr/bin/env bash
# Fetch what tests of spark_jobs/archive.py need into build/tables, with Maven: Delta and Iceberg for
# the Spark of .venv (RAFTLOG_VENV: of another environment). What has no build for it is left out, and
# its test is skipped. About 100 MB.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
DELTA=${DELTA:-4.4.0}
ICEBERG=${ICEBERG:-1.12.0}

command -v mvn >/dev/null || stop "mvn is not on PATH (Debian, Ubuntu: apt-get install maven)."
need_venv
need_java
MINOR=$($VENV/bin/python -c 'import pyspark; print(".".join(pyspark.__version__.split(".")[:2]))')

fetch() { # the artifact with its own dependencies, but none that Spark has, into build/tables/$1
    local folder=$1 artifact=$2
    mvn --batch-mode --quiet org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get \
        -Dartifact="$artifact" -Dtransitive=false >/dev/null 2>&1 || {
        say "$folder: Maven has no $artifact"
        return
    }
    local work
    work=$(mktemp -d)
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>raftlog</groupId><artifactId>$folder</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>${artifact%%:*}</groupId><artifactId>$(cut -d: -f2 <<<"$artifact")</artifactId>
    <version>${artifact##*:}</version>
  </dependency></dependencies>
</project>
POM
    quietly mvn --batch-mode --quiet --file "$work/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DincludeGroupIds=io.delta,org.apache.iceberg \
        -DoutputDirectory="$PWD/build/tables/$folder"
    rm -r "$work"
    say "build/tables/$folder: $(ls "build/tables/$folder" | wc -l) jars"
}

rm -rf build/tables
fetch delta "io.delta:delta-spark_${MINOR}_2.13:$DELTA"
fetch iceberg "org.apache.iceberg:iceberg-spark-runtime-${MINOR}_2.13:$ICEBERG"
