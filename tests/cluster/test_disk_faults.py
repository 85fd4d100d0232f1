"""Disks of real nodes that fail, are slow or full: what the other nodes and the clients see.

A full disk is a small tmpfs, which needs root: without it those tests are skipped by name.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.chaos.disks import PROGRAM, ClusterDisks
from raftlog.chaos.faulty_disk import DiskFaults
from raftlog.chaos.small_disk import SmallDisk
from raftlog.client.log_client import LogClient
from raftlog.errors import DeadlineExceeded, ExitCode, RaftlogError
from tests.cluster.kept import Kept, NewLines
from tests.cluster.load import NumberedLoad, numbers_in
from tests.cluster.waiting import leader_of, wait_serving

TOPIC = "load"


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("disks"), program=PROGRAM) as kept:
        yield kept


@pytest.fixture
def cluster(_kept: Kept) -> ProcessCluster:
    return _kept.whole()


@pytest.fixture(scope="module")
def _commanded() -> dict[Path, ClusterDisks]:
    """The disks of each cluster that ran so far, by its data folder."""
    return {}


@pytest.fixture
def disks(cluster: ProcessCluster, _commanded: dict[Path, ClusterDisks]) -> Iterator[ClusterDisks]:
    if cluster.data not in _commanded:
        _commanded[cluster.data] = ClusterDisks(cluster)
    disks = _commanded[cluster.data]
    yield disks
    for node in cluster.pids:
        disks.heal(node)


@pytest.mark.parametrize(
    ("leads", "faults"),
    [
        (True, DiskFaults(sync_fails_after=5, only="/groups/")),
        (False, DiskFaults(sync_fails_after=3)),
        (True, DiskFaults(write_fails_after=2)),
    ],
    ids=["the leader's log is not synced", "a follower does not sync", "the leader cannot write"],
)
def test_a_disk_that_fails_once_ends_its_node_and_no_client_notices(
    cluster: ProcessCluster, disks: ClusterDisks, leads: bool, faults: DiskFaults
) -> None:
    """Only one sync fails: a node that tried again would succeed and live on."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with NumberedLoad(client, TOPIC) as load:
            load.wait_for_more(10)
            new = NewLines(cluster)
            leader = leader_of(client, TOPIC)
            hit = leader if leads else leader % 3 + 1
            disks.command(hit, faults)
            wait_for(lambda: cluster.exit_code(hit) is not None, "the node to end", PATIENCE_S)
            assert cluster.exit_code(hit) == ExitCode.NODE_REFUSED
            said = new.of(hit)
            assert "the node exits" in said
            assert "Input/output error (injected)" in said
            load.wait_for_more(20)
            disks.heal(hit)
            cluster.serve(hit)
            cluster.wait_caught_up(client, TOPIC, lag_entries_max=50)
        cluster.wait_caught_up(client, TOPIC)
        load.check(client)


def test_a_vote_that_cannot_be_synced_is_never_given(
    cluster: ProcessCluster, disks: ClusterDisks
) -> None:
    """CHECKLIST 31, 77: a node whose journal fails ends before it answers the candidate."""
    new = NewLines(cluster)
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with NumberedLoad(client, TOPIC) as load:
            load.wait_for_more(10)
            leader = leader_of(client, TOPIC)
            voter = leader % 3 + 1
            disks.command(voter, DiskFaults(sync_fails_after=0, only="hard-state.journal"))
            cluster.kill(leader)
            wait_for(lambda: not cluster.runs(voter), "the voter to end", PATIENCE_S)
            assert "hard-state.journal" in new.of(voter)
            disks.heal(voter)
            cluster.serve(voter)
            cluster.serve(leader)
            load.wait_for_more(20)
        cluster.wait_caught_up(client, TOPIC)
        load.check(client)


def led_by(cluster: ProcessCluster, client: LogClient, node: int) -> str:
    """A topic that the node leads: leaders spread by chance."""
    for number in itertools.count():
        name = f"{TOPIC}-{number}"
        client.create_topic(name, "number bigint, text string")
        if leader_of(client, name) == node:
            return name
    raise AssertionError("unreachable")


@pytest.mark.parametrize("delay_s", [3.0, pytest.param(20.0, marks=pytest.mark.soak)])
def test_a_leader_with_a_slow_disk_gives_way(
    cluster: ProcessCluster, disks: ClusterDisks, delay_s: float
) -> None:
    """No append fails meanwhile, and the slow node leads no group again while it is slow."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with NumberedLoad(client, TOPIC) as load:
            load.wait_for_more(10)
            slow = leader_of(client, TOPIC)
            disks.command(slow, DiskFaults(sync_delay_s=delay_s))
            log = cluster.logs[slow]
            wait_for(
                lambda: "the disk is slow" in log.read_text(), "the node to say so", PATIENCE_S
            )
            wait_for(lambda: client.watermark(TOPIC).leader not in (0, slow), "another", PATIENCE_S)
            load.wait_for_more(20)
            assert client.watermark(TOPIC).leader != slow
            disks.heal(slow)
            load.wait_for_more(20)
        cluster.wait_caught_up(client, TOPIC, timeout_s=PATIENCE_S)
        load.check(client)


def test_an_append_is_answered_while_most_disks_take_longer_than_a_try(
    cluster: ProcessCluster, disks: ClusterDisks
) -> None:
    """Each try proposes again: if all were as short as the first, none would ever be answered."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint, text string")
        leader = leader_of(client, TOPIC)
        slow = [node for node in cluster.pids if node != leader]
        for node in slow:
            disks.command(node, DiskFaults(sync_delay_s=1.2 * client.settings.try_timeout_s))
        reply = client.append(TOPIC, [{"number": 0, "text": ""}])
        assert (reply.start, reply.end) == (0, 1)
        for node in slow:
            disks.heal(node)
        cluster.wait_caught_up(client, TOPIC, timeout_s=PATIENCE_S)
        assert client.watermark(TOPIC).high_water_mark == 1


def test_a_leader_whose_syncs_take_a_fifth_of_a_second_serves(
    cluster: ProcessCluster, disks: ClusterDisks
) -> None:
    """That it also stays the leader is shown where nothing else is slow
    (tests/core/test_slow_disk.py)."""
    with cluster.client() as client:
        client.create_topic(TOPIC, "number bigint")
        with NumberedLoad(client, TOPIC) as load:
            load.wait_for_more(10)
            slow = leader_of(client, TOPIC)
            disks.command(slow, DiskFaults(sync_delay_s=0.2))
            load.wait_for_more(50)
            disks.heal(slow)
        load.check(client)


needs_tmpfs = pytest.mark.skipif(
    os.geteuid() != 0, reason="a full disk is a tmpfs, and only root may mount one"
)
SMALL_DISK_BYTES = 64 * 1024 * 1024
NO_RESERVE = ("storage.full_disk_reserve_bytes=0",)
"""The usual one has no place on a disk so small, to which a node's files are moved."""
TEXT_BYTES = 100_000


def append_until_refused(client: LogClient, topic: str) -> tuple[list[int], DeadlineExceeded]:
    """The numbers that were acknowledged, and the error that says that the disk is full. On a slow
    machine a deadline may pass before that: then that record may be there or not."""
    numbers: list[int] = []
    for number in itertools.count():
        try:
            client.append(topic, [{"number": number, "text": os.urandom(TEXT_BYTES // 2).hex()}])
        except DeadlineExceeded as error:
            if "is full" in str(error):
                return numbers, error
        else:
            numbers.append(number)
    raise AssertionError("unreachable")


def status_of(cluster: ProcessCluster) -> tuple[int, dict[str, Any]]:
    """The exit code of `raftlog status`, and what it tells programs about its one node."""
    patience = f"--set=client.view_timeout_s={PATIENCE_S:g}"
    servers = ("--servers", cluster.servers)
    told = subprocess.run(
        [sys.executable, "-m", "raftlog", *servers, patience, "status", "-o", "json"],
        check=False,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    (node,) = json.loads(told.stdout)["nodes"]
    return told.returncode, node


@needs_tmpfs
def test_a_full_disk_refuses_writes_with_the_reason_and_heals_by_itself(tmp_path: Path) -> None:
    """One node, so that no other can lead: reads continue, nothing is lost, and deleting a topic
    makes room for the others."""
    with ProcessCluster.start(tmp_path / "data", nodes=1, settings=NO_RESERVE) as cluster:
        disk = SmallDisk(cluster.data, 1, SMALL_DISK_BYTES)
        cluster.kill(1)
        disk.move_in()

        def serve() -> None:
            """What the node writes when it registers must not find the disk full: without a reserve
            nothing is left then for the note of a deletion."""
            new = NewLines(cluster)
            cluster.serve(1)
            wait_for(lambda: '"registered"' in new.of(1), "node 1 to register", PATIENCE_S)

        try:
            serve()
            pid = cluster.pids[1]
            with cluster.client() as client, cluster.client(request_timeout_s=5.0) as hasty:
                wait_serving(cluster)
                client.create_topic(TOPIC, "number bigint, text string")
                large = os.urandom(5 * TEXT_BYTES).hex()
                client.append(TOPIC, [{"number": -1, "text": large}])
                disk.fill()
                numbers, refusal = append_until_refused(hasty, TOPIC)
                assert "The disk of node 1 is full: there is no room for a write." in str(refusal)
                assert "groups/" not in str(refusal), "a path has the numbers of others' topics"
                assert "Make room" in str(refusal)
                code, node = status_of(cluster)
                assert (code, node["disk"]) == (ExitCode.UNAVAILABLE, "full")
                assert node["disk_full"] == "a write"
                known = {-1, *numbers}
                assert [n for n in numbers_in(client, TOPIC) if n in known] == [-1, *numbers]
                disk.make_room()
                client.append(TOPIC, [{"number": 1 << 40, "text": ""}])
                wait_for(
                    lambda: (
                        (told := status_of(cluster))[0] == ExitCode.OK and told[1]["disk"] == "ok"
                    ),
                    "the node to say that all is well",
                    PATIENCE_S,
                )
                found = numbers_in(client, TOPIC)
                assert cluster.pids[1] == pid
                assert cluster.runs(1)
                cluster.kill(1)
                serve()
                wait_serving(cluster)
                assert numbers_in(client, TOPIC) == found
                assert [n for n in found if n in known] == [-1, *numbers]
                assert found[-1] == 1 << 40
                assert len(set(found)) == len(found)
                client.create_topic("other", "number bigint, text string")
                disk.fill()
                append_until_refused(hasty, TOPIC)
                client.delete_topic(TOPIC)
                for number in range(3):
                    text = os.urandom(TEXT_BYTES // 2).hex()
                    client.append("other", [{"number": number, "text": text}])
                assert numbers_in(client, "other") == list(range(3))
        finally:
            cluster.kill(1)
            disk.move_out()


@needs_tmpfs
def test_a_leader_with_a_full_disk_gives_way_and_no_client_notices(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data", settings=NO_RESERVE) as cluster:
        disk = SmallDisk(cluster.data, 1, SMALL_DISK_BYTES)
        cluster.kill(1)
        disk.move_in()
        try:
            cluster.serve(1)
            with cluster.client() as client:
                topic = led_by(cluster, client, 1)
                disk.fill()
                written = 0
                while client.watermark(topic).leader in (0, 1):
                    client.append(
                        topic, [{"number": written, "text": os.urandom(TEXT_BYTES // 2).hex()}]
                    )
                    written += 1
                assert "the disk is full" in cluster.logs[1].read_text()
                assert cluster.runs(1)
                disk.make_room()
                cluster.wait_caught_up(client, topic)
                assert numbers_in(client, topic) == list(range(written))
        finally:
            cluster.kill(1)
            disk.move_out()


@pytest.fixture
def shared_disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for a whole cluster, as `raftlog up` has one."""
    mount = tmp_path / "disk"
    mount.mkdir()
    option = f"size={3 * SMALL_DISK_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", option, "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def produce_until_refused(client: LogClient, topic: str) -> RaftlogError:
    """Keep several entries in flight, so that the last bytes go to different nodes."""
    text = os.urandom(TEXT_BYTES).hex()
    producer = client.producer(topic)
    for number in itertools.count():
        try:
            producer.append([{"number": number, "text": text}])
        except RaftlogError as error:
            return error
    raise AssertionError("unreachable")


@needs_tmpfs
@pytest.mark.soak
def test_where_all_nodes_share_a_full_disk_the_leader_stays_and_says_so(shared_disk: Path) -> None:
    """The node that is ahead only found room last: another leader would cost reads as well. Without
    reserves: what a node frees of its own is room for the others, which then lead. On a machine so
    busy that the leader hands over before the others know that they have no room, there may be no
    leader until there is some: that is what reserves are for.
    """
    settings = NO_RESERVE
    with (
        ProcessCluster.start(shared_disk / "data", settings=settings) as cluster,
        cluster.client() as client,
        cluster.client(request_timeout_s=10.0) as hasty,
    ):
        for fill in range(3):
            topic = client.create_topic(f"fill-{fill}", "number bigint, text string")
            refusal = produce_until_refused(hasty, topic.name)
            assert isinstance(refusal, DeadlineExceeded)
            assert " is full: there is no room for " in str(refusal)
            mark = hasty.read_high_water_mark(topic).high_water_mark
            assert sum(batch.num_rows for batch in hasty.read(topic, 0, mark, mark=mark)) == mark
            client.delete_topic(topic.name)
        client.create_topic("after", "number bigint, text string")
        client.append("after", [{"number": 1, "text": "there is room again"}])
