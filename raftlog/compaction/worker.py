"""The compaction process: jobs come in on standard input, replies go out on standard output.

It ends when its standard input does, also in the middle of a job: what it makes for a node that was
killed is of no use, and the next node has begun to receive and to remove files. It also
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
from raftlog.errors import CompactorOutOfMemory, RaftlogError
from raftlog.image.job import IDLE_EXIT, Reply, decode_job, encode_reply
from raftlog.image.pace import Pace
from raftlog.storage.contract import FileSystem
from raftlog.storage.posix import PosixFileSystem

LOCK_NAME = "compaction.lock"

_IDLE_MAX_S = 60.0
"""No setting: starting again costs half a second of one processor."""

_NICENESS = 10
"""Appends go before any job when the processors are busy. No setting. Not `SCHED_IDLE`: on a busy
machine a job under that ends never, and who is not root cannot leave it for an urgent job."""


def work(data: Path, fs: FileSystem, share: float, idle_max_s: float = _IDLE_MAX_S) -> None:
    """Serve jobs for the data folder until standard input ends or no job comes for `idle_max_s`.

    In a job that is not urgent it takes `share` of a processor, above 0 and at most 1.
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
                sys.stdout.buffer.write(encode_reply(reply_to(fs, line, share)))
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                # The node was killed. What is in the buffer would fail again at the exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return
    sys.exit(IDLE_EXIT)


def reply_to(fs: FileSystem, line: bytes, share: float) -> Reply:
    """Do the job that the line describes: its image, or why there is none."""
    job = decode_job(line)
    try:
        return compact(fs, job, pace=Pace(1 if job.urgent else share, rest=_rest))
    except RaftlogError as error:
        return error
    except MemoryError as error:
        return CompactorOutOfMemory(problem=str(error))


def _rest(seconds: float) -> None:
    if select.select([sys.stdin], [], [], seconds)[0]:
        sys.exit(0)  # standard input ends while the answer is owed: the node was killed


if __name__ == "__main__":
    work(Path(sys.argv[1]), PosixFileSystem(Path(sys.argv[1])), float(sys.argv[2]))
