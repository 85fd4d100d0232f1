"""What a certificate gives at the port where nodes reach one another."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.cli.cluster_folder import open_folder
from raftlog.client.log_client import LogClient
from raftlog.config_tls import PemFiles
from raftlog.core.membership import Membership, encode_membership
from raftlog.core.messages import AppendRequest
from raftlog.core.types import (
    CONTROLLER_GROUP,
    FORMAT_STAMP,
    NO_INDEX,
    Entry,
    EntryKind,
    GroupId,
    LogIndex,
    NodeId,
    Term,
)
from raftlog.errors import (
    Forbidden,
    MalformedRequest,
    MemberUnknown,
    NotLeader,
    RaftlogError,
    RegisteredJustNow,
    Unauthenticated,
)
from raftlog.machines.commands import AddNode, RegisterNode, ReportPlacement
from raftlog.machines.rules import RULES_LATEST
from raftlog.tls import Certificates, open_channel
from raftlog.transport.link import STREAM_METHOD
from raftlog.wire.calls import (
    ADD_NODE,
    CALLS,
    PLACE_GROUP,
    REGISTER_NODE,
    REPORT_PLACEMENT,
    SERVICE,
    NodeView,
    StreamedCall,
)
from raftlog.wire.codec import encode_hello, encode_peer_messages, encode_request
from raftlog.wire.peer_greetings import PeerHello
from raftlog.wire.placing_calls import PlaceGroupCall
from tests.cluster.closed import NODES, client, started, typed
from tests.fuzz.samples import DDL, frames, registered_boot

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with started(folder, folder / "tokens") as found:
        yield found


@pytest.fixture
def operator(cluster: ProcessCluster, tmp_path: Path) -> Iterator[LogClient]:
    token = (cluster.data.parent / "operator").read_text()
    with client(cluster, token, tmp_path / "token") as found:
        yield found


def asked(cluster: ProcessCluster, shown: str, node: int, **calls: bytes) -> dict[str, object]:
    """What the node answers at its own port, by call, to who shows this certificate of the
    cluster's: the error, or bytes."""
    folder = cluster.data / "tls"
    files = PemFiles(*(str(folder / name) for name in ("ca.pem", f"{shown}.pem", f"{shown}.key")))
    found: dict[str, object] = {}
    address = f"127.0.0.1:{cluster.port + NODES + node - 1}"
    with open_channel(address, Certificates(files, files).current(), ()) as channel:
        for name, frame in calls.items():
            streams = isinstance(CALLS[name], StreamedCall)
            kind = "unary_stream" if streams else "unary_unary"
            method = getattr(channel, kind)(f"/{SERVICE}/{name}")
            try:
                answer = method(frame, timeout=PATIENCE_S)
                found[name] = b"".join(answer) if streams else answer
            except grpc.RpcError as error:
                found[name] = typed(error)
    return found


def move(operator: LogClient, group: GroupId, *voters: int) -> None:
    """Wish a group that was never moved to these nodes."""
    wish = PlaceGroupCall(group=group, voters=tuple(map(NodeId, sorted(voters))), generation=0)
    operator._connection.call_leader(CONTROLLER_GROUP, PLACE_GROUP, wish)


def is_moved(operator: LogClient, group: GroupId) -> bool:
    places = operator.members.placements().groups
    return next(each.reached for each in places if each.group == group)


def test_it_gives_no_more_than_nodes_need(cluster: ProcessCluster, operator: LogClient) -> None:
    """The port asks for certificates though clients show none (`tls.client_certificates`)."""
    topic = operator.create_topic("t", DDL)
    [described, *_] = [each for _, each in operator.describe_cluster()]
    assert not isinstance(described, RaftlogError)
    wanted = frames(topic, topic, described.store_uuid, cluster.address(1))
    before = (operator.list_topics(), operator.members.placements())
    by_client = asked(cluster, "client", 1, **wanted)
    assert {type(each) for each in by_client.values()} == {Unauthenticated}
    by_node = asked(cluster, "node-2", 1, **wanted)
    assert {call for call, each in by_node.items() if not isinstance(each, Forbidden)} == {
        "ReportPlacement",
        "OpenKv",
    }, "it registers as itself alone"
    assert (operator.list_topics(), operator.members.placements()) == before


def test_a_placement_is_reported_by_who_holds_the_group(
    cluster: ProcessCluster, operator: LogClient
) -> None:
    """Nodes that held it before delete their replicas when it is."""
    topic = operator.create_topic("on-one-node", DDL, replicas=1)
    [holds] = topic.voters
    other, down = (node for node in range(1, NODES + 1) if node != holds)
    report = encode_request(REPORT_PLACEMENT, ReportPlacement(group=topic.group, generation=1), b"")

    def answered(*kinds: type) -> bool:
        """Whether the controller's leader answers the other node so."""
        found = [
            asked(cluster, f"node-{other}", node, ReportPlacement=report)["ReportPlacement"]
            for node in (holds, other)
        ]
        return any(isinstance(each, kinds) for each in found)

    operator.members.transfer(CONTROLLER_GROUP, holds, timeout_s=PATIENCE_S)
    wait_for(lambda: answered(bytes), "an answer to what is not under way", PATIENCE_S)
    cluster.kill(down)
    move(operator, topic.group, holds, down)
    wait_for(lambda: answered(Forbidden), "the leader to reject it", PATIENCE_S)
    assert not is_moved(operator, topic.group)
    cluster.serve(down)


def test_one_node_cannot_report_a_change_that_its_group_has_not_made(
    cluster: ProcessCluster, operator: LogClient
) -> None:
    """An operator would believe that the topic needs its former nodes no more, and remove one."""
    topic = operator.create_topic("not-moved-yet", DDL, replicas=1)
    [holds] = topic.voters
    liar, down = (node for node in range(1, NODES + 1) if node != holds)
    operator.members.transfer(CONTROLLER_GROUP, holds, timeout_s=PATIENCE_S)
    cluster.kill(down)
    move(operator, topic.group, *range(1, NODES + 1))
    report = encode_request(REPORT_PLACEMENT, ReportPlacement(group=topic.group, generation=1), b"")

    def is_taken() -> bool:
        answer = asked(cluster, f"node-{liar}", holds, ReportPlacement=report)["ReportPlacement"]
        assert isinstance(answer, NotLeader | MemberUnknown | bytes), answer
        return isinstance(answer, bytes)

    wait_for(is_taken, "the controller's leader to answer", PATIENCE_S)
    assert not is_moved(operator, topic.group), "a node is down: no member was changed"
    cluster.serve(down)
    wait_for(
        lambda: is_moved(operator, topic.group), "the voters to move it and say so", PATIENCE_S
    )


def test_a_group_moves_to_other_nodes_alone(cluster: ProcessCluster, operator: LogClient) -> None:
    """Its former voter, which leads it until it has left, must report this."""
    topic = operator.create_topic("moves-away", DDL, replicas=1)
    [holds] = topic.voters
    move(operator, topic.group, *set(range(1, NODES + 1)).difference([holds]))
    wait_for(lambda: is_moved(operator, topic.group), "the report of the move", PATIENCE_S)


def forges(
    cluster: ProcessCluster, liar: NodeId, to: NodeId, group: GroupId, membership: Membership
) -> None:
    """The liar claims to lead the group, whose whole log is this change, and committed."""
    folder = cluster.data / "tls"
    files = PemFiles(*(str(folder / f) for f in ("ca.pem", f"node-{liar}.pem", f"node-{liar}.key")))
    identity = (cluster.data / f"node-{liar}" / "identity").read_text().partition("\n")[2]
    hello = PeerHello(
        format=FORMAT_STAMP,
        cluster_id=open_folder(cluster.data).cluster_id,
        node=liar,
        store_uuid=json.loads(identity)["store_uuid"],
        boot_id=uuid.uuid4().hex,
        earlier_boot_ids=(registered_boot(cluster.logs[liar]),),
        address=cluster.address(liar),
    )
    change = Entry(LogIndex(1), Term(100), EntryKind.CONFIGURATION, encode_membership(membership))
    forged = AppendRequest(
        group=group,
        sender=liar,
        to=to,
        term=Term(100),
        prev_index=NO_INDEX,
        prev_term=Term(0),
        entries=(change,),
        commit_index=LogIndex(1),
    )
    frames = [encode_hello(hello), encode_peer_messages([forged])]
    address = f"127.0.0.1:{cluster.port + NODES + to - 1}"
    with open_channel(address, Certificates(files, files).current(), ()) as channel:
        list(channel.stream_stream(STREAM_METHOD)(iter(frames), timeout=PATIENCE_S))


def test_the_controller_s_leader_does_not_believe_its_own_log_alone(
    cluster: ProcessCluster, operator: LogClient
) -> None:
    """It may be the empty node that a group moves to, and another member of that group lies."""
    topic = operator.create_topic("forged", DDL, replicas=2)
    moved = operator.create_topic("moved", DDL)
    honest, liar = topic.voters
    [empty] = {NodeId(each) for each in range(1, NODES + 1)}.difference(topic.voters)
    operator.members.transfer(CONTROLLER_GROUP, empty, timeout_s=PATIENCE_S)
    operator.members.transfer(topic.group, liar, timeout_s=PATIENCE_S)
    cluster.kill(liar)  # the group has no leader from now on, and cannot move
    membership = Membership(tuple(sorted((empty, liar))), generation=1)
    move(operator, topic.group, empty, liar)

    def is_forged() -> bool:
        forges(cluster, liar, empty, topic.group, membership)
        views = [each.answer for each in operator.views([topic.group]) if each.node == empty]
        groups = [each for view in views if isinstance(view, NodeView) for each in view.groups]
        return any(each.commit_index == 1 for each in groups)

    wait_for(is_forged, "the empty node to take it for committed", PATIENCE_S)
    report = encode_request(REPORT_PLACEMENT, ReportPlacement(group=topic.group, generation=1), b"")

    def is_counted() -> bool:
        answers = [
            asked(cluster, f"node-{liar}", node, ReportPlacement=report)["ReportPlacement"]
            for node in (empty, honest)
        ]
        return any(isinstance(each, bytes) for each in answers)

    wait_for(is_counted, "the controller's leader to count the liar's report", PATIENCE_S)
    move(operator, moved.group, empty, honest)
    # The empty node's report is needed for this one. It has reported the other one before.
    wait_for(lambda: is_moved(operator, moved.group), "the honest nodes' topic to move", PATIENCE_S)
    assert not is_moved(operator, topic.group)
    cluster.serve(liar)


def test_a_node_that_registers_again_and_again_writes_no_log(
    cluster: ProcessCluster, operator: LogClient
) -> None:
    """Each registration was an entry of the controller's log, and two lines of the audit log."""
    operator.members.transfer(CONTROLLER_GROUP, 1, timeout_s=PATIENCE_S)
    identity = (cluster.data / "node-2" / "identity").read_text().partition("\n")[2]
    call = RegisterNode(
        node=NodeId(2),
        store_uuid=json.loads(identity)["store_uuid"],
        address=cluster.address(2),
        rules=RULES_LATEST,
        rack="",
    )

    def answer(rack: str) -> object:
        # A test before this one may just have started node 2 again.
        own = replace(call, rack=rack, boot_id=registered_boot(cluster.logs[2]))
        frame = encode_request(REGISTER_NODE, own)
        said = asked(cluster, "node-2", 1, RegisterNode=frame)["RegisterNode"]
        if isinstance(said, NotLeader):  # another one was elected since
            operator.members.transfer(CONTROLLER_GROUP, 1, timeout_s=PATIENCE_S)
        return said

    def begun() -> int:
        lines = (cluster.data.parent / "audit-1.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        its = [each for each in found if (each["call"], each["who"]) == ("RegisterNode", "node:2")]
        return [each["outcome"] for each in its].count("begun")

    wait_for(lambda: isinstance(answer("r0"), bytes), "a registration", PATIENCE_S)
    wait_for(lambda: begun() > 0, "its line", PATIENCE_S)
    before, answers = begun(), list[object]()

    def is_rejected() -> bool:
        answers.append(answer(f"r{len(answers)}"))
        return isinstance(answers[-1], RegisteredJustNow)

    wait_for(is_rejected, "a rejection", PATIENCE_S)
    assert begun() < before + len(answers)
    wait_for(lambda: isinstance(answer(""), bytes), "the next registration", PATIENCE_S)


def test_an_address_that_nobody_could_reach_gets_into_no_log(operator: LogClient) -> None:
    """It ended every node that applied it, again at each start."""
    with pytest.raises(MalformedRequest, match="not host:port"):
        operator._connection.call_leader(
            CONTROLLER_GROUP, ADD_NODE, AddNode(node=NodeId(9), address="nowhere")
        )
