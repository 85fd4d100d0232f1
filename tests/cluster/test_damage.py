"""Bytes flipped on one node's disk are never served: another copy is read instead."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b85encode
from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import DeadlineExceeded, ExitCode
from raftlog.storage.frames import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
)
from raftlog.storage.posix import PosixFileSystem
from raftlog.storage.recovery import FrameWalk
from raftlog.wire.calls import NodeView
from tests import stores
from tests.cluster.kept import NewLines
from tests.cluster.waiting import leader_of

SEGMENT_ID = 16
"""Where a segment's header has its id: without it nothing tells where the log ends."""
UNCACHED = ["storage.payload_cache_bytes_max=0"]


def test_a_damaged_body_is_read_from_another_replica(tmp_path: Path) -> None:
    """CHECKLIST 21, for bits flipped on a minority."""
    text = b85encode(os.urandom(100_000)).decode()
    with (
        ProcessCluster.start(tmp_path / "data", settings=UNCACHED) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("t", "text string")
        client.append("t", [{"text": text}])
        cluster.wait_caught_up(client, "t")
        segment = cluster.data / "node-1" / "groups" / str(topic.group) / "00000000000000000001.log"
        data = segment.read_bytes()
        place = data.index(text[1000:1100].encode())
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(b"!")
        for _ in range(6):
            (batch,) = client.read("t")
            assert pa.Table.from_batches([batch]).to_pylist() == [{"text": text}]


def test_a_damaged_topic_is_quarantined_and_filled_again_while_the_others_are_served(
    cluster: ProcessCluster,
) -> None:
    lines = NewLines(cluster)
    with cluster.client() as client:
        topics = [client.create_topic(name, "number bigint") for name in ("bad", "good")]
        for name in ("bad", "good"):
            client.append(name, [{"number": 0}])
        client.append("bad", [{"number": 1}])  # proves that the one before was durable
        for name in ("bad", "good"):
            cluster.wait_caught_up(client, name)
        cluster.kill(3)
        folder = cluster.data / "node-3" / "groups" / str(topics[0].group)
        segment = folder / "00000000000000000001.log"
        damage_frame(segment)
        before = segment.read_bytes()
        cluster.serve(3)
        for number in range(2, 6):
            client.append("bad", [{"number": number}])
            rows = pa.Table.from_batches(client.read("bad")).to_pylist()
            assert rows == [{"number": each} for each in range(number + 1)]
        cluster.wait_caught_up(client, "good")
        cluster.wait_caught_up(client, "bad")
        log = lines.of(3)
        assert "its replica here is quarantined" in log
        assert str(segment) in log
        assert "a quarantined replica is filled again" in log
        aside = folder.with_name(f"{folder.name}.damaged-1")
        assert (aside / segment.name).read_bytes() == before

        def kept() -> list[str]:
            return [
                Path(each.folder).name
                for _, _, view in client.views()
                if isinstance(view, NodeView)
                for each in view.set_aside
            ]

        wait_for(lambda: aside.name in kept(), "the nodes to tell of the copy", PATIENCE_S)
        wait_for(lambda: has_recovered(client, "bad", 3), "the recovery to end", PATIENCE_S)
        again = '"the replica has its log again"'
        wait_for(lambda: again in lines.of(3), "the node to say so", PATIENCE_S)
        cluster.kill(leader_of(client, "bad") % 2 + 1 if leader_of(client, "bad") != 3 else 1)
        assert client.append("bad", [{"number": 6}]).start == 6  # with its copy


def test_a_damaged_topic_whose_log_was_dropped_gets_its_image_and_the_rest_again(
    tmp_path: Path,
) -> None:
    small = 1024 * 1024
    settings = [
        "storage.snapshot_entries=20",
        f"storage.segment_bytes_max={small}",
        f"server.entry_bytes_max={small}",
        f"client.batch_bytes={small // 4}",
    ]
    with (
        ProcessCluster.start(tmp_path / "data", settings=settings) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("t", "text string")
        texts = [os.urandom(40_000).hex() for _ in range(80)]
        for text in texts:
            client.append("t", [{"text": text}])
        cluster.wait_caught_up(client, "t")
        folder = cluster.data / "node-3" / "groups" / str(topic.group)

        def dropped() -> bool:
            mark = client.watermark(topic)
            return all(replica.log_start_index > 1 for replica in mark.replicas)

        wait_for(dropped, "the logs to be dropped", PATIENCE_S)
        covered = client.watermark(topic).commit_index  # by a snapshot at most
        while int((segment := max(folder.glob("*.log"))).stem) <= covered:
            texts.append(os.urandom(40_000).hex())
            client.append("t", [{"text": texts[-1]}])
            cluster.wait_caught_up(client, "t")
        texts.append("what proves that its predecessor was durable")
        client.append("t", [{"text": texts[-1]}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        damage_frame(segment)
        cluster.serve(3)
        cluster.wait_caught_up(client, "t")
        wait_for(lambda: has_recovered(client, "t", 3), "the recovery to end", PATIENCE_S)
        assert folder.with_name(f"{folder.name}.damaged-1").is_dir()
        rows = pa.concat_tables(pa.Table.from_batches([each]) for each in client.read("t"))
        assert rows.to_pylist() == [{"text": each} for each in texts]


def test_a_node_with_a_damaged_controllers_group_recovers_it_and_serves(
    cluster: ProcessCluster,
) -> None:
    lines = NewLines(cluster)
    with cluster.client() as client:
        client.create_topic("t", "number bigint")
        client.append("t", [{"number": 0}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        damage_frame(cluster.data / "node-3" / "groups" / "0" / "00000000000000000001.log")
        cluster.serve(3)
        client.create_topic("later", "number bigint")
        for name in ("t", "later"):
            client.append(name, [{"number": 1}])
            cluster.wait_caught_up(client, name)
        assert "a quarantined replica is filled again" in lines.of(3)
        assert (cluster.data / "node-3" / "groups" / "0.damaged-1").is_dir()
        cluster.kill(1)
        client.create_topic("with-its-vote", "number bigint")


@pytest.mark.parametrize("group", ["topic", "controller"])
def test_two_of_three_that_start_with_damaged_logs_are_filled_again_from_the_third(
    cluster: ProcessCluster, group: str
) -> None:
    lines = NewLines(cluster)
    with cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        for number in range(5):
            client.append("t", [{"number": number}])
        cluster.wait_caught_up(client, "t")
        for node in (1, 2, 3):
            cluster.kill(node)
        number = topic.group if group == "topic" else 0
        for node in (2, 3):
            folder = cluster.data / f"node-{node}" / "groups" / str(number)
            damage_frame(folder / "00000000000000000001.log")
        for node in (1, 2, 3):
            cluster.serve(node)
        for node in (2, 3):
            wait_for(
                lambda node=node: "is filled again" in lines.of(node), "the refill", PATIENCE_S
            )
        assert client.append("t", [{"number": 5}]).start == 5
        cluster.wait_caught_up(client, "t")
        for node in (2, 3):
            wait_for(lambda node=node: has_recovered(client, "t", node), "an end", PATIENCE_S)
        cluster.kill(1)
        assert client.append("t", [{"number": 6}]).start == 6  # with their copies alone
        rows = pa.Table.from_batches(client.read("t")).to_pylist()
        assert rows == [{"number": each} for each in range(7)]
        client.create_topic("later", "number bigint")


def test_headers_damaged_on_two_of_three_while_the_third_is_behind_cost_no_record(
    cluster: ProcessCluster,
) -> None:
    """Each entry is whole on two nodes, but neither of two logs would be read to its end."""
    lines = NewLines(cluster)
    with cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        client.append("t", [{"number": 0}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        for number in range(1, 6):
            client.append("t", [{"number": number}])
        for node in (1, 2):
            cluster.kill(node)
        for node, position in ((1, SEGMENT_HEADER_BYTES + 9), (2, SEGMENT_ID + 4)):
            folder = cluster.data / f"node-{node}" / "groups" / str(topic.group)
            flip(folder / "00000000000000000001.log", position)
        for node in (1, 2, 3):
            cluster.serve(node)
        assert client.append("t", [{"number": 6}]).start == 6
        rows = pa.Table.from_batches(client.read("t")).to_pylist()
        assert rows == [{"number": each} for each in range(7)]
        for node in (1, 2):
            assert "it was rebuilt from the rest of the file" in lines.of(node)
            assert "quarantined" not in lines.of(node)


def test_without_another_majority_a_damaged_replica_neither_leads_nor_loses_its_files(
    cluster: ProcessCluster,
) -> None:
    """Two of three do not know where their logs ended: there is no leader, and nothing is lost."""
    lines = NewLines(cluster)
    with cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        client.append("t", [{"number": 0}])
        cluster.wait_caught_up(client, "t")
        segments = {}
        for node in (2, 3):
            cluster.kill(node)
            folder = cluster.data / f"node-{node}" / "groups" / str(topic.group)
            segments[node] = folder / "00000000000000000001.log"
            flip(segments[node], SEGMENT_ID, count=8)
        cluster.kill(1)
        for node in (1, 2, 3):
            cluster.serve(node)
        for node in (2, 3):
            wait_for(
                lambda node=node: "is quarantined" in lines.of(node), "the quarantine", PATIENCE_S
            )

        def names_both() -> bool:
            """Within one deadline, of which both nodes must have answered."""
            with cluster.client(4.0) as hasty, pytest.raises(DeadlineExceeded) as caught:
                hasty.append("t", [{"number": 1}])
            named = [f"topic 't' on node {node} is quarantined" for node in (2, 3)]
            return all(each in caught.value.cause for each in named)

        wait_for(names_both, "an error that names both", PATIENCE_S)
        for verb in ("status", "watermark", "topic describe t"):
            said = raftlog(cluster, verb)
            for node in (2, 3):
                assert re.search(rf"t, replica {node}:? is quarantined", said.stdout + said.stderr)
            assert said.returncode == (3 if verb == "status" else 0), "the third knows the offsets"
        cluster.kill(1)
        for verb in ("watermark t", "topic describe t"):
            said = raftlog(cluster, verb)
            assert "its offsets are unknown" in said.stderr
            assert said.returncode == 3
        cluster.serve(1)
        # As if the topic's folder were put back from a copy, and nothing else.
        cluster.kill(2)
        flip(segments[2], SEGMENT_ID, count=8)
        cluster.serve(2)
        assert client.append("t", [{"number": 1}]).start == 1
        rows = pa.Table.from_batches(client.read("t")).to_pylist()
        assert rows == [{"number": 0}, {"number": 1}]


def raftlog(cluster: ProcessCluster, words: str) -> subprocess.CompletedProcess[str]:
    """A node that runs is given all the time to answer."""
    command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers]
    command += [f"--set=client.view_timeout_s={PATIENCE_S:g}", *words.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def flip(path: Path, position: int, count: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        data = file.read(count)
        file.seek(position)
        file.write(bytes(byte ^ 1 for byte in data))


def damage_frame(path: Path) -> None:
    """Damage more of the first frame with a payload than can be rebuilt: its header, and a byte
    more."""
    folder, _, name = str(path).rpartition("/")
    file = PosixFileSystem(Path(folder)).open(name, create=False)
    header = decode_segment_header(file.read_at(0, SEGMENT_HEADER_BYTES))
    assert isinstance(header, SegmentHeader)
    start = next(each.position for each in FrameWalk(file, header) if each.header.payload_bytes)
    file.close()
    flip(path, start, FRAME_HEADER_BYTES + 1)


def has_recovered(client: LogClient, topic: str, node: int) -> bool:
    mark = client.watermark(client.describe_topic(topic))
    role = next(replica.role for replica in mark.replicas if replica.node == node)
    return role in ("follower", "leader")  # others may have elected it since


def test_a_node_whose_acknowledged_entries_are_gone_says_so_and_serves_its_other_topics(
    tmp_path: Path,
) -> None:
    """An older copy of a log: with it a leader could be elected that lacks acknowledged entries.
    Only a leader that has heard of them knows, so one that stays is needed."""
    event = "a log lacks what it had acknowledged"
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        for attempt in range(5):
            name = f"t{attempt}"
            follower, term = lose_acknowledged(cluster, client, name, tmp_path / name)
            log = cluster.logs[follower]

            def says_or_leader_is_new(log: Path = log, name: str = name, term: int = term) -> bool:
                said = event in log.read_text()
                return said or client.watermark(name).term not in (0, term)

            wait_for(says_or_leader_is_new, "the node to say so", PATIENCE_S)
            if event in log.read_text():
                break
        said = next(line for line in log.read_text().splitlines() if event in line)
        assert "ends at entry" in json.loads(said)["cause"]
        assert "stop this node" in json.loads(said)["remedy"]
        assert "Traceback" not in log.read_text()
        assert client.append(name, [{"number": 6}]).start == 6
        client.create_topic("another", "number bigint")
        client.append("another", [{"number": 0}])
        cluster.wait_caught_up(client, "another")
        assert cluster.exit_code(follower) is None


def lose_acknowledged(
    cluster: ProcessCluster, client: LogClient, name: str, older: Path
) -> tuple[int, int]:
    """Start a follower of a new topic with a copy of its folder from before the last records. Which
    one it is, and the leader's term before."""
    topic = client.create_topic(name, "number bigint")
    client.append(name, [{"number": 0}])
    cluster.wait_caught_up(client, name)
    follower = leader_of(client, name) % 3 + 1
    folder = cluster.data / f"node-{follower}" / "groups" / str(topic.group)
    cluster.kill(follower)
    shutil.copytree(folder, older)
    cluster.serve(follower)
    for number in range(1, 6):
        client.append(name, [{"number": number}])
    term = cluster.wait_caught_up(client, name).term
    cluster.kill(follower)
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    cluster.serve(follower)
    return follower, term


def test_a_node_whose_log_was_cut_off_says_so_and_fetches_the_rest(cluster: ProcessCluster) -> None:
    """It looks like the end of a log after a crash, but what is gone was acknowledged."""
    text = b85encode(os.urandom(100_000)).decode()
    lines = NewLines(cluster)
    with cluster.client() as client:
        topic = client.create_topic("t", "text string")
        client.append("t", [{"text": text}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        segment = cluster.data / "node-3" / "groups" / str(topic.group) / "00000000000000000001.log"
        os.truncate(segment, segment.read_bytes().index(text[1000:1100].encode()))
        for node in (1, 2):  # a leader that was there before would remember what node 3 had
            cluster.kill(node)
        for node in (1, 2, 3):
            cluster.serve(node)
        cluster.wait_caught_up(client, "t")
        said = next(line for line in lines.of(3).splitlines() if "was truncated" in line)
        assert json.loads(said)["file"] == str(segment)
        assert json.loads(said)["bytes"] > 0
        assert "Only if the file was cut off in another way" in json.loads(said)["advice"]


def test_a_node_whose_folder_is_emptied_or_made_again_ends(tmp_path: Path) -> None:
    """An empty one is a lost store, for `serve` and for `up`. Another store under the node's id has
    forgotten its votes: it is rejected, and says so instead of waiting for ever."""
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("t", "number bigint")
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        log, own = cluster.logs[3], cluster.data / "node-3"
        for emptied in (lambda: shutil.rmtree(own), own.mkdir):
            emptied()
            before = len(log.read_text())
            cluster.serve(3)
            wait_for(lambda: not cluster.runs(3), "the end", PATIENCE_S)
            assert "error: StoreMissing:" in log.read_text()[before:]
            assert not own.exists() or os.listdir(own) in ([], ["lock"])
        assert client.append("t", [{"number": 1}]).start == 0
        stores.wipe(cluster.data, 3, other=1)
        cluster.serve(3)
        wait_for(lambda: "error: IdentityRefused:" in log.read_text(), "the end", PATIENCE_S)
        said = "".join(cluster.logs[node].read_text() for node in (1, 2))
        assert said.count("peer refused") <= 10, "a refused peer does not fill the log"
    shutil.rmtree(own)
    said_by_up = tmp_path / "said"
    with pytest.raises(DeadlineExceeded, match="ended with code"):
        ProcessCluster.start(cluster.data, said=said_by_up)
    assert "StoreMissing" in said_by_up.read_text()


def copy_of(cluster: ProcessCluster, node: int, folder: Path) -> Path:
    """The folder of a node that is down, with a cluster.toml in which it listens elsewhere."""
    shutil.copytree(cluster.data / f"node-{node}", folder / f"node-{node}")
    toml = (cluster.data / "cluster.toml").read_text()
    port = free_ports(1)
    own = cluster.address(node)
    assert own in toml
    (folder / "cluster.toml").write_text(toml.replace(own, f"127.0.0.1:{port}"))
    return folder


def end_of_copy(folder: Path, node: int) -> str:
    """Start the node with a copy of its folder. What it says in the end."""
    words = [sys.executable, "-m", "raftlog", "serve", "--node", str(node), "--data", str(folder)]
    with (folder / "log").open("w") as log:
        copy = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        assert copy.wait(PATIENCE_S) == ExitCode.NODE_REFUSED
    finally:
        copy.kill()
    return (folder / "log").read_text()


def test_a_process_with_a_copy_of_a_nodes_folder_ends(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    """It knows no process that came after the copy was made; one that knows them all is rejected
    while the node's own runs."""
    with cluster.client() as client:
        client.create_topic("t", "number bigint")
        cluster.kill(3)
        copy = copy_of(cluster, 3, tmp_path / "copy")

        def starts_again() -> None:
            lines = NewLines(cluster)
            cluster.serve(3)
            wait_for(lambda: '"registered"' in lines.of(3), "node 3 to register", PATIENCE_S)

        starts_again()
        cluster.kill(3)
        assert "error: StoreCopied:" in end_of_copy(copy, 3), "while the node is down"
        starts_again()
        assert "error: StoreCopied:" in end_of_copy(copy, 3), "while it runs"
        cluster.pause(3)
        later = copy_of(cluster, 3, tmp_path / "later")
        cluster.resume(3)
        assert "error: StoreCopied:" in end_of_copy(later, 3), "with a copy that knows the process"
        client.append("t", [{"number": 1}])
        cluster.wait_caught_up(client, "t")
        assert cluster.runs(3)


def test_a_wiped_folder_helps_no_node_that_has_just_started_to_lead(tmp_path: Path) -> None:
    """Node 1 missed what 2 and 3 acknowledged. With the vote of a wiped node 3 it would be lost.
    All have just started, so no node knows yet how much of the controller's log is committed.
    """
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        client.create_topic("old", "number bigint")
        cluster.wait_caught_up(client, "old")
        cluster.kill(1)
        client.create_topic("new", "number bigint")
        assert client.append("new", [{"number": 1}]).start == 0
        assert client.append("old", [{"number": 1}]).start == 0
        cluster.kill(2)
        cluster.kill(3)
        stores.wipe(cluster.data, 3, other=1)
        log_1, log_3 = cluster.logs[1], cluster.logs[3]
        before = len(log_1.read_text())
        cluster.serve(1)
        wait_for(lambda: '"serving"' in log_1.read_text()[before:], "node 1 to serve", PATIENCE_S)
        cluster.serve(3)
        wait_for(
            lambda: "a node rejects this one" in log_3.read_text(), "its rejection", PATIENCE_S
        )
        assert cluster.exit_code(3) is None, "one node may lie"
        assert '"role": "leader"' not in log_1.read_text()[before:]
        cluster.serve(2)
        wait_for(
            lambda: "error: IdentityRefused:" in log_3.read_text(),
            "the end",
            PATIENCE_S,
        )
        assert client.append("new", [{"number": 2}]).start == 1
        assert client.append("old", [{"number": 2}]).start == 1
