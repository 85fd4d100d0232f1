"""A real node whose compaction writes other records is found out, and takes another's history."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.machines.commands import TopicInfo
from tests.cluster.test_compaction_kills import only
from tests.cluster.waiting import leader_of
from tests.cluster.wrong_compaction import wrong_history_of

TOPIC = "t"
POINT = 20


def append(client: LogClient, start: int, end: int) -> None:
    """One entry for each record."""
    for number in range(start, end):
        client.append(TOPIC, [{"number": number}])


def histories(client: LogClient) -> set[tuple[str, int]]:
    """What each replica's history is known to be, and where it ends."""
    return {(each.history, each.history_end) for each in client.watermark(TOPIC).replicas}


def numbers(client: LogClient, topic: TopicInfo, end: int) -> list[int]:
    table = pa.Table.from_batches(list(client.read(topic, 0, end, mark=end)))
    return table["number"].to_pylist()


@pytest.mark.parametrize("leads", [False, True])
def test_a_node_that_compacted_wrong_stops_serving_and_takes_another_s_history(
    tmp_path: Path, leads: bool
) -> None:
    settings = [f"storage.snapshot_entries={POINT}"]
    with (
        ProcessCluster.start(
            tmp_path / "data", settings=settings, program="tests.cluster.wrong_history_node"
        ) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic(TOPIC, "number bigint")
        append(client, 0, 2 * POINT)
        odd = leader_of(client, TOPIC) if leads else leader_of(client, TOPIC) % 3 + 1
        cluster.wait_caught_up(client, TOPIC)
        cluster.kill(odd)
        cluster.serve(odd)
        cluster.wait_caught_up(client, TOPIC)
        wrong_history_of(cluster.data / f"node-{odd}").touch()
        append(client, 2 * POINT, 5 * POINT)

        def log() -> str:
            return cluster.logs[odd].read_text()

        differs = "the replica's history differs from the majority's"
        wait_for(lambda: differs in log(), "the odd history to be found", PATIENCE_S)
        rebuilt = "it stands at another replica's image now"
        wait_for(lambda: rebuilt in log(), "another replica's image", PATIENCE_S)
        append(client, 5 * POINT, 7 * POINT)
        cluster.wait_caught_up(client, TOPIC)
        wait_for(
            lambda: (
                {history for history, _ in histories(client)} == {"trusted"}
                and len({end for _, end in histories(client)}) == 1
            ),
            "equal histories",
            PATIENCE_S,
        )
        for node in (1, 2, 3):
            assert numbers(only(cluster, node), topic, 7 * POINT) == list(range(7 * POINT))
        folder = cluster.data / f"node-{odd}" / "groups" / str(topic.group)
        assert list(folder.glob("outvoted-history-*")), "what was replaced is kept"
