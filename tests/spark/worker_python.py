"""The Python of Spark's workers in most tests: a fork, which is quick to start.

    PYSPARK_PYTHON=<worker_python.sh> makes Spark run worker_python.py -m MODULE ARGUMENTS

Spark starts a process for each kind of worker and for each streaming read, which would import
pyspark from a zip without byte code, and then the connector. Here a server (TESTS_FORKS) that has
imported both forks it. What a user would write runs the usual Python (`conftest.run_program`).
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from tests import fork_server

JVM = "TESTS_JVM"
"""A forked worker's variable with the id of the JVM that started it, which is not its parent."""

PRELOADED = (
    "pandas",
    "raftlog.client.log_client",
    "raftlog.spark.datasource",
    "raftlog.spark.reader",
    "raftlog.spark.writer",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker_util",
)
"""What workers import before they do anything, of what every Spark has."""


@cache
def variables() -> dict[str, str]:
    """The environment of a driver whose workers are such forks. One server serves all of them."""
    return {
        "PYSPARK_PYTHON": str(Path(__file__).with_suffix(".sh")),
        "TESTS_PYTHON": sys.executable,
        "TESTS_FORKS": fork_server.start(PRELOADED).address,
    }


if __name__ == "__main__":
    os.environ[JVM] = str(os.getppid())
    sys.exit(fork_server.run_forked(os.environ["TESTS_FORKS"], [sys.executable, *sys.argv[1:]]))
