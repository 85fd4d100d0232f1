"""The wires between the nodes of a cluster, through a process that proxies what they send."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.chaos.proxy import HOST, PASSING, Command, Wire
from raftlog.errors import Internal


class PeerLinks:
    """Proxies between all pairs of nodes. Use as a context manager; thread-safe within it."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        """`addresses` are those at which the nodes themselves listen, `host:port`."""
        self._addresses = dict(addresses)
        self._ports: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> PeerLinks:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "raftlog.chaos.proxy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self._ports = self._ask(json.dumps(self._addresses).encode() + b"\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE_S)

    @property
    def routes(self) -> str:
        """The value of `server.peer_routes` that routes every node through its proxies."""
        return ",".join(f"{a}>{b}={HOST}:{port}" for a, b, port in self._ports)

    def set(self, sender: int, receiver: int, wire: Wire) -> None:
        """Treat bytes from `sender` to `receiver` like this from now on, also those in flight."""
        self._ask(Command(sender=sender, receiver=receiver, wire=wire).encode())

    def reset(self, one: int, other: int) -> int:
        """Reset all connections between two nodes, at both ends. Returns how many there were."""
        count: int = self._ask(Command(sender=one, receiver=other, wire=None).encode())
        return count

    def heal(self) -> None:
        """Let all wires pass again."""
        for sender, receiver, _ in self._ports:
            self.set(sender, receiver, PASSING)

    def _ask(self, line: bytes) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(line)
            stdin.flush()
            answer = stdout.readline()
        if not answer:
            raise Internal(what=f"the proxies ended with code {self._process.wait()}")
        return json.loads(answer)
