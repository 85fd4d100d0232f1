"""The compaction process: jobs come in on standard input, replies go out on standard output.

It ends when its standard input does, also in the middle of a job: what it makes for a node that was
killed nobody would take, and the next node has begun to receive and to remove files. It also
ends when it was idle for a while, because it holds more memory than an idle node. While it works it
holds a lock, so that the next node's process waits for it: two of them would write files of the
same names.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from pathlib import Path

from raftlog.compaction.compact import compact
from raftlog.compaction.pace import Pace
from raftlog.errors import RaftlogError
from raftlog.image.job import IDLE_EXIT, Reply, decode_job, encode_reply
from raftlog.storage.contract import FileSystem
from raftlog.storage.posix import PosixFileSystem

LOCK_NAME = "compaction.lock"

_IDLE_MAX_S = 60.0
"""No setting: starting again costs half a second of one processor."""

_NICENESS = 10
"""Appends go before an urgent job; one that is not urgent gets only what nobody else wants. No
setting: it decides who waits when the processors are busy."""


def work(data: Path, fs: FileSystem, share: float, idle_max_s: float = _IDLE_MAX_S) -> None:
    """Serve jobs for the data folder until standard input ends or no job comes for `idle_max_s`.

    Of the time of a job that is not urgent it works `share`, above 0 and at most 1, and rests else.
    Exits with `IDLE_EXIT` in the second case. Raises `DiskFailed`.
    """
    # Ctrl-C in a terminal goes to the whole group of processes: it is the node that decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    os.umask(0o077)
    with (data / LOCK_NAME).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A job comes only after the answer to the one before, so none waits in a buffer here.
        while select.select([sys.stdin], [], [], idle_max_s)[0]:
            line = sys.stdin.buffer.readline()
            if not line:
                return
            try:
                sys.stdout.buffer.write(encode_reply(_reply(fs, line, share)))
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                # The node was killed. What is in the buffer would fail once more at the exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return
    sys.exit(IDLE_EXIT)


def _reply(fs: FileSystem, line: bytes, share: float) -> Reply:
    job = decode_job(line)
    if sys.platform == "linux":
        policy = os.SCHED_OTHER if job.urgent else os.SCHED_IDLE
        os.sched_setscheduler(0, policy, os.sched_param(0))
    try:
        return compact(fs, job, pace=Pace(1 if job.urgent else share, look=_end_without_node))
    except RaftlogError as error:
        return error


def _end_without_node() -> None:
    """Standard input is at its end, although the answer is still owed: the node was killed."""
    if select.select([sys.stdin], [], [], 0)[0]:
        sys.exit(0)


if __name__ == "__main__":
    work(Path(sys.argv[1]), PosixFileSystem(Path(sys.argv[1])), float(sys.argv[2]))
