"""A member that turns against the others, over the real transport: it ends none of them, and when
it is gone they serve as before. Once it is removed, its certificate opens nothing."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.cli.cluster_folder import open_folder
from raftlog.config_tls import PemFiles
from raftlog.core.messages import GroupDeleted, Heartbeat, NodeHeartbeat, PeerMessage
from raftlog.core.types import FORMAT_STAMP, NO_INDEX, GroupId, LogIndex, NodeId, Term
from raftlog.errors import DataFolderForeign, MemberUnknown, NodeRemoved, RaftlogError
from raftlog.machines.commands import RegisterNode, ReportPlacement
from raftlog.tls import Certificates, open_channel
from raftlog.transport.link import STREAM_METHOD
from raftlog.wire.calls import (
    PEER_SERVICE,
    REGISTER_NODE,
    REPORT_PLACEMENT,
    SERVICE,
)
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_hello,
    encode_error,
    encode_hello,
    encode_peer_messages,
    encode_request,
)
from raftlog.wire.peer_greetings import PeerHello
from tests.cluster import closed
from tests.cluster.test_strangers import DDL, descriptions, speak, terms
from tests.fuzz.samples import registered_boot

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
            commit_term=Term(min(commit_index, term)),
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
            earlier_boot_ids=(registered_boot(cluster.logs[LIAR]),),
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


def test_a_removed_node_s_certificate_is_refused_in_each_phase_of_another_one_s_start(
    tmp_path: Path,
) -> None:
    """A node that starts alone cannot learn that the removal in its log is committed."""
    with (
        closed.started(tmp_path, tmp_path / "tokens") as cluster,
        closed.client(cluster, (tmp_path / "operator").read_text(), tmp_path / "shown") as client,
    ):
        client.create_topic("t", DDL, replicas=2)
        client.append("t", [{"id": 1, "text": "a"}])
        stolen = Stolen(cluster)
        list(client.members.remove(LIAR, timeout_s=PATIENCE_S))
        wait_for(lambda: not cluster.runs(LIAR), "it to end by itself", PATIENCE_S)
        for node in OTHERS:
            wait_for(lambda node=node: stolen.is_told(node), "the removal", PATIENCE_S)
        cluster.terminate(OTHERS[1])
        cluster.kill(OTHERS[0])
        cluster.serve(OTHERS[1])
        wait_for(lambda: stolen.greets(OTHERS[1]) is not None, "its port", PATIENCE_S)
        assert isinstance(stolen.greets(OTHERS[1]), DataFolderForeign)
        assert all(isinstance(each, MemberUnknown) for each in stolen.calls(OTHERS[1]))
        cluster.serve(OTHERS[0])
        for node in OTHERS:
            wait_for(lambda node=node: stolen.is_told(node), "the removal again", PATIENCE_S)
            assert all(isinstance(each, NodeRemoved) for each in stolen.calls(node))
        client.append("t", [{"id": 2, "text": "b"}])
        read = [number for each in client.read("t", 0, 2) for number in each["id"].to_pylist()]
        assert read == [1, 2]


class Stolen:
    """What the node had that is removed: its certificate, and the id of its store."""

    def __init__(self, cluster: ProcessCluster) -> None:
        identity = (cluster.data / f"node-{LIAR}" / "identity").read_text().partition("\n")[2]
        self._hello = PeerHello(
            format=FORMAT_STAMP,
            cluster_id=open_folder(cluster.data).cluster_id,
            node=LIAR,
            store_uuid=json.loads(identity)["store_uuid"],
            boot_id=uuid.uuid4().hex,
            earlier_boot_ids=(registered_boot(cluster.logs[LIAR]),),
            address=cluster.address(LIAR),
        )
        tls = cluster.data / "tls"
        files = PemFiles(*(str(tls / each) for each in ("ca.pem", "node-3.pem", "node-3.key")))
        self._pem = Certificates(files, files).current()
        self._port = cluster.port + closed.NODES - 1

    def greets(self, node: NodeId) -> RaftlogError | None:
        """How the node refuses a stream; None: it does not listen yet. A stream that is welcomed
        fails the test."""
        with open_channel(f"127.0.0.1:{self._port + node}", self._pem, ()) as channel:
            stream = channel.stream_stream(STREAM_METHOD)
            with pytest.raises(grpc.RpcError) as caught:
                list(stream(iter([encode_hello(self._hello)]), timeout=PATIENCE_S))
        return closed.typed(caught.value)

    def is_told(self, node: NodeId) -> bool:
        """Does the node refuse it as one that was removed, or in some other way?"""
        refusal = self.greets(node)
        assert isinstance(refusal, DataFolderForeign | NodeRemoved | None)
        return isinstance(refusal, NodeRemoved)

    def calls(self, node: NodeId) -> list[RaftlogError | None]:
        """How the node refuses the calls that nodes make."""
        hello = self._hello
        registers = RegisterNode(
            node=LIAR,
            store_uuid=hello.store_uuid,
            address=hello.address,
            rules=1,
            boot_id=hello.boot_id,
        )
        reports = ReportPlacement(group=GroupId(1), generation=1)
        sent = (
            (REGISTER_NODE.name, encode_request(REGISTER_NODE, registers)),
            (REPORT_PLACEMENT.name, encode_request(REPORT_PLACEMENT, reports)),
        )
        refusals = []
        with open_channel(f"127.0.0.1:{self._port + node}", self._pem, ()) as channel:
            for name, request in sent:
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(f"/{SERVICE}/{name}")(request, timeout=PATIENCE_S)
                refusals.append(closed.typed(caught.value))
        return refusals


def registered(cluster: ProcessCluster) -> bool:
    return cluster.logs[1].read_text().count('"registered"') > 1
