"""What a node traces: the calls that it serves, the stages of writes, and what followers log.

A write is followed to its followers by its place in the log. The leader tells them, in the frame
that carries the entry, which span it belongs to; the replicas themselves know nothing of it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import structlog

from raftlog.config_tracing import TracingSettings, check_tracing
from raftlog.core.messages import AppendRequest, PeerMessage
from raftlog.core.types import GroupId, NodeId
from raftlog.machines.group_info import label_of
from raftlog.metrics.counts import CANCELLED, OK, CallCount, WriteStage
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.calling import begin_span
from raftlog.transport.inbound import Context
from raftlog.wire.traced import TracedEntry

if TYPE_CHECKING:
    from raftlog.tracing import Span, Tracer

_ENTRIES_MAX = 256
"""So many entries are followed at a time. No setting: traces are samples."""

_KEPT_S = 10.0
"""An entry that is not on a follower's disk after this is followed no more. No setting."""

_COMPLAINT_S = 60.0
"""How often the log says that a collector takes nothing. No setting."""

Served: TypeAlias = "Callable[[object], None]"
"""Takes what the call asks, once it is read."""

_NOTHING: AbstractContextManager[Served] = nullcontext(lambda _: None)

log = structlog.get_logger(__name__)


class _Followed(NamedTuple):
    entry: TracedEntry
    since_s: float


class Traces:
    """The spans of one node; without `tracing.endpoint` there are none. For the loop's thread."""

    def __init__(
        self,
        settings: TracingSettings,
        node: NodeId,
        find: Callable[[GroupId], LocalReplica | None],
    ) -> None:
        """`find` gives the node's replica of a group. Raises `InvalidOption`."""
        check_tracing(settings.endpoint, "tracing.endpoint")
        self._tracer: Tracer | None = None
        if settings.endpoint:
            from raftlog.tracing import Tracer

            logging.getLogger("opentelemetry").addHandler(_Complaints(logging.WARNING))
            self._tracer = Tracer(settings.endpoint, settings.sample_ratio, "raftlog-node")
        self._of_node = {"raftlog.node": node}
        self._find = find
        self._sent: deque[_Followed] = deque(maxlen=_ENTRIES_MAX)
        """Those that this node put into a log as its leader."""
        self._told: deque[_Followed] = deque(maxlen=_ENTRIES_MAX)
        """Those that leaders announced and that are not on this disk yet."""

    def stop(self) -> None:
        """Send what waits."""
        if self._tracer is not None:
            self._tracer.close()

    def serving(
        self, call: str, context: Context, count: CallCount
    ) -> AbstractContextManager[Served]:
        """The span of a call that is served here, in a task of the call's own."""
        if self._tracer is None:
            return _NOTHING
        return self._serving(self._tracer, call, context, count)

    @contextmanager
    def _serving(
        self, tracer: Tracer, call: str, context: Context, count: CallCount
    ) -> Iterator[Served]:
        from raftlog.tracing import carried_by, carried_in, ended

        asked: dict[str, str | int] = {
            **self._of_node,
            "rpc.system": "grpc",
            "rpc.method": call,
            "raftlog.bytes": count.received_bytes,
        }
        asker = carried_in(context.invocation_metadata())
        span = tracer.served(call, asker, count.began_at_s, asked)
        carried = carried_by(span)
        begin_span(carried)
        failure = CANCELLED
        try:
            yield partial(self._asked, span)
            failure = ""
        finally:
            if carried and count.applied_at_s is not None:
                self._part(tracer, WriteStage.ANSWER, carried, count.applied_at_s)
            failure = count.outcome if count.outcome != OK else failure
            ended(span, failure, {"raftlog.sent_bytes": count.sent_bytes})

    def _asked(self, span: Span, request: object) -> None:
        """Say what the call is about, and when it was read."""
        span.add_event("decoded")
        group = getattr(request, "group", None)
        if group is not None:
            local = self._find(group)
            topic = "" if local is None else label_of(local.info) or ""
            span.set_attributes({"raftlog.group": group, "raftlog.topic": topic})

    def _part(
        self, tracer: Tracer, name: str, carried: str, began_s: float, ended_s: float | None = None
    ) -> None:
        until_s = time.monotonic() if ended_s is None else ended_s
        tracer.part(name, carried, began_s, until_s, self._of_node)

    # ------------------------------------------------------------ leaders

    def proposed(self, entry: TracedEntry) -> None:
        """The entry is in this leader's log, and is not sent yet."""
        self._sent.append(_Followed(entry, time.monotonic()))

    def applied(self, carried: str, stages: Sequence[tuple[WriteStage, float, float]]) -> None:
        """The entry of a span is applied: when its stages began and ended, by the monotonic
        clock."""
        assert self._tracer is not None, "who traces nothing makes no spans"
        for stage, began_s, ended_s in stages:
            self._part(self._tracer, stage.value, carried, began_s, ended_s)

    def among(self, messages: Sequence[PeerMessage]) -> list[TracedEntry]:
        """The traced entries that these messages carry."""
        _forget_old(self._sent)
        if not self._sent:
            return []
        requests = [each for each in messages if isinstance(each, AppendRequest) and each.entries]
        return [
            sent.entry for sent in self._sent if any(_has(each, sent.entry) for each in requests)
        ]

    # ------------------------------------------------------------ followers

    def told(self, entries: Sequence[TracedEntry]) -> None:
        """A frame has come from a leader, which carries these entries."""
        if self._tracer is not None:
            now_s = time.monotonic()
            self._told.extend(_Followed(entry, now_s) for entry in entries)

    def look(self) -> None:
        """See which of them are on this node's disk now."""
        if not self._told:
            return
        assert self._tracer is not None, "only then it was told"
        _forget_old(self._told)
        for _ in range(len(self._told)):
            told = self._told.popleft()
            if self._is_durable(told.entry):
                self._part(self._tracer, "follow", told.entry.carried, told.since_s)
            else:
                self._told.append(told)

    def _is_durable(self, entry: TracedEntry) -> bool:
        local = self._find(entry.group)
        if local is None:
            return False
        log = local.replica.log
        return log.base_index < entry.index <= log.durable_index and (
            log.term_at(entry.index) == entry.term
        )


def _forget_old(followed: deque[_Followed]) -> None:
    """Without a look at the clock where there is none."""
    if followed:
        until_s = time.monotonic() - _KEPT_S
        while followed and followed[0].since_s < until_s:
            followed.popleft()


def _has(request: AppendRequest, entry: TracedEntry) -> bool:
    place = entry.index - request.prev_index - 1
    return (
        request.group == entry.group
        and 0 <= place < len(request.entries)
        and request.entries[place].term == entry.term
    )


class _Complaints(logging.Handler):
    """What OpenTelemetry says of spans that are lost, as a line of the node's log: a collector does
    not take them, or not as fast as they come."""

    _silent_until_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Now and then."""
        now_s = time.monotonic()
        said = record.getMessage()
        is_lost = record.levelno >= logging.ERROR or said.startswith("Queue full")
        if is_lost and now_s >= self._silent_until_s:
            self._silent_until_s = now_s + _COMPLAINT_S
            log.warning("spans are lost", option="tracing.endpoint", cause=said)
