"""Leader leases between real processes: reads that ask nobody, and none by a leader that slept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from raftlog.wire.calls import READ_KEYS
from raftlog.wire.kv_calls import ReadKeys
from tests.cluster.waiting import leader_of_group

SETTINGS = (
    "raft.leader_lease=true",
    "raft.election_timeout_min_s=2",
    "raft.quiesce_after_s=0",
)
"""A lease of 1.7 s, which heartbeats prolong for ever."""

ANSWER_S = 0.5
"""Less than a lease."""


@pytest.mark.slow
def test_a_leader_reads_without_the_others_until_its_lease_ends_and_never_after_a_pause(
    tmp_path: Path,
) -> None:
    with (
        ProcessCluster.start(tmp_path / "data", settings=SETTINGS) as cluster,
        cluster.client() as client,
    ):
        client.kv.put("key", b"old")
        topic = client.create_topic("t", "number bigint")
        end = client.append("t", [{"number": 1}]).end
        assert client.read_high_water_mark(topic).high_water_mark == end
        store = client.kv._store(create=False)
        assert store is not None

        def reads_alone() -> bool:
            """Does the leader answer while the others cannot? Its lease may end before it is
            asked."""
            leader = leader_of_group(client, store)
            with _paused(cluster, {1, 2, 3} - {leader}):
                return _read(client, cluster, leader, store, ANSWER_S) == b"old"

        wait_for(reads_alone, "a read without the others", PATIENCE_S)
        leader = leader_of_group(client, store)
        with _paused(cluster, {1, 2, 3} - {leader}):
            wait_for(
                lambda: _read(client, cluster, leader, store, ANSWER_S) is None,
                "the end of the lease",
                PATIENCE_S,
            )

        client.kv.put("key", b"newer")
        leader = leader_of_group(client, store)
        with ThreadPoolExecutor(1) as pool:
            with _paused(cluster, {leader}):
                client.kv.put("key", b"newest")
                late = pool.submit(_read, client, cluster, leader, store, PATIENCE_S)
            assert late.result() in (None, b"newest")


@contextlib.contextmanager
def _paused(cluster: ProcessCluster, nodes: set[int]) -> Iterator[None]:
    for node in nodes:
        cluster.pause(node)
    try:
        yield
    finally:
        for node in nodes:
            cluster.resume(node)


def _read(
    client: LogClient, cluster: ProcessCluster, node: int, store: int, timeout_s: float
) -> bytes | None:
    """What a strong read at this node says; None: it answers none."""
    call = ReadKeys(
        group=store, strong=True, at_least=0, exactly=0, prefix="key", start="", end="", limit=1
    )
    try:
        reply = client._connection.ask(cluster.address(node), READ_KEYS, call, timeout_s)
    except RaftlogError:
        return None
    (pair,) = reply.keys
    return pair.value
