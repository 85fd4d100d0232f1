"""What errors say where one wording does not fit every case."""

from __future__ import annotations

import errno
import re

import pyarrow as pa
import pytest

from raftlog.errors import CorruptFile, LimitReached, OffsetTrimmed, from_wire, shortage_of
from raftlog.errors.document import page
from raftlog.errors.raftlog_error import Surface
from raftlog.spark.declarations import OPTIONS


def test_a_trimmed_offset_names_the_range_that_is_left_or_says_that_nothing_is() -> None:
    some = OffsetTrimmed(topic="t", requested=3, earliest=5, end=9)
    assert some.cause == "Offset 3 of topic 't' is trimmed: the log holds [5, 9)."
    none = OffsetTrimmed(topic="t", requested=3, earliest=9, end=9)
    assert "[9" not in none.cause
    assert none.cause.endswith("the log begins at offset 9, and holds no records from there on.")


def test_a_remedy_names_options_as_the_surface_does_that_shows_it() -> None:
    assert "in Spark" not in page().partition("\n## ")[2].replace("Remedy in Spark", "")
    trimmed = OffsetTrimmed(topic="t", requested=3, earliest=5, end=9)
    for surface, word in zip(Surface, ("start", "--start", "startingOffsets"), strict=True):
        trimmed.surface = surface
        assert f"({word}" in trimmed.remedy
        assert ("failOnDataLoss" in trimmed.remedy) == (surface is Surface.SPARK)


def test_python_is_told_of_no_option_of_spark() -> None:
    of_spark = {"ClusterMismatch", "QueryNameKnown", "SparkTooOld", "VersionReused"}
    options = {option.name for option in OPTIONS} | {"checkpointLocation", "queryName"}
    options = {name for name in options if re.search("[A-Z.]", name)}
    for section in page().split("\n## ")[1:]:
        name = section.partition("\n")[0]
        told = section.partition("\n- **Remedy in Spark:**")[0].partition("\n- **Cause:**")[2]
        if name not in of_spark:
            assert not [each for each in options if each in told], name


def test_damage_promises_no_copies_of_other_nodes_and_says_where_there_are_none() -> None:
    some = CorruptFile(file="a.log", position=7, problem="a bit was flipped")
    assert "what other nodes have whole is read from them" in some.remedy
    none = CorruptFile(file="a.log", position=7, problem="a bit", advice="No node has it.")
    assert none.remedy == "No node has it."
    assert from_wire(*none.to_wire()).remedy == none.remedy


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (OSError(errno.EMFILE, ""), "open files"),
        (OSError(errno.ENFILE, ""), "open files"),
        (OSError(errno.ENOMEM, ""), "memory"),
        (MemoryError(), "memory"),
        (pa.ArrowMemoryError(), "memory"),
        (BlockingIOError(errno.EAGAIN, ""), "threads or processes"),
        (RuntimeError("can't start new thread"), "threads or processes"),
    ],
)
def test_a_limit_names_itself_and_what_raises_it(error: Exception, limit: str) -> None:
    found = shortage_of(error, "the job")
    assert isinstance(found, LimitReached)
    assert found.retriable
    assert found.cause == f"the job failed: this node has no more {limit}."
    assert "of its unit" in found.remedy


@pytest.mark.parametrize("error", [OSError(errno.EIO, ""), OSError("?"), RuntimeError("?")])
def test_a_failing_disk_and_a_defect_are_no_limits(error: Exception) -> None:
    assert shortage_of(error, "the job") is None
