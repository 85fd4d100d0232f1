"""A member that turns against the others, over the real transport: it ends none of them, and when
it is gone they serve as before."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.core.messages import GroupDeleted, Heartbeat, NodeHeartbeat, PeerMessage
from raftlog.core.types import FORMAT_STAMP, NO_INDEX, GroupId, LogIndex, NodeId, Term
from raftlog.errors import NodeRemoved, RaftlogError
from raftlog.wire.calls import PEER_SERVICE, SERVICE
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_hello,
    encode_error,
    encode_hello,
    encode_peer_messages,
)
from raftlog.wire.peer_greetings import PeerHello
from tests.cluster.test_strangers import DDL, descriptions, speak, terms

LIAR = NodeId(3)
OTHERS = (NodeId(1), NodeId(2))


def claims(group: GroupId, to: NodeId, term: int) -> list[PeerMessage]:
    """That it leads, and what it may say then and otherwise."""

    def leads(term: int, commit_index: int) -> Heartbeat:
        return Heartbeat(
            group=group,
            sender=LIAR,
            to=to,
            term=Term(term),
            commit_index=LogIndex(commit_index),
            read_round=0,
            quiesce_round=0,
        )

    return [
        *(leads(too_high, NO_INDEX) for too_high in (2**64 - 1, 2**62 - 1, 2**61)),
        leads(term + 1, 2**61),
        leads(time.time_ns() // 1000 - 1_000_000, NO_INDEX),
        GroupDeleted(group=group, sender=LIAR, to=to),
        NodeHeartbeat(sender=LIAR, to=to, boot_id="x", clock_us=-(2**63)),
    ]


class Liar:
    """It listens at node 3's address, and tells each node that calls that it was removed."""

    def __init__(self) -> None:
        self.told: Counter[int] = Counter()
        """By node, how often."""

    def stream(self, frames: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        caller = decode_hello(next(frames)).node
        self.told[caller] += 1
        self.refuse(caller, context)
        yield b""

    def register(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.told[0] += 1
        self.refuse(1, context)
        return b""

    def refuse(self, node: int, context: grpc.ServicerContext) -> None:
        error = encode_error(NodeRemoved(node=node))
        context.set_trailing_metadata(((ERROR_METADATA_KEY, error),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "removed")


@contextmanager
def lying(address: str) -> Iterator[Liar]:
    liar = Liar()
    server = grpc.server(ThreadPoolExecutor(8))
    peers = {"Stream": grpc.stream_stream_rpc_method_handler(liar.stream)}
    calls = {"RegisterNode": grpc.unary_unary_rpc_method_handler(liar.register)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(PEER_SERVICE, peers),
            grpc.method_handlers_generic_handler(SERVICE, calls),
        )
    )
    server.add_insecure_port(address)
    server.start()
    try:
        yield liar
    finally:
        server.stop(None).wait()


def test_a_member_that_lies_ends_no_other_and_is_recovered_from(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topic = client.create_topic("t", DDL)
        client.append("t", [{"id": 1, "text": "a"}])
        cluster.wait_caught_up(client, "t")
        wait_for(lambda: LIAR in descriptions(client), "its description", PATIENCE_S)
        described = descriptions(client)[LIAR]
        cluster.kill(LIAR)
        addresses = cluster.servers.split(",")
        hello = PeerHello(
            format=FORMAT_STAMP,
            cluster_id=described.cluster_id,
            node=LIAR,
            store_uuid=described.store_uuid,
            boot_id=uuid.uuid4().hex,
            address=addresses[LIAR - 1],
        )
        term = max(terms(client).values())
        with lying(addresses[LIAR - 1]) as liar:
            for node in OTHERS:
                said = [
                    message
                    for group in (GroupId(0), topic.group)
                    for message in claims(group, node, term)
                ]
                frames = [encode_hello(hello), encode_peer_messages(said)]
                assert not isinstance(speak(addresses[node - 1], frames), RaftlogError)
            wait_for(lambda: all(liar.told[node] > 1 for node in OTHERS), "its lies", PATIENCE_S)
            for node in OTHERS:  # what it said of lost entries may be true, until they restart
                cluster.kill(node)
                cluster.serve(node)
            wait_for(lambda: liar.told[0] or registered(cluster), "node 1 to register", PATIENCE_S)
        assert client.append("t", [{"id": 2, "text": "b"}]).start == 1
        for node in OTHERS:
            told = cluster.logs[node].read_text()
            assert "a node rejects this one" in told
            assert "the node exits" not in told
            assert told.count('"serving"') == 2
        assert cluster.exit_code(1) is None
        cluster.serve(LIAR)
        cluster.wait_caught_up(client, "t")
        read = [number for each in client.read("t", 0, 2) for number in each["id"].to_pylist()]
        assert read == [1, 2]


def registered(cluster: ProcessCluster) -> bool:
    return cluster.logs[1].read_text().count('"registered"') > 1
