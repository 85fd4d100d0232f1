"""Every alert fires on a real fault of real nodes that Prometheus scrapes, and clears after it.

The thresholds are the real ones. Only what would take minutes is shorter: how long alerts wait and
look back (`scraped.prometheus`), and what makes a snapshot due.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from base64 import b85encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.chaos.disks import ClusterDisks
from raftlog.chaos.faulty_disk import DiskFaults
from raftlog.chaos.links import PeerLinks
from raftlog.chaos.proxy import Wire
from raftlog.chaos.small_disk import SmallDisk
from raftlog.client.log_client import LogClient
from raftlog.client.producer import Producer
from tests.cluster.row_by_row import row_by_row
from tests.cluster.scraped import Prometheus, prometheus
from tests.cluster.test_compaction_kills import compaction_process
from tests.cluster.test_damage import SEGMENT_ID, flip
from tests.cluster.troubled_node import hang_file, wrong_entry_file
from tests.cluster.waiting import LEADERS_STAY, leader_of
from tests.costs import seed_of_the_day
from tests.metrics.test_documents import alerts

NODES = (1, 2, 3)
SMALL = 1
"""The node with a small disk of its own."""
SMALL_DISK_BYTES = 256 * 1024 * 1024
"""Room for the reserve that a node keeps, and half as much again."""
REQUESTS_MAX = 16
"""Fewer than one producer of this test has in flight."""
SCRAPES_MAX = 16
"""A node that hangs answers each after 5 s, and one who scrapes it every second gives up before."""
POINT_BYTES = 1024 * 1024
"""A snapshot is due after so much, in place of 256 MiB."""
ROWS = 1_100
"""More entries than a follower may lack, and than there are from one comparison of states to the
next."""
TEXT = b85encode(os.urandom(32_000)).decode()
"""Compression leaves it as it is, so its bytes are found on disk. Of hex digits it would not."""
DRAWN = 4
"""The number of faults that the short version tries."""
PATIENT_S = 6
"""A scrape interval that leaves a scrape more time than a node waits for its loop (5 s)."""

Labels: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A cluster to be broken, and who watches it."""

    cluster: ProcessCluster
    links: PeerLinks
    disks: ClusterDisks
    small_disk: SmallDisk
    client: LogClient
    server: Prometheus
    patient: Prometheus
    """Another one, which scrapes every `PATIENT_S` seconds."""

    def instance(self, node: int) -> str:
        """The node as alerts name it."""
        return f"127.0.0.1:{self.cluster.port + len(NODES) + node - 1}"

    def topic(self, name: str) -> tuple[int, int, int]:
        """Make a topic with a record, which all have applied. Returns its leader and the others."""
        self.client.create_topic(name, "id bigint, text string")
        self.client.append(name, [{"id": 0, "text": TEXT}])

        def applied() -> bool:
            mark = self.client.watermark(name)
            return all(each.high_water_mark == 1 for each in mark.replicas)

        wait_for(applied, f"all replicas of {name!r}", PATIENCE_S)
        leader = leader_of(self.client, name)
        one, other = (node for node in NODES if node != leader)
        return leader, one, other

    def append_rows(self, name: str) -> None:
        """One entry for each."""
        with row_by_row(self.client, name) as producer:
            for number in range(ROWS):
                producer.append([{"id": number, "text": ""}])

    def appends(self, name: str, text: str) -> AbstractContextManager[None]:
        """Records are appended all the time, one after another."""
        return again_and_again(
            lambda number: self.client.append(name, [{"id": number, "text": text}])
        )

    def segment(self, node: int, name: str) -> Path:
        """The first file of the topic's log."""
        group = self.client.describe_topic(name).group
        folder = self.cluster.data / f"node-{node}" / "groups" / str(group)
        return folder / "00000000000000000001.log"

    @contextmanager
    def cut(self, *pairs: tuple[int, int]) -> Iterator[None]:
        """Neither of two nodes reaches the other."""
        for one, other in pairs:
            self.links.set(one, other, Wire(cut=True))
            self.links.set(other, one, Wire(cut=True))
        try:
            yield
        finally:
            self.links.heal()

    @contextmanager
    def dead(self, *nodes: int) -> Iterator[None]:
        """The nodes are killed, and serve again afterwards."""
        for node in nodes:
            self.cluster.kill(node)
        try:
            yield
        finally:
            for node in nodes:
                self.cluster.serve(node)


@contextmanager
def again_and_again(act: Callable[[int], object]) -> Iterator[None]:
    """Act in a thread until the block ends, with numbers from 0 on."""
    stop = threading.Event()

    def run() -> None:
        for number in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
            act(number)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            stop.set()
        running.result(PATIENCE_S)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("alerts")
    data, count = folder / "data", len(NODES)
    port = free_ports(3 * count)
    tls = data / "tls" / "node-{node}"
    with ExitStack() as stack:
        peers = {node: f"127.0.0.1:{port + 2 * count + node - 1}" for node in NODES}
        links = stack.enter_context(PeerLinks(peers))
        settings = [
            LEADERS_STAY,
            f"server.peer_routes={links.routes}",
            f"server.requests_max={REQUESTS_MAX}",
            f"storage.snapshot_bytes={POINT_BYTES}",
            f"metrics.listen=127.0.0.1:+{count}",
            f"metrics.requests_max={SCRAPES_MAX}",
            # Those that `raftlog serve` finds by itself; the program knows settings only.
            f"tls.cert_file={tls}.pem",
            f"tls.key_file={tls}.key",
            f"tls.ca_file={data}/tls/ca.pem",
            f"tls.peer_port_offset={2 * count}",
        ]
        program = "tests.cluster.troubled_node"
        cluster = stack.enter_context(
            ProcessCluster.start(data, port=port, settings=settings, program=program, tls=True)
        )
        cluster.kill(SMALL)
        small_disk = SmallDisk(data, SMALL, SMALL_DISK_BYTES)
        if os.geteuid() == 0:
            small_disk.move_in()
            stack.callback(small_disk.move_out)
            stack.callback(cluster.kill, SMALL)
        disks = ClusterDisks(cluster)
        client = stack.enter_context(cluster.client())
        targets = [f"127.0.0.1:{port + count + node - 1}" for node in NODES]
        server = stack.enter_context(prometheus(folder / "server", targets))
        patient = stack.enter_context(prometheus(folder / "patient", targets, every_s=PATIENT_S))
        yield Scene(
            cluster=cluster,
            links=links,
            disks=disks,
            small_disk=small_disk,
            client=client,
            server=server,
            patient=patient,
        )


# ---------------------------------------------------------------- faults


@contextmanager
def killed(scene: Scene) -> Iterator[Labels]:
    with scene.dead(3):
        yield {"instance": scene.instance(3)}


@contextmanager
def loop_hangs(scene: Scene) -> Iterator[Labels]:
    with _ordered(hang_file(scene.cluster.data, 2), "3600 3600"):
        yield {"instance": scene.instance(2)}


@contextmanager
def loop_is_slow(scene: Scene) -> Iterator[Labels]:
    with _ordered(hang_file(scene.cluster.data, 2), "0.4 1"):
        yield {"instance": scene.instance(2)}


@contextmanager
def _ordered(file: Path, text: str) -> Iterator[None]:
    file.with_suffix(".draft").write_text(text)
    file.with_suffix(".draft").rename(file)
    try:
        yield
    finally:
        file.unlink()


@contextmanager
def majority_killed(scene: Scene) -> Iterator[Labels]:
    _, one, other = scene.topic("led")
    with scene.dead(one, other):
        yield {"topic": "led"}


@contextmanager
def two_cut_off_from_each_other(scene: Scene) -> Iterator[Labels]:
    with scene.cut((1, 3)):
        yield {"instance": scene.instance(1), "peer": "3"}


@contextmanager
def follower_cut_off(scene: Scene) -> Iterator[Labels]:
    leader, follower, other = scene.topic("followed")
    with scene.cut((leader, follower), (other, follower)):
        scene.append_rows("followed")
        labels = {"topic": "followed", "follower": str(follower)}
        yield {**labels, "instance": scene.instance(leader)}


@contextmanager
def disk_almost_full(scene: Scene) -> Iterator[Labels]:
    _needs_small_disk(scene)
    ballast = scene.cluster.data / f"small-disk-{SMALL}" / "ballast"
    state = os.statvfs(ballast.parent)
    byte_count = state.f_bavail * state.f_frsize - SMALL_DISK_BYTES // 20
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, byte_count)
    try:
        yield {"instance": scene.instance(SMALL)}
    finally:
        ballast.unlink()


def _needs_small_disk(scene: Scene) -> None:
    if not scene.small_disk.mounted:
        pytest.skip("a small disk is a tmpfs, and only root may mount one")


@contextmanager
def disk_full(scene: Scene) -> Iterator[Labels]:
    _needs_small_disk(scene)
    scene.topic("full")
    scene.small_disk.fill()
    with scene.appends("full", TEXT):
        try:
            yield {"instance": scene.instance(SMALL)}
        finally:
            scene.small_disk.make_room()


@contextmanager
def disk_slow(scene: Scene) -> Iterator[Labels]:
    _, slow, _ = scene.topic("slow")
    scene.disks.command(slow, DiskFaults(sync_delay_s=3.0))
    with scene.appends("slow", ""):
        try:
            yield {"instance": scene.instance(slow)}
        finally:
            scene.disks.heal(slow)


@contextmanager
def byte_flipped_at_rest(scene: Scene) -> Iterator[Labels]:
    """Where no other node can be asked for what was there."""
    leader, node, other = scene.topic("flipped")
    with scene.cut((node, leader), (node, other)):
        segment = scene.segment(node, "flipped")
        part = TEXT[1000:1100].encode()
        # What others have on disk is applied before it is on this one's.
        wait_for(lambda: part in segment.read_bytes(), "the record on the node's disk", PATIENCE_S)
        flip(segment, segment.read_bytes().index(part))
        scene.client.scrub()
        yield {"instance": scene.instance(node)}


@contextmanager
def log_unreadable(scene: Scene) -> Iterator[Labels]:
    """Where nothing tells where the log ends, so that only a leader's word would have it filled
    again, and none speaks to it."""
    leader, node, other = scene.topic("unreadable")
    segment = scene.segment(node, "unreadable")
    with scene.cut((node, leader), (node, other)):
        with scene.dead(node):
            flip(segment, SEGMENT_ID, count=8)
        yield {"instance": scene.instance(node)}


@contextmanager
def entry_applied_wrong(scene: Scene) -> Iterator[Labels]:
    _, node, _ = scene.topic("differing")
    wrong_entry_file(scene.cluster.data, node).touch()
    scene.append_rows("differing")
    try:
        yield {"instance": scene.instance(node)}
    finally:
        scene.cluster.kill(node)
        scene.cluster.serve(node)  # it applies all again, and rightly


@contextmanager
def compaction_hangs(scene: Scene) -> Iterator[Labels]:
    leader, _, _ = scene.topic("compacted")

    def append(number: int) -> None:
        scene.client.append("compacted", [{"id": number, "text": TEXT}])

    def compacted() -> bool:
        append(0)
        return all(each.history_end for each in scene.client.watermark("compacted").replicas)

    wait_for(compacted, "a first compaction", PATIENCE_S)
    process = compaction_process(scene.cluster, leader)
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        for number in range(6 * POINT_BYTES // len(TEXT)):
            append(number)
        yield {"instance": scene.instance(leader)}
    finally:
        os.kill(process, signal.SIGKILL)  # as the runbook says; the node starts another


@contextmanager
def too_many_calls(scene: Scene) -> Iterator[Labels]:
    leader, _, _ = scene.topic("asked")
    settings = scene.client.settings.model_copy(
        update={"batch_bytes": 1, "max_in_flight": 4 * REQUESTS_MAX}
    )
    with (
        Producer(
            scene.client._connection, scene.client.describe_topic("asked"), settings
        ) as producer,
        again_and_again(lambda number: producer.append([{"id": number, "text": ""}])),
    ):
        yield {"instance": scene.instance(leader)}


@contextmanager
def certificate_of_13_days(scene: Scene) -> Iterator[Labels]:
    _renew(scene, 13)
    try:
        yield {"instance": scene.instance(2)}
    finally:
        _renew(scene, 365)


def _renew(scene: Scene, days: int) -> None:
    make_certificates(
        scene.cluster.data / "tls",
        cluster_id=scene.client.cluster_id(),
        hosts={2: "127.0.0.1"},
        days=days,
    )


Fault: TypeAlias = Callable[[Scene], AbstractContextManager[Labels]]
FAULTS: list[tuple[str, Fault]] = [
    ("RaftlogCertificateEnds", certificate_of_13_days),
    ("RaftlogCompactionBehind", compaction_hangs),
    ("RaftlogDamage", byte_flipped_at_rest),
    ("RaftlogDamage", log_unreadable),
    ("RaftlogDiskFills", disk_almost_full),
    ("RaftlogDiskFull", disk_full),
    ("RaftlogDiskSlow", disk_slow),
    ("RaftlogFollowerBehind", follower_cut_off),
    ("RaftlogLoopLate", loop_is_slow),
    ("RaftlogNodeDown", killed),
    ("RaftlogNodeStuck", loop_hangs),
    ("RaftlogOverloaded", too_many_calls),
    ("RaftlogPeerUnreachable", two_cut_off_from_each_other),
    ("RaftlogReplicasDiffer", entry_applied_wrong),
    ("RaftlogTopicWithoutLeader", majority_killed),
]


def test_every_alert_is_tried_on_a_fault() -> None:
    assert {alert for alert, _ in FAULTS} == {rule["alert"] for rule in alerts()}


def test_alerts_fire_on_some_faults_and_clear(scene: Scene) -> None:
    """Others every day; all of them in the long version. Replay: ALERTS_SEED=<seed>."""
    seed = seed_of_the_day("ALERTS_SEED")
    possible = [
        (alert, fault)
        for alert, fault in FAULTS
        if scene.small_disk.mounted or fault not in (disk_almost_full, disk_full)
    ]
    drawn = Random(seed).sample(possible, DRAWN)
    print(f"seed {seed}: {', '.join(fault.__name__ for _, fault in drawn)}")
    for alert, fault in drawn:
        an_alert_fires_and_clears(scene, alert, fault)


@pytest.mark.soak
@pytest.mark.parametrize(("alert", "fault"), FAULTS)
def test_an_alert_fires_on_its_fault_and_clears(scene: Scene, alert: str, fault: Fault) -> None:
    an_alert_fires_and_clears(scene, alert, fault)


def an_alert_fires_and_clears(scene: Scene, alert: str, fault: Fault) -> None:
    server = scene.patient if alert == "RaftlogNodeStuck" else scene.server

    def all_is_well() -> bool:
        return server.all_up(len(NODES)) and not server.firing()

    wait_for(all_is_well, "no alert", PATIENCE_S)
    with fault(scene) as labels:
        wait_for(lambda: server.fires(alert, **labels), f"{alert} {labels}", PATIENCE_S)
    wait_for(lambda: not server.fires(alert), f"no {alert}", PATIENCE_S)
