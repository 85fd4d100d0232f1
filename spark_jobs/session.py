"""The Spark session of the jobs, and the command-line flags they share."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path
from queue import SimpleQueue

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

DEFAULT_SERVERS = "127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403"
"""The addresses of `raftlog up` without options."""

DEFAULT_WORK = Path("demo-data")

SETTINGS = {
    # What raftlog.spark.configure sets, and why, is in conf/spark-defaults.conf.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "raftlog.spark.daemon",
    # The jobs' checkpoints are in --work, a folder of a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
}


def job_parser(description: str, work: str) -> argparse.ArgumentParser:
    """A parser with the flags of every job: `--servers` or `--zookeeper`, and `--work`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--servers",
        default=os.environ.get("RAFTLOG_CLIENT__BOOTSTRAP_SERVERS", DEFAULT_SERVERS),
        help="host:port of the nodes",
    )
    parser.add_argument(
        "--zookeeper", help="in place of --servers: the ensemble, host:port,host:port/path"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=DEFAULT_WORK / work,
        help="folder of the job's own, for unpacked input and the checkpoint; keep it as long as "
        "the topics, because a job that lost its checkpoint is refused",
    )
    return parser


def found_by(options: argparse.Namespace) -> dict[str, str]:
    """The option of source and sink that says where the cluster is."""
    if options.zookeeper:
        return {"raftlog.zookeeper.connect": options.zookeeper}
    return {"raftlog.bootstrap.servers": options.servers}


def open_session(name: str) -> SparkSession:
    """The session; spark-submit decides its size. Ends the job if the Python is the wrong one.

    Driver and executors must run the Python that has raftlog, and spark-submit takes the `python3`
    on the PATH unless it is told otherwise.
    """
    if importlib.util.find_spec("pyspark_raftlog") is None:
        sys.exit(f"error: {sys.executable} has no raftlog; {_advice()}")
    tasks_python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if shutil.which(tasks_python) != shutil.which(sys.executable):
        sys.exit(
            f"error: tasks would run on {tasks_python}, this job runs on {sys.executable}; "
            + _advice()
        )
    builder = SparkSession.builder.appName(name)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def stop_on_signals() -> SimpleQueue[int]:
    """A queue that gets each Ctrl-C and SIGTERM. (An Event's lock would not bear a second signal
    while the handler of the first one has it.)

    Call it after `open_session`, which handles Ctrl-C in another way.
    """
    stopped: SimpleQueue[int] = SimpleQueue()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: stopped.put(number))
    return stopped


def await_end(query: StreamingQuery, stopped: SimpleQueue[int]) -> None:
    """Return when the query has ended by itself, or was stopped because of a signal.

    Raises the query's error.
    """
    while not query.awaitTermination(1):
        if not stopped.empty():
            query.stop()


def _advice() -> str:
    return "set PYSPARK_PYTHON to the Python of raftlog's environment (.venv/bin/python)."
