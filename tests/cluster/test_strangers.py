"""A stranger that acts as a peer is refused, and raises no term. A peer is known by the cluster's
id, its node id and its store; a process that has all three is trusted as that node (SECURITY.md).
"""

from __future__ import annotations

import queue
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.call_errors import typed_error
from raftlog.client.log_client import LogClient
from raftlog.core.messages import AppendRequest, PeerMessage, VoteReply, VoteRequest
from raftlog.core.types import FORMAT_STAMP
from raftlog.errors import (
    DataFolderForeign,
    FormatUnsupported,
    IdentityRefused,
    MalformedRequest,
    RaftlogError,
)
from raftlog.wire.calls import PEER_SERVICE, ClusterDescription
from raftlog.wire.codec import (
    decode_hello,
    decode_peer_messages,
    encode_hello,
    encode_peer_messages,
)
from raftlog.wire.peer_greetings import PeerHello
from tests.cluster.waiting import leader_of
from tests.fuzz.http2 import request
from tests.fuzz.inputs import numbered
from tests.fuzz.mutations import broken
from tests.fuzz.node_watch import NodeWatch
from tests.fuzz.samples import registered_boot

DEAD = 3
"""The node that the strangers claim to be: it does not run."""
HUGE_TERM = 2**63
DDL = "id bigint, text string"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Two nodes of three."""
    with ProcessCluster.start(tmp_path_factory.mktemp("strangers") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        connected.create_topic("t", DDL)
        yield connected


@pytest.fixture(scope="module")
def dead(cluster: ProcessCluster, client: LogClient) -> PeerHello:
    """The greeting that the dead node would give."""
    wait_for(lambda: DEAD in descriptions(client), "its description", PATIENCE_S)
    described = descriptions(client)[DEAD]
    cluster.wait_caught_up(client, "t")
    cluster.kill(DEAD)
    leader_of(client, "t")
    address = cluster.servers.split(",")[DEAD - 1]
    wait_for(
        lambda: controller_leader(client) not in (0, DEAD), "a controller's leader", PATIENCE_S
    )
    return PeerHello(
        format=FORMAT_STAMP,
        cluster_id=described.cluster_id,
        node=described.node,
        store_uuid=described.store_uuid,
        boot_id=uuid.uuid4().hex,
        earlier_boot_ids=(registered_boot(cluster.logs[DEAD]),),
        address=address,
    )


def descriptions(client: LogClient) -> dict[int, ClusterDescription]:
    answers = [answer for _, answer in client.describe_cluster()]
    return {answer.node: answer for answer in answers if isinstance(answer, ClusterDescription)}


def controller_leader(client: LogClient) -> int:
    return max((each.term, each.leader) for each in descriptions(client).values())[1]


def undisturbed(client: LogClient, before: dict[tuple[int, int], int]) -> bool:
    """Whether every replica is there, and no stranger's term, which is `HUGE_TERM`. A busy machine
    causes elections."""
    after = terms(client)
    assert all(term < HUGE_TERM for term in after.values())
    return after.keys() >= before.keys()


def terms(client: LogClient) -> dict[tuple[int, int], int]:
    """The term by node and group, as every running node has it."""
    return {
        (node, view.group): view.term
        for node, _, answer in client.views()
        if not isinstance(answer, RaftlogError)
        for view in answer.groups
    }


def speak(address: str, frames: Sequence[bytes]) -> RaftlogError | None:
    """Open a stream, send the frames at once and end it: the refusal, or None."""
    with grpc.insecure_channel(address) as channel:
        stream = channel.stream_stream(f"/{PEER_SERVICE}/Stream")
        try:
            for _ in stream(iter(frames), timeout=PATIENCE_S):
                pass
        except grpc.RpcError as error:
            return typed_error(address, error)
    return None


def harmful(sender: int, to: int) -> list[PeerMessage]:
    """Messages that would raise a term, in the name of `sender`."""
    named = {"group": 0, "sender": sender, "to": to, "term": HUGE_TERM}
    return [
        VoteRequest(**named, last_index=HUGE_TERM, last_term=HUGE_TERM, pre=False),
        VoteReply(**named, granted=True, pre=False),
        AppendRequest(**named, prev_index=0, prev_term=0, entries=(), commit_index=0),
    ]


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"cluster_id": "another"}, DataFolderForeign),
        ({"node": 99}, DataFolderForeign),
        ({"node": 0}, DataFolderForeign),
        ({"node": 2**64 - 1}, DataFolderForeign),
        ({"store_uuid": "0" * 32}, IdentityRefused),
        ({"store_uuid": ""}, IdentityRefused),
        ({"node": 1}, DataFolderForeign),
        ({"cluster_id": "x" * 100_000, "address": "\u65e5" * 10_000}, MalformedRequest),
    ],
)
def test_a_stranger_is_refused_and_raises_no_term(
    cluster: ProcessCluster,
    client: LogClient,
    dead: PeerHello,
    change: dict[str, object],
    refusal: type[RaftlogError],
) -> None:
    before = terms(client)
    hello = replace(dead, **change)
    for node in (1, 2):
        if change == {"node": 1} and node == 2:
            continue  # to node 2, node 1 is a peer, and the store is another
        frames = [encode_hello(hello), encode_peer_messages(harmful(hello.node, node))]
        assert isinstance(speak(cluster.servers.split(",")[node - 1], frames), refusal)
    wait_for(lambda: undisturbed(client, before), "every replica", PATIENCE_S)


def test_a_peer_sends_only_in_its_own_name_and_only_to_the_node_it_calls(
    cluster: ProcessCluster, client: LogClient, dead: PeerHello
) -> None:
    before = terms(client)
    for sender, to in ((2, 1), (DEAD, 2), (99, 1), (DEAD, 0)):
        frames = [encode_hello(dead), encode_peer_messages(harmful(sender, to))]
        assert isinstance(speak(cluster.servers.split(",")[0], frames), MalformedRequest)
    wait_for(lambda: undisturbed(client, before), "every replica", PATIENCE_S)


def test_a_stream_without_a_greeting_is_ended(cluster: ProcessCluster, dead: PeerHello) -> None:
    """It would occupy its slot for as long as its connection lives."""
    with grpc.insecure_channel(cluster.servers.split(",")[0]) as channel:
        silent = channel.stream_stream(f"/{PEER_SERVICE}/Stream")
        said: queue.Queue[bytes | None] = queue.Queue()
        with pytest.raises(grpc.RpcError) as caught:
            list(silent(iter(said.get, None), timeout=PATIENCE_S))
        said.put(None)
    refusal = typed_error("the node", caught.value)
    assert isinstance(refusal, MalformedRequest)
    assert "no greeting" in refusal.what


def test_a_path_that_is_no_text_removes_no_node_from_its_cluster(
    cluster: ProcessCluster, client: LogClient, dead: PeerHello
) -> None:
    """It ends grpc's server on both nodes, and with it the streams between them, for a moment."""
    watch = NodeWatch(cluster, client, client.create_topic("path", DDL))
    watch.begin()
    before = terms(client)
    for node in (1, 2):
        port = cluster.port + node - 1
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sent:
            sent.sendall(request("ListTopics", b"", path=b"\xff"))
            log = cluster.logs[node]
            wait_for(lambda log=log: "another takes its place" in log.read_text(), "it", PATIENCE_S)
    watch.end()
    wait_for(lambda: undisturbed(client, before), "every group to be led", PATIENCE_S)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [300, pytest.param(8_000, marks=pytest.mark.soak)])
def test_broken_greetings_and_frames_end_only_their_stream(
    cluster: ProcessCluster, client: LogClient, dead: PeerHello, count: int
) -> None:
    own = client.create_topic(f"own-{count}", DDL)
    watch = NodeWatch(cluster, client, own)
    watch.begin()
    before = terms(client)
    good = encode_hello(dead)
    frame = encode_peer_messages(harmful(DEAD, 1))
    refused = 0
    with grpc.insecure_channel(watch.address) as channel:
        stream = channel.stream_stream(f"/{PEER_SERVICE}/Stream")
        for one in numbered("peers", count):
            frames = [broken(good, one.random), frame]
            if one.number % 2:
                frames = [good, broken(frame, one.random)]
            if means_something(*frames, dead):
                continue
            with pytest.raises(grpc.RpcError) as caught:
                list(stream(iter(frames), timeout=PATIENCE_S))
            refusal = typed_error(watch.address, caught.value)
            known = MalformedRequest | DataFolderForeign | FormatUnsupported | IdentityRefused
            assert isinstance(refusal, known), f"{frames} gave {refusal}; replay: {one.replay}"
            refused += 1
    assert refused > count / 2
    wait_for(lambda: undisturbed(client, before), "every replica", PATIENCE_S)
    watch.end()


def means_something(greeting: bytes, frame: bytes, dead: PeerHello) -> bool:
    """Whether the changed bytes could still be the dead node's."""
    try:
        hello, messages = decode_hello(greeting), decode_peer_messages(frame)
    except MalformedRequest:
        return False
    if replace(hello, boot_id=dead.boot_id, address=dead.address) != dead:
        return False
    return all((message.sender, message.to) == (DEAD, 1) for message in messages)
