"""Compare the log with the input: every row of both topics, nulls included, and the offsets.

    spark-submit spark_jobs/verify.py

Rows are compared as multisets over all columns. The expected delays are computed here from the
input, by SQL that shares nothing with the pipeline. Prints a table, and exits with 1 on any
difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from raftlog.spark_jobs import nycflights
from raftlog.spark_jobs.session import found_by, job_parser, open_session

EXPECTED_DELAYS = """
    SELECT f.carrier, f.flight, f.tailnum, f.origin, f.dest, f.time_hour, f.sched_dep_time,
           f.dep_delay, f.arr_delay, f.dep_delay - f.arr_delay AS minutes_made_up,
           w.temp, w.wind_speed, w.precip, w.visib,
           CASE WHEN f.dep_time IS NULL THEN 'cancelled'
                WHEN f.arr_delay IS NULL THEN 'diverted'
                WHEN f.arr_delay >= 60 THEN 'very late'
                WHEN f.arr_delay >= 15 THEN 'late'
                ELSE 'on time' END AS delay_class
    FROM input_flights f LEFT JOIN input_weather w
      ON w.origin = f.origin AND w.time_hour = f.time_hour
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How a topic compares with what it should hold.

    `lost`: rows that should be there and are not. `duplicated`: surplus copies of rows that should
    be there. `changed`: rows that should not be there at all (a changed row also counts as lost).
    `gaps`: offsets that are missing between the first and the last, or used twice.
    """

    topic: str
    expected: int
    found: int
    lost: int
    duplicated: int
    changed: int
    gaps: int

    @property
    def clean(self) -> bool:
        return self.expected == self.found and not (
            self.lost or self.duplicated or self.changed or self.gaps
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and report. Exits with 0 only if nothing differs."""
    options = parser().parse_args(arguments)
    spark = open_session("raftlog verify")
    folder = options.work / "input"
    nycflights.split_flights(folder, 1)
    flights = nycflights.read_flights(spark, folder)
    weather = nycflights.read_weather(spark)
    check_input(flights, folder)
    flights.createOrReplaceTempView("input_flights")
    weather.createOrReplaceTempView("input_weather")
    comparisons, writes = [], {}
    for topic, expected in (
        (options.flights, flights),
        (options.delays, spark.sql(EXPECTED_DELAYS)),
    ):
        found = read_topic(spark, found_by(options), topic)
        comparisons.append(compare(topic, expected, found))
        writes[topic] = write_times(found)
    if options.report:
        report = {"comparisons": [asdict(one) for one in comparisons], "writes_us": writes}
        options.report.write_text(json.dumps(report))
    spark.stop()
    show(comparisons)
    sys.exit(0 if all(one.clean for one in comparisons) else 1)


def parser() -> argparse.ArgumentParser:
    """The job's flags."""
    made = job_parser(__doc__.splitlines()[0], "verify")
    made.add_argument("--flights", default="flights", help="topic that ingest wrote")
    made.add_argument("--delays", default="delays", help="topic that the pipeline wrote")
    made.add_argument("--report", type=Path, help="also write the result there, as JSON")
    return made


def read_topic(spark: SparkSession, cluster: dict[str, str], topic: str) -> DataFrame:
    """All of a topic, with its metadata columns."""
    return (
        spark.read.format("raftlog")
        .options(**cluster)
        .option("subscribe", topic)
        .option("includeMetadata", "true")
        .load()
    )


def check_input(flights: DataFrame, folder: Path) -> None:
    """Check that Spark parsed what the file says: as many rows, and as many nulls in every column.

    Otherwise a value lost in parsing would be missing on both sides, and the comparison would not
    see it.
    """
    nulls = [0] * len(flights.columns)
    rows = 0
    for path in sorted(folder.glob("flights-*.csv")):
        for fields in nycflights.raw_rows(path):
            rows += 1
            for column, field in enumerate(fields):
                nulls[column] += field == "NA"
    parsed = flights.select(
        F.count("*"), *(F.count_if(F.col(name).isNull()) for name in flights.columns)
    ).head()
    assert parsed is not None, "an aggregate has a row"
    assert list(parsed) == [rows, *nulls], f"parsed {list(parsed)}, the file has {rows} {nulls}"
    assert rows == nycflights.FLIGHTS_ROWS, f"{rows} flights in the input"


def compare(topic: str, expected: DataFrame, found: DataFrame) -> Comparison:
    """Compare a topic (with metadata columns) with what it should hold, as multisets."""
    columns = expected.columns
    sides = expected.select(*columns, F.lit(1).alias("_n"), F.lit(0).alias("_m")).unionAll(
        found.select(*columns, F.lit(0).alias("_n"), F.lit(1).alias("_m"))
    )
    rows = sides.groupBy(*columns).agg(F.sum("_n").alias("_n"), F.sum("_m").alias("_m"))
    missing, surplus = F.greatest(F.expr("_n - _m"), F.lit(0)), F.expr("_m - _n")
    counts = rows.select(
        F.sum("_n"),
        F.sum("_m"),
        F.sum(missing),
        F.sum(F.when((F.col("_n") > 0) & (surplus > 0), surplus).otherwise(0)),
        F.sum(F.when(F.col("_n") == 0, F.col("_m")).otherwise(0)),
    ).head()
    span = found.agg(
        F.count_distinct("_offset"), F.count("_offset"), F.min("_offset"), F.max("_offset")
    ).head()
    assert counts is not None, "an aggregate has a row"
    assert span is not None, "an aggregate has a row"
    wanted, there, lost, duplicated, changed = (value or 0 for value in counts)
    distinct, offsets, first, last = span
    width = 0 if first is None else last - first + 1
    return Comparison(
        topic=topic,
        expected=wanted,
        found=there,
        lost=lost,
        duplicated=duplicated,
        changed=changed,
        gaps=(width - distinct) + (offsets - distinct),
    )


def write_times(found: DataFrame) -> list[tuple[int, int]]:
    """When records became visible: (microseconds since 1970 by the leader's clock, records)."""
    rows = (
        found.groupBy(F.unix_micros("_timestamp").alias("at"))
        .agg(F.count("*").alias("records"))
        .orderBy("at")
        .collect()
    )
    return [(row["at"], row["records"]) for row in rows]


def show(comparisons: Sequence[Comparison]) -> None:
    """Print the comparisons as a table on standard output."""
    table = Table(title="The log against the input")
    for name in ("topic", "expected", "found", "lost", "duplicated", "changed", "gaps"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    table.add_column("result")
    for one in comparisons:
        numbers = (one.expected, one.found, one.lost, one.duplicated, one.changed, one.gaps)
        table.add_row(
            one.topic,
            *(f"{number:,}" for number in numbers),
            "[green]equal[/green]" if one.clean else "[bold red]DIFFERENT[/bold red]",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
