"""Spans of OpenTelemetry: what one call took, in the client, at its leader and at the followers.

Loaded only when tracing is enabled; only then is OpenTelemetry needed. Spans carry names,
numbers and kinds of errors, never records, keys, tokens or texts of errors.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from raftlog.errors import InvalidOption

__all__ = ["Span", "SpanIds", "Tracer"]
"""What others name in their types; each of them imports the rest where it is used."""

Attributes = Mapping[str, str | int]

CARRIED = "traceparent"
"""Under this name a call's metadata carry the span that it belongs to (W3C, Trace Context)."""

_DELAY_MS = 1000
"""Spans wait so long for others. No setting: OpenTelemetry's own default of 5 s would lose what a
worker of Spark did just before it ended; OTEL_BSP_SCHEDULE_DELAY is for other programs."""

_PATIENCE_S = 2.0
"""So long a collector may take for what it is sent, tries included; then that is lost. No setting:
a process that ends waits for it."""

_propagator = TraceContextTextMapPropagator()


class SpanIds(NamedTuple):
    """The ids of a span."""

    trace: int
    span: int


_next_root: ContextVar[SpanIds | None] = ContextVar("raftlog_next_root", default=None)


class _Ids(RandomIdGenerator):
    """Random ids, but those of a root that another process knows already."""

    def generate_span_id(self) -> int:
        root = _next_root.get()
        return super().generate_span_id() if root is None else root.span

    def generate_trace_id(self) -> int:
        root = _next_root.get()
        return super().generate_trace_id() if root is None else root.trace


def ids_of(*parts: str | int) -> SpanIds:
    """The ids of a root that several processes can name, who know the same of it."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return SpanIds(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


class Tracer:
    """Makes the spans of one process. Thread-safe. Sends them by a thread of its own, some thousand
    at most wait, and nothing waits for them: spans that a collector does not take are lost."""

    def __init__(self, endpoint: str, sample_ratio: float, service: str) -> None:
        """Raises `InvalidOption` for variables of OpenTelemetry's that it does not take."""
        self._sampler = TraceIdRatioBased(sample_ratio)
        # It would repeat headers that it cannot read, and with them a password.
        logging.getLogger("opentelemetry.util.re").disabled = True
        own = Resource.create({"service.name": service})
        try:
            self._provider = TracerProvider(
                sampler=ParentBased(self._sampler),
                resource=own.merge(OTELResourceDetector().detect()),
                id_generator=_Ids(),
            )
            exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/"), timeout=_PATIENCE_S)
            self._provider.add_span_processor(
                BatchSpanProcessor(exporter, schedule_delay_millis=_DELAY_MS)
            )
        except ValueError as error:
            raise InvalidOption(
                option="OTEL_...",
                problem=f"does not do: {error}",
                advice="Correct OpenTelemetry's variables (OTEL_BSP_..., OTEL_EXPORTER_..., "
                "OTEL_SPAN_...), or unset them.",
            ) from None
        self._tracer = self._provider.get_tracer("raftlog")

    def close(self) -> None:
        """Send what waits, and make no more."""
        self._provider.shutdown()

    # ------------------------------------------------------------ spans

    def request(self, name: str, attributes: Attributes) -> Span:
        """A span of what this process asks another, within the span that is current here."""
        return self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)

    def served(self, name: str, carried: str, came_s: float, attributes: Attributes) -> Span:
        """A span of what another process asked this one at a time of the monotonic clock;
        `carried`: its span, "" if none."""
        return self._tracer.start_span(
            name,
            _parent(carried),
            SpanKind.SERVER,
            attributes,
            start_time=time.time_ns() - _ns(time.monotonic() - came_s),
        )

    def part(
        self, name: str, carried: str, began_s: float, ended_s: float, attributes: Attributes
    ) -> None:
        """A span that has ended, of a part of what `carried` is; both times by the monotonic
        clock."""
        ended_ns = time.time_ns() - _ns(time.monotonic() - ended_s)
        span = self._tracer.start_span(
            name,
            _parent(carried),
            attributes=attributes,
            start_time=ended_ns - _ns(ended_s - began_s),
        )
        span.end(ended_ns)

    @contextmanager
    def root(self, name: str, ids: SpanIds, attributes: Attributes) -> Iterator[None]:
        """The span of these ids, which is current meanwhile."""
        before = _next_root.set(ids)
        try:
            span = self._tracer.start_span(name, Context(), attributes=attributes)
        finally:
            _next_root.reset(before)
        with Ending(span), current(span):
            yield

    @contextmanager
    def within(self, ids: SpanIds) -> Iterator[None]:
        """What is asked meanwhile belongs to the root of these ids, kept if that is."""
        decision = self._sampler.should_sample(None, ids.trace, "").decision
        kept = decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if kept else TraceFlags.DEFAULT)
        with use_span(NonRecordingSpan(SpanContext(ids.trace, ids.span, True, flags))):
            yield


@contextmanager
def current(span: Span) -> Iterator[None]:
    """What is asked meanwhile belongs to the span. It does not end it."""
    with use_span(span, record_exception=False, set_status_on_exception=False):
        yield


class Ending(AbstractContextManager[None]):
    """Ends a span with what it is around."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A reader that has enough closes its generator, which is no failure.
        ended(self._span, "" if kind in (None, GeneratorExit) else kind.__name__)


def current_span() -> Span:
    """What this process is at; one that is not kept, if it traces nothing."""
    return get_current_span()


def carried_by(span: Span) -> str:
    """The span, as another process gets it; "" if it is not kept."""
    if not span.get_span_context().trace_flags.sampled:
        return ""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span, Context()))
    return carrier[CARRIED]


def carried_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The span that a call's metadata carry, "" if none."""
    for key, value in metadata or ():
        if key == CARRIED and isinstance(value, str):
            return value
    return ""


def ended(span: Span, error: str = "", attributes: Attributes | None = None) -> None:
    """End the span, well or by an error of this kind."""
    if attributes:
        span.set_attributes(attributes)
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _parent(carried: str) -> Context:
    """None where there is no span, or what a stranger wrote is none."""
    return _propagator.extract({CARRIED: carried}, Context())


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
