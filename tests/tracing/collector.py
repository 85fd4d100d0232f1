"""A collector of OpenTelemetry: takes spans by OTLP over grpc, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc


class KeptSpan(NamedTuple):
    """One span, as it was sent."""

    name: str
    trace: str
    id: str
    parent: str
    service: str
    kind: int
    began_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, str | int]

    @property
    def node(self) -> int | str | None:
        """The node that made it; None: a client did."""
        return self.attributes.get("raftlog.node")


class Collector(pb_grpc.TraceServiceServicer):
    """What it was sent so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[KeptSpan] = []
        self.raw: list[bytes] = []
        """What came, for whoever looks for what must not."""
        self.endpoint = ""

    def Export(self, request: Any, context: Any) -> Any:
        """OTLP's one call."""
        kept = [
            _kept(span, _text(resource.resource.attributes).get("service.name", ""))
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self._spans += kept
            self.raw.append(request.SerializeToString())
        return pb.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[KeptSpan]:
        """All of them, as they came."""
        with self._lock:
            return list(self._spans)

    def traces(self) -> dict[str, list[KeptSpan]]:
        """By trace, each in the order in which they began."""
        found: dict[str, list[KeptSpan]] = {}
        for span in sorted(self.spans, key=lambda each: each.began_ns):
            found.setdefault(span.trace, []).append(span)
        return found


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on loopback meanwhile."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    pb_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait(10)


def _kept(span: Any, service: str) -> KeptSpan:
    return KeptSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        service=service,
        kind=span.kind,
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=_text(span.attributes),
    )


def _text(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
