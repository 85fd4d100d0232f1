"""Spark's settings that make reads, writes and micro-batches of the log fast, each with its reason.

`configure` sets them; `conf/spark-defaults.conf`, which is generated from here, has them as a file:

    python -m raftlog.spark.session > conf/spark-defaults.conf
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from raftlog.errors import InvalidOption

Target = TypeVar("Target")
Checkpoints = Literal["file", "hdfs"]

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_BYTES_UNCHECKED = "2147483647"
"""Only with this value does Spark not measure its Arrow batch after every row."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGER_CLASS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
RENAMES = ("file", "hdfs")
"""File systems, by their scheme, whose rename is atomic and so fit for `FILE_MANAGER_CLASS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One of Spark's settings."""

    key: str
    value: str
    reason: str
    at_start: bool = False
    """Whether it is set only before the session starts: later it has no effect, or changes results
    under way."""


WRITES = Setting(
    key=ARROW_BYTES,
    value=ARROW_BYTES_UNCHECKED,
    reason="The most important one for writes. With any other value Spark measures its Arrow batch "
    "after every row it adds; with exactly this one it does not, and only maxRecordsPerBatch "
    "bounds a batch. The sink warns about another value.",
)
SETTINGS = (
    WRITES,
    Setting(
        key="spark.sql.execution.arrow.maxRecordsPerBatch",
        value="10000",
        reason="Rows of one Arrow batch, which now bound its memory. This is Spark's default, "
        "repeated because it matters: rows of 10 KB make batches of 100 MB. Lower it for large "
        "rows.",
    ),
    Setting(
        key="spark.python.unix.domain.socket.enabled",
        value="true",
        at_start=True,
        reason="The JVM and its Python workers speak through Unix sockets instead of TCP on "
        "loopback: a task's first rows come sooner. The sockets are in java.io.tmpdir; who may "
        "write to them is the user that runs Spark.",
    ),
    Setting(
        key="spark.python.daemon.module",
        value="raftlog.spark.daemon",
        at_start=True,
        reason="Spark's Python daemon, which takes pyspark from its folder instead of a zip that "
        "every new worker process compiles: it starts in a fraction of the time. Idle workers end "
        "after a minute, which is no setting, so a query with a slow trigger starts them each "
        "time. Every Python of the cluster must have raftlog installed, as the connector needs.",
    ),
    Setting(
        key="spark.sql.session.timeZone",
        value="UTC",
        at_start=True,
        reason="Timestamps in the log are in UTC. With a session in UTC they look the same "
        "everywhere.",
    ),
)
CHECKPOINTS = Setting(
    key=FILE_MANAGER,
    value=FILE_MANAGER_CLASS,
    reason="How a query's checkpoint is written, twice for each micro-batch. On a local disk the "
    "default starts a process for each file, which takes tens of milliseconds. Only for "
    "checkpoints on a local disk (file:) or on HDFS: there a rename is atomic. Not for object "
    "stores (s3a:, gs:, abfs:), where a file that is renamed may be seen half, or replace "
    "another one.",
)


def configure(target: Target, *, checkpoints: Checkpoints | None = None) -> Target:
    """Set what makes Spark fast with the log, and its time zone to UTC: on a builder, or on a
    session that runs.

        spark = raftlog.spark.configure(SparkSession.builder, checkpoints="file").getOrCreate()

    It sets, unless the builder or the session has another value:

    - `spark.sql.execution.arrow.maxBytesPerBatch` and `maxRecordsPerBatch`: the first holds Spark
      up after every row that it writes
    - `spark.sql.session.timeZone` to UTC, so that `collect()`, `show()` and times without a zone
      are in UTC; never on a session that runs
    - `spark.python.unix.domain.socket.enabled` and `spark.python.daemon.module`: Python workers
      start sooner; not on a session that runs
    - `spark.sql.streaming.checkpointFileManagerClass`, with `checkpoints`

    As in Spark, a builder comes before `--conf` of spark-submit and before spark-defaults.conf.

    A builder whose master is local runs its workers on this interpreter, so that a script need not
    activate its virtual environment: `PYSPARK_PYTHON` is set in this process, unless it is set
    already or the builder has `spark.pyspark.python`. Name another master before this call.

    Args:
        target: `SparkSession.builder`, or a session. A builder counts as a session that runs if
            the thread has one, which `getOrCreate` would return.
        checkpoints: The scheme of the file system that has the queries' checkpoints, if it is
            `file` (a local disk) or `hdfs`: then they are written in a way that is faster, and
            safe where a rename is atomic. Default: that is left as it is.

    Returns:
        The builder or session.

    Raises:
        InvalidOption: `checkpoints` is something else.
    """
    if checkpoints not in (None, *RENAMES):
        raise InvalidOption(
            option="checkpoints",
            problem=f"is {checkpoints!r}, and a rename is known to be atomic on {RENAMES} only",
            advice="Leave it out for checkpoints elsewhere.",
        )
    wanted = (*SETTINGS, CHECKPOINTS) if checkpoints else SETTINGS
    from pyspark.sql import SparkSession

    spark: Any = target
    is_builder = hasattr(spark, "getOrCreate")
    if is_builder and _is_local(spark._options):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running: Any = SparkSession.getActiveSession() if is_builder else spark
    given = {**(running.conf.getAll if running else {}), **(spark._options if is_builder else {})}
    put = spark.config if is_builder else spark.conf.set
    for setting in wanted:
        if setting.key not in given and not (running and setting.at_start):
            put(setting.key, setting.value)
    return target


_FROM_ELSEWHERE = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
"""Variables that may bring the master of a session that names none: those of spark-submit, and of
an installation with a configuration of its own."""


def _is_local(options: Mapping[str, str]) -> bool:
    """Whether a builder with these options runs its workers here, on no other Python."""
    if "spark.pyspark.python" in options or "spark.remote" in options:
        return False
    master = options.get("spark.master", os.environ.get("MASTER"))
    if master is not None:
        return master.startswith("local") and not master.startswith("local-cluster")
    return not any(map(os.environ.get, (*_FROM_ELSEWHERE, "SPARK_REMOTE")))


def file_text() -> str:
    """`conf/spark-defaults.conf`."""
    head = (
        "# Spark settings that suit raftlog: those of raftlog.spark.configure, generated from\n"
        "# raftlog.spark.session. Use them with\n"
        "#   spark-submit --properties-file conf/spark-defaults.conf ...\n"
        "# or copy the lines into the defaults of your cluster."
    )
    paragraphs = [head, *map(_paragraph, SETTINGS)]
    return "\n\n".join((*paragraphs, _paragraph(CHECKPOINTS, off=True))) + "\n"


def _paragraph(setting: Setting, *, off: bool = False) -> str:
    reason = setting.reason + (" Remove the # if that is so." if off else "")
    lines = textwrap.wrap(reason, width=97)
    mark = "# " if off else ""
    return "\n".join((*(f"# {line}" for line in lines), f"{mark}{setting.key}  {setting.value}"))


if __name__ == "__main__":
    sys.stdout.write(file_text())
