"""A running cluster takes another version node by node, and none that is too old comes back.

Version 2 is `tests.cluster.version_2`. While any node runs version 1, nothing of version 2 may be
written, whoever leads; from the entry on that raises a group's rules, all of it is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from raftlog import LogClient, TopicInfo
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.errors import ExitCode, MalformedRequest
from raftlog.machines.commands import EpochKey
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.calls import ClusterDescription
from tests.cluster.version_2 import FIELD, KEY_CHARACTERS_MAX, WRITTEN_UNDER
from tests.cluster.waiting import leader_of, let_lead

VERSION_2 = "tests.cluster.version_2"
NODES = (1, 2, 3)
SNAPSHOT_ENTRIES = 20
SETTINGS = (f"storage.snapshot_entries={SNAPSHOT_ENTRIES}", "storage.log_behind_bytes_max=0")
SCHEMA = pa.schema([("id", pa.int64())])


class Work:
    """Writes of each kind, and what they must have come to."""

    def __init__(self, cluster: ProcessCluster, client: LogClient) -> None:
        self.cluster, self.client = cluster, client
        self.topic: TopicInfo = client.create_topic("t", "id bigint")
        self.written = self.epochs = 0
        client.kv.put("first", b"1")

    def write(self) -> None:
        """An append, an epoch of a stream and a key, each acknowledged."""
        self.client.append(self.topic, [{"id": self.written}])
        key = EpochKey(writer="w", query_id="q", run="r", epoch=self.epochs, streaming=True)
        attempt = self.client.attempt(self.topic, key)
        attempt.write(pa.RecordBatch.from_pydict({"id": [self.written + 1]}, schema=SCHEMA))
        staged = attempt.finish()
        assert staged is not None
        self.client.commit_epoch(self.topic, key, [staged])
        self.client.kv.put("k", str(self.epochs).encode())
        self.written += 2
        self.epochs += 1

    def trim_nothing(self) -> str:
        """What a trim comes to that removes nothing."""
        try:
            self.client.trim(self.topic, before=0)
        except MalformedRequest:
            return "rejected"
        return "taken"

    def put_long_key(self) -> str:
        """What comes of a key that is longer than version 2 allows."""
        try:
            self.client.kv.put("k" * (KEY_CHARACTERS_MAX + 1), b"1")
        except MalformedRequest:
            return "rejected"
        return "taken"

    def note(self, text: str) -> str:
        """What comes of a call that only version 2 knows."""
        command = [sys.executable, "-m", VERSION_2, "note", self.cluster.servers, "t", text]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ended.stdout, ended.stderr
        return ended.stdout.strip()

    def rows(self) -> list[int]:
        batches = self.client.read(self.topic)
        return [row["id"] for batch in batches for row in batch.to_pylist()]

    def snapshots(self) -> list[int]:
        """The entry of each node's newest snapshot of the topic."""
        return [each.snapshot_index for each in self.client.watermark("t").replicas]

    def wait_for_snapshots(self) -> None:
        """Every node has a snapshot of what is applied now."""
        applied = max(each.applied_index for each in self.client.watermark("t").replicas)

        def have() -> bool:
            self.write()
            return min(self.snapshots()) >= applied

        wait_for(have, "snapshots of all nodes", PATIENCE_S)

    def new_fields(self) -> dict[str, set[int]]:
        """In which files of which nodes there is something of version 2."""
        found: dict[str, set[int]] = {"snapshot": set(), "history": set()}
        for node in NODES:
            folder = self.cluster.data / f"node-{node}" / "groups" / str(self.topic.group)
            for file in folder.glob("history-*"):
                if WRITTEN_UNDER.encode() in file.read_bytes():
                    found["history"].add(node)
            newest = max(folder.glob("snapshot-*"))
            if any(_has_new_field(part) for part in _states(newest.read_bytes())):
                found["snapshot"].add(node)
        return found


def _states(content: bytes) -> Iterator[pb.TopicState]:
    """The state in a snapshot file: behind two lines and a byte for its version."""
    state = pb.MachineState.FromString(content.split(b"\n", 2)[2][1:])
    yield state.topic


def _has_new_field(state: pb.TopicState) -> bool:
    return any(field.field_number == FIELD for field in UnknownFieldSet(state))


def described(client: LogClient) -> list[ClusterDescription]:
    answers = [answer for _, answer in client.describe_cluster()]
    return [answer for answer in answers if isinstance(answer, ClusterDescription)]


def wait_for_versions(client: LogClient, known: dict[int, int]) -> None:
    """Each node runs, and knows the rules that it should."""
    wait_for(
        lambda: {answer.node: answer.rules_known for answer in described(client)} == known,
        f"nodes that know the rules {known}",
        PATIENCE_S,
    )


def wait_for_rules(client: LogClient, version: int) -> None:
    wait_for(
        lambda: {answer.rules for answer in described(client)} == {version},
        f"rules {version}",
        PATIENCE_S,
    )


def assert_replicas_agree(cluster: ProcessCluster, client: LogClient) -> None:
    """Outcomes are part of the state hash, which replicas compare: none has diverged."""
    mark = cluster.wait_caught_up(client, "t", timeout_s=PATIENCE_S)
    assert {each.state for each in mark.replicas} == {"trusted"}


def refusal_of(cluster: ProcessCluster, node: int) -> str:
    """What a node logs that ends because it must not serve."""
    wait_for(lambda: cluster.exit_code(node) is not None, f"node {node} to end", PATIENCE_S)
    assert cluster.exit_code(node) == ExitCode.NODE_REFUSED
    return cluster.logs[node].read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three nodes of version 1. What is started later is of version 2."""
    with ProcessCluster.start(
        tmp_path / "cluster", settings=SETTINGS, program=VERSION_2
    ) as started:
        yield started


def test_a_cluster_is_upgraded_node_by_node_and_takes_no_older_node_back(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client:
        work = Work(cluster, client)
        known = dict.fromkeys(NODES, 1)
        wait_for_versions(client, known)
        for node in NODES:
            cluster.terminate(node)
            cluster.serve(node)
            known[node] = 2
            wait_for_versions(client, known)
            if 1 not in known.values():
                break
            for (
                leader
            ) in NODES:  # of version 2 with followers of version 1, and the other way round
                let_lead(client, work.topic.group, leader)
                let_lead(client, 0, leader)
                work.write()
                assert work.trim_nothing() == "taken"
                assert work.put_long_key() == "taken"
                expected = "RulesTooOld" if known[leader] == 2 else "ok"

                def is_so(leader: int = leader, expected: str = expected) -> bool:
                    let_lead(client, work.topic.group, leader)  # another may have been elected
                    return work.note("too early") == expected

                # A leader of version 1 does not know the field, and trims.
                wait_for(is_so, f"the answer {expected!r} of node {leader}", PATIENCE_S)
            assert {answer.rules for answer in described(client)} == {1}
            assert_replicas_agree(cluster, client)
            work.wait_for_snapshots()
            assert work.new_fields() == {"snapshot": set(), "history": set()}

        wait_for_rules(client, 2)
        wait_for(lambda: work.note("now") == "ok", "the topic's rules", PATIENCE_S)
        wait_for(lambda: work.put_long_key() == "rejected", "the store's rules", PATIENCE_S)
        assert work.trim_nothing() == "rejected"
        work.wait_for_snapshots()
        assert work.new_fields() == {"snapshot": set(NODES), "history": set(NODES)}
        assert_replicas_agree(cluster, client)
        assert client.create_topic("later", "id bigint").rules == 2
        assert work.rows() == list(range(work.written))

        leader = leader_of(client, "t")
        old = next(node for node in NODES if node != leader)
        cluster.terminate(old)
        cluster.program = "raftlog"
        cluster.serve(old)
        said = refusal_of(cluster, old)
        assert "comes from a newer version: rules version 2" in said
        assert "Install a version on this node" in said
        work.write()
        cluster.program = VERSION_2
        cluster.serve(old)
        wait_for_versions(client, known)
        assert_replicas_agree(cluster, client)

        client.members.add(4, f"127.0.0.1:{free_ports(1)}")
        cluster.logs[4] = cluster.data / "log" / "node-4.log"
        child = cluster._start(4, "raftlog", "--servers", cluster.servers, last=("--join",))
        told = cluster.logs[4]
        wait_for(lambda: "comes from a newer version" in told.read_text(), "it", PATIENCE_S)
        assert child.poll() is None, "it may be a lie of the node that it asks"
        child.terminate()
        assert {answer.rules for answer in described(client)} == {2}
        work.write()
        assert work.rows() == list(range(work.written))
