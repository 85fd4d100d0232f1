"""The figures of a measurement: exact percentiles, rates, and the client's own CPU."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.errors import InvalidOption

QUANTILES = (0.5, 0.9, 0.99, 0.999)

MEGABYTE = 1_000_000
"""MB are decimal, as in all figures of disks and networks. Sizes of batches are MiB."""

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long single operations took, in milliseconds. Each figure was observed, not interpolated:
    p99 is the smallest time that 99 % of the operations did not exceed."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def latency_of(samples_ns: Sequence[int]) -> Latency:
    """The percentiles of one or more samples in nanoseconds, in any order."""
    assert len(samples_ns) > 0, "percentiles need at least one sample"
    times = pa.array(samples_ns, type=pa.int64())
    quantiles: Any = list(QUANTILES)  # the stubs know only one at a time
    found: list[Any] = pc.quantile(times, q=quantiles, interpolation="higher").to_pylist()
    *quantiles_ms, max_ms = (each / _NS_PER_MS for each in (*found, max(samples_ns)))
    p50_ms, p90_ms, p99_ms, p999_ms = quantiles_ms
    return Latency(p50_ms=p50_ms, p90_ms=p90_ms, p99_ms=p99_ms, p999_ms=p999_ms, max_ms=max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One workload's result. Rates count what was acknowledged within `seconds`."""

    name: str
    what: str
    """The workload in words, with every size that decides the figures."""
    seconds: float
    operations: int
    """Calls, batches or passes, as `what` says."""
    records: int
    data_bytes: int
    """Bytes of records as the client passed or got them, without framing."""
    client_cpu_s: float
    """CPU time of the measuring process, of all its threads."""
    latency: Latency | None

    @property
    def records_per_s(self) -> float:
        """Records per second of the measured time."""
        return self.records / self.seconds

    @property
    def mb_per_s(self) -> float:
        """Bytes of records per second, in decimal MB."""
        return self.data_bytes / MEGABYTE / self.seconds

    @property
    def client_cpu_s_per_gb(self) -> float:
        """Seconds of the client's CPU per decimal GB of records."""
        return self.client_cpu_s / (self.data_bytes / (1000 * MEGABYTE))


class Stopwatch:
    """Times operations for `seconds` after a warm-up that does not count.

    Use it as `while watch.running(): ...; watch.lap(records=..., data_bytes=...)`. An operation
    that ends within the warm-up is not counted; the clock starts with the first lap after it.
    """

    def __init__(self, *, warm_up_s: float, seconds: float) -> None:
        if warm_up_s < 0 or seconds <= 0:
            raise InvalidOption(
                option="seconds" if seconds <= 0 else "warm-up",
                problem=f"is {seconds if seconds <= 0 else warm_up_s}",
                advice="Measure for some seconds after a warm-up of zero or more.",
            )
        self._samples_ns = array("q")
        self._records = 0
        self._data_bytes = 0
        now_ns = time.perf_counter_ns()
        self._warm_until_ns = now_ns + round(warm_up_s * _NS_PER_S)
        self._length_ns = round(seconds * _NS_PER_S)
        self._begin_ns = 0
        self._begin_cpu_s = 0.0
        self._last_ns = now_ns

    def running(self) -> bool:
        """Whether another operation should begin. Its time counts from this call."""
        self._last_ns = time.perf_counter_ns()
        if self._begin_ns == 0:
            if self._last_ns >= self._warm_until_ns:
                self._begin_ns = self._last_ns
                self._begin_cpu_s = time.process_time()
            return True
        return self._last_ns - self._begin_ns < self._length_ns or not self._samples_ns

    def lap(self, *, records: int, data_bytes: int) -> None:
        """Record that the operation which `running` allowed is done, and how much it moved."""
        now_ns = time.perf_counter_ns()
        if self._begin_ns:
            self._samples_ns.append(now_ns - self._last_ns)
            self._records += records
            self._data_bytes += data_bytes
        self._last_ns = now_ns

    def result(self, name: str, what: str, *, with_latency: bool) -> Measured:
        """The result so far. Ask for latencies only if a lap is the time of one operation."""
        assert self._samples_ns, "at least one operation is always measured"
        return Measured(
            name=name,
            what=what,
            seconds=(time.perf_counter_ns() - self._begin_ns) / _NS_PER_S,
            operations=len(self._samples_ns),
            records=self._records,
            data_bytes=self._data_bytes,
            client_cpu_s=time.process_time() - self._begin_cpu_s,
            latency=latency_of(self._samples_ns) if with_latency else None,
        )
