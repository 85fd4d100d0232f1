"""The Python of Spark's workers in the session that tests share: quick to start.

    PYSPARK_PYTHON=<worker_python.sh> makes Spark run worker_python.py -m MODULE ARGUMENTS

Spark puts `pyspark.zip` first on the path, which has no byte code, and workers import the connector
after the fork. Here pyspark comes from its folder, and a daemon imports the connector before it
forks. Programs of their own (tests/spark/relay.py and others) run the usual Python.
"""

from __future__ import annotations

import os
import runpy
import sys

from raftlog.spark.daemon import path_without_zip


def main() -> None:
    """Be what `python -m MODULE ARGUMENTS` would be."""
    flag, module, *arguments = sys.argv[1:]
    assert flag == "-m", sys.argv
    path = path_without_zip([os.getcwd(), *sys.path[1:]])
    # Nor other archives (py4j's zip, a jar): `iter_modules` of Python 3.13 raises KeyError for one
    # whose cache was cleared.
    sys.path[:] = [entry for entry in path if not os.path.isfile(entry)]
    sys.argv = [module, *arguments]
    if module == "pyspark.daemon":
        import raftlog.spark.datasource
        import raftlog.spark.reader
        import raftlog.spark.writer  # noqa: F401
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
