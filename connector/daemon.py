"""Spark's Python daemon with pyspark from its folder: `spark.python.daemon.module`.

    spark.python.daemon.module    raftlog.spark.daemon

Spark puts `pyspark.zip` first on the path of its Python workers. The zip holds no byte code, so
every worker process compiles what it imports, which takes about half a second of a core. Where the
rest of the path has the same pyspark as a folder, the daemon takes that, and is Spark's own daemon
in everything else. Its `gc.collect` after each task stays, so a task's garbage goes with the task.

Nothing here imports pyspark before the path is as it should be: `raftlog.spark` must not either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from zipimport import ZipImportError, zipimporter

ZIP = "pyspark.zip"
COMPARED = ("version.py", "daemon.py", "worker.py", "worker_util.py", "serializers.py")
"""Files of pyspark that speak to the JVM: if they are equal, so is what the two do."""


def path_without_zip(path: Sequence[str]) -> list[str]:
    """The path without `pyspark.zip`, if what is left has the same pyspark as a folder; else the
    path as it is."""
    zips = [entry for entry in path if os.path.basename(entry) == ZIP]
    rest = [entry for entry in path if entry not in zips]
    found = PathFinder.find_spec("pyspark", rest)
    if not zips or found is None or found.origin is None:
        return list(path)
    same = all(_same(zips[0], os.path.dirname(found.origin), name) for name in COMPARED)
    return rest if same else list(path)


def _same(zip_file: str, folder: str, name: str) -> bool:
    try:
        of_zip = zipimporter(zip_file).get_data(os.path.join(zip_file, "pyspark", name))
        with open(os.path.join(folder, name), "rb") as file:
            return file.read() == of_zip
    except (OSError, ZipImportError):
        return False


def main() -> None:
    """Be the daemon: Spark runs this module with the name of the workers' module."""
    sys.path[:] = path_without_zip(sys.path)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
