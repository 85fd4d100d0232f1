"""Topics in a declarative pipeline: one is read as a stream, another one is a sink.

Reads `clicks` (`ad bigint, at timestamp`). RAFTLOG_CLIENT__BOOTSTRAP_SERVERS says where the cluster
is, if it is not that of `raftlog up`.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

UP = "127.0.0.1:7401,127.0.0.1:7402,127.0.0.1:7403"
LOG = {"raftlog.bootstrap.servers": os.environ.get("RAFTLOG_CLIENT__BOOTSTRAP_SERVERS", UP)}
CLICKS = {**LOG, "subscribe": "clicks"}

spark = SparkSession.active()


@dp.temporary_view
def clicks() -> DataFrame:
    """What the flows below share."""
    stream = spark.readStream.format("raftlog").options(**CLICKS)
    return stream.option("startingOffsets", "earliest").load()


dp.create_sink("valid_clicks", "raftlog", {**LOG, "topic": "valid-clicks"})


@dp.append_flow(target="valid_clicks")
def valid() -> DataFrame:
    """Exactly once: the flow has a checkpoint of its own below the pipeline's storage."""
    return spark.readStream.table("clicks").where("ad IS NOT NULL")


@dp.materialized_view
def clicks_by_ad() -> DataFrame:
    """A table of Spark's, computed from the whole topic in each run."""
    return spark.read.format("raftlog").options(**CLICKS).load().groupBy("ad").count()
