"""What a client traces: its requests, and the epochs that they are part of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from raftlog.client.forks import leave_alone
from raftlog.config import ClientSettings
from raftlog.config_tracing import check_tracing
from raftlog.machines.commands import EpochKey, TopicInfo

if TYPE_CHECKING:
    from raftlog.tracing import Span, SpanIds, Tracer

_OPTION = "client.tracing_endpoint (raftlog.tracing.endpoint in Spark)"

_NOTHING: AbstractContextManager[None] = nullcontext()


class Traces:
    """The spans of one client; without `client.tracing_endpoint` there are none, and each method
    costs a comparison. A forked child makes its own."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises `InvalidOption` for an endpoint that is none, and where OpenTelemetry lacks."""
        check_tracing(settings.tracing_endpoint, _OPTION)
        self._settings = settings
        self._tracer: Tracer | None = None
        self._making = threading.Lock()

    def begin_again(self) -> None:
        """In a forked child: the parent's tracer has threads there."""
        leave_alone(self._tracer)
        self._making = threading.Lock()
        self._tracer = None

    def close(self) -> None:
        """Send what waits."""
        if self._tracer is not None:
            self._tracer.close()
            self._tracer = None

    # ------------------------------------------------------------ requests

    def begin(self, call: str, group: int | None, byte_count: int = 0) -> Span | None:
        """The span of a request, within what is current; who begins it ends it. None: nothing is
        traced."""
        if not self._settings.tracing_endpoint:
            return None
        attributes: dict[str, str | int] = {"rpc.system": "grpc", "rpc.method": call}
        if group is not None:
            attributes["raftlog.group"] = group
        if byte_count:
            attributes["raftlog.bytes"] = byte_count
        return self._made().request(call, attributes)

    def request(
        self, call: str, group: int | None, byte_count: int
    ) -> AbstractContextManager[None]:
        """The span of a request, all its tries, which is current meanwhile."""
        span = self.begin(call, group, byte_count)
        return _NOTHING if span is None else _current_until_end(span)

    def until_end(self, span: Span | None) -> AbstractContextManager[None]:
        """Ends the span, which was begun before, and does not make it current."""
        if span is None:
            return _NOTHING
        from raftlog.tracing import Ending

        return Ending(span)

    def following(self, span: Span | None) -> AbstractContextManager[None]:
        """What is asked meanwhile belongs to the span."""
        if span is None:
            return _NOTHING
        from raftlog.tracing import current

        return current(span)

    def metadata(self, span: Span | None = None) -> tuple[tuple[str, str], ...]:
        """What a call carries of its span, or of what is current."""
        if not self._settings.tracing_endpoint:
            return ()
        from raftlog.tracing import CARRIED, carried_by, current_span

        carried = carried_by(current_span() if span is None else span)
        return ((CARRIED, carried),) if carried else ()

    # ------------------------------------------------------------ epochs

    def staging(self, topic: TopicInfo, key: EpochKey) -> AbstractContextManager[None]:
        """What is asked meanwhile belongs to the epoch, whose span is made by the commit: its ids
        follow from the key, so that tasks need not learn them."""
        if not self._settings.tracing_endpoint:
            return _NOTHING
        return self._made().within(_ids(topic, key))

    def committing(self, topic: TopicInfo, key: EpochKey) -> AbstractContextManager[None]:
        """The span of the epoch in this topic, which is current meanwhile."""
        if not self._settings.tracing_endpoint:
            return _NOTHING
        attributes: dict[str, str | int] = {"raftlog.topic": topic.name, "raftlog.epoch": key.epoch}
        return self._made().root("Epoch", _ids(topic, key), attributes)

    def _made(self) -> Tracer:
        """This process's tracer, made when it is needed: it loads OpenTelemetry."""
        with self._making:
            if self._tracer is None:
                from raftlog.tracing import Tracer

                settings = self._settings
                self._tracer = Tracer(
                    settings.tracing_endpoint, settings.tracing_sample_ratio, "raftlog-client"
                )
            return self._tracer


def _ids(topic: TopicInfo, key: EpochKey) -> SpanIds:
    """One trace for all topics that the epoch writes, and a root for each."""
    from raftlog.tracing import ids_of

    epoch = (key.writer, key.run, key.epoch, key.streaming)
    return ids_of(*epoch)._replace(span=ids_of(*epoch, topic.incarnation).span)


@contextmanager
def _current_until_end(span: Span) -> Iterator[None]:
    from raftlog.tracing import Ending, current

    with Ending(span), current(span):
        yield
