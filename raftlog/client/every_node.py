"""Questions that go to every node of a cluster, each with one short try."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.client.connection import Connection
from raftlog.client.retries import is_retriable
from raftlog.client.watermark import NodeAnswer
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import DeadlineExceeded, RaftlogError, TopicNotFound
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import (
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    SCRUB,
    WATCH_GROUPS,
    ClusterDescription,
    DescribeCluster,
    DescribeTopic,
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

    If no node describes it, raises what a node rejected the call with for good, or else
    `DeadlineExceeded`; `NodeUnreachable` if nothing listens at any address.
    """
    answers: list[tuple[str, ClusterDescription | RaftlogError]] = []
    for address in connection.addresses():
        answer: ClusterDescription | RaftlogError
        try:
            answer = connection.ask(address, DESCRIBE_CLUSTER, DescribeCluster(), try_s)
        except RaftlogError as error:
            answer = error
        answers.append((address, answer))
    problems = {at: answer for at, answer in answers if isinstance(answer, RaftlogError)}
    if len(problems) == len(answers):
        final = next((each for each in problems.values() if not is_retriable(each)), None)
        last = " ".join(f"{at}: {each.cause}" for at, each in problems.items())
        raise final or DeadlineExceeded(what=DESCRIBE_CLUSTER.name, seconds=f"{try_s:g}", last=last)
    return answers


def topic(connection: Connection, name: str, try_s: float) -> TopicInfo:
    """The topic as those nodes know it that answer; of several incarnations or versions the latest.

    Raises what a node rejected the call with for good, of such errors `TopicNotFound` last: it
    is what a node raises that has not heard of the topic yet. Or else raises what a node raised.
    """
    call = DescribeTopic(name=name, any_node=True)
    found: list[TopicInfo] = []
    refusals: list[RaftlogError] = []
    for address, described in descriptions(connection, try_s):
        if isinstance(described, RaftlogError):
            continue
        try:
            found.append(connection.ask(address, DESCRIBE_TOPIC, call, try_s).topic)
        except RaftlogError as error:
            refusals.append(error)
    if not found:
        raise min(refusals, key=lambda each: (is_retriable(each), isinstance(each, TopicNotFound)))
    return max(found, key=lambda each: (each.group, each.schema.version))


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
