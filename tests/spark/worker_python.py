"""The Python of Spark's workers in the session that tests share: a fork, which is quick to start.

    PYSPARK_PYTHON=<worker_python.sh> makes Spark run worker_python.py -m MODULE ARGUMENTS

Spark starts a process for each kind of worker and for each streaming read, which would import
pyspark from a zip without byte code, and then the connector. Here a server (TESTS_FORKS) that has
imported both forks it. Programs of their own, such as tests/spark/relay.py, run the usual Python.
"""

from __future__ import annotations

import os
import sys

from tests import fork_server

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


if __name__ == "__main__":
    sys.exit(fork_server.run_forked(os.environ["TESTS_FORKS"], [sys.executable, *sys.argv[1:]]))
