"""A cluster is found through a real ZooKeeper ensemble of three, and never depends on it.

All tests share one ensemble and each has a path of its own in it. A test that breaks the ensemble
leaves it whole.
"""

from __future__ import annotations

import copy
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import raftlog
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.chaos.ensemble import EnsembleProcesses
from raftlog.cli import cluster_folder
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.config_ensemble import DiscoverySettings
from raftlog.core.types import NodeId
from raftlog.discovery.announcer import Announcement, Announcer
from raftlog.discovery.directory import Directory, look_up
from raftlog.discovery.entries import ClusterEntry, FounderEntry, LeaderEntry, NodeEntry
from raftlog.discovery.founding import Candidate, found
from raftlog.errors import (
    DeadlineExceeded,
    ExitCode,
    InvalidOption,
    RaftlogError,
    ZooKeeperUnavailable,
)
from raftlog.founders import Founder, cluster_id_of
from raftlog.spark.datasource import RaftlogDataSource
from tests.cluster.kept import Kept
from tests.cluster.load import PAUSE_S
from tests.cluster.machines import command, served

SESSION_S = 4.0
PATIENT = {"try_timeout_s": PATIENCE_S, "request_timeout_s": PATIENCE_S}
"""A client that lets the ensemble and the nodes that it names answer."""
SECRET = "correct-horse"


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnsembleProcesses]:
    with EnsembleProcesses(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def where(ensemble: EnsembleProcesses) -> str:
    """A path of the test's own, two levels below the ensemble's root."""
    return f"{ensemble.hosts}/raftlog/{uuid.uuid4().hex[:8]}"


def announcing(where: str) -> list[str]:
    """The settings of nodes that announce themselves."""
    return [f"discovery.zookeeper={where}", f"discovery.zookeeper_session_timeout_s={SESSION_S}"]


@contextmanager
def started(data: Path, where: str) -> Iterator[ProcessCluster]:
    """Three nodes that announce themselves."""
    with ProcessCluster.start(data, settings=announcing(where)) as running:
        yield running


@pytest.fixture(scope="module")
def kept_where(ensemble: EnsembleProcesses) -> str:
    return f"{ensemble.hosts}/raftlog/kept"


@pytest.fixture(scope="module")
def _kept(tmp_path_factory: pytest.TempPathFactory, kept_where: str) -> Iterator[Kept]:
    with Kept(tmp_path_factory.mktemp("kept"), settings=announcing(kept_where)) as kept:
        yield kept


@pytest.fixture
def cluster(_kept: Kept, kept_where: str) -> ProcessCluster:
    """Three nodes that have announced themselves at `kept_where`."""
    running = _kept.whole()
    wait_nodes(kept_where, *running.pids)
    return running


def directory(where: str) -> Directory:
    return look_up(ClientSettings(zookeeper=where), timeout_s=PATIENCE_S)


def wait_nodes(where: str, *nodes: int) -> None:
    wait_for(
        lambda: [entry.node for entry in directory(where).nodes] == list(nodes),
        f"the nodes {nodes} to be registered",
        PATIENCE_S,
    )


def leader_entry(where: str, group: int) -> LeaderEntry | None:
    return next((each for each in directory(where).leaders if each.group == group), None)


@contextmanager
def zookeeper(where: str) -> Iterator[KazooClient]:
    """A client with no rights, as anybody has one. Its paths begin at the cluster's."""
    hosts, _, path = where.partition("/")
    client = KazooClient(hosts=hosts)
    client.start(PATIENCE_S)
    client.ensure_path(f"/{path}".rpartition("/")[0])  # kazoo makes one level of a chroot at most
    client.chroot = "/" + path
    try:
        yield client
    finally:
        client.stop()
        client.close()


def values(client: LogClient, topic: str) -> list[int]:
    return [row for batch in client.read(topic) for row in batch.column("a").to_pylist()]


class Writing:
    """Appends to a topic one row after another, in the background, each with a short deadline."""

    def __init__(self, client: LogClient, topic: str) -> None:
        self._client, self._topic = client, topic
        self.written = 0
        self.error: RaftlogError | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self._client.producer(self._topic) as producer:
                while not self._end.wait(PAUSE_S):
                    producer.append([{"a": self.written}])
                    producer.flush()
                    self.written += 1
        except RaftlogError as error:
            self.error = error

    def wait_more(self, rows: int) -> None:
        goal = self.written + rows
        wait_for(lambda: self.written >= goal or bool(self.error), f"{rows} rows", PATIENCE_S)
        assert self.error is None, str(self.error)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(PATIENCE_S)


def test_a_client_that_knows_only_the_ensemble_writes_and_reads(
    cluster: ProcessCluster, kept_where: str
) -> None:
    with raftlog.connect(zookeeper=kept_where) as client:
        group = client.create_topic("t", "a INT").group
        with client.producer("t") as producer:
            producer.append([{"a": number} for number in range(100)])
        assert values(client, "t") == list(range(100))
        found = directory(kept_where)
        assert found.cluster is not None
        assert found.cluster.cluster_id == client.cluster_id()
        assert {each.addresses[0] for each in found.nodes} == set(cluster.servers.split(","))
    wait_for(lambda: leader_entry(kept_where, group) is not None, "the topic's leader", PATIENCE_S)
    first = leader_entry(kept_where, group)
    assert first is not None
    assert first.topic == "t"
    cluster.kill(first.node)
    wait_for(
        lambda: (now := leader_entry(kept_where, group)) is not None and now.term > first.term,
        "the next leader to be published",
        PATIENCE_S,
    )
    others = [node for node in (1, 2, 3) if node != first.node]
    wait_nodes(kept_where, *others)  # when the dead node's session has timed out
    cluster.serve(first.node)
    wait_nodes(kept_where, 1, 2, 3)
    with raftlog.connect(zookeeper=kept_where) as client:
        client.delete_topic("t")
    wait_for(lambda: leader_entry(kept_where, group) is None, "the entry to be removed", PATIENCE_S)
    cluster.terminate(2)
    assert [entry.node for entry in directory(kept_where).nodes] == [1, 3]


def test_with_the_ensemble_killed_or_paused_no_write_or_read_of_a_known_cluster_stops(
    cluster: ProcessCluster, kept_where: str, ensemble: EnsembleProcesses
) -> None:
    with raftlog.connect(zookeeper=kept_where) as client:
        client.create_topic("t", "a INT")
        with Writing(client, "t") as writing:
            writing.wait_more(20)
            ensemble.pause()
            try:
                writing.wait_more(50)
                cluster.kill(2)
                writing.wait_more(50)
                cluster.serve(2)
                writing.wait_more(50)
                wait_caught_up(cluster, client)
            finally:
                ensemble.resume()
            ensemble.kill(1, 2)  # the third answers nobody without a majority
            try:
                writing.wait_more(50)
                ensemble.kill()
                writing.wait_more(50)
                cluster.kill(1)
                writing.wait_more(50)
                cluster.serve(1)  # starts and serves without ZooKeeper
                wait_caught_up(cluster, client)
                cluster.kill(3)
                writing.wait_more(50)
                cluster.serve(3)
                wait_caught_up(cluster, client)
            finally:
                ensemble.start_all()
            writing.wait_more(20)
        wait_nodes(kept_where, 1, 2, 3)  # by kazoo's own reconnection, of all that lived through it
        assert values(client, "t") == list(range(writing.written))


def wait_caught_up(cluster: ProcessCluster, client: LogClient) -> None:
    cluster.wait_caught_up(client, "t", lag_entries_max=50)


def test_a_whole_cluster_starts_and_serves_while_the_ensemble_is_down(
    tmp_path: Path, where: str, ensemble: EnsembleProcesses
) -> None:
    with started(tmp_path / "data", where) as cluster, cluster.client() as client:
        client.create_topic("t", "a INT")
        wait_nodes(where, 1, 2, 3)
    ensemble.kill()
    try:
        with started(tmp_path / "data", where) as cluster, cluster.client() as client:
            with client.producer("t") as producer:
                producer.append([{"a": 1}])
            assert values(client, "t") == [1]
            settings = ClientSettings(zookeeper=where, refused_timeout_s=0.5, try_timeout_s=0.5)
            with (
                raftlog.connect(settings=settings) as stranger,
                pytest.raises(ZooKeeperUnavailable, match="no answer within"),
            ):
                stranger.list_topics()
    finally:
        ensemble.start_all()


def test_a_query_s_new_processes_need_no_ensemble(
    cluster: ProcessCluster, kept_where: str, ensemble: EnsembleProcesses
) -> None:
    with cluster.client() as client:
        client.create_topic("t", "a INT")
        source = RaftlogDataSource({"subscribe": "t", "raftlog.zookeeper.connect": kept_where})
        unknowing = copy.copy(source)
        unknowing.options = {"subscribe": "t", "raftlog.zookeeper.connect": kept_where}
        ensemble.kill()
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                assert process.submit(columns, source).result(PATIENCE_S) == ["a"]
                with pytest.raises(ZooKeeperUnavailable):
                    process.submit(columns, unknowing).result(PATIENCE_S)
        finally:
            ensemble.start_all()


def columns(source: RaftlogDataSource) -> list[str]:
    """What a worker of Spark asks a data source."""
    return source.schema().names


def test_a_client_follows_a_cluster_that_moved(tmp_path: Path, where: str) -> None:
    data = tmp_path / "data"
    with ExitStack() as stack:
        cluster = stack.enter_context(started(data, where))
        client = stack.enter_context(raftlog.connect(zookeeper=where))
        client.create_topic("t", "a INT")
        with client.producer("t") as producer:
            producer.append([{"a": 1}])
        cluster.stop()
        file, port = data / "cluster.toml", free_ports(3)
        text = file.read_text()
        for node in (1, 2, 3):
            text = text.replace(cluster.address(node), f"127.0.0.1:{port + node - 1}")
        file.write_text(text)
        moved = stack.enter_context(started(data, where))
        assert moved.port == port
        assert values(client, "t") == [1]


def test_forged_entries_stop_nothing_and_join_nothing(
    tmp_path: Path, where: str, single: ProcessCluster
) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(started(tmp_path / "data", where))
        client = stack.enter_context(raftlog.connect(zookeeper=where))
        client.create_topic("t", "a INT")
        wait_nodes(where, 1, 2, 3)
        wait_for(lambda: leader_entry(where, 1) is not None, "the topic's leader", PATIENCE_S)
        forger = stack.enter_context(zookeeper(where))
        known = directory(where)
        assert known.cluster is not None
        elsewhere = NodeEntry(
            node=9,
            cluster_id=known.cluster.cluster_id,
            store_uuid="f" * 32,
            addresses=(single.servers,),
        )
        forger.create("/nodes/9", elsewhere.encode())
        forger.create("/nodes/7", None)
        forger.create("/nodes/8", b"\xff" * 100_000)
        forger.create("/nodes/..%2f..", elsewhere.encode())
        forger.create("/leaders/99", b"{}")
        truth = leader_entry(where, 1)
        assert truth is not None
        lie = truth.model_copy(update={"address": single.servers, "term": 1_000})
        forger.set("/leaders/1", lie.encode())
        for node in (1, 2, 3):
            forger.set(f"/nodes/{node}", elsewhere.model_copy(update={"node": node}).encode())
        with Writing(client, "t") as writing:
            writing.wait_more(20)
            cluster.kill(truth.node)
            writing.wait_more(20)
            cluster.serve(truth.node)
            writing.wait_more(20)
        assert values(client, "t") == list(range(writing.written))
        with single.client() as stranger:
            assert stranger.list_topics() == []
        told = {single.servers, *cluster.servers.split(",")}  # the entry of node 9 stays
        wait_for(
            lambda: set(directory(where).addresses()) == told,
            "the nodes to write the truth again",
            PATIENCE_S,
        )
        found = directory(where)
        assert [reason.partition(":")[0] for reason in found.passed_over] == [
            "nodes/7",
            "nodes/8",
            "leaders/99",
        ]
        with raftlog.connect(zookeeper=where) as newcomer:
            assert newcomer.cluster_id() == known.cluster.cluster_id
            assert len(newcomer.describe_cluster()) == 3
        for path in ("/cluster", "/leaders/0"):
            forger.set(path, b"\xff" * 900_000)

        def is_restored() -> bool:
            found = directory(where).cluster
            return found is not None and leader_entry(where, 0) is not None

        wait_for(is_restored, "the nodes to write over the garbage", PATIENCE_S)
        with raftlog.connect(zookeeper=where) as newcomer:
            assert newcomer.cluster_id() == known.cluster.cluster_id


def test_an_entry_of_another_cluster_alone_leads_a_client_nowhere(
    where: str, single: ProcessCluster
) -> None:
    with zookeeper(where) as forger:
        founder = FounderEntry(node=1, address=single.servers, store_uuid="s")
        forger.create(
            "/cluster", ClusterEntry(cluster_id="c", founders=(founder,)).encode(), makepath=True
        )
        node = NodeEntry(node=1, cluster_id="c", store_uuid="s", addresses=(single.servers,))
        forger.create("/nodes/1", node.encode(), makepath=True)
        settings = ClientSettings(zookeeper=where, refused_timeout_s=0.5, **PATIENT)
        with (
            raftlog.connect(settings=settings) as client,
            pytest.raises(ZooKeeperUnavailable, match="is of the cluster"),
        ):
            client.create_topic("t", "a INT")
        with single.client() as stranger:
            assert stranger.list_topics() == []


@pytest.mark.usefixtures("cluster")
def test_nodes_of_another_cluster_at_the_same_path_write_nothing(kept_where: str) -> None:
    wait_for(lambda: leader_entry(kept_where, 0) is not None, "the controller's leader", PATIENCE_S)
    before = directory(kept_where)
    said = announced(kept_where, cluster_id="another", node=1)
    assert "is of cluster" in said
    assert replace(directory(kept_where), leaders=before.leaders) == before  # its own may change


def announced(where: str, *, cluster_id: str, node: int, leads: int = 0, secret: str = "") -> str:
    """What an announcer of such a node says in the end: a problem, or "" if it could write."""
    heard: list[str] = []
    settings = DiscoverySettings(zookeeper=where, zookeeper_credentials=secret)
    announcer = an_announcer(settings, cluster_id, node, lambda _, problem: heard.append(problem))
    announcer.announce(Announcement(leads={5: a_leader(cluster_id, node, leads)} if leads else {}))
    announcer.start()
    try:
        wait_for(lambda: bool(heard), "the announcer to say something", PATIENCE_S)
    finally:
        announcer.stop(PATIENCE_S)
    return heard[-1]


def an_announcer(settings: DiscoverySettings, cluster_id: str, node: int, tell) -> Announcer:
    address = f"127.0.0.1:{7400 + node}"
    founder = FounderEntry(node=node, address=address, store_uuid="s")
    return Announcer(
        settings,
        cluster=ClusterEntry(cluster_id=cluster_id, founders=(founder,)),
        node=NodeEntry(node=node, cluster_id=cluster_id, store_uuid="s", addresses=(address,)),
        tell=tell,
    )


def a_leader(cluster_id: str, node: int, term: int) -> LeaderEntry:
    return LeaderEntry(
        group=5, topic="t", cluster_id=cluster_id, term=term, node=node, address="127.0.0.1:1"
    )


def test_an_older_term_never_replaces_a_newer_one(where: str) -> None:
    for node, term, stands in [(1, 3, (1, 3)), (2, 2, (1, 3)), (2, 4, (2, 4)), (1, 3, (2, 4))]:
        assert announced(where, cluster_id="c", node=node, leads=term) == ""
        entry = leader_entry(where, 5)
        assert entry is not None
        assert (entry.node, entry.term) == stands


def test_of_leaders_that_write_at_once_the_latest_term_stands(where: str) -> None:
    terms = range(1, 9)
    settings = DiscoverySettings(zookeeper=where)
    announcers = [an_announcer(settings, "c", term, lambda *_: None) for term in terms]
    try:
        for term, announcer in zip(terms, announcers, strict=True):
            announcer.announce(Announcement(leads={5: a_leader("c", term, term)}))
            announcer.start()
        wait_for(
            lambda: (now := leader_entry(where, 5)) is not None and now.term == max(terms),
            "the latest term",
            PATIENCE_S,
        )
        wait_nodes(where, *terms)
        entry = leader_entry(where, 5)
        assert entry is not None
        assert entry.term == max(terms)
    finally:
        for announcer in announcers:
            announcer.stop(PATIENCE_S)


def test_only_the_user_of_the_credentials_may_change_entries_and_everybody_may_read(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZK_AUTH", f"raftlog:{SECRET}")
    monkeypatch.setenv("ZK_OTHER", "raftlog:guessed")
    settings = DiscoverySettings(zookeeper=where, zookeeper_credentials="env:ZK_AUTH")
    heard: list[str] = []
    announcer = an_announcer(settings, "c", 1, lambda _, problem: heard.append(problem))
    announcer.announce(Announcement(leads={5: a_leader("c", 1, 3)}))
    announcer.start()
    try:
        wait_nodes(where, 1)
        wait_for(lambda: leader_entry(where, 5) is not None, "the leader's entry", PATIENCE_S)
        with zookeeper(where) as anybody:
            for path in ("/cluster", "/nodes/1", "/leaders/5"):
                assert json.loads(anybody.get(path)[0])["cluster_id"] == "c"
                with pytest.raises(NoAuthError):
                    anybody.set(path, b"{}")
            with pytest.raises(NoAuthError):
                anybody.create("/nodes/2", b"{}")
            with pytest.raises(NoAuthError):
                anybody.delete("/nodes/1")
        problem = announced(where, cluster_id="c", node=2, leads=9, secret="env:ZK_OTHER")
        assert problem
        assert SECRET not in problem + "".join(heard)
        entry = leader_entry(where, 5)
        assert entry is not None
        assert entry.node == 1
    finally:
        announcer.stop(PATIENCE_S)


def test_a_lost_session_is_made_again_with_its_entry(where: str) -> None:
    announcer = an_announcer(DiscoverySettings(zookeeper=where), "c", 1, lambda *_: None)
    announcer.start()
    try:
        wait_nodes(where, 1)
        with zookeeper(where) as client:
            before = client.exists("/nodes/1").ephemeralOwner
            end_session(announcer)
            wait_for(
                lambda: (now := client.exists("/nodes/1")) and now.ephemeralOwner != before,
                "an entry of the next session",
                PATIENCE_S,
            )
    finally:
        announcer.stop(PATIENCE_S)


def end_session(announcer: Announcer) -> None:
    """End the session behind its owner's back, as the ensemble does when its time is over."""
    mine = announcer._client
    twin = KazooClient(hosts=",".join(f"{h}:{p}" for h, p in mine.hosts), client_id=mine.client_id)
    twin.start(PATIENCE_S)
    twin.stop()


def test_a_client_without_an_ensemble_that_answers_says_so_soon() -> None:
    where = f"127.0.0.1:{free_ports(1)}/raftlog"
    settings = ClientSettings(zookeeper=where, refused_timeout_s=0.3, try_timeout_s=0.3)
    with raftlog.connect(settings=settings) as client:
        with pytest.raises(ZooKeeperUnavailable, match=r"client\.zookeeper") as refused:
            client.list_topics()
        assert where in str(refused.value)


def test_a_path_without_a_cluster_is_named(where: str) -> None:
    settings = ClientSettings(zookeeper=where, refused_timeout_s=0.3, **PATIENT)
    with (
        raftlog.connect(settings=settings) as client,
        pytest.raises(ZooKeeperUnavailable, match="no cluster has this path"),
    ):
        client.list_topics()


# ---------------------------------------------------------------- founding


def a_founder(node: int) -> Founder:
    return Founder(
        node=NodeId(node), address=f"127.0.0.1:{7400 + node}", store_uuid=uuid.uuid4().hex
    )


def all_found(
    where: str, founders: Sequence[Founder], nodes: int, timeout_s: float = PATIENCE_S
) -> list[ClusterEntry | RaftlogError]:
    """What comes of it if all found a cluster at the same moment."""
    settings = DiscoverySettings(zookeeper=where)

    def one(founder: Founder) -> ClusterEntry | RaftlogError:
        try:
            return found(settings, founder, nodes=nodes, timeout_s=timeout_s)
        except RaftlogError as error:
            return error

    with ThreadPoolExecutor(len(founders)) as threads:
        return list(threads.map(one, founders))


def test_nodes_that_found_at_once_found_exactly_one_cluster(ensemble: EnsembleProcesses) -> None:
    for number in range(10):
        where = f"{ensemble.hosts}/rounds/{uuid.uuid4().hex}"
        founders = [a_founder(node) for node in (1, 2, 3, 4, 5)]
        came = all_found(where, founders, nodes=3 if number % 2 else 5)
        clusters = [each for each in came if isinstance(each, ClusterEntry)]
        assert len({each.cluster_id for each in clusters}) == 1, came
        cluster = clusters[0]
        assert cluster.cluster_id == cluster_id_of(cluster.founding)
        assert len(cluster.founders) == len(clusters) == (3 if number % 2 else 5)
        for founder, outcome in zip(founders, came, strict=True):
            if founder in cluster.founding:
                assert outcome == cluster
            else:
                assert "founded without this folder" in str(outcome)


def test_a_founder_that_was_ended_goes_on_and_a_wiped_one_does_not(where: str) -> None:
    settings = DiscoverySettings(zookeeper=where)
    first = a_founder(1)
    with pytest.raises(DeadlineExceeded, match=r"1 of 2 nodes stand ready: \[1\]"):
        found(settings, first, nodes=2, timeout_s=2.0)
    other, cluster = all_found(where, [a_founder(2), first], nodes=2)
    assert other == cluster
    assert found(settings, first, nodes=2, timeout_s=PATIENCE_S) == cluster
    wiped = replace(first, store_uuid=uuid.uuid4().hex)
    with pytest.raises(InvalidOption, match="founded without this folder as node 1"):
        found(settings, wiped, nodes=2, timeout_s=PATIENCE_S)
    moved = replace(first, address="127.0.0.1:1")
    with pytest.raises(InvalidOption, match="founded without this folder as node 1"):
        found(settings, moved, nodes=2, timeout_s=PATIENCE_S)


@contextmanager
def standing_ready(where: str, founder: Founder, nodes: int) -> Iterator[None]:
    """As long as this lasts, the founder of another folder stands ready."""
    with zookeeper(where) as client:
        wanted = Candidate(founder=FounderEntry.of(founder), nodes=nodes).encode()
        client.create(f"/founding/{founder.node}", wanted, ephemeral=True, makepath=True)
        yield


def test_founders_that_contradict_one_another_found_nothing(where: str) -> None:
    settings = DiscoverySettings(zookeeper=where)
    with (
        standing_ready(where, a_founder(1), nodes=2),
        pytest.raises(DeadlineExceeded, match="another folder stands ready as node 1"),
    ):
        found(settings, a_founder(1), nodes=2, timeout_s=2.0)
    same = replace(a_founder(2), address=a_founder(3).address)
    with (
        standing_ready(where, same, nodes=3),
        pytest.raises(InvalidOption, match="--address"),
    ):
        found(settings, a_founder(3), nodes=3, timeout_s=PATIENCE_S)
    with (
        standing_ready(where, a_founder(4), nodes=5),
        pytest.raises(InvalidOption, match="--nodes"),
    ):
        found(settings, a_founder(5), nodes=2, timeout_s=PATIENCE_S)
    assert directory(where).cluster is None


def test_a_founding_outlives_the_loss_of_a_server(where: str, ensemble: EnsembleProcesses) -> None:
    with ThreadPoolExecutor(2) as threads, zookeeper(where) as watching:
        waiting = threads.submit(all_found, where, [a_founder(1), a_founder(2)], nodes=3)
        wait_for(
            lambda: (
                len(watching.retry(watching.get_children, "/founding")) == 2
                if watching.exists("/founding")
                else False
            ),
            "two nodes to stand ready",
            PATIENCE_S,
        )
        for number in (1, 2, 3):  # whichever they are connected to
            ensemble.kill(number)
            ensemble.start(number)
            ensemble.wait_serving(number)
        third = threads.submit(all_found, where, [a_founder(3)], nodes=3)
        came = [*waiting.result(PATIENCE_S), *third.result(PATIENCE_S)]
        assert all(each == came[0] for each in came), came
        assert isinstance(came[0], ClusterEntry)


def test_machines_told_to_init_at_once_become_one_cluster(tmp_path: Path, where: str) -> None:
    port = free_ports(3)
    flags = ["--set", f"discovery.zookeeper={where}"]

    def init(node: int) -> subprocess.CompletedProcess[str]:
        return command(
            *flags, "init", "--node", str(node), "--address", f"127.0.0.1:{port + node - 1}",
            "--data", str(tmp_path / f"machine-{node}"),
        )  # fmt: skip

    with ThreadPoolExecutor(3) as threads:
        came = list(threads.map(init, (1, 2, 3)))
    assert [each.returncode for each in came] == [0, 0, 0], came
    ids = {cluster_folder.open_folder(tmp_path / f"machine-{n}").cluster_id for n in (1, 2, 3)}
    assert len(ids) == 1
    again = init(1)
    assert again.returncode == 0
    assert "nothing is founded" in again.stderr + again.stdout
    with ExitStack() as stack:
        for node in (1, 2, 3):
            stack.enter_context(served(tmp_path / f"machine-{node}", node, flags))
        wait_nodes(where, 1, 2, 3)
        with raftlog.connect(zookeeper=where) as client:
            assert {client.cluster_id()} == ids
            client.create_topic("t", "a INT")
            with client.producer("t") as producer:
                producer.append([{"a": 1}])
            assert values(client, "t") == [1]
        late = command(
            *flags, "init", "--node", "1", "--address", f"127.0.0.1:{port}",
            "--data", str(tmp_path / "wiped"),
        )  # fmt: skip
        assert late.returncode == int(ExitCode.USAGE)
        assert "founded without this folder" in late.stderr
        empty = command(*flags, "serve", "--node", "1", "--data", str(tmp_path / "wiped"))
        assert empty.returncode == int(ExitCode.USAGE)
        assert "of a cluster that is not founded yet" in empty.stderr
