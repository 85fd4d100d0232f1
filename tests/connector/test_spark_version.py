"""A PySpark that cannot read a stream says so, and its query ends with the reason."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType
from pyspark.version import __version__

from raftlog.errors import SparkTooOld
from raftlog.spark import spark_version
from raftlog.spark.datasource import RaftlogDataSource


def test_a_pyspark_reads_streams_from_the_version_on_that_an_error_names() -> None:
    found, wanted = (
        tuple(map(int, version.split(".")[:2]))
        for version in (__version__, spark_version.STREAMS_SINCE)
    )
    refused = None
    try:
        spark_version.check_can_stream()
    except SparkTooOld as error:
        refused = error
    assert (refused is None) == (found >= wanted)


def test_a_stream_of_a_pyspark_that_lacks_the_classes_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever Spark asks first; 4.1 asks for the end without saying where the batch starts."""
    monkeypatch.setattr(spark_version, "_STREAMS_NEED", "pyspark.sql.streaming.nothing")
    reader = RaftlogDataSource({"subscribe": "flights"}).streamReader(StructType())
    for ask in (reader.initialOffset, reader.latestOffset, lambda: reader.partitions({}, {})):
        with pytest.raises(SparkTooOld, match=f"PySpark {__version__} cannot read a topic as a"):
            ask()
