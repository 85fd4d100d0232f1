"""A process that hangs: its connections stay open, and nothing comes over them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.workload import OneNode
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.client.producer import Producer
from raftlog.config import load
from raftlog.errors import NotLeader, RaftlogError
from raftlog.machines.commands import TopicInfo
from tests.cluster.waiting import leader_of

TRY_S = 10.0
"""A node that answers has this long: one that misses it counts as one that hangs."""


def test_a_replica_that_hangs_holds_up_one_read_and_not_every_third(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.client.connection._AVOIDED_S", 10 * PATIENCE_S)  # all nine reads
    with cluster.client() as first:
        topic = first.create_topic("t", "number bigint")
        first.append("t", [{"number": 1}])
        cluster.wait_caught_up(first, "t")
        hangs = leader_of(first, "t") % 3 + 1
        cluster.pause(hangs)
        settings = load().client.model_copy(
            update={
                "bootstrap_servers": cluster.servers,
                "try_timeout_s": TRY_S,
                "request_timeout_s": PATIENCE_S,
            }
        )
        met = set()
        with connect(settings=settings) as client:
            client.read_high_water_mark(topic)
            for _ in range(9):
                assert [batch.num_rows for batch in client.read(topic, 0, 1, mark=1)] == [1]
                met.add(client._connection._avoided_until_s.get(cluster.address(hangs)))
        assert len(met - {None}) <= 1, "the node is avoided again each time it gives no answer"


def test_a_leader_that_was_paused_during_an_election_answers_nothing_stale(
    cluster: ProcessCluster,
) -> None:
    """Calls that came while it was paused wait in its socket; it must learn of the other leader, or
    lose its majority, before it answers."""
    with cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        for number in range(3):
            client.append("t", [{"number": 10 * number}])
            wait_for(
                lambda number=number: paused_and_asked(cluster, client, topic, 10 * number),
                "a leader that stays one until it is paused",
                PATIENCE_S,
            )
            cluster.wait_caught_up(client, "t")
        numbers = [n for batch in client.read("t") for n in batch["number"].to_pylist()]
        assert [n for n in numbers if n != 99] == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def paused_and_asked(
    cluster: ProcessCluster, client: LogClient, topic: TopicInfo, number: int
) -> bool:
    """Ask the leader while it is paused and another one takes writes. False: it did not lead."""
    leader = leader_of(client, topic.name)
    with only(cluster, leader) as asked, ThreadPoolExecutor(2) as pool:
        # Its producer and its connection exist before it is paused.
        producer = Producer(asked, topic, asked.settings.with_arguments(max_in_flight=1))
        try:
            producer.append_and_flush([{"number": number + 1}])
        except NotLeader:
            return False
        reader = LogClient(asked)
        cluster.pause(leader)
        acknowledged = client.append(topic, [{"number": number + 2}])
        mark = pool.submit(said, partial(mark_of, reader, topic))
        write = pool.submit(said, partial(start_of, producer, 99))
        cluster.resume(leader)
        for answer in (mark.result(), write.result()):
            assert answer is None or answer >= acknowledged.end
    return True


@contextlib.contextmanager
def only(cluster: ProcessCluster, node: int) -> Iterator[OneNode]:
    """A connection that asks this node once, and waits."""
    settings = load().client.model_copy(
        update={"request_timeout_s": PATIENCE_S, "try_timeout_s": PATIENCE_S}
    )
    connection = OneNode(settings, cluster.address(node))
    try:
        yield connection
    finally:
        connection.close()


def mark_of(client: LogClient, topic: TopicInfo) -> int:
    return client.read_high_water_mark(topic).high_water_mark


def start_of(producer: Producer, number: int) -> int:
    return producer.append_and_flush([{"number": number}]).start


def said(ask: Callable[[], int]) -> int | None:
    """What the node answers; None if it refuses."""
    try:
        return ask()
    except RaftlogError:
        return None
