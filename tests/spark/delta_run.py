"""Archives a topic into a Delta table, twice, with a batch forgotten in between.

delta_run.py SERVERS TOPIC FOLDER JARS prints, as one line of JSON each time, the ids that the
table has, and at last what a run without its checkpoint says. The jars are separated by commas.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import raftlog
from raftlog.spark_jobs import archive

BATCH = 4

servers, topic, folder, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
table, work = f"{folder}/table", Path(folder) / "work"
words = ["--servers", servers, "--topic", topic, "--to", table, "--work", str(work)]
options = archive.parser().parse_args([*words, "--format", "delta", "--max-offsets", str(BATCH)])


def run() -> None:
    """Archive what there is, and print what the table has."""
    archive.start(spark, options).awaitTermination()
    rows = spark.read.format("delta").load(table).orderBy("_offset").collect()
    print(json.dumps([row.id for row in rows]))


run()
commits = work / "checkpoint" / "commits"
last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
for path in (commits / str(last), commits / f".{last}.crc"):
    path.unlink(missing_ok=True)
with raftlog.connect(servers) as client:
    client.append(topic, [{"id": 10}])
run()
(work / "checkpoint" / "metadata").unlink()
try:
    archive.start(spark, options)
except SystemExit as refused:
    print(json.dumps(str(refused)))
spark.stop()
