"""A cluster of real node processes on this machine, to be broken on purpose.

It is started as a user starts one: with `raftlog up`, and with `raftlog serve` for a node that
comes back. It signals only processes that it started, by their ids.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.client.watermark import Watermark
from raftlog.config import load
from raftlog.errors import DeadlineExceeded, RaftlogError

T = TypeVar("T")

PATIENCE_S = 120.0
"""How long a test waits for what must come. It says nothing of how fast that is: on a machine that
does other things as well, nodes elect now and then, and what takes milliseconds takes seconds."""

_LOOK_INTERVAL_S = 0.02
_LOOK_INTERVAL_MAX_S = 0.2
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PORTS_FROM, _PORTS_TO = 20_000, 30_000
"""Below the range from which the kernel takes ports for outgoing connections."""

_LINES_SHOWN = 25
"""So many of each node's log are added to an error."""


@dataclass(slots=True)
class ProcessCluster:
    """Running nodes. Use as a context manager: leaving it ends everything that it started."""

    data: Path
    port: int
    pids: dict[int, int]
    logs: dict[int, Path]
    _up: subprocess.Popen[str]
    _served: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _settings: tuple[str, ...] = ()
    token: str = ""
    """Where the token of clients is; "": none is asked for."""
    program: str = "raftlog"
    """The module (`python -m`) that a restarted node runs. It must take raftlog's own arguments."""
    environment: Mapping[str, str] | None = None
    """The environment of all processes that this starts. Default: that of this process."""
    wrapper: Sequence[str] = ()
    """The words before the commands of all of them, such as `prlimit` and its options."""

    @classmethod
    def start(
        cls,
        data: Path,
        *,
        nodes: int = 3,
        settings: Sequence[str] = (),
        port: int | None = None,
        program: str = "raftlog",
        said: Path | None = None,
        tls: bool = False,
        token: str = "",
        environment: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> ProcessCluster:
        """Run `raftlog up` with a new or an old data folder. All nodes answer when this returns.

        `settings` are texts `section.key=value`. `port` is node 1's, by default a free one.
        `program` is described at the field. The output of `up` goes to the file `said`, or to
        standard error if there is none. `tls`: connections are encrypted, as an old folder's are
        anyhow that were; `token`, `environment` and `wrapper` are described at the fields. Raises
        `DeadlineExceeded`.
        """
        if token:
            settings = (*settings, f"client.token={token}")
        flags = tuple(f"--set={setting}" for setting in settings)
        recorded = data / "cluster.toml"
        if recorded.exists():
            port = _recorded_port(recorded)
        elif port is None:
            port = free_ports(nodes, offsets=_ports_of_node(settings, tls))
        command = [*wrapper, *_up_command(flags, nodes, data, port, tls)]
        with ExitStack() as unless_ready:
            with signals_deferred(), ExitStack() as stack:
                up = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stack.enter_context(said.open("a")) if said else None,
                    text=True,
                    process_group=0,
                    env=environment,
                )
                # An interrupted wait must not leave `up` and its nodes behind.
                unless_ready.callback(_end_at_once, up)
            # `up` prints one document when all nodes are ready, or ends within its own deadline.
            assert up.stdout is not None
            line = up.stdout.readline()
            unless_ready.pop_all()
        if not line:
            raise DeadlineExceeded(
                what="Starting the cluster",
                seconds=f"{PATIENCE_S:g}",
                last=f"`raftlog up` ended with code {up.wait()}",
            )
        table = json.loads(line)
        pids = {row["node"]: row["pid"] for row in table["nodes"]}
        logs = {row["node"]: Path(row["log"]) for row in table["nodes"]}
        return cls(
            data=data,
            port=port,
            pids=pids,
            logs=logs,
            token=token,
            program=program,
            environment=environment,
            wrapper=wrapper,
            _up=up,
            _settings=flags,
        )

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            error.add_note(self._last_lines())
        self.stop()

    def _last_lines(self) -> str:
        """What the nodes logged last."""
        parts = []
        for node, log in sorted(self.logs.items()):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            parts += [f"the last lines of node {node}'s log:", *lines[-_LINES_SHOWN:]]
        return "\n".join(parts)

    @property
    def servers(self) -> str:
        """The bootstrap servers, for clients and for Spark's option."""
        return ",".join(map(self.address, sorted(self.pids)))

    def address(self, node: int) -> str:
        """The address at which the node itself listens."""
        return f"127.0.0.1:{self.port + node - 1}"

    def runs(self, node: int) -> bool:
        """Whether the node's process exists. It may have ended by itself."""
        return _runs(self.pids[node])

    def exit_code(self, node: int) -> int | None:
        """The exit code of a node that `serve` started; None while it runs."""
        return self._served[node].poll()

    def client(self, request_timeout_s: float = PATIENCE_S, *, token: str = "") -> LogClient:
        """A client of only this cluster, whatever the environment says. `token`: where another
        token than that of clients is."""
        settings = load().client.model_copy(
            update={
                "bootstrap_servers": self.servers,
                "zookeeper": "",
                "request_timeout_s": request_timeout_s,
                **({"token": token or self.token} if self.token else {}),
                **self._certificates(),
            }
        )
        return connect(settings=settings)

    def _certificates(self) -> dict[str, str]:
        """What a client trusts and shows: those of the folder, if it has some."""
        tls = self.data / "tls"
        if not tls.exists():
            return {}
        files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
        return {f"tls_{which}_file": str(tls / name) for which, name in files.items()}

    # ------------------------------------------------------------ faults

    def kill(self, node: int) -> None:
        """End a node at once (SIGKILL) and wait until it is gone."""
        self._end(node, signal.SIGKILL)

    def terminate(self, node: int) -> None:
        """Tell a node to stop (SIGTERM), as an operator does, and wait until it is gone."""
        self._end(node, signal.SIGTERM)

    def pause(self, node: int) -> None:
        """Stop a node's process (SIGSTOP): its connections stay open, but it answers nothing."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Continue a paused node (SIGCONT)."""
        self._signal(node, signal.SIGCONT)

    def serve(self, node: int) -> None:
        """Restart a dead node with its data, as `raftlog serve` does. Does not wait for it."""
        self.pids[node] = self._start(node, self.program).pid

    def join(self, node: int, client: LogClient, timeout_s: float) -> None:
        """Start a node that was added to the cluster, as `raftlog serve --join` does, wait until it
        has come, and start it again with the cluster's program. Raises `DeadlineExceeded`."""
        self.logs[node] = self.data / "log" / f"node-{node}.log"
        child = self._start(node, "raftlog", "--servers", self.servers, last=("--join",))
        try:
            client.members.wait_for(node, timeout_s)
        finally:
            child.terminate()
            child.wait()
        self.serve(node)

    def forget(self, node: int) -> None:
        """A node that has left the cluster, and whose process has ended, is none of it any more."""
        assert not self.runs(node), f"node {node} runs"
        child = self._served.pop(node, None)
        if child is not None:
            child.wait()
        del self.pids[node]

    def _start(
        self, node: int, program: str, *first: str, last: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        with signals_deferred(), self.logs[node].open("ab") as log:
            child = self._served[node] = subprocess.Popen(
                [
                    *self.wrapper, sys.executable, "-P", "-m", program, *self._settings,
                    *first, "serve", "--node", str(node), "--data", str(self.data), *last,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env=self.environment,
            )  # fmt: skip
            return child

    def stop(self) -> None:
        """End everything that this started, first with SIGTERM."""
        for node in self.pids:
            self.resume(node)
        children: list[subprocess.Popen[bytes] | subprocess.Popen[str]] = [
            *self._served.values(),
            self._up,
        ]
        for child in children:
            if child.poll() is None:
                child.terminate()
        for child in children:
            child.wait(PATIENCE_S)
        if self._up.stdout is not None:
            self._up.stdout.close()

    # ------------------------------------------------------------ what can be awaited

    def wait_caught_up(
        self,
        client: LogClient,
        topic: str,
        *,
        lag_entries_max: int = 0,
        timeout_s: float = PATIENCE_S,
        every_s: float | None = None,
    ) -> Watermark:
        """Wait until every replica answers and lags by no more entries. Returns the watermark then.

        `every_s` is that of `wait_for`. A longer one disturbs a measurement less.
        Under load some entries are always in flight, so a lag of 0 may never be seen. Raises
        `DeadlineExceeded`.
        """
        wait_for(
            lambda: _caught_up(_answered(lambda: client.watermark(topic)), lag_entries_max),
            f"all replicas of {topic!r} to catch up",
            timeout_s,
            every_s=every_s,
        )
        return client.watermark(topic)

    def _end(self, node: int, number: signal.Signals) -> None:
        self._signal(node, number)
        child = self._served.pop(node, None)
        if child is not None:
            child.wait()
            return
        pid = self.pids[node]
        wait_for(lambda: not _runs(pid), f"process {pid} to end", PATIENCE_S)

    def _signal(self, node: int, number: signal.Signals) -> None:
        try:
            os.kill(self.pids[node], number)
        except ProcessLookupError:
            pass  # it is gone already, which is all that a signal could do


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Let signals that end this process wait until the end of the block.

    A handler may raise an exception between any two instructions, also when a process exists and
    nothing can name it yet: such a process would never be ended. Only the main thread runs
    handlers, so elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    # Others cannot raise: they end this process at once, or are ignored.
    handled = {number: former for number, former in handlers.items() if callable(former)}
    for number in handled:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, former in handled.items():
            signal.signal(number, former)
        for each in came:
            signal.raise_signal(each)


def wait_for(
    condition: Callable[[], bool],
    what: str,
    timeout_s: float,
    *,
    every_s: float | None = None,
) -> None:
    """Poll until the condition holds: every `every_s` seconds, or by default in pauses that grow
    from 0.02 to 0.2 s. Raises `DeadlineExceeded`, which names `what`."""
    begun_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begun_s
        if waited_s >= timeout_s:
            raise DeadlineExceeded(what=f"Waiting for {what}", seconds=f"{timeout_s:g}")
        pause_s = min(max(_LOOK_INTERVAL_S, waited_s / 10), _LOOK_INTERVAL_MAX_S)
        # This event is never set: another process cannot notify us, so this only waits.
        threading.Event().wait(pause_s if every_s is None else every_s)


def _up_command(flags: Sequence[str], nodes: int, data: Path, port: int, tls: bool) -> list[str]:
    return [
        sys.executable, "-P", "-m", "raftlog", f"--set=up.ready_timeout_s={PATIENCE_S:g}",
        *flags, "up", "--nodes", str(nodes), "--data", str(data), "--port", str(port), "-o", "json",
        *(["--tls"] if tls else []),
    ]  # fmt: skip


def _end_at_once(up: subprocess.Popen[str]) -> None:
    up.terminate()
    up.wait(PATIENCE_S)


def _answered(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except RaftlogError:
        return None


def _caught_up(mark: Watermark | None, lag_entries_max: int) -> bool:
    if mark is None or mark.leader == 0:
        return False
    # The leader's view of a node outlives the node: a dead one shows no lag for a while.
    lags = [None if each.problem else each.lag_entries for each in mark.replicas]
    return all(lag is not None and lag <= lag_entries_max for lag in lags)


def _runs(pid: int) -> bool:
    """Whether the process runs. A zombie does not, but until its last thread has ended it still
    holds its files and their locks."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return False  # it ended before the file was opened, or before it was read
    return stat.rpartition(")")[2].split()[0] != "Z" or threads > 1


def _recorded_port(file: Path) -> int:
    first = next(line for line in file.read_text().splitlines() if line.startswith("1 ="))
    return int(first.strip().strip('"').rpartition(":")[2])


def _ports_of_node(settings: Sequence[str], tls: bool) -> tuple[int, ...]:
    """How far above a node's own port each of its ports is."""
    return (0, load(flags=settings).tls.peer_port_offset) if tls else (0,)


def free_ports(count: int, *, offsets: Sequence[int] = (0,)) -> int:
    """The first of `count` neighbouring ports on loopback that are free now, each with those that
    are `offsets` above it.

    No other process of this user gets one of them while this one runs, not even while nothing
    listens there: nodes restart on their ports.
    """
    for first in range(_PORTS_FROM, _PORTS_TO, count):
        wanted = [first + each + offset for each in range(count) for offset in offsets]
        if all(map(_reserve, wanted)) and all(map(_is_free, wanted)):
            return first
    raise DeadlineExceeded(what="Finding free ports", seconds="0")


def _reserve(port: int) -> bool:
    """Record locks suit this: they end with their process, and a forked one has none of them."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


@cache
def _reservations() -> int:
    # Never closed: closing any descriptor of the file would give up every lock on it.
    path = Path(tempfile.gettempdir(), f"raftlog-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
