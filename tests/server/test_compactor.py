"""The compaction process as its node sees it: it comes back after it was idle or killed, gives
way, and ends with its node.

It is a real process. Most jobs are about a folder that is not there: they are answered at once.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.compaction.compact import compact
from raftlog.compaction.worker import LOCK_NAME
from raftlog.core.types import GroupId, LogIndex, Term
from raftlog.errors import CompactorKilled, CorruptFile, LimitReached
from raftlog.image.job import CompactionJob, Reply, decode_reply, encode_job
from raftlog.image.manifest import NO_IMAGE, Image
from raftlog.server.compactor import Compactor
from raftlog.storage.posix import PosixFileSystem
from tests.bench.processes import children
from tests.compaction.topic_scene import TopicScene
from tests.storage.disks import no_more_files

pytestmark = [pytest.mark.slow, pytest.mark.from_nothing]

JOB = CompactionJob(
    folder="groups/7",
    group=GroupId(7),
    image=NO_IMAGE,
    index=LogIndex(1),
    term=Term(1),
    state_hash=b"\0" * 16,
    urgent=False,
    kept=frozenset(),
)


@pytest.fixture
def compactor(tmp_path: Path) -> Iterator[Compactor]:
    made = Compactor(tmp_path, 0.5)
    yield made
    made.stop()


def compactions() -> list[int]:
    """The compaction processes that this process has started."""
    found = []
    for pid in children([os.getpid()])[os.getpid()]:
        with contextlib.suppress(OSError):  # it has just ended
            if b"compaction" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def child() -> int:
    [pid] = compactions()
    return pid


def test_one_process_does_all_jobs(compactor: Compactor) -> None:
    assert isinstance(compactor.run(JOB), CorruptFile)
    first = child()
    assert isinstance(compactor.run(JOB), CorruptFile)
    assert child() == first


def test_a_module_in_the_working_directory_is_not_run(
    compactor: Compactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("raftlog.py", "json.py"):
        (tmp_path / name).write_text("import os; os._exit(3)")
    monkeypatch.chdir(tmp_path)
    assert isinstance(compactor.run(JOB), CorruptFile)


def test_appends_go_before_a_job_and_an_urgent_one_may_follow(tmp_path: Path) -> None:
    """Also where the node may not raise its own priority, as for all but root."""
    bare = ["setpriv", "--bounding-set=-sys_nice"] if os.geteuid() == 0 else []
    command = [*bare, sys.executable, "-m", "raftlog.compaction.worker", str(tmp_path), "0.5"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for urgent in (False, True):
            process.stdin.write(encode_job(replace(JOB, urgent=urgent)))
            process.stdin.flush()
            assert isinstance(decode_reply(process.stdout.readline()), CorruptFile)
            niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
            assert niceness > os.getpriority(os.PRIO_PROCESS, 0)
            assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
        process.stdin.close()


def test_a_process_that_was_killed_is_an_error_and_the_next_job_starts_another(
    compactor: Compactor,
) -> None:
    compactor.run(JOB)
    os.kill(child(), 9)
    killed = compactor.run(JOB)
    assert isinstance(killed, CompactorKilled)
    assert killed.signal == "SIGKILL"
    assert "tried again" in killed.remedy
    assert isinstance(compactor.run(JOB), CorruptFile)


def test_a_job_whose_group_is_gone_ends_early_and_the_next_one_begins(tmp_path: Path) -> None:
    """The job would take minutes: it rests 99 of 100 milliseconds."""
    scene = TopicScene(PosixFileSystem(tmp_path))
    for _ in range(1_000):
        scene.append()
    long = scene.point()
    compactor = Compactor(tmp_path, 0.01)
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(compactor.run(long)))
    try:
        thread.start()
        wait_for((tmp_path / LOCK_NAME).exists, "the job to begin", PATIENCE_S)
        compactor.abandon()
        thread.join(PATIENCE_S)
        assert [type(each) for each in replies] == [CompactorKilled]
        compactor.abandon()
        assert isinstance(compactor.run(JOB), CorruptFile)
    finally:
        compactor.stop()
        thread.join()


def test_an_idle_process_ends_and_the_next_job_starts_another(tmp_path: Path) -> None:
    compactor = Compactor(tmp_path, 0.5, module="tests.server.hasty_compaction")
    try:
        compactor.run(JOB)
        wait_for(lambda: compactions() == [], "it to end", PATIENCE_S)
        assert isinstance(compactor.run(JOB), CorruptFile)
    finally:
        compactor.stop()


def test_a_process_whose_node_was_killed_ends_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "raftlog.compaction.worker", str(tmp_path), "0.5"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate(encode_job(JOB), timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, b"")


def test_a_process_whose_node_was_killed_makes_nothing_of_its_job(tmp_path: Path) -> None:
    """The job would take minutes: it rests 99 of 100 milliseconds."""
    scene = TopicScene(PosixFileSystem(tmp_path))
    for _ in range(1_000):
        scene.append()
    job = scene.point()
    before = scene.fs.list(job.folder)
    command = [sys.executable, "-m", "raftlog.compaction.worker", str(tmp_path), "0.01"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(encode_job(job))
        process.stdin.flush()
        wait_for((tmp_path / LOCK_NAME).exists, "the job to begin", PATIENCE_S)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, b"")
    assert [name for name in scene.fs.list(job.folder) if name not in before] == []
    assert isinstance(compact(scene.fs, job), Image), "another process can do it"


def test_a_process_that_cannot_be_started_is_started_with_a_later_job(compactor: Compactor) -> None:
    with no_more_files():
        reply = compactor.run(JOB)
    assert isinstance(reply, LimitReached)
    assert reply.limit == "open files"
    assert isinstance(compactor.run(JOB), CorruptFile)
