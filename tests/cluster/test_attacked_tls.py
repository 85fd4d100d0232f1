"""A node's encrypted ports for clients and for nodes, attacked by hand before, in and after the
handshake: others are served, its memory stays, and nothing is let in."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.log_client import LogClient
from raftlog.wire.calls import ClusterDescription
from tests.cluster.doors import Door
from tests.fuzz.http2 import PREFACE, opening, request, stream_of_bytes
from tests.fuzz.inputs import numbered
from tests.fuzz.node_watch import NodeWatch
from tests.fuzz.samples import DDL, frames

WARM_UP = 200
PORTS = ("clients", "nodes")
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)
"""How a handshake begins (RFC 8446, section 4.1.2): 512 bytes are announced, 106 come."""
CONNECTION_BYTES = 96 * 1024
"""What a node may take for a connection of a stranger at a time."""
AT_A_TIME = 100
"""As many are open before the first ones are cut off, also on a busy machine."""
OLDER = ("1.0", "1.1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster.start(
        tmp_path_factory.mktemp("attacked") / "data",
        nodes=1,
        port=free_ports(2),
        settings=["tls.peer_port_offset=1"],
        tls=True,
    ) as running:
        yield running


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


def door(cluster: ProcessCluster, port: str) -> Door:
    """One of the node's ports, for who has a certificate of the cluster's CA."""
    tls = cluster.data / "tls"
    context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
    context.load_cert_chain(tls / "client.pem", tls / "client.key")
    context.set_alpn_protocols(["h2"])
    return Door(cluster.port + PORTS.index(port), context)


def watch_of(cluster: ProcessCluster, client: LogClient, name: str) -> NodeWatch:
    return NodeWatch(cluster, client, client.create_topic(name, DDL))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_bytes_that_are_no_protocol_do_no_harm_within_tls(
    cluster: ProcessCluster, client: LogClient, port: str, count: int
) -> None:
    """Broken frames, floods of headers, pings and resets, and messages that claim 4 GiB."""
    attacked = door(cluster, port)
    watch = watch_of(cluster, client, f"own-{port}-{count}")
    [(address, described)] = [  # an attack may have made others known
        (address, each)
        for address, each in client.describe_cluster()
        if isinstance(each, ClusterDescription)
    ]
    topic = client.create_topic(f"target-{port}-{count}", DDL)
    good = frames(topic, topic, described.store_uuid, address)
    for one in numbered(f"{port} warm-up", WARM_UP):
        attacked.say(stream_of_bytes(good, one.random), one.random)
    watch.begin()
    for one in numbered(port, count):
        attacked.say(stream_of_bytes(good, one.random), one.random)
    watch.end()
    assert [each.name for each in client.list_topics()].count(topic.name) == 1


@pytest.mark.parametrize("port", PORTS)
def test_a_path_that_is_no_text_does_not_end_the_service_within_tls(
    cluster: ProcessCluster, client: LogClient, port: str
) -> None:
    """grpc's own loop ends: another server takes its place, with the same certificates."""
    watch = watch_of(cluster, client, f"path-{port}")
    for _ in range(2):
        with door(cluster, port).enter() as sent:
            sent.sendall(request("ListTopics", b"", path=b"\xff"))
            watch.serves()


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    "said", [pytest.param(PREFACE, id="HTTP/2"), pytest.param(opening() * 20, id="much of it")]
)
def test_plain_text_is_answered_by_nothing(
    cluster: ProcessCluster, client: LogClient, port: str, said: bytes
) -> None:
    with door(cluster, port).knock() as plain:
        plain.settimeout(PATIENCE_S)
        plain.sendall(said)
        answered = b""
        with suppress(ConnectionError):
            while part := plain.recv(65_536):
                answered += part
    assert b"\0\0\0\4" not in answered, "settings of HTTP/2"
    assert len(answered) <= 7, "more than an alert of TLS"
    assert client.list_topics() is not None


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("version", OLDER)
def test_older_versions_of_tls_are_refused(
    cluster: ProcessCluster, port: str, version: str
) -> None:
    offered = {"1.0": ssl.TLSVersion.TLSv1, "1.1": ssl.TLSVersion.TLSv1_1}[version]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")  # without which this side would not offer them
    tls = cluster.data / "tls"
    context.load_cert_chain(tls / "client.pem", tls / "client.key")
    attacked = door(cluster, port)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with attacked.knock() as plain, context.wrap_socket(plain) as greeted:
        assert greeted.version() == "TLSv1.2", "this side could"
    with pytest.deprecated_call():
        context.minimum_version = context.maximum_version = offered
    with attacked.knock() as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain)


@pytest.mark.parametrize("port", PORTS)
def test_a_handshake_is_not_begun_anew(
    cluster: ProcessCluster, client: LogClient, port: str
) -> None:
    """Renegotiation of TLS 1.2 (RFC 5746) costs a server far more than who asks for it."""
    tls = cluster.data / "tls"
    attacked = door(cluster, port)
    command = [
        "openssl", "s_client", "-connect", f"127.0.0.1:{attacked.port}", "-tls1_2", "-alpn", "h2",
        "-CAfile", str(tls / "ca.pem"),
        "-cert", str(tls / "client.pem"), "-key", str(tls / "client.key"),
    ]  # fmt: skip
    with attacked.enter():
        pass
    said = subprocess.run(command, input=b"R\n", capture_output=True, timeout=PATIENCE_S)
    text = (said.stdout + said.stderr).decode(errors="replace")
    assert "Protocol  : TLSv1.2" in text or "Protocol: TLSv1.2" in text, text
    assert "RENEGOTIATING" in text, text
    assert "no renegotiation" in text or "unexpected message" in text or said.returncode != 0, text
    watch_of(cluster, client, f"anew-{port}").serves()


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("greeted", [False, True], ids=["no handshake", "no answer to pings"])
def test_connections_that_prove_nothing_are_cut_off_and_delay_nobody(
    cluster: ProcessCluster, client: LogClient, port: str, greeted: bool, count: int
) -> None:
    """Those without a handshake are silent, or say half a hello."""
    attacked = door(cluster, port)
    watch = watch_of(cluster, client, f"slow-{port}-{greeted}-{count}")
    said = [opening()] if greeted else [b"", HALF_A_HELLO]
    watch.begin()
    before = watch.open_files()
    with ExitStack() as opened:
        for number in range(count):
            connection = opened.enter_context(attacked.enter() if greeted else attacked.knock())
            with suppress(ConnectionError):  # over `server.connections_max`
                connection.sendall(said[number % len(said)])
        held = watch.open_files() - before
        assert held > AT_A_TIME, "they are open at the same time"
        wait_for(
            lambda: watch.serves() is None and watch.open_files() <= before,
            "the node to cut them off",
            PATIENCE_S,
        )
    watch.end(held * CONNECTION_BYTES)
