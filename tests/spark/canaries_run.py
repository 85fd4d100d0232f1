"""A Spark program that uses a closed cluster, and makes mistakes with its secrets.

canaries_run.py PLAN, a file of JSON: `folder`, where it writes; `options` of the connection, which
name a credential that the environment defines, as it does `wrong`; `token` and `key`, the files of
which it gives the content as options. It prints all that Spark tells: plans, progress, errors.
"""

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

plan = json.loads(Path(sys.argv[1]).read_text())
folder, options = plan["folder"], plan["options"]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.dir", f"file:{folder}/events")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
rows = spark.range(10).selectExpr("id")
BARE = {
    "raftlog.auth.token": Path(plan["token"]).read_text().strip(),
    "raftlog.tls.key.file": Path(plan["key"]).read_text(),
}


def read(more: dict[str, str]) -> DataFrame:
    """The topic as a batch."""
    given = {**options, "subscribe": "came", **more}
    return spark.read.format("raftlog").options(**given).load()


def read_stream(more: dict[str, str]) -> DataFrame:
    """The topic as a stream."""
    given = {**options, "subscribe": "came", "startingOffsets": "earliest", **more}
    return spark.readStream.format("raftlog").options(**given).load()


def write(more: dict[str, str]) -> None:
    """Write a batch."""
    rows.write.format("raftlog").options(**{**options, "topic": "came", **more}).mode(
        "append"
    ).save()


def copy(more: dict[str, str], into: str = "went", what: str = "id") -> None:
    """Copy the topic by a query, and print what Spark tells of it."""
    writer = read_stream({}).selectExpr(what).writeStream.format("raftlog")
    writer = writer.options(**{**options, "topic": into, **more}).trigger(availableNow=True)
    place = f"{folder}/checkpoint-{into}-{len(list(Path(folder).iterdir()))}"
    query = writer.option("checkpointLocation", place).start()
    try:
        query.awaitTermination()
        query.explain(extended=True)
    finally:
        print("PROGRESS", [progress.json for progress in query.recentProgress], query.status)
        print("EXCEPTION", query.exception())


def refused(what: str, do: Callable[[], object]) -> None:
    """Print why it is refused, as a program that fails does."""
    try:
        do()
        print("NOT REFUSED", what)
    except PySparkException as error:
        print("REFUSED", what, str(error), repr(error))
        traceback.print_exc()


write({})
batch = read({})
batch.explain(extended=True)
print("READ", batch.count())
copy({})
spark.sql("SET -v").write.mode("overwrite").json(f"{folder}/settings")
refused("another column", lambda: copy({}, into="went", what="id AS other"))
refused("no topic", lambda: read({"subscribe": "nothing"}).count())
for name, given in (
    ("the wrong token", {"raftlog.auth.credential": "wrong"}),
    *((name, {name: value}) for name, value in BARE.items()),
):
    refused(f"batch read, {name}", lambda given=given: read(given).count())
    refused(f"stream read, {name}", lambda given=given: read_stream(given))
    refused(f"batch write, {name}", lambda given=given: write(given))
    refused(f"stream write, {name}", lambda given=given: copy(given))
spark.stop()
