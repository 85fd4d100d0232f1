"""Real nodes with TLS: who is let in, as whom, and certificates that are replaced under load."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.cli.cluster_folder import open_folder
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.config_tls import PemFiles
from raftlog.core.types import FORMAT_STAMP
from raftlog.errors import NodeUnreachable, PeerUnproven, RaftlogError
from raftlog.tls import Certificates, open_channel
from raftlog.transport.link import STREAM_METHOD
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, encode_hello
from raftlog.wire.peer_greetings import PeerHello
from tests.fuzz.samples import registered_boot

NODES = 3
OFFSET = NODES
"""Nodes reach one another at the ports next to those for clients."""

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with encrypted(tmp_path / "data") as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One whose nodes and certificates no test changes."""
    with encrypted(tmp_path_factory.mktemp("unchanged") / "data") as found:
        yield found


def encrypted(data: Path, *settings: str) -> ProcessCluster:
    return ProcessCluster.start(
        data,
        nodes=NODES,
        port=free_ports(NODES + OFFSET),
        settings=[f"tls.peer_port_offset={OFFSET}", *settings],
        tls=True,
    )


def client(cluster: ProcessCluster, **files: Path | str) -> LogClient:
    """One that trusts and shows just these files."""
    settings = load().client.model_copy(
        update={"bootstrap_servers": cluster.servers, "request_timeout_s": PATIENCE_S}
        | {f"tls_{which}_file": str(file) for which, file in files.items()}
    )
    return connect(settings=settings)


def refusal(cluster: ProcessCluster, **files: Path | str) -> str:
    with client(cluster, **files) as stranger, pytest.raises(NodeUnreachable) as caught:
        stranger.list_topics()
    return caught.value.problem


def other_authority(cluster: ProcessCluster, folder: Path) -> Path:
    """Certificates with the very names of the cluster's, of another CA."""
    make_certificates(
        folder,
        cluster_id=open_folder(cluster.data).cluster_id,
        hosts=dict.fromkeys(range(1, NODES + 1), "127.0.0.1"),
        days=1,
    )
    return folder


def test_who_speaks_no_tls_or_trusts_another_authority_gets_nothing(
    unchanged: ProcessCluster, tmp_path: Path
) -> None:
    with unchanged.client() as known:
        known.create_topic("t", "id bigint")
        assert [each.name for each in known.list_topics()] == ["t"]
    assert "a node with TLS" in refusal(unchanged)
    other = other_authority(unchanged, tmp_path / "other")
    assert "not signed by a CA" in refusal(unchanged, ca=other / "ca.pem")


def test_nodes_may_want_a_certificate_of_clients(tmp_path: Path) -> None:
    with encrypted(
        tmp_path / "data", "tls.client_certificates=true", "auth.admins=cert:client"
    ) as cluster:
        tls = cluster.data / "tls"
        with cluster.client() as known:
            assert known.list_topics() == []
        assert "no certificate that it trusts" in refusal(cluster, ca=tls / "ca.pem")
        other = other_authority(cluster, tmp_path / "other")
        shown = {"cert": other / "client.pem", "key": other / "client.key"}
        assert "no certificate that it trusts" in refusal(cluster, ca=tls / "ca.pem", **shown)


# ---------------------------------------------------------------- between nodes


def says(cluster: ProcessCluster, node: int, text: str) -> None:
    """Wait until the node's log does."""
    log = cluster.logs[node]
    wait_for(lambda: text in log.read_text(), f"node {node} to say {text!r}", PATIENCE_S)


def said_as_node_2(cluster: ProcessCluster, port: int, files: PemFiles) -> RaftlogError | None:
    """What is answered to who greets as node 2; None: it is not let in at all."""
    identity = (cluster.data / "node-2" / "identity").read_text().partition("\n")[2]
    hello = PeerHello(
        format=FORMAT_STAMP,
        cluster_id=open_folder(cluster.data).cluster_id,
        node=2,
        store_uuid=json.loads(identity)["store_uuid"],
        boot_id="b",
        earlier_boot_ids=(registered_boot(cluster.logs[2]),),
        address=cluster.address(2),
    )
    pem = Certificates(files, PemFiles("ca", "cert", "key")).current()
    with open_channel(f"127.0.0.1:{port}", pem, ()) as channel:
        stream = channel.stream_stream(STREAM_METHOD)(
            iter([encode_hello(hello)]), timeout=PATIENCE_S
        )
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
    for key, value in caught.value.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY:
            return decode_error(value)
    return None


def test_who_cannot_prove_to_be_a_node_is_none(unchanged: ProcessCluster, tmp_path: Path) -> None:
    cluster = unchanged
    tls = cluster.data / "tls"
    ca, at, of_nodes = str(tls / "ca.pem"), cluster.port, cluster.port + OFFSET
    own = {
        stem: PemFiles(ca, str(tls / f"{stem}.pem"), str(tls / f"{stem}.key"))
        for stem in ("client", "node-2", "node-3")
    }
    error = said_as_node_2(cluster, of_nodes, own["client"])
    assert isinstance(error, PeerUnproven)
    assert "names no node" in error.cause
    error = said_as_node_2(cluster, of_nodes, own["node-3"])
    assert isinstance(error, PeerUnproven)
    assert "its own names node-3." in error.cause
    # Where clients are let in there is nothing for nodes.
    assert said_as_node_2(cluster, at, own["node-2"]) is None
    assert said_as_node_2(cluster, of_nodes, PemFiles(ca)) is None
    other = other_authority(cluster, tmp_path / "other")
    forged = PemFiles(ca, str(other / "node-2.pem"), str(other / "node-2.key"))
    assert said_as_node_2(cluster, of_nodes, forged) is None
    assert '"peer refused"' in cluster.logs[1].read_text()


def test_a_node_with_another_node_s_certificate_is_refused_and_both_sides_say_so(
    cluster: ProcessCluster,
) -> None:
    tls = cluster.data / "tls"
    with cluster.client() as known:
        known.create_topic("t", "id bigint")
        cluster.terminate(3)
        for end in ("pem", "key"):
            shutil.copy(tls / f"node-3.{end}", tls / f"kept.{end}")
            shutil.copy(tls / f"node-2.{end}", tls / f"node-3.{end}")
        cluster.serve(3)
        says(cluster, 1, "names node-2.")
        says(cluster, 3, "names node-2.")
        says(cluster, 1, "Hostname Verification")
        known.append("t", [{"id": 1}])
        for end in ("pem", "key"):
            (tls / f"kept.{end}").replace(tls / f"node-3.{end}")
        cluster.wait_caught_up(
            known, "t", timeout_s=PATIENCE_S
        )  # it takes up its own, and is let in


# ---------------------------------------------------------------- replaced


def shown_at(cluster: ProcessCluster, node: int) -> str:
    host, _, port = cluster.address(node).rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)


def ended_streams(cluster: ProcessCluster) -> int:
    return sum(log.read_text().count('"peer stream ended"') for log in cluster.logs.values())


def test_certificates_and_authorities_are_replaced_and_no_stream_ends(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    tls = cluster.data / "tls"
    other = other_authority(cluster, tmp_path / "other")
    with cluster.client() as known:
        known.create_topic("t", "id bigint")
        before, ended = shown_at(cluster, 1), ended_streams(cluster)
        # First all trust both, then show the new ones.
        both = (tls / "ca.pem").read_bytes() + (other / "ca.pem").read_bytes()
        _replace(tls / "ca.pem", both)
        for number in range(20):
            known.append("t", [{"id": number}])
        for node in range(1, NODES + 1):
            for end in ("key", "pem"):
                name = f"node-{node}.{end}"
                _replace(tls / name, (other / name).read_bytes())
        wait_for(lambda: shown_at(cluster, 1) != before, "another certificate", PATIENCE_S)
        for number in range(20, 40):
            known.append("t", [{"id": number}])
        assert ended_streams(cluster) == ended
    with client(cluster, ca=other / "ca.pem") as late:
        # A node that does not answer in time leaves the mark to a follower's, which lags.
        wait_for(lambda: late.watermark("t").high_water_mark == 40, "the mark of 40", PATIENCE_S)
    cluster.kill(2)
    cluster.serve(2)
    with cluster.client() as known:
        cluster.wait_caught_up(known, "t", timeout_s=PATIENCE_S)


def _replace(file: Path, content: bytes) -> None:
    draft = file.with_suffix(".draft")
    draft.write_bytes(content)
    draft.replace(file)


def test_a_certificate_that_is_over_is_refused(cluster: ProcessCluster) -> None:
    cluster.terminate(3)
    make_certificates(
        cluster.data / "tls",
        cluster_id=open_folder(cluster.data).cluster_id,
        hosts={3: "127.0.0.1"},
        days=0,
    )
    cluster.serve(3)
    says(cluster, 1, "certificate has expired")
