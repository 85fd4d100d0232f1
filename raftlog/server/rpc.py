"""The calls as grpc handlers: bytes in, bytes out, every refusal typed, every call bounded.

Handlers are generic (bytes serializers), because `raftlog.wire` knows the frames and a megabyte of
records must not pass through a protobuf field.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import grpc
import grpc.aio
import structlog

from raftlog.config import ServerSettings
from raftlog.errors import DeadlineExceeded, NodeStopping, Overloaded, RaftlogError
from raftlog.server.services import Services
from raftlog.transport.inbound import Context, refuse
from raftlog.wire.calls import METHODS, SERVICE, ReadCall
from raftlog.wire.codec import decode_request, encode_reply

log = structlog.get_logger(__name__)

_WITH_BODY = ("Append", "Stage")
_STREAMED = "Read"

METHOD_NAMES: dict[str, str] = {
    "DescribeCluster": "describe_cluster",
    "RegisterNode": "register_node",
    "CreateTopic": "create_topic",
    "DeleteTopic": "delete_topic",
    "DescribeTopic": "describe_topic",
    "ListTopics": "list_topics",
    "Append": "append",
    "Stage": "stage",
    "CommitEpoch": "commit_epoch",
    "AbortEpoch": "abort_epoch",
    "ReadHighWaterMark": "read_high_water_mark",
    "Read": "read",
    "ReadSizes": "read_sizes",
    "WatchGroups": "watch_groups",
    "ListWriters": "list_writers",
    "RemoveWriter": "remove_writer",
}
"""The method of `Services` for each call."""

assert METHOD_NAMES.keys() == METHODS.keys(), "every call of the wire is served, and no other"


class CallGate:
    """Counts calls in flight, so that their number has a bound."""

    def __init__(self, limits: ServerSettings) -> None:
        self._limits = limits
        self._in_flight = 0
        self._closed = False
        self._idle = asyncio.Event()

    async def close(self) -> None:
        """Refuse further calls, and give those in flight time to end."""
        self._closed = True
        if self._in_flight:
            try:
                async with asyncio.timeout(self._limits.shutdown_timeout_s):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("calls cut off", calls=self._in_flight)

    def call(self, method: str, context: Context) -> _Call:
        """One call's time, as an asynchronous context: over the bound it is `Overloaded`; past its
        deadline it ends."""
        longest = self._limits.request_timeout_max_s
        remaining = context.time_remaining()
        return _Call(self, method, longest if remaining is None else min(remaining, longest))

    def enter(self) -> None:
        """Count a call. Raises `NodeStopping`, `Overloaded`; then it is not counted."""
        if self._closed:
            raise NodeStopping()
        limit = self._limits.requests_max
        if self._in_flight >= limit:
            raise Overloaded(queue="server.requests_max", limit=limit)
        self._in_flight += 1

    def leave(self) -> None:
        """A call that was counted has ended."""
        self._in_flight -= 1
        if self._closed and self._in_flight == 0:
            self._idle.set()


class _Call:
    """A class, not a generator of `asynccontextmanager`: every call passes here."""

    __slots__ = ("_gate", "_method", "_seconds", "_timeout")

    def __init__(self, gate: CallGate, method: str, seconds: float) -> None:
        self._gate = gate
        self._method = method
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        self._gate.enter()
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate.leave()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise DeadlineExceeded(what=self._method, seconds=f"{self._seconds:.3g}") from None


def client_handlers(services: Services, gate: CallGate) -> grpc.GenericRpcHandler:
    """The handler of `SERVICE` to register with a node's grpc server."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        method: grpc.unary_unary_rpc_method_handler(_unary(method, getattr(services, name), gate))
        for method, name in METHOD_NAMES.items()
        if method != _STREAMED
    }
    handlers[_STREAMED] = grpc.unary_stream_rpc_method_handler(_read(services, gate))
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _unary(
    method: str, serve: Callable[..., Awaitable[Any]], gate: CallGate
) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def answer(data: bytes, context: Context) -> bytes | RaftlogError:
        try:
            async with gate.call(method, context):
                request, body = decode_request(method, data)
                if method in _WITH_BODY:
                    reply = await serve(request, body)
                else:
                    reply = await serve(request)
                return encode_reply(method, reply)
        except RaftlogError as error:
            return _without_frames(error)

    async def handle(data: bytes, context: Context) -> bytes:
        answered = await answer(data, context)
        if isinstance(answered, bytes):
            return answered
        # The abort's traceback holds this frame, in a cycle with grpc's call, until a full garbage
        # collection: a burst of refused writes must not keep its bytes for so long.
        del data
        return await refuse(context, answered)

    return handle


def _without_frames(error: RaftlogError) -> RaftlogError:
    """The error alone: frames of its tracebacks hold the request and its bytes."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _read(services: Services, gate: CallGate) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
    async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async with gate.call(_STREAMED, context):
                request, _ = decode_request(_STREAMED, data)
                assert isinstance(request, ReadCall)
                async for reply, body in services.read(request):
                    yield encode_reply(_STREAMED, reply, body)
        except RaftlogError as error:
            await refuse(context, error)

    return handle
