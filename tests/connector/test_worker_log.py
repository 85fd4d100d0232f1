"""An error on the driver is also one line of the connector's log, whatever Spark makes of it."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import InvalidOption, TopicNotFound
from raftlog.errors.raftlog_error import OPTIONS, Surface
from raftlog.spark import plan
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.declarations import OPTIONS as DECLARED
from raftlog.spark.plan import plan_digest
from raftlog.spark.worker_log import errors_logged, install


class _Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_the_error_itself_comes_through_where_nobody_reads_the_log_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver's worker outlives a JVM that was killed."""
    install()
    monkeypatch.setattr(sys, "stderr", _Gone())
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with pytest.raises(InvalidOption):
        RaftlogDataSource({"subscribe": "flights", "maxOffsetPerTrigger": "5"}).schema()


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


def test_what_others_wrote_forges_no_line_and_commands_no_terminal(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install()
    logging.getLogger("raftlog.spark.queries").warning("%s", "of a child\x1b[31m")
    assert caplog.messages == [r"of a child\x1b[31m"]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(plan, "_unread_said", set())
    plan_digest("/none\n26/12/01 ERROR raftlog.spark: forged \x1b[31m %s", "query\r", 0, PATIENCE_S)
    line = sys.stderr.getvalue().removesuffix("\n")
    assert line.isprintable()
    assert r"/none\n26/12/01 ERROR raftlog.spark: forged \x1b[31m %s" in line
    assert r"query\r" in line


def test_an_error_that_passes_has_sparks_remedy() -> None:
    @errors_logged
    def describe() -> None:
        raise TopicNotFound(topic="gone")

    with pytest.raises(TopicNotFound, match=r"raftlog\.bootstrap\.servers.*out of subscribe"):
        describe()
    names = {option.setting: option.name for option in DECLARED if option.setting}
    for setting, name in OPTIONS[Surface.SPARK].items():
        assert names.get(setting, name) == name
