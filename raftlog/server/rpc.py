"""The calls as grpc handlers: bytes in, bytes out, every refusal typed, every call bounded.

Handlers are generic (bytes serializers), because `raftlog.wire` knows the frames and a megabyte of
records must not pass through a protobuf field.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, TypeAlias

import grpc
import grpc.aio
import structlog

from raftlog.config import ServerSettings
from raftlog.errors import (
    DeadlineExceeded,
    NodeStopping,
    Overloaded,
    RaftlogError,
    Unauthenticated,
    shortage_of,
)
from raftlog.metrics.counts import Counts
from raftlog.server.allowed import Allowed
from raftlog.server.audit import AuditLog, Operation
from raftlog.server.calling import caller, counting, identity, principal
from raftlog.server.fair_scans import WORK_S, FairScans
from raftlog.server.meters import Meter, Meters
from raftlog.server.services import Services
from raftlog.server.traces import Traces
from raftlog.transport.inbound import Context, peer_of, refuse
from raftlog.wire import calls
from raftlog.wire.calls import Reply, Request
from raftlog.wire.codec import decode_request, encode_reply
from raftlog.wire.framing import header_length

_HEADER_BYTES_FREE = 1024
"""A request with a header up to this is read at once: that takes less than its call does."""

_CALLERS_MIN = 2
"""The least number of callers that have room for requests that wait to be decoded. No setting."""

_SHORTAGES = (OSError, MemoryError, RuntimeError)
"""What may be raised where the process reaches a limit (`shortage_of`)."""

log = structlog.get_logger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


class CallGate:
    """Counts calls in flight, so that their number has a bound."""

    def __init__(
        self,
        limits: ServerSettings,
        cluster_id: str,
        counts: Counts,
        allowed: Allowed,
        meters: Meters,
        scans: FairScans,
        traces: Traces,
        audit: AuditLog | None = None,
    ) -> None:
        """Calls that are meant for another cluster than this are refused."""
        self.counts = counts
        self.allowed = allowed
        self.meters = meters
        allowed.rights.on_change = self._check_reads
        allowed.rights.on_look = self._check_callers
        meters.on_change = self._count_streams
        self.traces = traces
        self.audit = audit
        self._scans = scans
        self._waiting_bytes: Counter[str] = Counter()
        """Of large requests that are not read yet, by their callers."""
        self._limits = limits
        self._cluster_id = cluster_id
        self._in_flight = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._reads: set[_Call] = set()

    async def close(self) -> None:
        """Refuse further calls, end those that watch, and give the others time to end."""
        self._closed = True
        for read in self._reads:
            if read.watches:
                read.end()
        if self._in_flight:
            try:
                async with asyncio.timeout(self._limits.shutdown_timeout_s):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("calls cut off", calls=self._in_flight)

    @property
    def in_flight(self) -> int:
        """Calls that are being answered."""
        return self._in_flight

    @property
    def used(self) -> float:
        """The share of the calls that may be answered at a time: from 0 to 1."""
        return self._in_flight / self._limits.requests_max

    @property
    def closed(self) -> bool:
        """Does the node stop?"""
        return self._closed

    async def read(self, call: calls.Call[Request, Any], data: bytes) -> tuple[Request, bytes]:
        """The request and its body (`decode_request`). One with a large header waits until its
        caller may do more on the loop, and reading it counts (`FairScans`). Raises
        `MalformedRequest`, `Overloaded`."""
        if header_length(data) <= _HEADER_BYTES_FREE:
            return decode_request(call, data)
        who, limit = principal(), self._limits.request_bytes_max
        waiting = self._waiting_bytes[who]
        if waiting and waiting + len(data) > limit // _CALLERS_MIN:
            raise Overloaded(queue="server.request_bytes_max", limit=limit)
        self._waiting_bytes[who] = waiting + len(data)
        try:
            await self._scans.begin()
        finally:
            self._waiting_bytes[who] -= len(data)
            if not self._waiting_bytes[who]:
                del self._waiting_bytes[who]
        begun_s = time.thread_time()
        try:
            return decode_request(call, data)
        finally:
            self._scans.spend(int((time.thread_time() - begun_s) / WORK_S))

    def call(self, call: calls.Call[Any, Any], context: Context) -> _Call:
        """One call's time, as an asynchronous context: over the bound it is `Overloaded`; past its
        deadline it ends."""
        longest = self._limits.request_timeout_max_s
        remaining = context.time_remaining()
        seconds = longest if remaining is None else min(remaining, longest)
        return _Call(self, call, seconds, context)

    def is_foreign(self, context: Context) -> bool:
        """Is the call meant for another cluster, whose node listened here once?"""
        for key, value in context.invocation_metadata() or ():
            if key == calls.CLUSTER_METADATA_KEY:
                return value != self._cluster_id
        return False

    async def begin(self, call: str, request: object, context: Context) -> Operation | None:
        """Write that what the call is to do begins, if that is audited. Raises
        `AuditUnavailable`."""
        if self.audit is None:
            return None
        operation = self.audit.operation(call, request, caller(), peer_of(context))
        if operation is not None:
            await operation.begin()
        return operation

    def enter(self, entered: _Call) -> None:
        """Count a call. Raises `NodeStopping`, `Overloaded`; then it is not counted."""
        if self._closed:
            raise NodeStopping()
        limit = self._limits.requests_max
        if self._in_flight >= limit:
            raise Overloaded(queue="server.requests_max", limit=limit)
        self._in_flight += 1
        if entered.reads:
            self._reads.add(entered)

    def _check_reads(self) -> None:
        """End the calls whose callers may no longer read what they are given."""
        for read in self._reads:
            read.check_again()

    def _check_callers(self) -> None:
        """End the reads whose callers are known no more."""
        for read in self._reads:
            read.check_caller()

    def _count_streams(self) -> None:
        """Hold also the streams to the new quotas that began before."""
        for read in self._reads:
            if read.streams:
                read.hold()

    def leave(self, left: _Call) -> None:
        """A call that was counted has ended."""
        self._in_flight -= 1
        self._reads.discard(left)
        if self._closed and self._in_flight == 0:
            self._idle.set()


class _Call:
    """A class, not a generator of `asynccontextmanager`: every call passes here."""

    __slots__ = (
        "_context", "_ends", "_entered", "_gate", "_handing_over", "_identity", "_meter", "_name",
        "_refusal", "_request", "_seconds", "_timeout", "reads", "streams", "watches",
    )  # fmt: skip

    def __init__(
        self, gate: CallGate, call: calls.Call[Any, Any], seconds: float, context: Context
    ) -> None:
        self._gate = gate
        self._context = context
        self._name = call.name
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)
        self._identity = identity()
        self._entered: Meter | None = None
        """What counts the call."""
        self._meter: Meter | None = None
        self._request: object = None
        self._refusal: RaftlogError | None = None
        self._ends = False
        self._handing_over = False
        self.streams = isinstance(call, calls.StreamedCall)
        """Whether it has many answers."""
        self.reads = self.streams or isinstance(call, calls.LookupCall)
        """Whether it changes nothing: then it ends when its caller may no longer make it."""
        self.watches = isinstance(call, calls.WatchCall)
        """Whether it waits for what may never come."""

    async def __aenter__(self) -> _Call:
        if self._gate.is_foreign(self._context):
            code = grpc.StatusCode.FAILED_PRECONDITION
            await self._context.abort(code, calls.OTHER_CLUSTER)
        self._gate.enter(self)
        await self._timeout.__aenter__()
        return self

    async def admit(self, byte_count: int) -> None:
        """Count the call and its bytes towards the caller's quota, and wait for it. Raises
        `QuotaExceeded`, `Overloaded`."""
        meter = self._gate.meters.of(self._identity.caller)
        if meter is None:
            return
        meter.enter()
        self._entered = meter
        await meter.admit(byte_count, self._seconds)
        if self.streams:
            meter.open_stream()
        self._meter = meter

    async def answer(self, byte_count: int) -> None:
        """An answer of so many bytes goes to the caller; one of several when its quota allows."""
        if self._meter is None:
            return
        if self.streams:
            await self._meter.answer(byte_count)
        else:
            self._meter.answered(byte_count)

    def check(self, request: object) -> None:
        """Refuse what its caller may not do, or has lost the proof to ask for. Raises `Forbidden`,
        `RightsUnknown`, `GroupUnknown`, `Unauthenticated`."""
        self._gate.allowed.check(self._identity.look_up(), self._name, request)
        self._request = request

    def check_again(self) -> None:
        """The rights have changed: end it, if its caller may not make the call any more."""
        if self._request is None:
            return  # it is checked when it is read
        try:
            self.check(self._request)
        except RaftlogError as error:
            self._refusal = error
            self.end()

    def check_caller(self) -> None:
        """End it, if what it showed proves no identity any more, or one that may not make it."""
        before = self._identity.caller
        with suppress(Unauthenticated):
            if self._identity.look_up() == before:
                return
        self.check_again()

    def hold(self) -> None:
        """The quotas have changed: count the stream, if its caller has one now."""
        if self._meter is None and self._request is not None:
            self._meter = self._gate.meters.of(self._identity.caller)
            if self._meter is not None:
                self._meter.count_stream()

    def shown(self, reply: Reply) -> Reply:
        """The answer without what its caller must not know of."""
        shown: Reply = self._gate.allowed.shown(self._identity.caller, reply)
        return shown

    def end(self) -> None:
        """End it now, or once the frame that is on its way has left: a call whose task is cancelled
        in grpc's hands gets no status, and its client waits for its own deadline."""
        self._ends = True
        if not self._handing_over and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """While a frame is with grpc. Raises what ends the call, before and after it."""
        if self._ends:
            raise self._end()
        self._handing_over = True
        yield
        self._handing_over = False
        if self._ends:
            raise self._end()

    def _end(self) -> RaftlogError:
        """Why it ends before it is done."""
        if self._refusal is not None:
            return self._refusal
        if self.watches and self._gate.closed:
            return NodeStopping()
        return DeadlineExceeded(what=self._name, seconds=f"{self._seconds:.3g}")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate.leave(self)
        if self.streams and self._meter is not None:
            self._meter.close_stream()
        if self._entered is not None:
            self._entered.leave()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._end() from None


def client_handlers(services: Services, gate: CallGate) -> grpc.GenericRpcHandler:
    """The handler of `SERVICE` to register with a node's grpc server."""

    def plain(
        call: calls.PlainCall[Request, Reply],
        serve: Callable[[Request], Awaitable[Reply]],
        already: Callable[[Request], Awaitable[Reply | None]] | None = None,
    ) -> tuple[str, Handler]:
        answer = _unary(call, lambda request, _: serve(request), gate, already)
        return call.name, grpc.unary_unary_rpc_method_handler(answer)

    def with_body(
        call: calls.UnaryCall[Request, Reply], serve: Callable[[Request, bytes], Awaitable[Reply]]
    ) -> tuple[str, Handler]:
        return call.name, grpc.unary_unary_rpc_method_handler(_unary(call, serve, gate))

    def streamed(
        call: calls.StreamedCall[Request, Reply],
        serve: Callable[[Request], AsyncIterator[tuple[Reply, bytes]]],
    ) -> tuple[str, Handler]:
        return call.name, grpc.unary_stream_rpc_method_handler(_stream(call, serve, gate))

    handlers = dict(
        [
            plain(calls.DESCRIBE_CLUSTER, services.describe_cluster),
            plain(calls.REGISTER_NODE, services.register_node, services.check_registration),
            plain(calls.CREATE_TOPIC, services.create_topic, services.unchanged.created),
            plain(calls.ADD_NODE, services.placing.add_node),
            plain(calls.SET_PARENTS, services.placing.set_parents),
            plain(calls.SET_DUTY, services.placing.set_duty),
            plain(calls.RETIRE_NODE, services.placing.retire_node),
            plain(calls.PLACE_GROUP, services.placing.place_group),
            plain(calls.REPORT_PLACEMENT, services.placing.report_placement),
            plain(calls.DESCRIBE_PLACEMENTS, services.placing.describe_placements),
            plain(calls.TRANSFER_LEADERSHIP, services.placing.transfer_leadership),
            plain(calls.ALTER_TOPIC, services.alter_topic, services.unchanged.altered),
            plain(calls.ALTER_SCHEMA, services.alter_schema, services.unchanged.altered),
            plain(calls.DELETE_TOPIC, services.delete_topic, services.unchanged.deleted),
            plain(calls.DESCRIBE_TOPIC, services.describe_topic),
            plain(calls.LIST_TOPICS, services.list_topics),
            with_body(calls.APPEND, services.append),
            with_body(calls.STAGE, services.stage),
            plain(calls.COMMIT_EPOCH, services.commit_epoch),
            plain(calls.ABORT_EPOCH, services.abort_epoch),
            plain(calls.READ_HIGH_WATER_MARK, services.read_high_water_mark),
            streamed(calls.READ, services.read),
            plain(calls.READ_SIZES, services.read_sizes),
            plain(calls.FIND_OFFSET, services.find_offset),
            plain(calls.TRIM, services.trim, services.unchanged.trimmed),
            plain(calls.WATCH_GROUPS, services.watch_groups),
            plain(calls.SCRUB, services.scrub),
            plain(calls.LIST_WRITERS, services.list_writers),
            plain(calls.REMOVE_WRITER, services.remove_writer, services.unchanged.writer_removed),
            plain(calls.SET_WRITER_OWNER, services.set_writer_owner, services.unchanged.owner_set),
            plain(calls.OPEN_KV, services.kv.open_kv),
            plain(calls.OPEN_SESSION, services.kv.open_session),
            plain(calls.PUT_KEY, services.kv.put_key),
            plain(calls.DELETE_KEY, services.kv.delete_key),
            plain(calls.READ_KEYS, services.kv.read_keys),
            streamed(calls.WATCH_KEYS, services.kv.watch_keys),
            plain(calls.GET_LAST_APPLIED, services.groups.get_last_applied),
            plain(calls.GET_SERVERS, services.groups.get_servers),
            plain(calls.GET_ENTRIES, services.groups.get_entries),
            plain(calls.GET_STATE, services.groups.get_state),
            streamed(calls.WATCH_EVENTS, services.groups.watch_events),
        ]
    )
    assert handlers.keys() == calls.CALLS.keys(), "every call is served, and no other"
    return grpc.method_handlers_generic_handler(calls.SERVICE, handlers)


def _unary(
    call: calls.UnaryCall[Request, Reply],
    serve: Callable[[Request, bytes], Awaitable[Reply]],
    gate: CallGate,
    already: Callable[[Request], Awaitable[Reply | None]] | None = None,
) -> Callable[[bytes, Context], Awaitable[bytes]]:
    """`already` answers or rejects what needs no change, which is no audited operation; else
    None."""

    async def answer(data: bytes, context: Context) -> bytes | RaftlogError:
        asked: Request | None = None
        operation: Operation | None = None
        count = gate.counts.call(call.name, len(data))
        try:
            with counting(count), gate.traces.serving(call.name, context, count) as served:
                try:
                    async with gate.call(call, context) as entered:
                        await entered.admit(len(data))
                        request, body = await gate.read(call, data)
                        asked = request
                        entered.check(request)
                        served(request)
                        reply = None if already is None else await already(request)
                        if reply is None:
                            operation = await gate.begin(call.name, request, context)
                            if already is not None or operation is not None:
                                entered.check(request)  # what it waited for may have taken long
                            reply = await serve(request, body)
                        frame = encode_reply(call, entered.shown(reply))
                        await entered.answer(len(frame))
                        count.sent_bytes = len(frame)
                        return frame
                except (RaftlogError, *_SHORTAGES) as raised:
                    error = _typed(call.name, raised)
                    count.outcome = type(error).__name__
                    return _without_frames(gate.allowed.told(caller(), error))
        finally:
            if operation is not None:
                operation.end(count.outcome)
            elif gate.audit is not None:
                gate.audit.rejected(call.name, asked, caller(), peer_of(context), count.outcome)

    async def handle(data: bytes, context: Context) -> bytes:
        answered = await answer(data, context)
        if isinstance(answered, bytes):
            return answered
        # The abort's traceback holds this frame, in a cycle with grpc's call, until a full garbage
        # collection: a burst of refused writes must not keep its bytes for so long.
        del data
        return await refuse(context, answered)

    return handle


def _typed(call: str, error: Exception) -> RaftlogError:
    """What the caller gets. Raises `error` if that is a defect."""
    if isinstance(error, RaftlogError):
        return error
    shortage = shortage_of(error, call)
    if shortage is None:
        raise error
    return shortage


def _without_frames(error: RaftlogError) -> RaftlogError:
    """The error without tracebacks: their frames hold the request and its bytes."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _stream(
    call: calls.StreamedCall[Request, Reply],
    serve: Callable[[Request], AsyncIterator[tuple[Reply, bytes]]],
    gate: CallGate,
) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
    async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
        asked: Request | None = None
        count = gate.counts.call(call.name, len(data))
        with count, gate.traces.serving(call.name, context, count) as served:
            try:
                async with gate.call(call, context) as entered:
                    await entered.admit(len(data))
                    request, _ = await gate.read(call, data)
                    asked = request
                    entered.check(request)
                    served(request)
                    async for reply, body in serve(request):
                        frame = encode_reply(call, entered.shown(reply), body)
                        await entered.answer(len(frame))
                        count.sent_bytes += len(frame)
                        with entered.handing_over():
                            yield frame
            except (RaftlogError, *_SHORTAGES) as raised:
                error = _typed(call.name, raised)
                count.outcome = type(error).__name__
                if gate.audit is not None:
                    gate.audit.rejected(call.name, asked, caller(), peer_of(context), count.outcome)
                await refuse(context, error)

    return handle
