"""Where one append spends its time, from the spans that its client and the nodes send.

`profile` is a collector of OpenTelemetry while it appends. The nodes must send their spans to it,
and the clocks of all machines must agree better than the stages are long.
"""

from __future__ import annotations

import statistics
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc

from raftlog.bench.measure import latency_of
from raftlog.bench.workloads import Plan, one_record, scratch_topic
from raftlog.client.connect import connect
from raftlog.config import ClientSettings
from raftlog.errors import InvalidOption

SAMPLED = 0.2
"""The share of the appends that is traced: the others show what an append takes without."""

_QUIET_S = 2.5
"""Nodes send their spans each second. After so long without a new one, all have come."""
_WAIT_S = 15.0
_SERVER, _CLIENT = 2, 3
"""Kinds of spans, as OTLP numbers them."""
_US_PER_MS = 1000


class Span(NamedTuple):
    """What is needed of a span; times by the clock of the machine that made it."""

    name: str
    kind: int
    began_ns: int
    ended_ns: int
    events: Mapping[str, int]
    """When each happened, ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of the time of an append, in microseconds."""

    name: str
    what: str
    p50_us: float
    p99_us: float


WHAT = {
    "client encode": "from the call until the request is encoded",
    "wire": "until the leader's handler has it: both ends of grpc, and the network",
    "decode": "the leader reads and admits the request",
    "propose": "checks, and the entry into the leader's log",
    "send": "until the first follower has the entry",
    "sync": "the leader writes and syncs it, at the same time as the two around it",
    "follower": "that follower writes and syncs it",
    "commit": "its acknowledgement, until the leader knows of a majority",
    "apply": "the leader's state machine; 0 if it applied in the loop turn that committed",
    "reply": "until the call returns",
    "whole append": "all of it, traced",
}
"""The stages in their order. They follow one another, apart from `sync`."""


def profile(settings: ClientSettings, plan: Plan, address: str) -> list[Stage]:
    """Append single records, and take apart those that were traced.

    Args:
        settings: Of the client.
        plan: How long, and how large records are.
        address: Where this process takes spans meanwhile: the nodes' `tracing.endpoint`, without
            `http://`.

    Raises:
        InvalidOption: No node sent a span there, or the address cannot be had.
    """
    tracing = {"tracing_endpoint": f"http://{address}", "tracing_sample_ratio": SAMPLED}
    with _collecting(address) as collector:
        with connect(settings=settings.model_copy(update=tracing)) as client:
            calls = _append(client, plan)
        traces = collector.whole_traces()
    found = [split for trace in traces if (split := stages_of(trace, calls)) is not None]
    if not found:
        raise InvalidOption(
            option="--profile",
            problem=f"received no spans from the nodes at {address}",
            advice=f"Start the nodes with --set tracing.endpoint=http://{address}.",
        )
    return [_stage(name, [each[name] for each in found]) for name in WHAT]


def _append(client: Any, plan: Plan) -> list[tuple[int, int]]:
    """When each call began and ended after the warm-up, by the clock of spans."""
    calls = []
    with scratch_topic(client) as topic:
        batches = one_record(plan)
        counts_s = time.monotonic() + plan.warm_up_s
        ends_s = counts_s + plan.seconds
        turn = 0
        while (now_s := time.monotonic()) < ends_s:
            began_ns = time.time_ns()
            client.append(topic.name, batches[turn % len(batches)])
            if now_s >= counts_s:
                calls.append((began_ns, time.time_ns()))
            turn += 1
    return calls


def _stage(name: str, samples_us: Sequence[float]) -> Stage:
    quantiles = latency_of([round(each * _US_PER_MS) for each in samples_us])
    return Stage(
        name=name,
        what=WHAT[name],
        p50_us=statistics.median(samples_us),
        p99_us=quantiles.p99_ms * _US_PER_MS,
    )


def stages_of(trace: Sequence[Span], calls: Sequence[tuple[int, int]]) -> dict[str, float] | None:
    """The microseconds of each stage of one traced append; None if spans of it are missing.

    `calls` are the beginnings and ends of all appends, one after the other.
    """
    asked = [span for span in trace if span.kind == _CLIENT and span.name == "Append"]
    served = [span for span in trace if span.kind == _SERVER and span.name == "Append"]
    follows = [span for span in trace if span.name == "follow"]
    parts = {span.name: span for span in trace}
    if len(asked) != 1 or len(served) != 1 or not follows:
        return None
    if not {"queue", "disk", "replicate", "apply"} <= parts.keys():
        return None
    place = bisect_right(calls, (asked[0].began_ns, 1 << 63)) - 1
    if place < 0 or asked[0].ended_ns > calls[place][1] or "decoded" not in served[0].events:
        return None  # of the warm-up
    call_ns, returned_ns = calls[place]
    decoded_ns = served[0].events["decoded"]
    first = min(follows, key=lambda span: span.ended_ns)
    proposed_ns = parts["queue"].ended_ns
    committed_ns, applied_ns = parts["replicate"].ended_ns, parts["apply"].ended_ns
    return {
        name: ns / 1000
        for name, ns in {
            "client encode": asked[0].began_ns - call_ns,
            "wire": served[0].began_ns - asked[0].began_ns,
            "decode": decoded_ns - served[0].began_ns,
            "propose": proposed_ns - decoded_ns,
            "send": first.began_ns - proposed_ns,
            "sync": parts["disk"].ended_ns - proposed_ns,
            "follower": first.ended_ns - first.began_ns,
            "commit": committed_ns - first.ended_ns,
            "apply": max(0, applied_ns - committed_ns),  # both are rounded
            "reply": returned_ns - applied_ns,
            "whole append": returned_ns - call_ns,
        }.items()
    }


# ---------------------------------------------------------------- the collector


class _Collector(pb_grpc.TraceServiceServicer):
    """Takes spans by OTLP over grpc."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: dict[bytes, list[Span]] = {}
        self._came_s = time.monotonic()

    def Export(self, request: Any, context: Any) -> Any:
        """OTLP's one call."""
        with self._lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self._traces.setdefault(span.trace_id, []).append(_kept(span))
            self._came_s = time.monotonic()
        return pb.ExportTraceServiceResponse()

    def whole_traces(self) -> list[list[Span]]:
        """All traces, once no more spans come."""
        ends_s = time.monotonic() + _WAIT_S
        while (now_s := time.monotonic()) < min(ends_s, self._came_s + _QUIET_S):
            threading.Event().wait(min(ends_s, self._came_s + _QUIET_S) - now_s)  # never set
        with self._lock:
            return list(self._traces.values())


@contextmanager
def _collecting(address: str) -> Iterator[_Collector]:
    collector = _Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    register: Any = pb_grpc.add_TraceServiceServicer_to_server  # it has no types
    register(collector, server)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise InvalidOption(
            option="--spans-at",
            problem=f"is {address!r}, which cannot be had: {error}",
            advice="Stop the collector that listens there, or name another port.",
        ) from None
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait(_WAIT_S)


def _kept(span: Any) -> Span:
    return Span(
        name=span.name,
        kind=span.kind,
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        events={event.name: event.time_unix_nano for event in span.events},
    )
