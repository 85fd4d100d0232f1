"""An error on the driver is also one line of the connector's log, whatever Spark makes of it."""

from __future__ import annotations

import logging

import pytest

from raftlog.errors import InvalidOption
from raftlog.spark.datasource import RaftlogDataSource


def test_an_error_on_the_driver_is_one_line_with_cause_and_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.ERROR, logger="raftlog.spark"),
        pytest.raises(InvalidOption) as raised,
    ):
        RaftlogDataSource({"subscribe": "flights", "maxOffsetPerTrigger": "5"}).schema()
    (record,) = caplog.records
    line = record.getMessage()
    assert record.name == "raftlog.spark"
    assert line.startswith("InvalidOption: ")
    assert "\n" not in line
    assert " ".join(raised.value.cause.split()) in line
    assert "maxOffsetsPerTrigger" in line
