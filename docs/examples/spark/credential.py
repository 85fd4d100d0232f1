"""A credential: a stream and a batch that name it, in whichever way Spark runs.

python docs/examples/spark/credential.py NAME WORK
spark-submit --master spark://127.0.0.1:7077 docs/examples/spark/credential.py NAME WORK
SPARK_REMOTE=sc://localhost:15002 python docs/examples/spark/credential.py NAME WORK

docs/SPARK.md shows where each of the three needs the definition of the credential NAME. Reads
`clicks` as a stream, which it copies to `copied-clicks`, and counts these in a batch.
"""

import os
import sys

from pyspark.sql import SparkSession


def run(spark: SparkSession, log: dict[str, str], work: str) -> int:
    """How many clicks are copied. `log` has the option that names the credential."""
    reader = spark.readStream.format("raftlog").options(**log).option("subscribe", "clicks")
    clicks = reader.option("startingOffsets", "earliest").load()
    writer = clicks.writeStream.format("raftlog").options(**log).option("topic", "copied-clicks")
    # One name for each checkpoint: a second query of a name is taken for one that lost its own.
    writer = writer.queryName(f"copied-clicks in {work}")
    writer = writer.option("checkpointLocation", f"{work}/copied-clicks")
    writer.trigger(availableNow=True).start().awaitTermination()
    copied = spark.read.format("raftlog").options(**log).option("subscribe", "copied-clicks")
    return copied.load().count()


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    builder = SparkSession.builder
    if "SPARK_REMOTE" not in os.environ:  # a Connect client needs nothing of raftlog
        import raftlog.spark

        raftlog.spark.configure(builder)
    session = builder.getOrCreate()
    print(run(session, {"raftlog.auth.credential": name}, folder), "clicks are copied")
    session.stop()
