"""What a measurement says: only figures that were observed, and none from the warm-up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.bench.measure import Stopwatch, latency_of
from raftlog.errors import InvalidOption

MS = 1_000_000


@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=300))
def test_every_percentile_was_observed_and_they_never_fall(samples: list[int]) -> None:
    found = latency_of(samples)
    figures = [found.p50_ms, found.p90_ms, found.p99_ms, found.p999_ms, found.max_ms]
    assert figures == sorted(figures)
    assert {round(figure * MS) for figure in figures} <= set(samples)
    assert round(found.max_ms * MS) == max(samples)


@given(st.integers(min_value=0))
def test_percentiles_are_exact_and_do_not_depend_on_the_order(seed: int) -> None:
    samples = list(range(1, 1002))
    random.Random(seed).shuffle(samples)
    found = latency_of([sample * MS for sample in samples])
    assert (found.p50_ms, found.p90_ms, found.p99_ms) == (501, 901, 991)
    assert (found.p999_ms, found.max_ms) == (1000, 1001)


def test_what_ends_within_the_warm_up_is_not_counted() -> None:
    watch = Stopwatch(warm_up_s=0.02, seconds=0.02)
    rounds = 0
    while watch.running():
        watch.lap(records=3, data_bytes=7)
        rounds += 1
    found = watch.result("name", "what", with_latency=True)
    assert 0 < found.operations < rounds
    assert found.records == 3 * found.operations
    assert found.data_bytes == 7 * found.operations
    assert found.seconds >= 0.02


def test_an_operation_longer_than_the_measurement_is_measured_once() -> None:
    watch = Stopwatch(warm_up_s=0, seconds=1e-9)
    rounds = 0
    while watch.running():
        watch.lap(records=1, data_bytes=1)
        rounds += 1
    assert rounds == 1
    assert watch.result("name", "what", with_latency=False).operations == 1


@pytest.mark.parametrize(("warm_up_s", "seconds"), [(-1, 1), (0, 0), (0, -1)])
def test_a_measurement_without_length_is_refused(warm_up_s: float, seconds: float) -> None:
    with pytest.raises(InvalidOption):
        Stopwatch(warm_up_s=warm_up_s, seconds=seconds)
