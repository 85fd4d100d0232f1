"""What a refused call leaves behind, and how one is ended before it is done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

import grpc
import grpc.aio
import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import ServerSettings
from raftlog.config_auth import AuthSettings
from raftlog.config_tracing import TracingSettings
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import NodeStopping, NotLeader
from raftlog.metrics.counts import Counts
from raftlog.server.allowed import Allowed
from raftlog.server.meters import Meters
from raftlog.server.rights import Rights
from raftlog.server.rpc import CallGate, _stream, _unary
from raftlog.server.traces import Traces
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import APPEND, SERVICE, WATCH_KEYS, AppendCall
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, encode_request
from raftlog.wire.kv_calls import KeyChanges, WatchKeys
from tests.multiraft.leading import LeadingNode
from tests.server.test_allowed import not_here

BODY_BYTES = 100_000
REQUEST = encode_request(
    APPEND,
    AppendCall(
        group=GroupId(1),
        incarnation="i",
        producer="p",
        sequence=1,
        batch=BatchHeader(record_count=0, schema_version=1, columns=()),
        crc=0,
    ),
    bytes(BODY_BYTES),
)


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What only a garbage collection frees, after running one."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def gate() -> CallGate:
    rights = Rights(AuthSettings(), asked=False)
    allowed = Allowed(rights, LeadingNode(topics=0).multiraft.replicas, not_here)
    meters = Meters(AuthSettings(), Counts().quotas, requests_max=1)
    traces = Traces(TracingSettings(), NodeId(1), lambda _: None)
    return CallGate(ServerSettings(), "c", Counts(), allowed, meters, traces)


class Aborted(Exception):
    """grpc's, with the typed error that a client gets."""


class Context:
    """grpc's side of one call."""

    def time_remaining(self) -> None:
        """The client waits for ever."""

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, details: str, metadata: Any) -> NoReturn:
        raise Aborted(decode_error(dict(metadata)[ERROR_METADATA_KEY]))


def test_a_stream_that_is_ended_while_grpc_has_a_frame_gets_its_status_after_it() -> None:
    """To cancel its task then would leave the client without one, until its own deadline."""

    async def watch(_: WatchKeys) -> AsyncIterator[tuple[KeyChanges, bytes]]:
        while True:
            yield KeyChanges(index=1, changes=()), b""

    async def run() -> None:
        closed = gate()
        watched = WatchKeys(group=GroupId(1), prefix="", after=0, seconds=60)
        request = encode_request(WATCH_KEYS, watched)
        frames = _stream(WATCH_KEYS, watch, closed)(request, Context())
        await anext(frames)
        closing = asyncio.create_task(closed.close())
        for _ in range(5):
            await asyncio.sleep(0)  # here grpc sends: a task that is cancelled ends the test
        with pytest.raises(Aborted) as ended:
            await anext(frames)
        assert isinstance(ended.value.args[0], NodeStopping)
        await closing

    asyncio.run(run())


def test_a_refused_write_does_not_keep_its_bytes_until_a_garbage_collection(
    garbage: list[object],
) -> None:
    """They would outlive it by minutes: a node makes little garbage of other kinds."""

    async def append(_: AppendCall, body: bytes) -> None:
        assert len(body) == BODY_BYTES
        raise NotLeader(group=1)

    async def run() -> None:
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(_unary(APPEND, append, gate()))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Append": handler}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for _ in range(3):
                with pytest.raises(grpc.aio.AioRpcError):
                    await channel.unary_unary(f"/{SERVICE}/Append")(REQUEST, timeout=PATIENCE_S)
        await server.stop(None)

    asyncio.run(run())
    gc.collect()
    large = [
        one
        for kept in garbage
        for one in gc.get_referents(kept)
        if isinstance(one, bytes) and len(one) >= BODY_BYTES and one is not REQUEST
    ]
    assert len(large) == 0
