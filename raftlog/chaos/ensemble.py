"""A small ZooKeeper ensemble of real processes on this machine, to be broken on purpose.

    python -m raftlog.chaos.ensemble --folder DIR

runs one until its input ends or SIGTERM. As soon as it answers, it prints how to reach it. A line
`kill` ends all its servers at once, a line `start` starts them again; each is repeated when it is
done. It needs Java and ZooKeeper's jar: Debian's package libzookeeper-java, or ZOOKEEPER_CLASSPATH.
It signals only processes that it started, by their ids.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from raftlog.chaos.cluster import PATIENCE_S, free_ports, signals_deferred, wait_for
from raftlog.errors import InvalidOption

SERVERS = 3
CLASSPATH_VARIABLE = "ZOOKEEPER_CLASSPATH"
_JARS = tuple(
    Path("/usr/share/java", f"{name}.jar")
    for name in ("zookeeper", "slf4j-simple", "netty-codec", "netty-resolver")
)
"""The first names what else it needs, but not where it logs, nor all that TLS needs."""
_TICK_MS = 500
"""Its clients' sessions last 1 s (two ticks) to 10 s."""

_JVM = ("-Xmx64m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.preAllocSize=256", "-Dzookeeper.forceSync=no",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")  # fmt: skip
"""Small, and soon there. What it stores need not outlive the machine."""


class EnsembleProcesses:
    """Servers 1 to `servers`. Use as a context manager: leaving it ends them all."""

    def __init__(
        self, folder: Path, *, servers: int = SERVERS, port: int | None = None, extra: str = ""
    ) -> None:
        """`port` is the first of three for each server, by default a free one; `extra` are further
        lines of each server's configuration. Starts nothing yet."""
        self._folder = folder
        self._numbers = range(1, servers + 1)
        first = free_ports(3 * servers) if port is None else port
        self._client_ports = {n: first + 3 * (n - 1) for n in self._numbers}
        self._extra = extra
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> EnsembleProcesses:
        with ExitStack() as unless_serving:
            unless_serving.callback(self.stop)
            self.start_all()
            unless_serving.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """What clients are given, without a path."""
        return ",".join(f"127.0.0.1:{port}" for port in self._client_ports.values())

    def port(self, number: int) -> int:
        """Where a server's clients connect."""
        return self._client_ports[number]

    def start_all(self) -> None:
        """Start every server, and wait until all of them serve. Raises `DeadlineExceeded`."""
        for number in self._numbers:
            self.start(number)
        for number in self._numbers:
            self.wait_serving(number)

    def start(self, number: int) -> None:
        """Start a server, or start it again with its data. Does not wait for it."""
        folder = self._folder / f"zookeeper-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "myid").write_text(f"{number}\n")
        settings = folder / "zoo.cfg"
        settings.write_text(self._configuration(number, folder))
        command = [java(), *_JVM, "-cp", _classpath(),
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings)]  # fmt: skip
        with signals_deferred(), (folder / "log").open("ab") as log:
            self._running[number] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def wait_serving(self, number: int) -> None:
        """Wait until the server is part of a majority. Raises `DeadlineExceeded`."""
        process = self._running[number]
        log = self._folder / f"zookeeper-{number}" / "log"

        def serves() -> bool:
            assert process.poll() is None, f"server {number} ended: {log.read_text()}"
            return b"Mode: " in _asked(self.port(number))

        wait_for(serves, f"ZooKeeper server {number}, whose log is {log},", PATIENCE_S)

    def kill(self, *numbers: int) -> None:
        """End servers at once; none given: all that run."""
        for number in numbers or tuple(self._running):
            process = self._running.pop(number)
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)

    def pause(self) -> None:
        """Stop all servers (SIGSTOP): connections stay open, and nothing is answered."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue paused servers (SIGCONT)."""
        self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        """End all servers. Their data stays."""
        self.kill()

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._running.values():
            process.send_signal(number)

    def _configuration(self, number: int, folder: Path) -> str:
        peers = [
            f"server.{n}=127.0.0.1:{port + 1}:{port + 2}" for n, port in self._client_ports.items()
        ]
        lines = [
            f"tickTime={_TICK_MS}",
            "initLimit=40",
            "syncLimit=20",
            f"dataDir={folder}",
            f"clientPort={self.port(number)}",
            "clientPortAddress=127.0.0.1",
            "maxClientCnxns=500",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            self._extra,
        ]
        return "\n".join([*lines, *(peers if len(peers) > 1 else [])]) + "\n"


def _asked(port: int) -> bytes:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as asked:
        asked.settimeout(1.0)
        asked.sendall(b"srvr")
        return b"".join(iter(lambda: asked.recv(4096), b""))
    return b""


def java() -> str:
    """The program that runs the servers: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise InvalidOption(
            option="JAVA_HOME",
            problem="is not set, and no java is on PATH",
            advice="Install Java 17 or later.",
        )
    return found


def _classpath() -> str:
    given = os.environ.get(CLASSPATH_VARIABLE)
    if given:
        return given
    if not all(jar.exists() for jar in _JARS):
        raise InvalidOption(
            option=CLASSPATH_VARIABLE,
            problem=f"is not set, and {_JARS[0]} does not exist",
            advice="Install ZooKeeper's jars (Debian, Ubuntu: apt-get install libzookeeper-java), "
            "or unpack a release and give its lib/* here.",
        )
    return ":".join(map(str, _JARS))


def main() -> None:
    """Run an ensemble until this process's input ends, or it gets SIGTERM."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--servers", type=int, default=SERVERS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with EnsembleProcesses(options.folder, servers=options.servers) as ensemble:
        sys.stdout.write(ensemble.hosts + "\n")
        sys.stdout.flush()
        for line in sys.stdin:
            order = line.strip()
            if order == "kill":
                ensemble.kill()
            elif order == "start":
                ensemble.start_all()
            sys.stdout.write(f"{order}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
