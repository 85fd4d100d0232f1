"""A cluster is found through a real ZooKeeper ensemble of three, and never depends on it.

All tests share one ensemble and each has a path of its own in it. A test that breaks the ensemble
leaves it whole.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import raftlog
from raftlog.chaos.cluster import ProcessCluster, free_ports, wait_for
from raftlog.chaos.ensemble import EnsembleProcesses
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.config_ensemble import DiscoverySettings
from raftlog.discovery.announcer import Announcement, Announcer
from raftlog.discovery.directory import Directory, look_up
from raftlog.discovery.entries import ClusterEntry, Founder, LeaderEntry, NodeEntry
from raftlog.errors import RaftlogError, ZooKeeperUnavailable

WAIT_S = 30.0
SESSION_S = 4.0
SECRET = "correct-horse"


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnsembleProcesses]:
    with EnsembleProcesses(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def where(ensemble: EnsembleProcesses) -> str:
    """A path of the test's own, two levels below the ensemble's root."""
    return f"{ensemble.hosts}/raftlog/{uuid.uuid4().hex[:8]}"


@contextmanager
def started(data: Path, where: str, *settings: str) -> Iterator[ProcessCluster]:
    """Three nodes that announce themselves."""
    flags = [f"discovery.zookeeper={where}", f"discovery.zookeeper_session_timeout_s={SESSION_S}"]
    with ProcessCluster.start(data, settings=[*flags, *settings]) as running:
        yield running


def directory(where: str) -> Directory:
    return look_up(ClientSettings(zookeeper=where), timeout_s=WAIT_S)


def wait_nodes(where: str, *nodes: int) -> None:
    wait_for(
        lambda: [entry.node for entry in directory(where).nodes] == list(nodes),
        f"the nodes {nodes} to be registered",
        WAIT_S,
    )


def leader_entry(where: str, group: int) -> LeaderEntry | None:
    return next((each for each in directory(where).leaders if each.group == group), None)


@contextmanager
def zookeeper(where: str) -> Iterator[KazooClient]:
    """A client with no rights, as anybody has one. Its paths begin at the cluster's."""
    hosts, _, path = where.partition("/")
    client = KazooClient(hosts=hosts)
    client.start(WAIT_S)
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
                while not self._end.is_set():
                    producer.append([{"a": self.written}])
                    producer.flush()
                    self.written += 1
        except RaftlogError as error:
            self.error = error

    def wait_more(self, rows: int) -> None:
        goal = self.written + rows
        wait_for(lambda: self.written >= goal or bool(self.error), f"{rows} rows", WAIT_S)
        assert self.error is None, str(self.error)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(WAIT_S)


def test_a_client_that_knows_only_the_ensemble_writes_and_reads(tmp_path: Path, where: str) -> None:
    with started(tmp_path / "data", where) as cluster:
        wait_nodes(where, 1, 2, 3)
        with raftlog.connect(zookeeper=where) as client:
            client.create_topic("t", "a INT")
            with client.producer("t") as producer:
                producer.append([{"a": number} for number in range(100)])
            assert values(client, "t") == list(range(100))
            found = directory(where)
            assert found.cluster is not None
            assert found.cluster.cluster_id == client.cluster_id()
            assert {each.addresses[0] for each in found.nodes} == set(cluster.servers.split(","))
        group = 1
        wait_for(lambda: leader_entry(where, group) is not None, "the topic's leader", WAIT_S)
        first = leader_entry(where, group)
        assert first is not None
        assert first.topic == "t"
        cluster.kill(first.node)
        wait_for(
            lambda: (now := leader_entry(where, group)) is not None and now.term > first.term,
            "the next leader to be published",
            WAIT_S,
        )
        others = [node for node in (1, 2, 3) if node != first.node]
        wait_nodes(where, *others)  # when the dead node's session has timed out
        cluster.serve(first.node)
        wait_nodes(where, 1, 2, 3)
        with raftlog.connect(zookeeper=where) as client:
            client.delete_topic("t")
        wait_for(lambda: leader_entry(where, group) is None, "the entry to be removed", WAIT_S)
        cluster.terminate(2)
        assert [entry.node for entry in directory(where).nodes] == [1, 3]


def test_with_the_ensemble_killed_or_paused_no_write_or_read_of_a_known_cluster_stops(
    tmp_path: Path, where: str, ensemble: EnsembleProcesses
) -> None:
    with started(tmp_path / "data", where) as cluster, raftlog.connect(zookeeper=where) as client:
        wait_nodes(where, 1, 2, 3)
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
                for number in (1, 2, 3):
                    ensemble.start(number)
            writing.wait_more(20)
        wait_nodes(where, 1, 2, 3)  # by kazoo's own reconnection, of all that lived through it
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
        for number in (1, 2, 3):
            ensemble.start(number)
        for number in (1, 2, 3):
            ensemble.wait_serving(number)


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


def test_forged_entries_stop_nothing_and_join_nothing(tmp_path: Path, where: str) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(started(tmp_path / "data", where))
        other = stack.enter_context(ProcessCluster.start(tmp_path / "other", nodes=1))
        client = stack.enter_context(raftlog.connect(zookeeper=where))
        client.create_topic("t", "a INT")
        wait_nodes(where, 1, 2, 3)
        wait_for(lambda: leader_entry(where, 1) is not None, "the topic's leader", WAIT_S)
        forger = stack.enter_context(zookeeper(where))
        known = directory(where)
        assert known.cluster is not None
        elsewhere = NodeEntry(
            node=9,
            cluster_id=known.cluster.cluster_id,
            store_uuid="f" * 32,
            addresses=(other.servers,),
        )
        forger.create("/nodes/9", elsewhere.encode())
        forger.create("/nodes/8", b"\xff" * 100_000)
        forger.create("/nodes/..%2f..", elsewhere.encode())
        forger.create("/leaders/99", b"{}")
        truth = leader_entry(where, 1)
        assert truth is not None
        lie = truth.model_copy(update={"address": other.servers, "term": 1_000})
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
        with other.client() as stranger:
            assert stranger.list_topics() == []
        told = {other.servers, *cluster.servers.split(",")}  # nobody removes node 9
        wait_for(
            lambda: set(directory(where).addresses()) == told,
            "the nodes to write the truth again",
            WAIT_S,
        )
        found = directory(where)
        assert [reason.partition(":")[0] for reason in found.passed_over] == [
            "nodes/8",
            "leaders/99",
        ]
        with raftlog.connect(zookeeper=where) as newcomer:
            assert newcomer.cluster_id() == known.cluster.cluster_id
            assert len(newcomer.describe_cluster()) == 3


def test_an_entry_of_another_cluster_alone_leads_a_client_nowhere(
    tmp_path: Path, where: str
) -> None:
    with (
        ProcessCluster.start(tmp_path / "other", nodes=1) as other,
        zookeeper(where) as forger,
    ):
        founder = Founder(node=1, address=other.servers, token="")
        forger.create(
            "/cluster", ClusterEntry(cluster_id="c", founders=(founder,)).encode(), makepath=True
        )
        node = NodeEntry(node=1, cluster_id="c", store_uuid="s", addresses=(other.servers,))
        forger.create("/nodes/1", node.encode(), makepath=True)
        settings = ClientSettings(zookeeper=where, refused_timeout_s=0.5)
        with (
            raftlog.connect(settings=settings) as client,
            pytest.raises(ZooKeeperUnavailable, match="is of the cluster"),
        ):
            client.create_topic("t", "a INT")
        with other.client() as stranger:
            assert stranger.list_topics() == []


def test_nodes_of_another_cluster_at_the_same_path_write_nothing(
    tmp_path: Path, where: str
) -> None:
    with started(tmp_path / "data", where):
        wait_nodes(where, 1, 2, 3)
        before = directory(where)
        said = announced(where, cluster_id="another", node=1)
        assert "is of cluster" in said
        assert directory(where) == before


def announced(where: str, *, cluster_id: str, node: int, leads: int = 0, secret: str = "") -> str:
    """What an announcer of such a node says in the end: a problem, or "" if it could write."""
    heard: list[str] = []
    settings = DiscoverySettings(zookeeper=where, zookeeper_credentials=secret)
    announcer = an_announcer(settings, cluster_id, node, lambda _, problem: heard.append(problem))
    announcer.announce(Announcement(leads={5: a_leader(cluster_id, node, leads)} if leads else {}))
    announcer.start()
    try:
        wait_for(lambda: bool(heard), "the announcer to say something", WAIT_S)
    finally:
        announcer.stop(WAIT_S)
    return heard[-1]


def an_announcer(settings: DiscoverySettings, cluster_id: str, node: int, tell) -> Announcer:
    address = f"127.0.0.1:{7400 + node}"
    founder = Founder(node=node, address=address, token="")
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
            WAIT_S,
        )
        wait_nodes(where, *terms)
        entry = leader_entry(where, 5)
        assert entry is not None
        assert entry.term == max(terms)
    finally:
        for announcer in announcers:
            announcer.stop(WAIT_S)


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
        wait_for(lambda: leader_entry(where, 5) is not None, "the leader's entry", WAIT_S)
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
        announcer.stop(WAIT_S)


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
                WAIT_S,
            )
    finally:
        announcer.stop(WAIT_S)


def end_session(announcer: Announcer) -> None:
    """End the session behind its owner's back, as the ensemble does when its time is over."""
    mine = announcer._client
    twin = KazooClient(hosts=",".join(f"{h}:{p}" for h, p in mine.hosts), client_id=mine.client_id)
    twin.start(WAIT_S)
    twin.stop()


def test_a_client_without_an_ensemble_that_answers_says_so_soon() -> None:
    where = f"127.0.0.1:{free_ports(1)}/raftlog"
    settings = ClientSettings(zookeeper=where, refused_timeout_s=0.3, try_timeout_s=0.3)
    with raftlog.connect(settings=settings) as client:
        with pytest.raises(ZooKeeperUnavailable, match="--zookeeper") as refused:
            client.list_topics()
        assert where in str(refused.value)


def test_a_path_without_a_cluster_is_named(where: str) -> None:
    settings = ClientSettings(zookeeper=where, refused_timeout_s=0.3)
    with (
        raftlog.connect(settings=settings) as client,
        pytest.raises(ZooKeeperUnavailable, match="no cluster has this path"),
    ):
        client.list_topics()
