"""Questions that go to every node of a cluster, each with one short try."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.client.connection import Connection
from raftlog.client.watermark import NodeAnswer
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import DeadlineExceeded, RaftlogError
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    SCRUB,
    WATCH_GROUPS,
    ClusterDescription,
    DescribeCluster,
    NodeView,
    PlainCall,
    Request,
    ScrubCall,
    WatchGroups,
)


def descriptions(
    connection: Connection, try_s: float
) -> list[tuple[str, ClusterDescription | RaftlogError]]:
    """Each known node's address, with its description of the cluster or the error that it gave.

    Raises `NodeUnreachable` if nothing listens at any address, `DeadlineExceeded` if no node
    answers.
    """
    answers: list[tuple[str, ClusterDescription | RaftlogError]] = []
    for address in connection.addresses():
        answer: ClusterDescription | RaftlogError
        try:
            answer = connection.ask(address, DESCRIBE_CLUSTER, DescribeCluster(), try_s)
        except RaftlogError as error:
            answer = error
        answers.append((address, answer))
    if all(isinstance(answer, RaftlogError) for _, answer in answers):
        raise DeadlineExceeded(
            what=DESCRIBE_CLUSTER.name, seconds=f"{try_s:g}", last=str(answers[0][1])
        )
    return answers


def views(connection: Connection, groups: Sequence[GroupId], try_s: float) -> list[NodeAnswer]:
    """Each node's view of its replicas of the groups (none: of all groups), or the error that it
    gave, by node. Raises what `descriptions` raises."""
    return _answers(connection, WATCH_GROUPS, WatchGroups(groups=tuple(groups)), try_s)


def scrub(connection: Connection, groups: Sequence[GroupId], try_s: float) -> list[NodeAnswer]:
    """Let each node begin to scrub its replicas of the groups; answers as of `views`."""
    return _answers(connection, SCRUB, ScrubCall(groups=tuple(groups)), try_s)


def _answers(
    connection: Connection, call: PlainCall[Request, NodeView], request: Request, try_s: float
) -> list[NodeAnswer]:
    addresses: dict[NodeId, str] = {}
    for _, described in descriptions(connection, try_s):
        if isinstance(described, ClusterDescription):
            addresses.update(described.nodes)
    answers: list[NodeAnswer] = []
    for node, address in sorted(addresses.items()):
        answer: NodeView | RaftlogError
        try:
            answer = connection.ask(address, call, request, try_s)
        except RaftlogError as error:
            answer = error
        answers.append(NodeAnswer(node, address, answer))
    return answers
