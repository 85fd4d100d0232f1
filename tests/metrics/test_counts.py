"""What is counted as it happens."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import CollectorRegistry

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.metrics.counts import BEGUN, WON, Counts


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_a_call_is_counted_by_its_outcome_with_its_bytes_and_its_time() -> None:
    counts = Counts()
    with counts.call("Read", 10) as count:
        count.sent_bytes += 500
    with counts.call("Read", 20) as count:
        count.outcome = "NotLeader"
    found = counts.registry
    assert value(found, "raftlog_calls_total", call="Read", outcome="ok") == 1
    assert value(found, "raftlog_calls_total", call="Read", outcome="NotLeader") == 1
    assert value(found, "raftlog_call_received_bytes_total", call="Read") == 30
    assert value(found, "raftlog_call_sent_bytes_total", call="Read") == 500
    assert value(found, "raftlog_call_seconds_count", call="Read") == 2


@pytest.mark.parametrize(
    ("outcome", "counted"), [("ok", "cancelled"), ("Overloaded", "Overloaded")]
)
def test_a_call_whose_client_left_is_cancelled_unless_it_was_refused(
    outcome: str, counted: str
) -> None:
    counts = Counts()

    def left() -> None:
        with counts.call("Read", 0) as count:
            count.outcome = outcome
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        left()
    assert value(counts.registry, "raftlog_calls_total", call="Read", outcome=counted) == 1


def test_writes_are_timed_on_any_thread_and_give_what_they_give() -> None:
    counts = Counts()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(counts.timed_write(lambda: 7)()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [7] * 4
    assert value(counts.registry, "raftlog_disk_write_seconds_count") == 4


def test_a_write_that_fails_is_not_taken_for_one_that_ended() -> None:
    counts = Counts()
    with pytest.raises(OSError, match="no disk"):
        counts.timed_write(_fail)()
    assert value(counts.registry, "raftlog_disk_write_seconds_count") == 0


def _fail() -> None:
    raise OSError("no disk")


def test_a_tick_in_time_is_late_by_nothing() -> None:
    counts = Counts()
    counts.tick_was_late(-0.001, 1.0)
    counts.tick_was_late(0.2, 1.0)
    assert value(counts.registry, "raftlog_loop_late_seconds_sum") == 0.2


def test_a_loop_that_hangs_for_half_the_time_has_half_its_ticks_late() -> None:
    counts = Counts()
    for _ in range(10):
        counts.tick_was_late(5.0, 0.05)
        for _ in range(99):
            counts.tick_was_late(0.0, 0.05)
    found = counts.registry
    assert value(found, "raftlog_loop_late_seconds_count") == 2000
    assert value(found, "raftlog_loop_late_seconds_bucket", le="0.1") == pytest.approx(1020, abs=10)


def test_elections_are_counted_and_shown_before_the_first() -> None:
    counts = Counts()
    name = "raftlog_elections_total"
    assert [value(counts.registry, name, outcome=each) for each in (BEGUN, WON)] == [0, 0]
    counts.election(BEGUN)
    counts.election(BEGUN)
    counts.election(WON)
    assert [value(counts.registry, name, outcome=each) for each in (BEGUN, WON)] == [2, 1]
