"""What a test does to a query, and at which moment of a micro-batch: a source and sink with faults.

A test arms a moment with a deed; the first process that reaches the moment claims it and does the
deed. That is a task's Python worker, or one of those that Spark's driver asks for offsets, plans
and commits. Everything else is the product's own source and sink, unchanged. Test and query share
files in one folder, because they are different processes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from raftlog import LogClient
from raftlog.client.connection import Connection
from raftlog.errors import RaftlogError
from raftlog.spark import connection
from raftlog.spark.datasource import RaftlogDataSource
from raftlog.spark.declarations import Endpoint
from raftlog.spark.options import source_options
from raftlog.spark.writer import BATCH_ID, RaftlogStreamWriter, StagedMessage
from tests.spark.worker_python import JVM

KILLED = "killed"
"""Before the name of the program whose process `Deed.KILL_EXECUTOR` killed, in the events."""
HELD_MAX_S = 300.0
LOOK_INTERVAL_S = 0.02


class Moment(Enum):
    """The moments of a micro-batch, in order."""

    OFFSETS = "offsets"
    """Its end is decided and not logged yet."""
    PLANNED = "planned"
    """offsets/N is logged; no task runs yet."""
    STAGING = "staging"
    """A task has its rows and has staged none."""
    STAGED = "staged"
    """A task has staged all its rows; the driver does not know."""
    COMMITTING = "committing"
    """All tasks have staged; CommitEpoch is not sent."""
    BETWEEN = "between"
    """CommitEpoch is applied in one topic of the batch; if there are more, not in all of them."""
    COMMITTED = "committed"
    """CommitEpoch is applied; commits/N is not logged."""
    ABORTING = "aborting"
    """Spark gave the batch up; nothing is dropped yet."""


class Deed(Enum):
    """What is done to the processes of the query; only to those that the test started."""

    KILL_DRIVER = "kill driver"
    """SIGKILL to the driver's JVM, and to the process that is at the moment."""
    ORPHAN = "orphan"
    """SIGKILL to the driver's JVM; the process at the moment lives, and continues when released."""
    KILL_EXECUTOR = "kill executor"
    """SIGKILL to the executor's JVM that runs the task. Its Python is a fork (`worker_python`)."""
    KILL_WORKER = "kill worker"
    """SIGKILL to the Python worker itself."""
    FAIL = "fail"
    """The task raises an error."""
    HOLD = "hold"
    """Wait until released."""


class Faults:
    """The armed moments of one query. It is pickled into tasks, so it holds only a path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # ------------------------------------------------------------ the test's side

    def arm(self, moment: Moment, deed: Deed) -> None:
        """Let the next process that reaches the moment do the deed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in ("happened", "released"):
            self._file(moment, old).unlink(missing_ok=True)
        unfinished = self._file(moment, "unfinished")
        unfinished.write_text(deed.value)
        unfinished.rename(self._file(moment, "armed"))

    def disarm(self) -> None:
        """Withdraw what no process has claimed."""
        for armed in self.folder.glob("*.armed"):
            armed.unlink(missing_ok=True)

    def happened(self, moment: Moment) -> bool:
        """Whether the deed was done, or is being done."""
        return self._file(moment, "happened").exists()

    def release(self, moment: Moment) -> None:
        """Let a process that is held continue."""
        self._file(moment, "released").touch()

    def events(self) -> list[dict[str, Any]]:
        """What the query's processes recorded: `what`, `pid`, and for tasks partition, attempt
        number and epoch."""
        file = self.folder / "events"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def forget_driver(self) -> None:
        """Call it before another driver starts: another process may have the old id by now."""
        (self.folder / "driver").unlink(missing_ok=True)

    def note_driver(self, jvm_pid: int) -> None:
        """Say which process `KILL_DRIVER` and `ORPHAN` mean."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "driver").write_text(str(jvm_pid))

    @property
    def driver(self) -> int:
        """The process that `KILL_DRIVER` and `ORPHAN` mean."""
        return int((self.folder / "driver").read_text())

    # ------------------------------------------------------------ the query's side

    def reached(self, moment: Moment) -> None:
        """Do what is armed for the moment, if no other process claimed it before."""
        happened = self._file(moment, "happened")
        try:
            self._file(moment, "armed").rename(happened)
        except FileNotFoundError:
            return
        match Deed(happened.read_text()):
            case Deed.KILL_DRIVER:
                self._kill_driver()
                os.kill(os.getpid(), signal.SIGKILL)
            case Deed.ORPHAN:
                # The daemon that forked this worker ends its own process group with the JVM.
                os.setsid()
                self._kill_driver()
                self._hold(moment)
            case Deed.KILL_EXECUTOR:
                jvm = int(os.environ[JVM])
                command = Path(f"/proc/{jvm}/comm").read_text().strip()
                self._note(f"{KILLED} {command}")
                os.kill(jvm, signal.SIGKILL)
                self._hold(moment)
            case Deed.KILL_WORKER:
                os.kill(os.getpid(), signal.SIGKILL)
            case Deed.FAIL:
                raise RuntimeError(f"this task fails when {moment.value}")
            case Deed.HOLD:
                self._hold(moment)

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Record what the connector warned of inside, then `what` when it is done, or the product's
        error that ended it.
        """
        noted = _NotedWarnings(self._note)
        log = logging.getLogger("raftlog.spark")
        log.addHandler(noted)
        try:
            yield
        except RaftlogError as error:
            self._note(f"{what}: {type(error).__name__}")
            raise
        finally:
            log.removeHandler(noted)
        self._note(what)

    def _note(self, what: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        context = TaskContext.get()
        line: dict[str, Any] = {"what": what, "pid": os.getpid()}
        if context is not None:
            line |= {"partition": context.partitionId(), "attempt": context.attemptNumber()}
            line |= {"epoch": int(context.getLocalProperty(BATCH_ID))}
        with (self.folder / "events").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _hold(self, moment: Moment) -> None:
        deadline_s = time.monotonic() + HELD_MAX_S
        pause = threading.Event()
        while not self._file(moment, "released").exists():
            assert time.monotonic() < deadline_s, f"nothing released {moment} in {self.folder}"
            pause.wait(LOOK_INTERVAL_S)

    def _kill_driver(self) -> None:
        os.kill(self.driver, signal.SIGKILL)

    def _file(self, moment: Moment, suffix: str) -> Path:
        return self.folder / f"{moment.value}.{suffix}"


class _NotedWarnings(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:  # errors are raised as well
            self._note(f"warning: {record.getMessage()}")


# ---------------------------------------------------------------- the source and the sink


class FaultySource(RaftlogDataSource):
    """`raftlog` whose stream reader and writer pass the moments of `Faults(option "faults")`."""

    @classmethod
    def name(cls) -> str:
        return "raftlog_faulty"

    def __init__(self, options: dict[str, str]) -> None:
        own = dict(options)
        self._faults = Faults(Path(own.pop("faults")))
        self._one_way_in = own.pop("one_way_in", "") == "true"
        super().__init__(own)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tests.spark.faulty_reader import FaultyReader  # PySpark 4.1 cannot import it

        return FaultyReader(
            source_options(self.options, Endpoint.STREAM_SOURCE), schema, self._faults
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if self._one_way_in:
            ask_no_nodes()
        writer = super().streamWriter(schema, overwrite)
        return FaultyWriter(writer, self._faults, self._one_way_in)


def ask_no_nodes() -> None:
    """Let clients of this process know their bootstrap servers only, or a node that is asked past
    the wire that a test cuts would answer after all."""
    setattr(Connection, "_ask_nodes", lambda self, address: None)  # noqa: B010


class FaultyWriter(DataSourceStreamArrowWriter):
    """The writer with moments around what tasks and driver do."""

    def __init__(self, inner: RaftlogStreamWriter, faults: Faults, one_way_in: bool) -> None:
        self._inner = inner
        self._faults = faults
        self._one_way_in = one_way_in

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        # Take all rows at once: a worker that outlives its JVM gets no more rows from it.
        batches = list(iterator)
        self._faults.reached(Moment.STAGING)
        with self._faults.noting("staged"):
            message = self._inner.write(iter(batches))
        self._faults.reached(Moment.STAGED)
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if self._one_way_in:
            ask_no_nodes()
            # A test cuts the replies' way at this moment: over it no connection would be made.
            connection.client(self._inner._options.connection).list_topics()
        self._faults.reached(Moment.COMMITTING)
        with self._between_commits(), self._faults.noting("committed"):
            self._inner.commit(messages, batchId)
        self._faults.reached(Moment.COMMITTED)

    @contextlib.contextmanager
    def _between_commits(self) -> Iterator[None]:
        """Pass a moment after each CommitEpoch."""
        inner = LogClient.commit_epoch

        @wraps(inner)
        def commit_epoch(*given: Any, **named: Any) -> Any:
            outcome = inner(*given, **named)
            self._faults.reached(Moment.BETWEEN)
            return outcome

        setattr(LogClient, "commit_epoch", commit_epoch)  # noqa: B010
        try:
            yield
        finally:
            setattr(LogClient, "commit_epoch", inner)  # noqa: B010

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._faults.reached(Moment.ABORTING)
        with self._faults.noting("aborted"):
            self._inner.abort(messages, batchId)
