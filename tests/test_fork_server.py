"""A forked child is the process that `subprocess` would have started, as far as a test can see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from raftlog.errors import ExitCode
from tests import fork_server
from tests.bench.processes import children

pytestmark = pytest.mark.slow


def raftlog(*words: str, **given: object) -> subprocess.CompletedProcess[str]:
    """A command of raftlog, which must have been forked or not as the test is about."""
    command = [sys.executable, "-m", "raftlog", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **given
    )  # type: ignore[call-overload, no-any-return]


def test_commands_end_alike_forked_and_started_from_nothing(tmp_path: Path) -> None:
    nothing = f"127.0.0.1:{free_ports(1)}"
    for words in (
        ("--help",),
        ("topic",),
        ("--servers", nothing, "--set=client.request_timeout_s=1", "topic", "list"),
        ("up", "--data", str(tmp_path / "none"), "--nodes", "0"),
        ("--set=no.key=1", "status"),
    ):
        before = fork_server.started()
        forked = raftlog(*words, cwd=tmp_path)
        assert fork_server.started().forked == before.forked + 1
        with fork_server.from_nothing():
            usual = raftlog(*words, cwd=tmp_path)
        assert (forked.returncode, forked.stdout) == (usual.returncode, usual.stdout), words
        assert forked.stderr.splitlines()[:1] == usual.stderr.splitlines()[:1], words


def test_the_server_is_no_child_and_its_children_show_their_command_line() -> None:
    before = children([os.getpid()])
    words = [sys.executable, "-m", "raftlog.chaos.proxy"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert fork_server.started().forked > 0
        assert children([os.getpid()]) == before
        shown = Path(f"/proc/{child.pid}/cmdline")
        wait_for(
            lambda: shown.read_bytes().rstrip(b"\0").decode() == " ".join(words),
            "the child's command line",
            PATIENCE_S,
        )
        child.kill()


def test_a_child_has_the_environment_the_group_and_the_signals_that_it_was_given() -> None:
    environment = {**os.environ, "RAFTLOG_CLIENT__BOOTSTRAP_SERVERS": "no address"}
    answer = raftlog("topic", "list", env=environment)
    assert answer.returncode == ExitCode.USAGE
    assert "bootstrap_servers" in answer.stderr
    command = [sys.executable, "-m", "raftlog.chaos.proxy"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0) as child:
        assert os.getpgid(child.pid) == child.pid
        child.kill()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "given",
    [{"env": {**os.environ, "PYTHONOPTIMIZE": "1"}}, {"pass_fds": (1,)}],
    ids=["python's own settings", "files of its own"],
)
def test_what_a_fork_cannot_give_is_started_from_nothing(given: dict[str, object]) -> None:
    before = fork_server.started()
    assert raftlog("--help", **given).returncode == ExitCode.OK
    assert fork_server.started() == before._replace(executed=before.executed + 1)
