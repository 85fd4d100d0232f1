"""Something else listens where a node of the cluster did: another service, or another cluster.

Nobody takes it for the node. What is meant for this cluster is never written to another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.transport.link import STREAM_METHOD

GONE = 3
"""The node whose address something else gets."""
WRITES = 40
WHO = "who are you?"


class Everything(grpc.GenericRpcHandler):
    """Answers whatever is called with the same bytes and no error, or (None) with a failure."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self.greetings = 0
        """How often a node greeted it."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        self.greetings += details.method == STREAM_METHOD
        return grpc.stream_stream_rpc_method_handler(self._answered)

    def _answered(self, _: object, context: grpc.ServicerContext) -> Iterator[bytes]:
        if self._answer is None:
            context.abort(grpc.StatusCode.UNKNOWN, WHO)
        return iter([self._answer])


@contextmanager
def answering(address: str, answer: bytes | None) -> Iterator[Everything]:
    server = grpc.server(futures.ThreadPoolExecutor(8))
    service = Everything(answer)
    server.add_generic_rpc_handlers((service,))

    def bound() -> bool:
        try:
            return server.add_insecure_port(address) > 0
        except RuntimeError:
            return False  # connections of the killed process are still there

    wait_for(bound, f"the address {address} to be free", PATIENCE_S)
    server.start()
    try:
        yield service
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("answer", [b"", b"\x00\x07garbage of another service", None])
def test_a_service_that_answers_anything_ends_no_node_and_no_call(
    cluster: ProcessCluster, answer: bytes | None
) -> None:
    with cluster.client(PATIENCE_S) as client:
        client.create_topic("t", "id bigint")
        cluster.kill(GONE)
        with answering(cluster.address(GONE), answer):
            for number in range(WRITES):
                client.append("t", [{"id": number}])
            cluster.kill(2)
            cluster.serve(2)
            with cluster.client(PATIENCE_S) as another:  # it may begin at that address
                for number in range(WRITES, 2 * WRITES):
                    another.append("t", [{"id": number}])
                found = [row for batch in another.read("t") for row in batch["id"].to_pylist()]
        assert found == list(range(2 * WRITES))
        assert cluster.runs(1)
        assert cluster.exit_code(2) is None


def test_a_node_says_once_that_a_service_is_no_peer(tmp_path: Path) -> None:
    """It greets it again and again: the peer may be back."""
    with ProcessCluster.start(tmp_path / "a") as cluster:
        cluster.kill(GONE)
        with answering(cluster.address(GONE), None) as service:
            wait_for(lambda: service.greetings >= 6, "both nodes to greet it again", PATIENCE_S)
        for node in (1, 2):
            lines = cluster.logs[node].read_text().splitlines()
            ends = [each for each in map(json.loads, lines) if each["event"] == "peer stream ended"]
            told = [each["details"] for each in ends if each["peer"] == GONE]
            # The service's grpc sometimes says INTERNAL in its place, and then it is news again.
            assert WHO in told
            assert (WHO, WHO) not in pairwise(told)


def test_nothing_is_written_to_a_cluster_that_took_an_address(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    with cluster.client(PATIENCE_S) as client:
        client.kv.put("k", b"first")
        cluster.kill(GONE)
        port = cluster.port + GONE - 1
        with (
            ProcessCluster.start(tmp_path / "b", nodes=1, port=port) as other,
            other.client(PATIENCE_S) as theirs,
        ):
            theirs.kv.put("k", b"theirs")
            for number in range(WRITES):
                value = str(number).encode()
                client.kv.put("k", value)
                assert client.kv.get("k").value == value
            cluster.kill(2)
            cluster.serve(2)  # it asks who leads, and must not register over there
            client.kv.put("k", b"last")
            assert theirs.kv.get("k").value == b"theirs"
            assert cluster.exit_code(2) is None
            assert [each.node for each in theirs.members.placements().nodes] == [1]
        assert client.kv.get("k").value == b"last"
