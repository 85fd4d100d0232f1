"""What a refused call leaves behind, and how one is ended before it is done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import grpc
import grpc.aio
import pytest

from raftlog.auth.principals import Caller
from raftlog.auth.rights import Right, topic_named
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import ServerSettings
from raftlog.config_auth import AuthSettings
from raftlog.config_tracing import TracingSettings
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import (
    Forbidden,
    NodeStopping,
    NotLeader,
    Overloaded,
    RaftlogError,
    Unauthenticated,
)
from raftlog.machines.commands import AttemptReference, EpochKey
from raftlog.machines.kv_commands import KeyValue
from raftlog.machines.outcomes import EpochAborted
from raftlog.metrics.counts import Counts
from raftlog.server.allowed import Allowed
from raftlog.server.audit import ACTS
from raftlog.server.calling import begin, caller, calling
from raftlog.server.fair_scans import FairScans
from raftlog.server.meters import Meters
from raftlog.server.rights import Rights
from raftlog.server.rpc import _CALLERS_MIN, CallGate, _stream, _unary
from raftlog.server.traces import Traces
from raftlog.wire.batch import BatchHeader
from raftlog.wire.calls import (
    ABORT_EPOCH,
    APPEND,
    CALLS,
    COMMIT_EPOCH,
    READ_HIGH_WATER_MARK,
    SERVICE,
    WATCH_GROUPS,
    WATCH_KEYS,
    AbortEpochCall,
    AppendCall,
    CommitEpochCall,
    LookupCall,
    NodeView,
    ReadHighWaterMark,
    StreamedCall,
    WatchGroups,
)
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, encode_request
from raftlog.wire.kv_calls import KeyChanges, WatchKeys
from tests.multiraft.compaction_scene import topic_of
from tests.multiraft.leading import LeadingNode
from tests.server.test_allowed import EVE, judging, not_here
from tests.server.test_meters import key_value
from tests.server.test_rights import key_value as key_of

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


def gate(
    limits: ServerSettings | None = None,
    quota: KeyValue | None = None,
    allowed: Allowed | None = None,
) -> CallGate:
    rights = Rights(AuthSettings(), asked=False)
    allowed = allowed or Allowed(rights, LeadingNode(topics=0).multiraft.replicas, not_here)
    limits = limits or ServerSettings()
    meters = Meters(AuthSettings(), Counts().quotas, requests_max=limits.requests_max)
    meters.take([] if quota is None else [quota])
    traces = Traces(TracingSettings(), NodeId(1), lambda _: None)
    return CallGate(limits, "c", Counts(), allowed, meters, FairScans(), traces)


class Aborted(Exception):
    """grpc's, with the typed error that a client gets."""


class Context:
    """grpc's side of one call."""

    def time_remaining(self) -> None:
        """The client waits for ever."""

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

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


def commit(attempts: int) -> bytes:
    """A request to read: of thousands of attempts that takes more than a caller's share."""
    attempt = AttemptReference(attempt="a0", entry_count=1, record_count=1, chained_crc=0)
    epoch = EpochKey(writer="w", query_id="q", run="r", epoch=0, streaming=True)
    call = CommitEpochCall(
        group=GroupId(1),
        incarnation="i",
        key=epoch,
        attempts=(attempt,) * attempts,
        schema_version=1,
        keep_on_mismatch=False,
        create_writer=True,
        transient_writer=False,
    )
    return encode_request(COMMIT_EPOCH, call)


def test_a_large_request_is_read_when_its_caller_may_do_more_and_counts() -> None:
    """Thousands of them would otherwise be decoded in one iteration of the loop."""
    small, large = commit(1), commit(20_000)

    async def run() -> None:
        read = gate().read
        first, second = (asyncio.create_task(read(COMMIT_EPOCH, large)) for _ in range(2))
        await first
        assert not second.done(), "the first has taken its caller's share"
        assert len((await read(COMMIT_EPOCH, small))[0].attempts) == 1
        with calling(Caller(principal="token:ada")):
            assert len((await read(COMMIT_EPOCH, large))[0].attempts) == 20_000
        assert not second.done()
        assert len((await second)[0].attempts) == 20_000

    asyncio.run(run())


@pytest.mark.slow
def test_requests_that_wait_to_be_read_have_a_bound_for_each_caller() -> None:
    large = commit(20_000)
    limits = ServerSettings(request_bytes_max=16 * len(large))

    async def run() -> int:
        read = gate(limits).read
        tasks = [asyncio.create_task(read(COMMIT_EPOCH, large)) for _ in range(10)]
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        problems = [each for each in ended if isinstance(each, BaseException)]
        assert {type(each) for each in problems} == {Overloaded}
        assert len((await read(COMMIT_EPOCH, large))[0].attempts) == 20_000, "room again"
        return len(ended) - len(problems)

    assert asyncio.run(run()) == 1 + 16 // _CALLERS_MIN


def test_calls_of_a_caller_with_a_quota_take_a_part_of_the_places() -> None:
    """Whatever they wait for: here for what the service does."""
    request = encode_request(WATCH_GROUPS, WatchGroups(groups=()))
    view = NodeView(node=NodeId(1), groups=(), quarantined=(), set_aside=())

    async def run() -> None:
        may_answer = asyncio.Event()

        async def serve(_: WatchGroups, __: bytes) -> NodeView:
            await may_answer.wait()
            return view

        answer = _unary(WATCH_GROUPS, serve, gate(quota=key_value("token:ada", streams=1)))

        def call(who: str) -> asyncio.Task[bytes]:
            with calling(Caller(principal=who)):
                return asyncio.ensure_future(answer(request, Context()))

        places = ServerSettings().requests_max // 4
        calls = [call("token:ada") for _ in range(places)]
        await asyncio.sleep(0)
        with pytest.raises(Aborted) as refused:
            await call("token:ada")
        assert isinstance(refused.value.args[0], Overloaded)
        other = call("token:eve")
        may_answer.set()
        await asyncio.gather(*calls, other)
        await call("token:ada")

    asyncio.run(run())


class Held:
    """Calls of Eve that are answered once `may_answer` is set."""

    def __init__(self, gate: CallGate) -> None:
        self._gate = gate
        self.may_answer = asyncio.Event()
        self.who: Caller | None = EVE
        """As it is known now; None: it is known no more."""
        self.served: Caller | None = None
        """The caller that the last call was answered for."""

    def call(self, call: Any, request: bytes, reply: Any) -> asyncio.Task[bytes]:
        async def serve(*_: object) -> Any:
            await self.may_answer.wait()
            self.served = caller()
            return reply

        async def run() -> bytes:
            begin(EVE, self._known_now)
            return await _unary(call, serve, self._gate)(request, Context())

        return asyncio.create_task(run())

    def _known_now(self) -> Caller:
        if self.who is None:
            raise Unauthenticated(problem="the token was given up")
        return self.who


async def error_of(call: asyncio.Task[bytes]) -> type[RaftlogError]:
    """How it ends before it is answered."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Aborted) as ended:
            await call
    return type(ended.value.args[0])


ABORT = encode_request(
    ABORT_EPOCH,
    AbortEpochCall(
        group=GroupId(1),
        incarnation=topic_of(1).incarnation,
        key=EpochKey(writer="w", query_id="q", run="r", epoch=0, streaming=True),
    ),
)


def test_a_read_that_waits_ends_when_its_caller_is_known_no_more_and_a_write_does_not() -> None:
    closed = gate()

    async def run() -> None:
        held = Held(closed)
        reads = [
            held.call(WATCH_GROUPS, encode_request(WATCH_GROUPS, WatchGroups(groups=())), None)
            for _ in range(2)
        ]
        write = held.call(ABORT_EPOCH, ABORT, EpochAborted(attempts=0))
        await asyncio.sleep(0)
        held.who = None
        closed.allowed.rights.on_look()
        assert [await error_of(read) for read in reads] == [Unauthenticated] * 2
        assert await error_of(held.call(ABORT_EPOCH, ABORT, None)) is Unauthenticated, "too late"
        held.may_answer.set()
        await write
        assert closed.in_flight == 0

    asyncio.run(run())


def test_a_read_that_waits_is_answered_for_its_caller_as_it_is_known_then() -> None:
    """It may go on, as one of raftlog's own keys, of which each is judged when it is found."""
    closed = gate()
    view = NodeView(node=NodeId(1), groups=(), quarantined=(), set_aside=())

    async def run() -> None:
        held = Held(closed)
        read = held.call(WATCH_GROUPS, encode_request(WATCH_GROUPS, WatchGroups(groups=())), view)
        await asyncio.sleep(0)
        held.who = replace(EVE, groups=frozenset({"group:token:ops"}))
        closed.allowed.rights.on_look()
        held.may_answer.set()
        await read
        assert held.served == held.who

    asyncio.run(run())


@pytest.mark.parametrize("taken", ["the grant", "the group that has it"])
def test_a_read_that_waits_ends_when_the_right_is_gone_and_a_write_does_not(taken: str) -> None:
    topic = topic_of(1)
    request = ReadHighWaterMark(group=topic.group, incarnation=topic.incarnation)

    of = "token:eve" if taken == "the grant" else "group:token:ops"
    granted = key_of(of, topic_named(topic.name), Right.READ, Right.WRITE)
    allowed = judging(LeadingNode(topics=1), topic)
    closed = gate(allowed=allowed)

    async def run() -> None:
        held = Held(closed)

        async def look(*keys: KeyValue) -> None:
            async def read() -> list[KeyValue]:
                return list(keys)

            await allowed.rights.look(read, has_store=True)

        await look(granted)
        held.who = replace(EVE, groups=frozenset({"group:token:ops"}))
        read = held.call(READ_HIGH_WATER_MARK, encode_request(READ_HIGH_WATER_MARK, request), None)
        write = held.call(ABORT_EPOCH, ABORT, EpochAborted(attempts=0))
        await asyncio.sleep(0)
        held.who = EVE
        await look(*(() if taken == "the grant" else (granted,)))
        assert await error_of(read) is Forbidden
        held.may_answer.set()
        await write

    asyncio.run(run())


def test_each_call_that_changes_nothing_is_ended_when_its_caller_may_not_make_it() -> None:
    changing = {each for each in CALLS.values() if not isinstance(each, LookupCall | StreamedCall)}
    assert {each.name for each in changing} == {
        *ACTS - {"GetEntries", "GetState"}, "ReportPlacement", "Append", "Stage", "CommitEpoch",
        "AbortEpoch", "OpenKv", "OpenSession", "PutKey", "DeleteKey",
    }  # fmt: skip
