"""A node's channels for calls to other nodes: kept for the next call, and let go without harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.core.types import GroupId
from raftlog.errors import NotLeader
from raftlog.server.leader_calls import ask_leader
from raftlog.transport.link import CHANNEL_OPTIONS
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire.calls import DESCRIBE_CLUSTER, ClusterDescription, DescribeCluster


@asynccontextmanager
async def answering(may_answer: asyncio.Event) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A node that answers when it may. Gives its address, and what is set once it was asked."""
    asked = asyncio.Event()

    async def answer(data: bytes, _: object) -> bytes:
        asked.set()
        await may_answer.wait()
        return data

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"Ask": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", asked
    finally:
        await server.stop(None)


def test_a_call_that_is_under_way_when_its_channel_is_let_go_has_its_answer() -> None:
    """A certificate that is replaced lets it go; and to be cut off would end the caller's task."""

    async def run() -> None:
        may_answer = asyncio.Event()
        channels = PeerChannels("c", None, 0)
        async with answering(may_answer) as (address, asked):
            first = channels.to_any(address, CHANNEL_OPTIONS)
            assert channels.to_any(address, CHANNEL_OPTIONS) is first
            call = asyncio.ensure_future(first.unary_unary("/s/Ask")(b"x", timeout=PATIENCE_S))
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
            channels.let_go(address)
            assert channels.to_any(address, CHANNEL_OPTIONS) is not first
            for _ in range(100):
                await asyncio.sleep(0)  # here it would be cut off
            may_answer.set()
            assert await asyncio.wait_for(call, PATIENCE_S) == b"x"
            await channels.close()

    asyncio.run(run())


def test_where_nobody_answers_no_channel_is_kept() -> None:
    """It would dial a node that is gone for good twice a second, for ever."""

    async def run() -> None:
        channels = PeerChannels("c", None, 0)
        nowhere = "127.0.0.1:1"
        before = channels.to_any(nowhere, CHANNEL_OPTIONS)

        async def not_here(_: DescribeCluster) -> ClusterDescription:
            raise NotLeader(group=GroupId(1), node=1, what="topic 't'", leader=2, address=nowhere)

        with pytest.raises(NotLeader, match=r"Node 1 does not lead topic 't' \(group 1\)"):
            await ask_leader(
                DESCRIBE_CLUSTER,
                not_here,
                DescribeCluster(),
                others=[nowhere],
                channels=channels,
                try_timeout_s=5.0,
            )
        assert channels.to_any(nowhere, CHANNEL_OPTIONS) is not before
        await channels.close()

    asyncio.run(run())
