"""What is measured, as values: figures with their unit, and their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    about: str
    """What was measured, with the sizes that decide it."""
    detail: Mapping[str, float] = field(default_factory=dict)
    """More numbers of it: other percentiles, single measurements."""


class Level(StrEnum):
    """The best level of its target that a figure reaches."""

    AIM = "aim"
    FIRST_LANDING = "first landing"
    SHORT = "short"
    NO_TARGET = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure should reach: `first_landing` for a first version, `aim` in the end. None: no
    such target."""

    first_landing: float | None
    aim: float | None
    lower_is_better: bool

    def level(self, value: float) -> Level:
        """The best level that the value reaches."""
        if self.aim is not None and self._reached(value, self.aim):
            return Level.AIM
        if self.first_landing is None:
            return Level.NO_TARGET
        if self._reached(value, self.first_landing):
            return Level.FIRST_LANDING
        return Level.SHORT

    def _reached(self, value: float, wanted: float) -> bool:
        return value <= wanted if self.lower_is_better else value >= wanted


def _at_most(first_landing: float | None, aim: float | None) -> Target:
    return Target(first_landing=first_landing, aim=aim, lower_is_better=True)


def _at_least(first_landing: float | None, aim: float | None) -> Target:
    return Target(first_landing=first_landing, aim=aim, lower_is_better=False)


TARGETS: dict[str, Target] = {
    # The aim is what etcd takes through a Python client on such a machine.
    "append_p50_ms": _at_most(1.5, 0.72),
    "append_p99_ms": _at_most(4.0, None),
    "records_per_s": _at_least(300_000, 1_000_000),
    "batches_mb_per_s": _at_least(150, 300),
    "read_mb_per_s": _at_least(700, 1200),
    "failover_p50_s": _at_most(1.0, 0.4),
    "failover_max_s": _at_most(3.0, 1.0),
    "rolling_gap_p50_ms": _at_most(300, 100),
    "rolling_gap_max_ms": _at_most(300, None),
    "rolling_failed_calls": _at_most(0, None),
    "log_to_spark_rows_per_s": _at_least(5e6, 10e6),
    "spark_to_log_default_rows_per_s": _at_least(1e6, None),
    "spark_to_log_raised_rows_per_s": _at_least(None, 3e6),
    "micro_batch_ratio": _at_most(1.5, 1.1),
    "two_of_ten_columns_ratio": _at_least(None, 3.0),
    "filtered_read_ratio": _at_least(None, 20.0),
    "kafka_write_ratio": _at_least(1.0, 2.0),
    "kafka_read_ratio": _at_least(4.0, 8.0),
    "kafka_micro_batch_ratio": _at_most(None, 1.0),
    "etcd_append_p50_ratio": _at_most(None, 1.0),
    "etcd_append_p99_ratio": _at_most(None, 1.0),
    "etcd_batches_ratio": _at_least(None, 1.0),
    "etcd_read_ratio": _at_least(None, 1.0),
    "jetstream_py_batches_ratio": _at_least(None, 2.0),
    "jetstream_py_read_ratio": _at_least(None, 1.5),
    "jetstream_go_append_p50_ratio": _at_most(None, 1.0),
    "jetstream_go_append_p99_ratio": _at_most(None, 1.0),
    "jetstream_go_batches_ratio": _at_least(None, 2.0),
    "jetstream_go_read_ratio": _at_least(None, 1.5),
    "reopen_1_gib_s": _at_most(2.0, 0.5),
    "reopen_10_gib_s": _at_most(10.0, 1.0),
    "replay_elections_again": _at_most(0, None),
    "catch_up_append_p99_ratio": _at_most(2.0, None),
    "image_rate_share": _at_least(0.8, None),
    "image_append_p99_ratio": _at_most(1.5, None),
    "repair_append_p99_ratio": _at_most(1.5, None),
    "observers_append_p99_ratio": _at_most(1.5, None),
    "attacked_append_p50_ratio": _at_most(None, 2.0),
    "node_memory_mb": _at_most(500, None),
    "crumbs_scan_ratio": _at_least(10.0, None),
    "month_memory_mb": _at_most(300, None),
    "month_restart_s": _at_most(3.0, None),
    "month_restart_all_s": _at_most(6.0, None),
    "month_disk_ratio": _at_most(1.2, None),
    "chunks_memory_mb": _at_most(300, None),
    "chunks_restart_s": _at_most(3.0, None),
    "chunks_restart_all_s": _at_most(6.0, None),
    "month_append_p99_ratio": _at_most(1.5, None),
    "written_1000_topics_memory_mb": _at_most(500, None),
    "idle_1000_topics_cpu_percent": _at_most(None, 2.0),
}
"""On two cores that run the three nodes and the client; compare the machine's floor first."""


_MORE_IS_BETTER = frozenset({"crumbs_disk_ratio"})
"""Figures without a target that are no rates."""


def is_lower_better(figure: Figure) -> bool:
    """Whether a lower value is the better one: not of rates, whatever their unit of time."""
    target = TARGETS.get(figure.name)
    if target is not None:
        return target.lower_is_better
    return not figure.unit.endswith("/s") and figure.name not in _MORE_IS_BETTER


def level_of(figure: Figure) -> Level:
    """The level of its target that the figure reaches."""
    target = TARGETS.get(figure.name)
    return Level.NO_TARGET if target is None else target.level(figure.value)
