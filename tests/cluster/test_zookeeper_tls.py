"""TLS to a real ZooKeeper server, with a certificate that must be trusted and name the host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from raftlog.chaos.ensemble import EnsembleProcesses, java
from raftlog.config import ClientSettings
from raftlog.config_ensemble import DiscoverySettings
from raftlog.discovery.announcer import Announcer
from raftlog.discovery.directory import look_up
from raftlog.discovery.entries import ClusterEntry, FounderEntry, NodeEntry
from raftlog.errors import ZooKeeperUnavailable

SECRET = "correct-horse"


def a_certificate(store: Path) -> str:
    """The PEM file of a new one, which signed itself and names 127.0.0.1. Its key is in `store`."""
    pem = store.with_suffix(".pem")
    keytool = str(Path(java()).with_name("keytool"))
    to_store = ["-storepass", SECRET, "-keystore", str(store), "-alias", "zk"]
    make = ["-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12"]
    named = ["-dname", "CN=ZooKeeper", "-ext", "SAN=IP:127.0.0.1"]
    subprocess.run([keytool, *make, *to_store, *named], check=True, capture_output=True)
    export = ["-exportcert", "-rfc", "-file", str(pem)]
    subprocess.run([keytool, *export, *to_store], check=True, capture_output=True)
    return str(pem)


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(where, the file with its certificate): one server that also listens with TLS."""
    store, port = tmp_path / "server.p12", free_ports(4)
    certificate = a_certificate(store)
    extra = [
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={store}",
        f"ssl.keyStore.password={SECRET}",
        "ssl.clientAuth=none",
    ]
    with EnsembleProcesses(tmp_path, servers=1, port=port + 1, extra="\n".join(extra)):
        yield f"127.0.0.1:{port}/raftlog", certificate


def test_an_ensemble_is_reached_over_tls_and_only_if_its_certificate_is_trusted(
    encrypted: tuple[str, str], tmp_path: Path
) -> None:
    where, certificate = encrypted
    trusting = ClientSettings(zookeeper=where, zookeeper_ca_file=certificate)
    assert look_up(trusting, timeout_s=PATIENCE_S).cluster is None
    founder = FounderEntry(node=1, address="127.0.0.1:7401", store_uuid="s")
    announcer = Announcer(
        DiscoverySettings(zookeeper=where, zookeeper_ca_file=certificate),
        cluster=ClusterEntry(cluster_id="c", founders=(founder,)),
        node=NodeEntry(node=1, cluster_id="c", store_uuid="s", addresses=(founder.address,)),
        tell=lambda *_: None,
    )
    announcer.start()
    try:
        wait_for(
            lambda: bool(look_up(trusting, timeout_s=PATIENCE_S).nodes), "the entry", PATIENCE_S
        )
    finally:
        announcer.stop(PATIENCE_S)
    with pytest.raises(ZooKeeperUnavailable):
        look_up(ClientSettings(zookeeper=where), timeout_s=1.0)  # without TLS
    other = a_certificate(tmp_path / "other.p12")
    with pytest.raises(ZooKeeperUnavailable):
        look_up(ClientSettings(zookeeper=where, zookeeper_ca_file=other), timeout_s=1.0)
    named = where.replace("127.0.0.1", "localhost")  # the certificate names only the address
    with pytest.raises(ZooKeeperUnavailable):
        look_up(ClientSettings(zookeeper=named, zookeeper_ca_file=certificate), timeout_s=1.0)
