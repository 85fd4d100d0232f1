"""The wheel: the same bytes at each build, and complete without the checkout that it is built from.

It is installed without dependencies into a virtual environment that sees the packages of the tests
and no checkout, and used from another folder. The long version installs it, and each extra by
itself, with the dependencies that pip finds.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from raftlog.errors import ExitCode
from tests.wheel_environment import DIST, ROOT, Environment, build_tree, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

INSTALL_TIMEOUT_S = 550.0
"""All of Spark is downloaded, unless pip has it from an earlier time."""

HELP_OF_EVERY_COMMAND = """
import sys
from raftlog.cli.main import command_line

def run(command, words):
    try:
        command.main([*words, "--help"], prog_name="raftlog")
    except SystemExit as ended:
        assert ended.code == 0, words

def walk(command, words):
    run(root, words)
    print("END OF", *words)
    for name, each in getattr(command, "commands", {}).items():
        walk(each, [*words, name])

root = command_line()
walk(root, [])
"""

STREAM_IN_AND_OUT = """
import sys
import raftlog.spark
from pyspark.sql import SparkSession

servers, work = sys.argv[1:]
builder = (
    SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    .config("spark.ui.enabled", "false").config("spark.sql.warehouse.dir", f"{work}/warehouse")
)
spark = raftlog.spark.configure(builder, checkpoints="file").getOrCreate()
spark.range(100).write.parquet(f"{work}/in")

ids = spark.readStream.schema("id long").parquet(f"{work}/in")

def copy(rows, writer_format, checkpoint, **options):
    writer = rows.writeStream.format(writer_format).options(**options).queryName(checkpoint)
    writer = writer.option("checkpointLocation", f"{work}/{checkpoint}")
    writer.trigger(availableNow=True).start().awaitTermination()

log = {"raftlog.bootstrap.servers": servers}
copy(ids, "raftlog", "into", topic="ids", **log)
stream = spark.readStream.format("raftlog").options(**log)
stream = stream.option("subscribe", "ids").option("startingOffsets", "earliest").load()
copy(stream, "parquet", "out", path=f"{work}/found")
found = sorted(row.id for row in spark.read.parquet(f"{work}/found").collect())
assert found == list(range(100)), found
print("every id once")
"""

MISSING_MODULES = """
import importlib, json, pkgutil
import raftlog

missing = set()
for found in pkgutil.walk_packages(raftlog.__path__, "raftlog.", onerror=lambda name: None):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        missing.add(error.name.partition(".")[0])
print(json.dumps(sorted(missing)))
"""
"""Imports every module of raftlog, and prints the packages that the first import of one lacked."""

OF_SERVER = {"cachetools", "cryptography", "jwt", "prometheus_client", "structlog"}
OF_SPARK = {"py4j", "pyspark"}
OF_TRACING = {"opentelemetry"}
EVERYTHING = OF_SERVER | OF_SPARK | OF_TRACING


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tree(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without its dependencies, which it finds among the packages of the tests."""
    made = Environment.make(tmp_path_factory.mktemp("installed"))
    made.see_packages_of_tests()
    made.install("--no-deps", str(wheel))
    return made


@contextmanager
def up(environment: Environment, data: Path) -> Iterator[str]:
    """The addresses of the nodes that its `raftlog up` starts, and stops in the end."""
    said, log = data.with_suffix(".out"), data.with_suffix(".err")
    with said.open("wb") as out, log.open("wb") as err:
        words = ("up", "--data", str(data), "--port", str(free_ports(3)), "-o", "json")
        running = subprocess.Popen(
            [environment.program("raftlog"), *words],
            cwd=environment.elsewhere, env=environment.variables(), stdout=out, stderr=err,
        )  # fmt: skip
    try:
        wait_for(
            lambda: said.read_text().endswith("\n") or running.poll() is not None,
            "raftlog up", PATIENCE_S,
        )  # fmt: skip
        assert running.poll() is None, log.read_text()
        yield ",".join(node["address"] for node in json.loads(said.read_text())["nodes"])
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(PATIENCE_S)


@pytest.mark.soak
def test_two_builds_of_one_commit_are_identical(tmp_path: Path) -> None:
    """Also from another clone, with another umask, and at another time."""
    clone = tmp_path / "clone"
    run("git", "clone", "--quiet", str(ROOT), str(clone))
    commit = run("git", "rev-parse", "HEAD").stdout.strip()
    command = shlex.join([sys.executable, str(clone / "scripts" / "dist.py")])
    for folder, build in (
        ("here", [sys.executable, str(DIST)]),
        ("there", ["bash", "-c", f'umask 077; {command} "$@"', "bash"]),
    ):
        run(*build, "--out", str(tmp_path / folder), commit)
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert [re.sub(r"-[\d.]+(?=-py3|\.tar)", "", name) for name in names] == [
        "raftlog-py3-none-any.whl",
        "raftlog.tar.gz",
    ]
    for name in names:
        here, there = ((tmp_path / folder / name).read_bytes() for folder in ("here", "there"))
        assert here == there, name


def test_the_installed_wheel_sees_no_checkout(installed: Environment) -> None:
    program = "import json, sys, raftlog; print(json.dumps([raftlog.__file__, sys.path]))"
    file, path = json.loads(installed.output("python", "-c", program))
    assert Path(file).is_relative_to(installed.folder)
    assert str(ROOT) not in path
    assert installed.ran("python", "-c", "import tests").returncode != 0


def test_every_command_of_the_wheel_has_help(installed: Environment) -> None:
    helped = installed.output("python", "-c", HELP_OF_EVERY_COMMAND)
    ends = [line for line in helped.splitlines() if line.startswith("END OF")]
    assert len(ends) == helped.count("Usage: raftlog") > 50
    assert "Usage: raftlog" in installed.output("raftlog", "--help")
    assert "Usage: raftlog topic create" in installed.output("raftlog", "topic", "create", "--help")


def test_the_wheel_prints_its_pages(installed: Environment) -> None:
    pages = json.loads(installed.output("raftlog", "docs", "-o", "json"))
    names = {each["page"] for each in pages}
    assert {"OPERATIONS", "ERRORS", "conf/raftlog.toml", "examples/consumer.py"} <= names
    assert not {"TESTING", "CHECKLIST", "DECISIONS", "index"} & names
    assert "## Data loss" in installed.output("raftlog", "docs", "OPERATIONS")
    sample = (ROOT / "conf" / "raftlog.toml").read_text(encoding="utf-8")
    assert installed.output("raftlog", "docs", "conf/raftlog.toml") == sample


@pytest.mark.cluster
@pytest.mark.spark
def test_the_wheel_runs_nodes_and_serves_records_and_streams(
    installed: Environment, tmp_path: Path
) -> None:
    with up(installed, tmp_path / "data") as servers:
        at = ("--servers", servers)
        installed.output("raftlog", *at, "topic", "create", "words", "--schema", "id bigint")
        installed.output("raftlog", *at, "produce", "words", text='{"id": 1}\n{"id": 2}\n')
        tailed = installed.output("raftlog", *at, "tail", "words", "-o", "json").splitlines()
        assert [json.loads(line)["id"] for line in tailed] == [1, 2]
        streamed = installed.output("python", "-c", STREAM_IN_AND_OUT, servers, str(tmp_path))
        assert "every id once" in streamed


@pytest.fixture
def plain(wheel: Path, tmp_path: Path) -> Environment:
    """The wheel with its dependencies, and nothing else."""
    made = Environment.make(tmp_path)
    made.install(str(wheel), timeout_s=INSTALL_TIMEOUT_S)
    return made


@pytest.mark.soak
def test_a_plain_installation_is_a_client_and_says_how_to_become_more(
    plain: Environment, wheel: Path
) -> None:
    assert set(json.loads(plain.output("python", "-c", MISSING_MODULES))) == EVERYTHING
    assert "END OF kv watch" in plain.output("python", "-c", HELP_OF_EVERY_COMMAND)
    refused = plain.ran("raftlog", "up")
    assert refused.returncode == ExitCode.USAGE
    line = f'pip install "raftlog[server] @ {wheel.as_uri()}"'
    assert refused.stderr.splitlines()[1:] == [f"  Install them: {line}"]
    plain.install(shlex.split(line)[-1], timeout_s=INSTALL_TIMEOUT_S)
    assert set(json.loads(plain.output("python", "-c", MISSING_MODULES))) == EVERYTHING - OF_SERVER
    with up(plain, plain.elsewhere / "data") as servers:
        assert "controller" in plain.output("raftlog", "--servers", servers, "status")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("extra", "found", "also"),
    [
        ("server", OF_SERVER, "grpc_health.v1.health, raftlog.server.main, uvloop"),
        ("spark", OF_SPARK, "pyspark_raftlog"),
        ("connect", OF_SPARK, "pyspark.sql.connect.streaming.worker.foreach_batch_worker"),
        ("pipelines", OF_SPARK, "pyspark.pipelines.cli"),
        ("tracing", OF_TRACING, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"),
        ("all", EVERYTHING, "grpc_health.v1.health, pyspark.pipelines.cli, uvloop"),
        ("demo", OF_SERVER | OF_SPARK, "raftlog.spark_jobs.demo"),
    ],
)
def test_an_extra_by_itself_brings_what_its_modules_import(
    extra: str, found: set[str], also: str, wheel: Path, tmp_path: Path
) -> None:
    made = Environment.make(tmp_path)
    made.install(f"raftlog[{extra}] @ {wheel.as_uri()}", timeout_s=INSTALL_TIMEOUT_S)
    assert set(json.loads(made.output("python", "-c", MISSING_MODULES))) == EVERYTHING - found
    # Connect's modules end the process, and well, if they miss something.
    assert "imported" in made.output("python", "-c", f"import {also}; print('imported')")
