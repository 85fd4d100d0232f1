"""What is counted as it happens: calls, writes to disk, the loop's punctuality.

Any thread may count. To count costs a few microseconds, so it is always on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from raftlog.metrics.quota_counts import QuotaCounts

T = TypeVar("T")

disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
"""They add a second series for each, with the time when it was made, which nothing reads."""

OK = "ok"
"""The outcome of a call that was answered as it asked. Otherwise it is the error's code."""
CANCELLED = "cancelled"
"""The outcome of a call whose client left."""

BEGUN, WON = "begun", "won"
"""How far an election came."""

COMMITTED, REPLAYED, KEPT = "committed", "replayed", "kept"
"""What came of an epoch's commit."""

_CALL_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_DISK_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5)

_TICKS_LEFT_OUT_MAX = 10_000
"""So many are counted of one hang, which takes some 10 ms."""


class WriteStage(StrEnum):
    """A part of the time that a write takes. They follow one another without a gap."""

    QUEUE = "queue"
    """From the call until its command is in the leader's log: other calls' turns, a quota."""
    DISK = "disk"
    """Until the leader has it on disk, or it is committed without that."""
    REPLICATE = "replicate"
    """Until it is committed: a majority has it on disk."""
    APPLY = "apply"
    """Until it is applied."""
    ANSWER = "answer"
    """Until the call has its answer."""


class Counts:
    """The counters and histograms of one node."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "raftlog_calls",
            "Calls that ended, by how: ok, cancelled, or the error's code.",
            ["call", "outcome"],
            registry=self.registry,
        )
        self._call_seconds = Histogram(
            "raftlog_call_seconds",
            "How long calls took on this node, whatever their outcome.",
            ["call"],
            buckets=_CALL_BUCKETS_S,
            registry=self.registry,
        )
        self._received = Counter(
            "raftlog_call_received_bytes",
            "Bytes of calls that came.",
            ["call"],
            registry=self.registry,
        )
        self._sent = Counter(
            "raftlog_call_sent_bytes",
            "Bytes of answers that went.",
            ["call"],
            registry=self.registry,
        )
        stages = Histogram(
            "raftlog_write_stage_seconds",
            "Where the time of a write goes on its leader, from its call to its answer.",
            ["stage"],
            buckets=_DISK_BUCKETS_S,
            registry=self.registry,
        )
        self._stages = {stage: stages.labels(stage.value) for stage in WriteStage}
        self._write_seconds = Histogram(
            "raftlog_disk_write_seconds",
            "How long a write and its sync took, of a log or of the hard states.",
            buckets=_DISK_BUCKETS_S,
            registry=self.registry,
        )
        self._late_seconds = Histogram(
            "raftlog_loop_late_seconds",
            "By how much ticks of the node's loop came late, also those that a hang left out.",
            buckets=_DISK_BUCKETS_S,
            registry=self.registry,
        )
        self._elections = Counter(
            "raftlog_elections",
            "Elections of this node's replicas, by how far they came: begun or won.",
            ["outcome"],
            registry=self.registry,
        )
        self._epochs = Counter(
            "raftlog_epochs",
            "Commits of epochs on their leader, by what came of them: committed; replayed, which "
            "changed nothing; kept, where the replay was another one; or the error's code.",
            ["outcome"],
            registry=self.registry,
        )
        self._strangers = Counter(
            "raftlog_callers_refused",
            "Calls that were refused because it was not known who called, by the error's code.",
            ["reason"],
            registry=self.registry,
        )
        self.quotas = QuotaCounts(self.registry)
        for outcome in (BEGUN, WON):
            self._elections.labels(outcome)  # there from the start, so that a first one is a change

    def stage(self, stage: WriteStage, seconds: float) -> None:
        """A write has left this stage, in which it was for so long."""
        self._stages[stage].observe(seconds)

    def election(self, outcome: str) -> None:
        """A replica of this node asked for votes (`BEGUN`), or leads now (`WON`)."""
        self._elections.labels(outcome).inc()

    def epoch(self, outcome: str) -> None:
        """This came of a commit: `COMMITTED`, `REPLAYED`, `KEPT` or an error's code."""
        self._epochs.labels(outcome).inc()

    def stranger(self, reason: str) -> None:
        """A call was rejected because its caller is not known."""
        self._strangers.labels(reason).inc()

    def call(self, name: str, received_bytes: int) -> CallCount:
        """A call of this name has come."""
        return CallCount(self, name, received_bytes)

    def ended(self, count: CallCount) -> None:
        """What the call came to."""
        name, now_s = count.name, time.monotonic()
        self._calls.labels(name, count.outcome).inc()
        self._call_seconds.labels(name).observe(now_s - count.began_at_s)
        if count.applied_at_s is not None:
            self.stage(WriteStage.ANSWER, now_s - count.applied_at_s)
        self._received.labels(name).inc(count.received_bytes)
        self._sent.labels(name).inc(count.sent_bytes)

    def timed_write(self, run: Callable[[], T]) -> Callable[[], T]:
        """The write, which is timed."""

        def timed() -> T:
            began_at_s = time.monotonic()
            value = run()
            self._write_seconds.observe(time.monotonic() - began_at_s)
            return value

        return timed

    def tick_was_late(self, seconds: float, every_s: float) -> None:
        """A tick of the node's loop came so late; 0: in time. Those that were due meanwhile, every
        `every_s`, never come: they count as well, or a hang of seconds would be one tick of many
        that are in time."""
        late_s = max(0.0, seconds)
        self._late_seconds.observe(late_s)
        for _ in range(min(int(late_s / every_s), _TICKS_LEFT_OUT_MAX)):
            late_s -= every_s
            self._late_seconds.observe(late_s)


class CallCount:
    """One call, from when it came until it ended. A context, which counts it at its end."""

    __slots__ = (
        "_counts", "applied_at_s", "began_at_s", "name", "outcome", "received_bytes", "sent_bytes",
    )  # fmt: skip

    def __init__(self, counts: Counts, name: str, received_bytes: int) -> None:
        self._counts = counts
        self.name = name
        self.began_at_s = time.monotonic()
        self.applied_at_s: float | None = None
        """When its command was applied here, if it has one."""
        self.received_bytes = received_bytes
        self.sent_bytes = 0
        self.outcome = OK

    def __enter__(self) -> CallCount:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self.outcome == OK:
            self.outcome = CANCELLED
        self._counts.ended(self)
