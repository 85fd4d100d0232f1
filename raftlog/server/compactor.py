"""The node's compaction process: started at a job, ended with the node or when it was idle."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from raftlog.errors import CompactorKilled, DiskFailed, Internal, shortage_of
from raftlog.image.job import IDLE_EXIT, CompactionJob, Reply, decode_reply, encode_job

COMPACTION_PROGRAM = "raftlog.compaction.worker"
"""The module that the process runs. A test of faults gives its own."""


class Compactor:
    """Runs one job at a time in another process. `run` blocks; it is called from one thread."""

    def __init__(self, data: Path, share: float, module: str = COMPACTION_PROGRAM) -> None:
        """`data`, the node's folder, and `share` (`storage.compaction_share_max`) are the program's
        arguments."""
        # -P: without it, Python imports from the working directory first.
        self._command = [sys.executable, "-P", "-m", module, str(data), str(share)]
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: CompactionJob) -> Reply:
        """Do the job. A process that ends before it has answered is started again with the next.

        Raises `DiskFailed` if a sync of the process failed: the node must end as well.
        """
        try:
            line, code = self._ask(job)
            if code == IDLE_EXIT:
                line, code = self._ask(job)  # it was idle for long, and ended when the job came
        except (OSError, MemoryError, RuntimeError) as error:
            if (shortage := shortage_of(error, "the compaction process")) is None:
                raise
            return shortage
        if code is not None and code < 0:
            return CompactorKilled(signal=_signal_name(-code))
        if code is not None:
            return Internal(what=f"the compaction process ended with {code}")
        reply = decode_reply(line)
        if isinstance(reply, DiskFailed):
            raise reply
        return reply

    def _ask(self, job: CompactionJob) -> tuple[bytes, int | None]:
        """The answer, or with which code the process ended instead."""
        process = self._process
        if process is None or process.poll() == IDLE_EXIT:
            process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(encode_job(job))
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if line.endswith(b"\n"):
            return line, None
        self._process = None
        return b"", process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # One that ends while idle does not stay behind as a zombie until the next job.
        waits = threading.Thread(target=process.wait, name="compaction-ends", daemon=True)
        with suppress(RuntimeError):  # no more threads: then it does stay behind
            waits.start()
        return process

    def abandon(self) -> None:
        """End the job in flight, whose group is gone: `run` returns soon. From any thread; never
        blocks. The next job starts another process, which waits for this one to end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """End the process, also in the middle of a job, from any thread. Nothing depends on it."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
