"""What a question to every node ends with where none gives what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.client import every_node
from raftlog.client.connection import Connection
from raftlog.config import ClientSettings
from raftlog.errors import (
    DeadlineExceeded,
    Forbidden,
    NodeStopping,
    RaftlogError,
    ReplicaQuarantined,
    TopicNotFound,
    Unauthenticated,
)
from raftlog.wire.calls import DESCRIBE_CLUSTER, DESCRIBE_TOPIC
from raftlog.wire.codec import encode_reply
from tests.client.answering import Answer, described, node

STOPPING = NodeStopping()
STRANGER = Unauthenticated(problem="its token was taken away")
FORBIDDEN = Forbidden(principal="token:ada", right="read", kind="topic", name="t")
UNKNOWN = TopicNotFound(topic="t")
DAMAGED = ReplicaQuarantined(topic="t", node=1, file="b.log", position=7, problem="a bit")


@contextmanager
def nodes(errors: list[RaftlogError], *, describe_once: bool = False) -> Iterator[Connection]:
    """A connection that knows as many nodes, each of which rejects calls by its error: to describe
    a topic, and with `describe_once`, to describe the cluster from the second time on."""
    addresses: list[str] = []
    known = False

    def describe(error: RaftlogError) -> Answer:
        def answer(_: bytes) -> bytes:
            if known and describe_once:
                raise error
            return encode_reply(DESCRIBE_CLUSTER, described(addresses))

        return answer

    def refuse(error: RaftlogError) -> Answer:
        def answer(_: bytes) -> bytes:
            raise error

        return answer

    with ExitStack() as stack:
        for error in errors:
            others = {DESCRIBE_CLUSTER.name: describe(error)}
            serving = node(DESCRIBE_TOPIC.name, refuse(error), others=others)
            addresses.append(stack.enter_context(serving))
        connection = Connection(
            ClientSettings(bootstrap_servers=addresses[0], request_timeout_s=PATIENCE_S)
        )
        stack.callback(connection.close)
        assert connection.addresses() == tuple(addresses)
        known = True
        yield connection


@pytest.mark.parametrize("errors", [[STOPPING, STRANGER], [STRANGER, STOPPING, UNKNOWN]])
def test_one_node_s_final_rejection_is_the_answer_whatever_else_others_have(
    errors: list[RaftlogError],
) -> None:
    """The caller can do something about it. Waiting longer would not help."""
    with nodes(errors, describe_once=True) as connection, pytest.raises(Unauthenticated):
        every_node.descriptions(connection, PATIENCE_S)


def test_without_a_final_rejection_the_deadline_is_the_answer_with_what_each_node_said() -> None:
    with nodes([STOPPING, STOPPING], describe_once=True) as connection:
        addresses = connection.addresses()
        with pytest.raises(DeadlineExceeded) as missed:
            every_node.descriptions(connection, PATIENCE_S)
    assert missed.value.last == " ".join(f"{each}: {STOPPING.cause}" for each in addresses)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([UNKNOWN, DAMAGED], TopicNotFound),
        ([DAMAGED, UNKNOWN], TopicNotFound),
        ([DAMAGED, FORBIDDEN, UNKNOWN], Forbidden),
        ([UNKNOWN, FORBIDDEN], Forbidden),
        ([DAMAGED, DAMAGED], ReplicaQuarantined),
    ],
)
def test_a_topic_that_a_node_does_not_know_is_unknown_also_where_others_cannot_tell(
    errors: list[RaftlogError], expected: type[RaftlogError]
) -> None:
    with nodes(errors) as connection, pytest.raises(expected):
        every_node.topic(connection, "t", PATIENCE_S)
