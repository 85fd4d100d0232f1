"""Fork nodes and commands of tests instead of starting each from nothing.

`python -m raftlog …` imports for most of a second before it does anything, and tests start it
hundreds of times. So one process per test process (the fork server) imports everything once, opens
no channel, thread or session, and forks a child for each such command. The child is a process of
its own in every way that a test can see: its id, group, signals, files, environment and exit code.

`install` lets `subprocess.Popen` of this process, and of what is forked, do that where it makes no
difference (`_is_forkable`); everything else starts as usual. Inside `with from_nothing():` nothing
is forked, for tests of the start itself. Programs that Spark starts become a forked child with
`run_forked`: a second server (`start`) has imported what those need.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PRELOADED = (
    "raftlog.cli.main",
    "raftlog.cli.up",
    "raftlog.server.main",
    "raftlog.compaction.worker",
    "raftlog.chaos.faulty_node",
)
APART = ("tests.cluster.version_2",)
"""Programs that change raftlog: a server of their own forks them, which has changed it
(`preload`)."""
FORKED = ("raftlog", "tests.chaos", "tests.cluster", "pyspark.")
"""What the modules of such programs begin with."""
NEVER_FORKED = ("tests.simulation", "tests.mutants", "tests.bench")
"""Programs that run for long anyway."""
SHAPING = ("PYTHON", "LC_", "LANG", "LD_", "FAKETIME", "GRPC_", "MALLOC", "ARROW_", "TZ")
"""Variables that a process reads while it starts or imports: a child with other ones is started
from nothing."""
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS, resource.RLIMIT_NPROC)
INHERITED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A child ignores those of them that its parent ignores."""

_LENGTH = struct.Struct("<I")
_STATUS = struct.Struct("<i")
_START_TIMEOUT_S = 120.0
_SHOWN_BYTES_MAX = 16 * 1024
_ARG_START, _ENV_END = 45, 48
"""Of the fields of /proc/self/stat behind the name (proc(5))."""
_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
_usual_popen = subprocess.Popen


class Started(NamedTuple):
    """How many Python processes this one started, and how."""

    forked: int
    executed: int


class Server(NamedTuple):
    """A process that forks. Its address is a name of Linux's abstract sockets."""

    address: str
    pid: int
    shaping: dict[str, str]


_servers: dict[str, Server] = {}
"""By the program of `APART` that it forks; "": it forks all others."""
_is_forked = False
_started: list[int] = []
_lock = threading.Lock()
_forks_wanted = True
_counts = {"forked": 0, "executed": 0}


def started() -> Started:
    """What this process has started so far; not what its children did."""
    return Started(**_counts)


def server_pids() -> list[int]:
    """The processes that fork for this one, as far as they were needed."""
    return list(_started)


def install() -> None:
    """Make `subprocess.Popen` fork where it can."""
    subprocess.Popen = ForkingPopen  # type: ignore[misc]


@contextmanager
def from_nothing() -> Iterator[None]:
    """Start every process from nothing."""
    global _forks_wanted
    before, _forks_wanted = _forks_wanted, False
    try:
        yield
    finally:
        _forks_wanted = before


class ForkingPopen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, whose child may be forked by the fork server."""

    _status_file: int | None = None
    """Where the server writes the wait status of a forked child."""

    def _execute_child(self, *arguments: Any) -> None:
        asked = _SIGNATURE.bind(self, *arguments).arguments
        words = asked["args"]
        if not _is_forkable(words, asked):
            _counts["executed"] += _is_python(words)
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        _counts["forked"] += 1
        files = [
            own if given == -1 else given
            for own, given in enumerate((asked["p2cread"], asked["c2pwrite"], asked["errwrite"]))
        ]
        status_file, told = os.pipe()
        self._status_file = status_file
        try:
            self.pid = _fork(words, asked, [*files, told])
        finally:
            os.close(told)
            weakref.finalize(self, os.close, status_file)
            # As the usual one does: the child has these now.
            devnull = getattr(self, "_devnull", None)
            for used, kept in (("p2cread", "p2cwrite"), ("c2pwrite", "c2pread"),
                               ("errwrite", "errread")):  # fmt: skip
                if asked[used] != -1 and asked[kept] != -1 and asked[used] != devnull:
                    os.close(asked[used])
            if devnull is not None:
                os.close(devnull)
            self._closed_child_pipe_fds = True
        self._child_created = True

    def _internal_poll(self, *arguments: Any, **named: Any) -> int | None:
        if self._status_file is None:
            polled: int | None = super()._internal_poll(*arguments, **named)  # type: ignore[misc]
            return polled
        self._take_status(0.0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._status_file is None:
            waited: int = super()._wait(timeout=timeout)  # type: ignore[misc]
            return waited
        if not self._take_status(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _take_status(self, timeout_s: float | None) -> bool:
        """Whether the child has ended, by then at the latest."""
        if self.returncode is not None:
            return True
        assert self._status_file is not None
        ready = select.poll()
        ready.register(self._status_file, select.POLLIN | select.POLLHUP)
        if not ready.poll(None if timeout_s is None else timeout_s * 1_000):
            return False
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:  # or another thread has taken it meanwhile
                told = os.read(self._status_file, _STATUS.size)
                # Without a status the server has ended, and its children count as killed.
                status = _STATUS.unpack(told)[0] if told else signal.SIGKILL
                self.returncode = os.waitstatus_to_exitcode(status)
        return True


def _is_forkable(words: Any, asked: Mapping[str, Any]) -> bool:
    """Does forking `python [-P] -m MODULE …` make no difference?"""
    if not _forks_wanted or isinstance(words, str | bytes | os.PathLike):
        return False
    before, module = _split(words)
    if _is_forked and _apart(module) not in _servers:
        return False
    env = asked["env"]
    environment: Mapping[str, str] = os.environ if env is None else env
    return (
        before in ((sys.executable, "-m"), (sys.executable, "-P", "-m"))
        and module.startswith(FORKED)
        and not module.startswith(NEVER_FORKED)
        and asked["preexec_fn"] is None
        and not asked["pass_fds"]
        and not asked["shell"]
        and asked["executable"] is None
        and asked["uid"] is None
        and asked["gid"] is None
        and _shaping(environment) == _running_server(module).shaping
    )


def _split(words: Sequence[Any]) -> tuple[tuple[str, ...], str]:
    """The words up to the first "-m", and the module behind it; "" if there is none."""
    texts = [os.fspath(word) for word in words[:4]]
    number = texts.index("-m") + 1 if "-m" in texts else len(texts)
    return tuple(texts[:number]), "".join(texts[number : number + 1])


def _is_python(words: Any) -> bool:
    """Is it this Python, or a command of its environment? In a shell's line it does not show."""
    program = words if isinstance(words, str | bytes | os.PathLike) else [*words, ""][0]
    return Path(os.fsdecode(program)).parent == Path(sys.executable).parent


def _shaping(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(SHAPING)}


def _apart(module: str) -> str:
    return module if module in APART else ""


def _running_server(module: str) -> Server:
    apart = _apart(module)
    with _lock:
        if apart not in _servers:
            _servers[apart] = start((apart,) if apart else PRELOADED)
        return _servers[apart]


def run_forked(address: str, words: Sequence[str]) -> int:
    """The exit code of a command with this process's files and environment, in a child that the
    server at this address forks. Who ends this process with SIGTERM ends the child."""
    _servers[""] = Server(address, os.getppid(), _shaping(os.environ))
    with ForkingPopen(words) as child:
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        return child.wait()


def start(modules: Sequence[str]) -> Server:
    """Start a server that imports these first. It ends with this process, whose end of the pipe
    closes then.

    It is no child of this process: tests look at those to find what they started.
    """
    address = f"raftlog-fork-server-{os.getpid()}-{len(_started)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{address}")
    listener.listen(64)
    alive, held = os.pipe()
    files = (str(listener.fileno()), str(alive))
    command = [sys.executable, "-m", "tests.fork_server", *files, *modules]
    with _usual_popen(
        command,
        cwd=ROOT,
        env={**os.environ, "ROOM_FOR_COMMAND_LINES": "x" * _SHOWN_BYTES_MAX},
        pass_fds=(listener.fileno(), alive),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
    listener.close()
    os.close(alive)
    os.set_inheritable(held, False)
    _started.append(pid)
    return Server(address, pid, _shaping(os.environ))


def _fork(words: Sequence[Any], asked: Mapping[str, Any], files: Sequence[int]) -> int:
    """The id of a new process that runs the command with these files as its 0 to 2."""
    env = asked["env"]
    request = {
        "words": [os.fsdecode(word) for word in words],
        "cwd": os.fsdecode(asked["cwd"]) if asked["cwd"] is not None else os.getcwd(),
        "env": dict(os.environ) if env is None else {**env},
        "group": asked["process_group"],
        "session": asked["start_new_session"],
        "umask": asked["umask"],
        "ignored": [n for n in INHERITED_SIGNALS if signal.getsignal(n) is signal.SIG_IGN],
        "limits": [resource.getrlimit(limit) for limit in LIMITS],
    }
    data = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(_START_TIMEOUT_S)
        channel.connect(f"\0{_running_server(_split(words)[1]).address}")
        socket.send_fds(channel, [_LENGTH.pack(len(data))], list(files))
        channel.sendall(data)
        answer = _received(channel, _LENGTH.size)
    return int(_LENGTH.unpack(answer)[0])


def _received(channel: socket.socket, length: int) -> bytes:
    parts = b""
    while len(parts) < length:
        part = channel.recv(length - len(parts))
        if not part:
            raise ConnectionResetError("the fork server has ended")
        parts += part
    return parts


# ---------------------------------------------------------------- the server


def serve(listener_file: int, alive: int, modules: Sequence[str]) -> None:
    """Import these, and fork what is asked for until nothing holds the other end of `alive`."""
    listener = socket.socket(fileno=listener_file)
    before = dict(os.environ)
    for module in modules:
        imported = importlib.import_module(module)
        if module in APART:
            imported.preload()
    if "raftlog.cli.main" in modules:
        sys.modules["raftlog.cli.main"].command_line()  # built once, for all children
    install()
    set_by_imports = {name: os.environ[name] for name in os.environ.keys() - before.keys()}
    gc.collect()
    gc.freeze()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    told: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([listener, alive, wake], [], [])
        if alive in ready:
            return
        if wake in ready:
            with suppress(BlockingIOError):
                while os.read(wake, 4096):
                    pass
        if listener in ready:
            _answer(listener, told, (alive, wake, woken), set_by_imports)
        _tell_ended(told)


def _answer(
    listener: socket.socket,
    told: dict[int, int],
    own: Sequence[int],
    set_by_imports: Mapping[str, str],
) -> None:
    channel, _ = listener.accept()
    with channel:
        try:
            head, files, _, _ = socket.recv_fds(channel, _LENGTH.size, 4)
            head += _received(channel, _LENGTH.size - len(head))
            request = json.loads(_received(channel, _LENGTH.unpack(head)[0]))
        except ConnectionResetError:
            return  # it was killed meanwhile
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            request["env"] = {**set_by_imports, **request["env"]}
            address = listener.getsockname().decode().removeprefix("\0")
            for file in (*own, *told.values(), listener.fileno(), channel.fileno(), files[3]):
                os.close(file)
            _become(request, files[:3], address)
        told[pid] = files[3]
        if request["group"] is not None and request["group"] >= 0:
            with suppress(
                ProcessLookupError
            ):  # the child does it too: who is first does not matter
                os.setpgid(pid, request["group"])
        for file in files[:3]:
            os.close(file)
        with suppress(BrokenPipeError):
            channel.sendall(_LENGTH.pack(pid))


def _tell_ended(told: dict[int, int]) -> None:
    while told:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with suppress(BrokenPipeError):
            os.write(told[pid], _STATUS.pack(status))
        os.close(told.pop(pid))


# ---------------------------------------------------------------- the child


def _become(request: Mapping[str, Any], files: Sequence[int], address: str) -> None:
    """Run the module as `python -m` would. Never returns."""
    code = 1
    try:
        _take_over(request, files)
        global _is_forked
        _is_forked = True
        before, module = _split(request["words"])
        _servers.clear()
        _servers[_apart(module)] = Server(address, os.getppid(), _shaping(os.environ))
        code = _run(request["words"][len(before) :])
    finally:
        if sys.exception() is not None:
            traceback.print_exc()
        try:
            _end()
        finally:
            os._exit(code & 0xFF)


def _take_over(request: Mapping[str, Any], files: Sequence[int]) -> None:
    if request["session"]:
        os.setsid()
    elif request["group"] is not None and request["group"] >= 0:
        os.setpgid(0, request["group"])
    for limit, values in zip(LIMITS, request["limits"], strict=True):
        resource.setrlimit(limit, tuple(values))
    if request["umask"] >= 0:
        os.umask(request["umask"])
    os.chdir(request["cwd"])
    kept = [os.dup(file) for file in files]  # one of them may have the number of another
    for number, file in enumerate(kept):
        os.dup2(file, number)
    for file in {*files, *kept}:
        if file > 2:
            os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    _show(request["words"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.path[:1] = [] if "-P" in _split(request["words"])[0] else [os.getcwd()]
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = open(0, encoding=encoding)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = _text(1, encoding, errors or "strict")
    sys.stderr = _text(2, encoding, "backslashreplace", always=True)
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)


def _show(words: Sequence[str]) -> None:
    """Make these words the command line that others see: tests look for secrets in it.

    The kernel shows the memory where the program's first arguments were, and what follows it if
    they do not end there: their environment, of which nothing is used any more.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ENV_END])
    shown = os.fsencode(" ".join(words))[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, shown, len(shown))


def _text(file: int, encoding: str, errors: str, *, always: bool = False) -> io.TextIOWrapper:
    raw = io.FileIO(file, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors=errors,
        line_buffering=always or raw.isatty(),
    )


def _run(words: Sequence[str]) -> int:
    """The exit code of the module with these arguments."""
    sys.argv = list(words)
    sys.modules.pop(words[0], None)  # as from nothing: what runs as __main__ is not imported
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        _end()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


def _end() -> None:
    """What the interpreter does last."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()


if __name__ == "__main__":
    if (child := os.fork()) != 0:
        os.write(1, f"{child}\n".encode())
        os._exit(0)
    os.dup2(2, 1)  # nobody reads the pipe any more
    serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
