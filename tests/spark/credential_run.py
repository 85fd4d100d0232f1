"""A Spark program that tries credentials, one after the other, as docs/examples/spark does.

credential_run.py EXAMPLE WORK NAME...: for each name it prints `COPIED NAME ROWS`, or `REJECTED
NAME` and why.
"""

import importlib.util
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

example, work, *names = sys.argv[1:]
spec = importlib.util.spec_from_file_location("credential", example)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
spark = SparkSession.builder.getOrCreate()
for name in names:
    log = {"raftlog.auth.credential": name}
    try:
        print("COPIED", name, module.run(spark, log, f"{work}/{name}"))
    except PySparkException as error:
        print("REJECTED", name, " ".join(str(error).split()))
spark.stop()
