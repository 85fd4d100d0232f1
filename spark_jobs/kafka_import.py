"""Kafka topics into a topic of the log, each record once and in the order of its partition.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 \\
        spark_jobs/kafka_import.py --kafka HOST:9092 --subscribe orders --to-topic orders

Takes what there is and ends; with --follow it goes on until Ctrl-C or SIGTERM. If it runs again
with the same --work, it continues where it was; without its checkpoint it is refused. Each record
has Kafka's columns: `key`, `value` (both binary), `headers`, `topic`, `partition`, `offset` and
`timestamp`. With --json-schema the fields of the JSON in `value` are columns in place of `value`,
and `bad_value` has the bytes of a value that is no such JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructType

from raftlog.spark_jobs.session import (
    await_end,
    found_by,
    job_parser,
    open_session,
    stop_on_signals,
)

BAD_VALUE = "bad_value"
COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""What a record of Kafka's source has; `timestampType` says nothing of a record."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the job. Returns when what Kafka had at its start is written, or when it was stopped."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog kafka import")
    stopped = stop_on_signals()
    await_end(start(spark, options), stopped)
    print(json.dumps({"job": "kafka_import", "from": options.subscribe, "to": options.to_topic}))
    spark.stop()


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Start the query."""
    kafka = (
        spark.readStream.format("kafka")
        .options(**dict(options.kafka_option))
        .option("kafka.bootstrap.servers", options.kafka)
        .option("subscribe", options.subscribe)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", options.max_offsets)
        .load()
    )
    writer = (
        typed(kafka.select(*COLUMNS), json_fields(options.json_schema))
        .writeStream.format("raftlog")
        .queryName("kafka-import")
        .options(**found_by(options))
        .option("topic", options.to_topic)
        .option("txnAppId", options.name)
        .option("checkpointLocation", str(options.work / "checkpoint"))
    )
    return (writer if options.follow else writer.trigger(availableNow=True)).start()


def json_fields(text: str | None) -> StructType | None:
    """The columns that `--json-schema` names. Ends the job if there cannot be such columns."""
    if text is None:
        return None
    try:
        fields = StructType.fromDDL(text)
    except ParseException as error:
        sys.exit(f"error: --json-schema {text!r} is no list of columns: {error}")
    if not isinstance(fields, StructType):
        sys.exit(f"error: --json-schema {text!r} is a type and no list of columns")
    kept = {*COLUMNS, BAD_VALUE} - {"value"}
    taken = sorted(name for name in fields.names if name.lower() in kept)
    if taken:
        sys.exit(
            f"error: --json-schema has {', '.join(taken)}, and so has each record of Kafka: select "
            "in a job of your own, with from_json and another name."
        )
    return fields


def typed(records: DataFrame, fields: StructType | None) -> DataFrame:
    """The records, with the fields of their JSON in place of `value`, if there are such."""
    if fields is None:
        return records
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD_VALUE}
    wanted = StructType([*fields.fields]).add(BAD_VALUE, StringType())
    parsed = records.withColumn("json", F.from_json(F.col("value").cast("string"), wanted, options))
    bad = F.when(F.col(f"json.{BAD_VALUE}").isNotNull(), F.col("value")).alias(BAD_VALUE)
    columns = [F.col("json").getField(name).alias(name) for name in fields.names]
    return parsed.select(*(name for name in COLUMNS if name != "value"), *columns, bad)


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "kafka-import")
    made.add_argument("--kafka", default="127.0.0.1:9092", help="host:port of Kafka's brokers")
    made.add_argument("--subscribe", default="flights", help="topics of Kafka, comma-separated")
    made.add_argument("--to-topic", default="flights", help="topic to write")
    made.add_argument("--name", default="kafka-import", help="who writes: one name per import")
    made.add_argument("--json-schema", help="columns of the values' JSON: 'id bigint, city string'")
    made.add_argument("--max-offsets", type=int, default=1_000_000, help="records per micro-batch")
    made.add_argument("--follow", action="store_true", help="go on until it is stopped")
    made.add_argument(
        "--kafka-option",
        action="append",
        default=[],
        type=_option,
        metavar="NAME=VALUE",
        help="another option of Spark's Kafka source, as kafka.security.protocol=SSL",
    )
    return made


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    main()
