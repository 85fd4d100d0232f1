# Scripts that fetch jars from Maven source this one after environment.sh.
#
# need_maven: stops if there is no mvn.
# fetch_jars FOLDER GROUP ARTIFACT "VERSION..." [FLAG...]: the first of these versions that Maven has,
#   and what it needs at run time, into FOLDER. Flags go to Maven's copy-dependencies. Fails if Maven has
#   none of them; what it said of the last one is in $maven_said.

need_maven() {
    command -v mvn >/dev/null || stop "mvn is not on PATH (Debian, Ubuntu: apt-get install maven)."
}

fetch_jars() {
    local folder=$1 group=$2 artifact=$3 versions=$4 version work
    shift 4
    work=$(mktemp -d)
    for version in $versions; do
        cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>raftlog</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
        if maven_said=$(mvn --batch-mode --quiet --file "$work/pom.xml" \
            dependency:copy-dependencies -DincludeScope=runtime \
            -DoutputDirectory="$PWD/$folder" "$@" 2>&1); then
            rm -r "$work"
            say "$folder: $artifact $version, $(ls "$folder" | wc -l) jars"
            return
        fi
        say "Maven did not fetch $artifact $version"
    done
    rm -r "$work"
    return 1
}
