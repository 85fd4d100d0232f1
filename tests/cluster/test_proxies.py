"""Variables that name an HTTP proxy do not count; `client.proxy` does."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

import raftlog
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports
from raftlog.config import load
from raftlog.errors import InvalidOption, Unavailable

VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
EXCEPTIONS = ("no_proxy", "no_grpc_proxy")
TRY_S = 3.0


class ConnectProxy:
    """An HTTP proxy that knows CONNECT alone."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.asked: list[str] = []
        """The addresses to which it connected."""
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()
        return f"{host}:{port}"

    def _serve(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        method, address, _ = head.split(maxsplit=2)
        assert method == b"CONNECT"
        self.asked.append(address.decode())
        host, _, port = address.decode().rpartition(":")
        node = socket.create_connection((host, int(port)), PATIENCE_S)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=passed_on, args=(client, node), daemon=True).start()
        passed_on(node, client)


def passed_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def connect_proxy() -> Iterator[ConnectProxy]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield ConnectProxy(listening)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """Where nothing listens, and which all variables name."""
    address = f"127.0.0.1:{free_ports(1)}"
    for name in VARIABLES:
        monkeypatch.setenv(name, f"http://{address}")
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", address)
    monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "127.0.0.0/8")
    for name in EXCEPTIONS:
        monkeypatch.delenv(name, raising=False)
    return address


@pytest.mark.parametrize("tls", [False, True])
def test_no_variable_comes_between_nodes_or_clients(
    tmp_path: Path, nowhere: str, tls: bool
) -> None:
    with ProcessCluster.start(tmp_path / "data", tls=tls) as cluster, cluster.client() as client:
        client.create_topic("t", "id bigint")
        client.append("t", [{"id": 1}])
        cluster.wait_caught_up(client, "t")


def test_a_command_prints_nothing_of_grpcs(shared: ProcessCluster) -> None:
    """grpc writes an error to standard error for each channel whose proxy makes no sense."""
    words = [sys.executable, "-m", "raftlog", "--servers", shared.servers, "topic", "list"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert ended.stderr == ""


def test_a_client_goes_through_the_proxy_that_its_setting_names(
    shared: ProcessCluster, nowhere: str
) -> None:
    own = load().client.model_copy(
        update={"bootstrap_servers": shared.servers, "request_timeout_s": PATIENCE_S}
    )
    with connect_proxy() as proxy:
        settings = own.model_copy(update={"proxy": proxy.address})
        with raftlog.connect(settings=settings) as client:
            assert client.cluster_id()
        assert set(proxy.asked) <= set(shared.servers.split(","))
        assert proxy.asked
    lost = own.model_copy(update={"proxy": nowhere, "request_timeout_s": TRY_S})
    with raftlog.connect(settings=lost) as client, pytest.raises(Unavailable):
        client.cluster_id()


def test_what_is_no_proxy_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"client\.proxy"):
        load(flags=["client.proxy=http://proxy"])
    settings = load().client.model_copy(update={"proxy": "proxy"})
    with pytest.raises(InvalidOption, match=r"client\.proxy"), raftlog.connect(settings=settings):
        pass
