"""A real node whose state differs from the others' is found out, and no client reads from it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.comparison import STATES_COMPARED_EVERY
from raftlog.core.types import Offset
from raftlog.errors import RaftlogError, ReplicaDiverged
from raftlog.machines.commands import TopicInfo
from raftlog.wire.calls import READ, ReadCall
from tests.cluster.diverging_node import WRONG_INDEX
from tests.cluster.row_by_row import row_by_row

TOPIC = "events"


def append(client: LogClient, first: int, count: int) -> None:
    """One entry for each record."""
    with row_by_row(client, TOPIC) as producer:
        for number in range(first, first + count):
            producer.append([{"id": number}])


def states(client: LogClient) -> dict[int, str]:
    """What each node that answers says of its replica's state."""
    return {
        node: view.state
        for node, _, answer in client.views()
        if not isinstance(answer, RaftlogError)
        for view in answer.groups
        if view.topic == TOPIC
    }


def read_first(connection: Connection, address: str, topic: TopicInfo) -> None:
    """Read the first record from the node at `address` and from no other."""
    call = ReadCall(
        group=topic.group,
        incarnation=topic.incarnation,
        start=Offset(0),
        end=Offset(1),
        mark=Offset(1),
        field_ids=(),
        all_fields=True,
    )
    assert len(list(connection.stream(address, READ, call, PATIENCE_S))) == 1


def test_a_node_that_applied_an_entry_wrong_stops_serving_and_a_sound_start_heals_it(
    tmp_path: Path,
) -> None:
    count = STATES_COMPARED_EVERY + WRONG_INDEX
    with (
        ProcessCluster.start(tmp_path / "data", program="tests.cluster.diverging_node") as cluster,
        cluster.client() as client,
    ):
        client.create_topic(TOPIC, "id bigint")
        append(client, 0, 2 * WRONG_INDEX)
        odd = cluster.wait_caught_up(client, TOPIC).leader
        cluster.kill(odd)
        cluster.serve(odd)
        cluster.wait_caught_up(client, TOPIC)
        append(client, 2 * WRONG_INDEX, count - 2 * WRONG_INDEX)
        wait_for(lambda: states(client).get(odd) == "diverged", "the odd state", PATIENCE_S)
        assert set(states(client).values()) == {"diverged", "trusted"}
        read = [row for batch in client.read(TOPIC, 0, count) for row in batch.to_pylist()]
        assert [row["id"] for row in read] == list(range(count))
        # The client has found replicas that serve the record; the odd one refuses.
        with closing(Connection(client.settings)) as connection:
            with pytest.raises(ReplicaDiverged, match=f"Restart node {odd}"):
                read_first(connection, cluster.address(odd), client.describe_topic(TOPIC))
            assert "state differs from the majority" in cluster.logs[odd].read_text()
            cluster.kill(odd)
            cluster.program = "raftlog"
            cluster.serve(odd)
            cluster.wait_caught_up(client, TOPIC)
            read_first(connection, cluster.address(odd), client.describe_topic(TOPIC))
            assert set(states(client).values()) == {"trusted"}
