"""What a test waits for in a running cluster: a topic's leader, a node that answers."""

from __future__ import annotations

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from raftlog.wire.calls import NodeView

LEADERS_STAY = "raft.preferred_leaders=false"
"""The setting under which a leader moves only because of what the test does."""


def leader_of(client: LogClient, topic: str, timeout_s: float = PATIENCE_S) -> int:
    """The node that leads the topic's group. Waits until one does."""
    leader = 0

    def led() -> bool:
        nonlocal leader
        try:
            leader = client.watermark(topic).leader
        except RaftlogError:
            return False  # no node has answered yet
        return leader != 0

    wait_for(led, f"a leader of {topic!r}", timeout_s)
    return leader


def leader_of_group(client: LogClient, group: int, timeout_s: float = PATIENCE_S) -> int:
    """The node that leads the group, such as the key-value store's. Waits until one does."""
    leader = 0

    def led() -> bool:
        nonlocal leader
        try:
            leader = client.groups.servers(group).leader
        except RaftlogError:
            return False
        return leader > 0

    wait_for(led, f"a leader of group {group}", timeout_s)
    return leader


def let_lead(client: LogClient, group: int, node: int) -> None:
    """Hand the group's leadership to the node. It is asked again where it has just started, or an
    election comes in between."""

    def leads() -> bool:
        try:
            client.members.transfer(group, node, timeout_s=PATIENCE_S)
        except RaftlogError:
            return False
        return True

    wait_for(leads, f"node {node} to lead group {group}", PATIENCE_S)


def groups_led(client: LogClient, *nodes: int) -> dict[int, int] | None:
    """How many groups each of these nodes leads; None if one of them does not answer."""
    try:
        return {node: len(client.members.led_by(node)) for node in nodes}
    except RaftlogError:
        return None


def wait_trimmed(client: LogClient, topic: str, before: int, timeout_s: float = PATIENCE_S) -> None:
    """Wait until each replica has applied a trim: until then one may still give the records."""
    group = client.describe_topic(topic).group

    def everywhere() -> bool:
        views = [each.answer for each in client.views([group])]
        return all(
            isinstance(view, NodeView) and view.groups[0].log_start_offset >= before
            for view in views
        )

    wait_for(everywhere, f"all replicas of {topic!r} to apply the trim", timeout_s)


def wait_serving(cluster: ProcessCluster, timeout_s: float = PATIENCE_S) -> None:
    """Wait until some node answers and knows a leader of the controller."""
    with cluster.client() as client:

        def serves() -> bool:
            try:
                client.list_topics()
            except RaftlogError:
                return False
            return True

        wait_for(serves, "a node to answer", timeout_s)
