"""Three servers of etcd or of NATS JetStream on this machine, as peers of three raftlog nodes.

Their programs are on the PATH, or `scripts/peers.sh` has fetched them into `build/peers`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from raftlog.chaos.cluster import free_ports, signals_deferred, wait_for
from tests.bench.trees import ROOT

FOLDER = ROOT / "build" / "peers"
FETCH = "scripts/peers.sh fetches it"

_NODES = 3
_START_S = 60.0
_END_S = 30.0
_QUOTA_BYTES = 8 << 30
_REQUEST_BYTES_MAX = 4 << 20
_REVISIONS_KEPT = 1000


class NoPeer(Exception):
    """A program is not installed; the message says which, and what fetches it."""


def etcd_program() -> Path:
    """Raises `NoPeer`."""
    return _program("etcd", FOLDER / "etcd")


def nats_program() -> Path:
    """Raises `NoPeer`."""
    return _program("nats-server", FOLDER / "nats-server")


def go_client() -> Path:
    """JetStream's client in Go. Raises `NoPeer`."""
    return _program("natsb", FOLDER / "natsb")


def need_nats_py() -> None:
    """Raises `NoPeer`."""
    if find_spec("nats") is None:
        raise NoPeer("nats-py is not installed: it is among the packages of requirements.lock")


def version_of(program: Path) -> str:
    """What the program prints as its version."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def _program(name: str, fetched: Path) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    if fetched.exists():
        return fetched
    raise NoPeer(f"{name} is not installed: {FETCH}")


@contextmanager
def etcd_members(program: Path, folder: Path) -> Iterator[tuple[str, dict[int, int]]]:
    """Three members; gives their addresses and processes, by numbers from 1."""
    port = free_ports(2 * _NODES)
    clients = [f"127.0.0.1:{port + number}" for number in range(_NODES)]
    peers = [f"http://127.0.0.1:{port + _NODES + number}" for number in range(_NODES)]
    listed = ",".join(f"{number}={peer}" for number, peer in enumerate(peers, 1))

    def command(number: int) -> list[str]:
        client, peer = f"http://{clients[number - 1]}", peers[number - 1]
        return [
            str(program), "--name", f"{number}", "--data-dir", str(folder / f"{number}"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", listed, "--initial-cluster-state", "new",
            "--quota-backend-bytes", f"{_QUOTA_BYTES}", "--logger", "zap", "--log-level", "warn",
            "--max-request-bytes", f"{_REQUEST_BYTES_MAX}",
            "--auto-compaction-mode", "revision",
            "--auto-compaction-retention", f"{_REVISIONS_KEPT}",
        ]  # fmt: skip

    with _started(command, clients, folder) as pids:
        yield ",".join(clients), pids


@contextmanager
def nats_servers(program: Path, folder: Path) -> Iterator[tuple[str, dict[int, int]]]:
    """Three servers that sync each message; gives their addresses and processes, as above."""
    port = free_ports(2 * _NODES)
    clients = [f"127.0.0.1:{port + number}" for number in range(_NODES)]
    routes = [f"127.0.0.1:{port + _NODES + number}" for number in range(_NODES)]
    listed = ", ".join(f"nats-route://{route}" for route in routes)

    def command(number: int) -> list[str]:
        settings = folder / f"{number}.conf"
        settings.write_text(
            f"server_name: n{number}\n"
            f"listen: {clients[number - 1]}\n"
            "max_payload: 8MB\n"
            f'jetstream {{ store_dir: "{folder / str(number)}", max_file: 20GB, '
            "sync_interval: always }\n"
            f"cluster {{ name: peers, listen: {routes[number - 1]}, routes: [{listed}] }}\n"
        )
        return [str(program), "-c", str(settings)]

    with _started(command, clients, folder) as pids:
        yield ",".join(clients), pids


@contextmanager
def _started(
    command: Callable[[int], list[str]], addresses: Sequence[str], folder: Path
) -> Iterator[dict[int, int]]:
    """The processes of the numbered servers, which end with the context."""
    folder.mkdir(mode=0o700)
    with ExitStack() as running:
        pids = {}
        for number in range(1, _NODES + 1):
            # A signal between the start and the callback would leave the process behind.
            with signals_deferred(), (folder / f"{number}.log").open("wb") as log:
                server = subprocess.Popen(
                    command(number), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
                running.callback(_end, server)
            pids[number] = server.pid
        for address in addresses:
            wait_for(lambda address=address: _listens(address), f"{address} to listen", _START_S)
        yield pids


def _end(server: subprocess.Popen[bytes]) -> None:
    # What it has written is thrown away, so it need not stop in order.
    server.kill()
    server.wait(_END_S)


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
