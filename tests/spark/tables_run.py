"""Archives a topic into a Delta or Iceberg table, twice, with a batch forgotten in between.

tables_run.py FORMAT SERVERS TOPIC FOLDER JARS prints, as one line of JSON each time, the ids that
the table has. The jars are separated by commas.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import raftlog
from raftlog.spark_jobs import archive

SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}
BATCH = 4

format_, servers, topic, folder, jars = sys.argv[1:]
os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
for name, value in SETTINGS[format_].items():
    builder = builder.config(name, value)
builder = builder.config("spark.sql.catalog.lake.warehouse", f"{folder}/lake")
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
to = f"{folder}/table" if format_ == "delta" else "lake.db.archived"
work = Path(folder) / "work"
words = ["--servers", servers, "--topic", topic, "--to", to, "--work", str(work)]
options = archive.parser().parse_args([*words, "--format", format_, "--max-offsets", str(BATCH)])


def run() -> None:
    """Archive what there is, and print what the table has."""
    archive.start(spark, options).awaitTermination()
    rows = spark.read.format(format_).load(to).orderBy("_offset").collect()
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
