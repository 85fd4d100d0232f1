"""Who can write ZooKeeper, or answers in its place, harms no node and gets no token.

Others attack it too: `tests/cluster/test_zookeeper.py` forges entries in a real ensemble (nodes of
another cluster, a node's number at another address while it runs), `tests/discovery` sends answers
that no ensemble gives, and every value that no node writes.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import raftlog
from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.core.types import NodeId, Term
from raftlog.discovery.entries import ClusterEntry, FounderEntry, NodeEntry
from raftlog.errors import ExitCode, Unavailable
from raftlog.wire.calls import DESCRIBE_CLUSTER, ClusterDescription
from raftlog.wire.codec import encode_reply
from tests.cluster.closed import knows, made, started
from tests.cluster.test_foreign_addresses import answering
from tests.discovery.forged_ensemble import ForgedEnsemble, welcome
from tests.discovery.listening import Listening
from tests.fuzz.node_watch import GROWTH_BYTES_MAX, NodeWatch

SOON_S = 10.0
"""The deadline of a client that gets no sense out of its ensemble."""
SOON = {"request_timeout_s": SOON_S, "try_timeout_s": 2.0}
MESSAGE_CHARACTERS_MAX = 2_000
MIB = 1 << 20
NOWHERE = "127.0.0.1:1"
HOSTILE_TEXT = "\x1b[2J\x1b]0;owned\x07\r\nerror: all is well\n" + "x" * 100_000

pytestmark = pytest.mark.slow


@pytest.fixture
def forged() -> Iterator[ForgedEnsemble]:
    ensemble = ForgedEnsemble()
    yield ensemble
    ensemble.close()


def a_cluster(cluster_id: str) -> bytes:
    founder = FounderEntry(node=1, address=NOWHERE, store_uuid="s")
    return ClusterEntry(cluster_id=cluster_id, founders=(founder,)).encode()


def a_node(cluster_id: str, node: int, address: str) -> bytes:
    entry = NodeEntry(node=node, cluster_id=cluster_id, store_uuid="s", addresses=(address,))
    return entry.encode()


def leading_to(forged: ForgedEnsemble, cluster_id: str, *addresses: str) -> None:
    """Only to these."""
    numbers = range(1, len(addresses) + 1)
    entries = zip(numbers, addresses, strict=True)
    nodes = {f"nodes/{node}": a_node(cluster_id, node, address) for node, address in entries}
    forged.names = {"nodes": [str(node).encode() for node in numbers]}
    forged.data = {"cluster": a_cluster(cluster_id), **nodes}


def hurried(forged: ForgedEnsemble, **more: Any) -> ClientSettings:
    """A client that knows only the ensemble, and gives up as soon as that names no node."""
    given = {
        "refused_timeout_s": 0.5,
        "request_timeout_s": PATIENCE_S,
        "try_timeout_s": PATIENCE_S,
    } | more
    return ClientSettings(zookeeper=forged.where, **given)


def refusal(settings: ClientSettings) -> str:
    """What a client says that finds no cluster."""
    with connect(settings=settings) as client, pytest.raises(Unavailable) as refused:
        client.list_topics()
    return str(refused.value)


# ---------------------------------------------------------------- entries of all kinds

HONEST = range(1, 4)
LIES = {
    b"4": b"\0" * MIB,
    b"5": b"\xff" * 3 * MIB,
    b"6": b"",
    b"7": b"not JSON \x1b[2J",
    b"8": b"[" * 100_000,
    b"9": b'{"node": 9, "cluster_id": "\\u001b[2J", "store_uuid": "\\ud800", "addresses": []}',
    b"../../cluster": b"{}",
    b"..": b"{}",
    b"1/../2": b"{}",
    b"\x1b[2J": b"{}",
    b"10\n": b"{}",
    "\u0661".encode(): b"{}",
    b"x" * 10_000: b"{}",
}
"""Names and content."""
ADDRESSES = (
    "http://evil.example.com:80/",
    "unix:///run/docker.sock",
    "127.0.0.1:7401\n",
    "\x1b[2J:7401",
    "127.0.0.1:7401,evil.example.com:1",
    "a" * 100_000 + ":1",
    "user:password@127.0.0.1:7401",
)
"""What is no address of a node."""


def with_lies(cluster_id: str, nodes: dict[int, str]) -> dict[str, bytes]:
    """Entries by path: of true nodes, of such that nobody listens at, and all lies."""
    entries = {f"nodes/{node}": a_node(cluster_id, node, at) for node, at in nodes.items()}
    entries |= {f"nodes/{name.decode()}": content for name, content in LIES.items()}
    for number, address in enumerate(ADDRESSES, 20):
        honest = a_node(cluster_id, number, NOWHERE).decode()
        as_json = address.encode("unicode_escape").decode().replace("\\x", "\\u00")
        entries[f"nodes/{number}"] = honest.replace(NOWHERE, as_json).encode()
    for number in range(100, 150):
        entries[f"nodes/{number}"] = a_node(cluster_id, number, NOWHERE)
    return {"cluster": a_cluster(cluster_id), **entries}


def names_of(data: dict[str, bytes]) -> dict[str, list[bytes]]:
    """All of them and 10,000 more, which stand nowhere."""
    nodes = [path.removeprefix("nodes/").encode() for path in data if path.startswith("nodes/")]
    many = [str(number).encode() for number in range(10_000, 20_000)]
    return {"nodes": nodes + many, "leaders": many}


def test_a_client_finds_honest_nodes_among_forged_entries(
    shared: ProcessCluster, client: LogClient, forged: ForgedEnsemble
) -> None:
    data = with_lies(client.cluster_id(), {node: shared.address(node) for node in HONEST})
    forged.data, forged.names = data, names_of(data)
    with connect(settings=hurried(forged)) as newcomer:
        assert newcomer.cluster_id() == client.cluster_id()
        assert len(newcomer.describe_cluster()) == len(HONEST)
    assert not [path for path in forged.asked if ".." in path or "\x1b" in path], "it is a number"


def test_forged_entries_alone_are_named_in_short_and_without_their_bytes(
    forged: ForgedEnsemble,
) -> None:
    data = with_lies("c", {})
    forged.data, forged.names = data, names_of(data)
    said = refusal(hurried(forged))
    assert f"ZooKeeper at {forged.where}" in said
    assert "nodes/4: it has 1048576 bytes" in said
    assert said.isprintable()
    assert len(said) < MESSAGE_CHARACTERS_MAX


@pytest.mark.parametrize("names", [[b"\xff\xfe"], [b"1"] * 2_000_000], ids=["no text", "endless"])
def test_names_that_no_ensemble_has_are_an_error_in_time(
    forged: ForgedEnsemble, names: list[bytes]
) -> None:
    forged.data, forged.names = {"cluster": a_cluster("c")}, {"nodes": names}
    said = refusal(hurried(forged, **SOON))
    assert f"ZooKeeper at {forged.where}" in said
    assert said.isprintable()


def test_what_an_impostor_says_of_itself_is_no_command_to_a_terminal(
    forged: ForgedEnsemble,
) -> None:
    description = ClusterDescription(
        cluster_id=HOSTILE_TEXT[:64],  # a longer one is not read at all
        node=NodeId(1),
        store_uuid="s",
        leader=NodeId(1),
        term=Term(1),
        nodes=(),
        version=HOSTILE_TEXT[:249],
        registered=True,
        disk_keeps_up=True,
        disk_full="",
        rules=1,
        rules_known=1,
        behind_rules=(),
    )
    address = f"127.0.0.1:{free_ports(1)}"
    leading_to(forged, "c", address)
    with answering(address, encode_reply(DESCRIBE_CLUSTER, description)):
        said = refusal(hurried(forged))
        assert f"what answers at {address} is of the cluster" in said
        assert said.isprintable()
        assert len(said) < MESSAGE_CHARACTERS_MAX
        ended = subprocess.run(
            [sys.executable, "-m", "raftlog", "--zookeeper", forged.where, "topic", "list"],
            env=os.environ | {"RAFTLOG_CLIENT__REFUSED_TIMEOUT_S": "0.5"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == ExitCode.UNAVAILABLE
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "\nerror: all is well" not in ended.stderr


# ---------------------------------------------------------------- an impostor of a closed cluster


class Impostor(Listening):
    """Listens with a certificate, and keeps every byte that somebody sends to it."""

    def __init__(self, cert: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._context.set_alpn_protocols(["h2"])
        self.refused = self.accepted = 0
        self.heard = b""
        super().__init__(self._listen)

    def _listen(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        try:
            encrypted = self._context.wrap_socket(connection, server_side=True)
            encrypted.sendall(struct.pack("!I", 0)[1:] + b"\x04\0\0\0\0\0")  # HTTP/2's settings
            while part := encrypted.recv(65536):
                self.accepted += 1
                self.heard += part
        except OSError:
            self.refused += 1


@contextmanager
def impostor(files: Path) -> Iterator[Impostor]:
    """With the certificate of node 1 in the folder."""
    found = Impostor(files / "node-1.pem", files / "node-1.key")
    try:
        yield found
    finally:
        found.close()


def test_an_impostor_of_a_closed_cluster_is_refused_and_gets_no_token(
    tmp_path: Path, forged: ForgedEnsemble
) -> None:
    """With another CA's certificate, and with one of the cluster's CA for another host. A node
    with the right one gets the token, by the same way."""
    tokens_file = tmp_path / "tokens.json"
    with started(tmp_path, tokens_file) as cluster:
        token = made(tokens_file, "etl")
        (tmp_path / "token").write_text(token)
        tls = cluster.data / "tls"
        given = {"tls_ca_file": str(tls / "ca.pem"), "token": f"file:{tmp_path / 'token'}"}
        with cluster_client(cluster, given) as known:
            wait_for(
                lambda: knows(known, "token:etl"), "the nodes to take the token up", PATIENCE_S
            )
            cluster_id = known.cluster_id()
        other, elsewhere = tmp_path / "other", tmp_path / "elsewhere"
        make_certificates(other, cluster_id=cluster_id, hosts={1: "127.0.0.1"}, days=1)
        elsewhere.mkdir()
        for name in ("ca.pem", "ca.key"):
            shutil.copy(tls / name, elsewhere)
        make_certificates(elsewhere, cluster_id=cluster_id, hosts={1: "192.0.2.7"}, days=1)
        for files, reason in ((other, "not signed by a CA"), (elsewhere, "names other hosts")):
            with impostor(files) as false:
                leading_to(forged, cluster_id, false.address)
                assert reason in refusal(hurried(forged, **given))
                assert (false.refused > 0, false.accepted, false.heard) == (True, 0, b"")
                leading_to(forged, cluster_id, false.address, cluster.address(2))
                with connect(settings=hurried(forged, **given)) as newcomer:
                    assert newcomer.cluster_id() == cluster_id
                assert false.heard == b""
        with impostor(tls) as true:  # whoever has a node's key is that node
            leading_to(forged, cluster_id, true.address)
            refusal(hurried(forged, **given, **SOON))
            assert true.accepted > 0


def cluster_client(cluster: ProcessCluster, given: dict[str, str]) -> LogClient:
    """One that knows the nodes."""
    return connect(settings=ClientSettings(bootstrap_servers=cluster.servers, **given))


# ---------------------------------------------------------------- what is no ensemble at all


def closes(_: socket.socket) -> None:
    """At once."""


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def sends_noise(connection: socket.socket) -> None:
    connection.sendall(os.urandom(100_000))


def speaks_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def floods(connection: socket.socket) -> None:
    connection.sendall(struct.pack("!i", 2**31 - 1))
    while True:
        connection.sendall(bytes(MIB))


def welcomes_and_floods(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(welcome())
    floods(connection)


def welcomes_and_closes(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(welcome(session_ms=1))


def welcomes_for_ever(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(welcome(session_ms=2**31 - 1))
    says_nothing(connection)


NO_ENSEMBLES = (
    closes,
    says_nothing,
    sends_noise,
    speaks_http,
    floods,
    welcomes_and_floods,
    welcomes_and_closes,
    welcomes_for_ever,
)


def test_a_node_serves_on_whatever_answers_at_its_ensemble_s_address(
    tmp_path: Path, forged: ForgedEnsemble
) -> None:
    settings = [
        f"discovery.zookeeper={forged.where}",
        "discovery.zookeeper_session_timeout_s=1",
    ]
    forged.talk = closes
    with (
        ProcessCluster.start(tmp_path / "data", nodes=1, settings=settings) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("watched", "id bigint, text string")
        watch = NodeWatch(cluster, client, topic)
        for _ in range(50):
            watch.serves()
        watch.begin()
        small_bytes = watch.rss_bytes() + GROWTH_BYTES_MAX
        for talk in NO_ENSEMBLES:
            before = forged.connections
            forged.become(talk)

            def is_left(before: int = before) -> bool:
                assert watch.rss_bytes() < small_bytes
                return forged.connections >= before + 2

            wait_for(is_left, f"the node to come, and again, to what {talk.__name__}", PATIENCE_S)
            watch.serves()
        data = with_lies(client.cluster_id(), {1: cluster.address(1)})
        forged.data, forged.names = data | {"cluster": bytes(3 * MIB)}, names_of(data)
        forged.asked.clear()
        forged.become(forged.answer)
        wait_for(lambda: "cluster" in forged.asked, "the node to read the entries", PATIENCE_S)
        watch.serves()
        forged.data = data
        wait_for(lambda: "leaders" in forged.asked, "the node to list the leaders", PATIENCE_S)
        with raftlog.connect(zookeeper=forged.where) as newcomer:
            assert newcomer.cluster_id() == client.cluster_id()
        watch.end()


def test_a_client_s_error_names_the_ensemble_in_time(forged: ForgedEnsemble) -> None:
    for talk in NO_ENSEMBLES:
        forged.become(talk)
        assert forged.where in refusal(hurried(forged, request_timeout_s=2.0, try_timeout_s=2.0)), (
            talk.__name__
        )


def test_an_ensemble_that_answers_slowly_for_ever_is_left_in_time(forged: ForgedEnsemble) -> None:
    leading_to(forged, "c", *[NOWHERE] * 1000)
    forged.pause_s = 0.1
    assert forged.where in refusal(hurried(forged, **SOON))
