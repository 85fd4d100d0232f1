"""What the connector changes in a Python worker of Spark's: garbage collections, error reports.

Spark collects garbage after each task, over all objects of the process. Most of these are modules,
which stay: to visit them takes tens of milliseconds, several times for each micro-batch. So after
the process's first full collections, what they left is excluded from later ones (`gc.freeze`). What
a task leaves behind is still collected after it. Frozen objects that become garbage in a cycle stay
until the process ends. There are few: only those that already existed then.
"""

from __future__ import annotations

import gc
import os

FREEZES_MAX = 3
"""A worker's first tasks import the modules. No setting: later ones bring nothing new, and what
they keep may be a user's."""

_OLDEST = 2

_freezes: dict[int, int] = {}
"""How often this process froze what it had, by process: a fork begins again."""


def keep_collections_short() -> None:
    """Freeze what the next few full collections leave, if this is a Python worker of Spark's."""
    from pyspark import SparkFiles

    if SparkFiles._is_running_on_worker and os.getpid() not in _freezes:
        _freezes[os.getpid()] = 0
        gc.callbacks.append(_freeze)


def report_without_traceback() -> None:
    """Let Spark report the error that ends this Python worker as `type: message`, as the setting
    `spark.sql.execution.pyspark.udf.hideTraceback.enabled` does for all errors."""
    from pyspark import SparkFiles

    if SparkFiles._is_running_on_worker:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def _freeze(phase: str, info: dict[str, int]) -> None:
    done = _freezes.get(os.getpid(), FREEZES_MAX)
    if phase == "stop" and info["generation"] == _OLDEST and done < FREEZES_MAX:
        gc.freeze()
        _freezes[os.getpid()] = done + 1
