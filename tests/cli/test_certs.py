"""`raftlog certs`, and how nodes come by the certificates of their folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli import cluster_folder
from raftlog.cli.certs import make_in
from raftlog.config import load, tls_files
from raftlog.config_tls import PemFiles
from raftlog.errors import ExitCode
from raftlog.storage.posix import PosixFileSystem
from tests import stores
from tests.cli.command import Finished, run
from tests.stores import recorded

Command = Callable[..., Finished]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return lambda *words: run(monkeypatch, capsys, *map(str, words))


@pytest.fixture
def cluster(tmp_path: Path) -> cluster_folder.ClusterFolder:
    addresses = {1: "127.0.0.1:7401", 2: "node2.example.com:7401"}
    return recorded(tmp_path / "c", addresses)


def test_it_makes_one_for_each_node_and_one_for_clients(
    command: Command, cluster: cluster_folder.ClusterFolder
) -> None:
    given = ("--node", "5=[::1]", "--node", "2=10.0.0.2", "--days", "9", "-o", "json")
    finished = command("certs", "--data", cluster.folder, *given)
    assert finished.code == ExitCode.OK
    answer = json.loads(finished.out)
    assert answer["ca"] == str(cluster.tls / "ca.pem")
    names = {Path(each["file"]).name: each["names"] for each in answer["certificates"]}
    of_nodes = {node: f"node-{node}.{cluster.cluster_id}.raftlog.internal" for node in (1, 2, 5)}
    assert names == {
        "node-1.pem": [of_nodes[1], "127.0.0.1", "localhost"],
        "node-2.pem": [of_nodes[2], "10.0.0.2"],
        "node-5.pem": [of_nodes[5], "::1", "localhost", "127.0.0.1"],
        "client.pem": [],
    }
    table = command("certs", "--data", cluster.folder)
    assert table.out.splitlines()[0].split() == ["FILE", "NAMES", "ENDS"]
    assert "PRIVATE" not in table.out + finished.out


@pytest.mark.parametrize("node", ["5", "=host", "x=host", "0=host", "5=", "5=a b", "5=host:7401"])
def test_what_is_no_node_and_host_is_refused_and_nothing_is_made(
    command: Command, cluster: cluster_folder.ClusterFolder, node: str
) -> None:
    finished = command("certs", "--data", cluster.folder, "--node", node)
    assert finished.code == ExitCode.USAGE
    assert "4=node4.example.com" in finished.err
    assert not cluster.tls.exists()


def test_a_folder_without_a_cluster_has_no_names_to_certify(
    command: Command, tmp_path: Path
) -> None:
    finished = command("certs", "--data", tmp_path)
    assert finished.code == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def test_nodes_and_up_use_what_is_in_their_folder_unless_told_otherwise(
    cluster: cluster_folder.ClusterFolder,
) -> None:
    assert cluster.with_certificates(load()) == load()
    make_in(cluster, {})
    found = cluster.with_certificates(load())
    ca, own, key = (str(cluster.tls / name) for name in ("ca.pem", "node-2.pem", "node-2.key"))
    assert found.tls.files_of(2) == PemFiles(ca, own, key)
    shown = (str(cluster.tls / f"client.{end}") for end in ("pem", "key"))
    assert tls_files(found.client) == PemFiles(ca, *shown)
    told = load(
        flags=["tls.cert_file=a", "tls.key_file=b", "tls.ca_file=c", "client.tls_ca_file=d"]
    )
    assert cluster.with_certificates(told) == told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "option"),
    [
        (["tls.client_certificates=true"], "auth.admins"),
        (["auth.admins=ada"], "auth.admins"),
        (["tls.client_certificates=true", "auth.admins=cert:ada"], "tls.client_certificates"),
        (["tls.cert_file=/no", "tls.key_file=/no", "tls.ca_file=/no"], "tls.ca_file"),
        (["tls.peer_port_offset=60000"], "tls.peer_port_offset"),
    ],
)
def test_a_node_that_cannot_do_as_it_is_told_does_not_serve(
    tmp_path: Path, flags: list[str], option: str
) -> None:
    made = recorded(tmp_path / "c", {1: "127.0.0.1:7401"})
    stores.made(PosixFileSystem(made.data(1)), 1, (1,))
    if option == "tls.peer_port_offset":
        make_in(made, {})
    words = ["serve", "--node", "1", "--data", str(made.folder)]
    finished = subprocess.run(
        [sys.executable, "-m", "raftlog", *(f"--set={flag}" for flag in flags), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert finished.returncode == ExitCode.USAGE
    assert f"Option {option!r}" in finished.stderr
    assert "Traceback" not in finished.stderr
