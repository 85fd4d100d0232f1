"""A node's channels for calls to other nodes: kept for the next call, and let go without harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_tls import PemFiles
from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import NotLeader
from raftlog.server.leader_calls import LeaderCalls
from raftlog.tls import Certificates, port_credentials
from raftlog.transport.link import CHANNEL_OPTIONS
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    GET_LAST_APPLIED,
    SERVICE,
    ClusterDescription,
    DescribeCluster,
)
from raftlog.wire.codec import encode_reply
from raftlog.wire.group_calls import GetLastApplied, LastApplied

ONE, TWO = NodeId(1), NodeId(2)


def of_node(folder: Path, node: int) -> Certificates:
    stems = ("ca.pem", f"node-{node}.pem", f"node-{node}.key")
    files = PemFiles(*(str(folder / stem) for stem in stems))
    return Certificates(files, files)


@pytest.mark.parametrize(("shown", "is_heard"), [(TWO, True), (NodeId(9), False)])
def test_a_node_is_asked_by_its_id_and_not_by_where_it_listens(
    tmp_path: Path, shown: NodeId, *, is_heard: bool
) -> None:
    """Another node of the CA may listen there, and the answer can be a grant."""
    make_certificates(tmp_path, cluster_id="c", hosts=dict.fromkeys((1, 2, 9), "127.0.0.1"), days=1)
    answered = LastApplied(index=LogIndex(7))

    async def answer(_: bytes, __: object) -> bytes:
        return encode_reply(GET_LAST_APPLIED, answered)

    async def not_here(_: GetLastApplied) -> LastApplied:
        raise NotLeader(group=GroupId(1), node=1)

    async def run() -> None:
        server = grpc.aio.server()
        handlers = {GET_LAST_APPLIED.name: grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        certificates = port_credentials(of_node(tmp_path, shown), mutual=True)
        port = server.add_secure_port("127.0.0.1:0", certificates)
        await server.start()
        channels = PeerChannels("c", of_node(tmp_path, ONE), 1)
        leader = LeaderCalls({TWO: f"127.0.0.1:{port - 1}"}, channels)
        asked = leader.ask(GET_LAST_APPLIED, not_here, GetLastApplied(group=GroupId(1)))
        try:
            if is_heard:
                assert await asked == answered
            else:
                with pytest.raises(NotLeader):
                    await asked
        finally:
            await channels.close()
            await server.stop(None)

    asyncio.run(run())


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
            first = channels.kept_to(ONE, address, CHANNEL_OPTIONS)
            assert channels.kept_to(ONE, address, CHANNEL_OPTIONS) is first
            call = asyncio.ensure_future(first.unary_unary("/s/Ask")(b"x", timeout=PATIENCE_S))
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
            channels.let_go(ONE)
            assert channels.kept_to(ONE, address, CHANNEL_OPTIONS) is not first
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
        before = channels.kept_to(TWO, nowhere, CHANNEL_OPTIONS)

        async def not_here(_: DescribeCluster) -> ClusterDescription:
            raise NotLeader(group=GroupId(1), node=1, what="topic 't'", leader=2, address=nowhere)

        leader = LeaderCalls({TWO: nowhere}, channels)
        with pytest.raises(NotLeader, match=r"Node 1 does not lead topic 't' \(group 1\)"):
            await leader.ask(
                DESCRIBE_CLUSTER, not_here, DescribeCluster(), try_timeout_s=PATIENCE_S
            )
        assert channels.kept_to(TWO, nowhere, CHANNEL_OPTIONS) is not before
        await channels.close()

    asyncio.run(run())
