"""How Spark finds the source: light to import, found by name, pickled by reference."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.serializers import CPickleSerializer

import pyspark_raftlog

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_doorbell_imports_neither_grpc_nor_pyarrow():
    code = (
        "import sys, pyspark_raftlog; heavy = {'grpc', 'pyarrow', 'pydantic', 'google.protobuf'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_spark_finds_it_among_top_level_modules_by_its_name():
    code = (
        "from pkgutil import iter_modules; "
        "print([m.name for m in iter_modules() if m.name.startswith('pyspark_')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "pyspark_raftlog" in done.stdout
    assert pyspark_raftlog.DefaultSource.name() == "raftlog"


def test_it_is_pickled_by_reference():
    """Executors load the installed class; none of it is pickled."""
    source = pyspark_raftlog.DefaultSource(options={"subscribe": "t"})
    pickled = CPickleSerializer().dumps(source)
    assert b"raftlog.spark.datasource" in pickled
    assert len(pickled) < 300


NOT_IN_WORKERS = (
    "kazoo", "pandas", "pyarrow.dataset", "pyarrow.fs", "pyarrow.parquet", "raftlog.cli",
    "raftlog.discovery", "raftlog.multiraft", "raftlog.server", "raftlog.storage", "rich",
    "sqlglot", "structlog", "typer", "uvloop",
)  # fmt: skip
"""What a worker that reads and writes does not need, and would import in every new process."""


@pytest.mark.slow
def test_a_worker_of_spark_imports_nothing_heavy_that_it_does_not_need():
    code = (
        "import sys, pyspark.worker, pyspark_raftlog\n"
        "import raftlog.spark.stream_reader, raftlog.spark.writer\n"
        "from raftlog.spark import connection\n"
        "from raftlog.spark.options import connection_options\n"
        "connection.client(connection_options({}))\n"
        f"print([name for name in {NOT_IN_WORKERS!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
