"""Runs of the relay, one after another on the same checkpoints: started, killed, compared."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

import raftlog
from raftlog.chaos.cluster import ProcessCluster, wait_for
from tests.spark import worker_python
from tests.spark.conftest import RowFiles
from tests.spark.faults import Faults
from tests.spark.relay import NOISE, Relay

START_TIMEOUT_S = 400.0
"""From the start of a JVM to its first batch takes 8 s on two idle cores, minutes on busy ones."""

QUERIES = ("ingest", "pipeline")

COLUMNS_MAX = 6

TOO_BUSY = "Python worker failed to connect back"
"""The driver's error when a Python process does not start within Spark's fixed 10 s."""


class DriverEnded(Exception):
    """The driver ended by itself while something was awaited; the text says why and where."""


class MachineTooBusy(DriverEnded):
    """It ended with `TOO_BUSY`: this shows nothing, and the run can be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far one query is, by its checkpoint and by its topic."""

    logged: int
    """The last batch in offsets/, -1 before the first."""
    visible: int
    """The last epoch in the topic."""
    done: int
    """The last batch in commits/."""

    @property
    def is_idle(self) -> bool:
        """Whether the last batch that was begun is done."""
        return self.done == self.logged >= 0

    @property
    def words(self) -> str:
        """Whether the query is between two batches, or in which part of one."""
        if self.done == self.logged:
            return "between two batches"
        if self.visible == self.logged:
            return "visible, not in commits/"
        return "in offsets/, not visible"


class RelayRuns:
    """The input, the topics and the checkpoints of a relay, and its driver while there is one."""

    def __init__(
        self,
        cluster: ProcessCluster,
        client: raftlog.LogClient,
        folder: Path,
        *,
        evolving: bool = False,
    ) -> None:
        """`evolving`: each of the first drivers brings one more column, and the pipeline writes a
        second topic."""
        self.parts = Relay(folder, f"{folder.name}-")
        self.client = client
        self.rows = 0
        """Ids 0 to rows - 1 are in the files."""
        self.evolving = evolving
        self._servers = cluster.servers
        self._input = RowFiles(self.parts.files)
        self._files = 0
        self._starts = 0
        self._driver: subprocess.Popen[str] | None = None
        self._log = folder / "relay.log"
        self._said_before = 0
        for topic in self.parts.topics.values():
            client.create_topic(topic, "id bigint, s string")

    # ------------------------------------------------------------ the input

    def add_file(self, rows: int) -> None:
        """One more file, so one more batch of the ingest: the next `rows` ids."""
        self._input.add(f"file-{self._files:05}", *range(self.rows, self.rows + rows))
        self._files += 1
        self.rows += rows

    def append(self, rows: int) -> None:
        """Append the next `rows` ids directly to the first topic, as an ingest would have."""
        ids = range(self.rows, self.rows + rows)
        records = [{"id": number, "s": f"s{number}"} for number in ids]
        self.client.append(self.parts.topics["ingest"], records)
        self.rows += rows

    @property
    def files_waiting(self) -> int:
        """Files that the ingest has not logged a batch for."""
        return self._files - 1 - self.progress("ingest").logged

    # ------------------------------------------------------------ the driver

    def __enter__(self) -> RelayRuns:
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self.kill()

    def start(self, *flags: str) -> None:
        """Start a driver on the checkpoints. Does not wait for it."""
        assert self._driver is None, "one driver at a time"
        for faults in self.parts.faults.values():
            faults.forget_driver()
        command = [sys.executable, "-m", "tests.spark.relay", "--servers", self._servers]
        command += ["--work", str(self.parts.work), "--prefix", self.parts.prefix, *flags]
        if self._starts % 2 == 0:  # so a checkpoint sees both ways of writing it
            command.append("--configured")
        if self.evolving:
            command += ["--columns", str(min(self._starts, COLUMNS_MAX))]
        self._starts += 1
        with self._log.open("ab") as log:
            self._said_before = log.tell()
            self._driver = subprocess.Popen(
                command,
                env=os.environ | worker_python.variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
            )

    def wait_ready(self) -> None:
        """Wait until the driver's queries run."""
        assert self._driver is not None, "there is no driver"
        assert self._driver.stdout is not None
        if not self._driver.stdout.readline():
            self._raise_ended("its queries run")

    def finish(self, *flags: str) -> None:
        """Run until everything is written."""
        self.start("--until-done", *flags)
        assert self.wait_end() == 0, f"the last run failed; see {self._log}"

    def wait_end(self) -> int:
        """Wait until the driver ended by itself; return its exit code."""
        assert self._driver is not None, "there is no driver"
        self._driver.communicate(timeout=2 * START_TIMEOUT_S)
        driver, self._driver = self._driver, None
        return driver.returncode

    def kill(self) -> None:
        """SIGKILL to the driver: its JVM and the Python beside it."""
        assert self._driver is not None, "there is no driver"
        try:
            os.kill(self.parts.faults["ingest"].driver, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            pass  # it has died, or it never recorded its process id
        self._driver.kill()
        self.wait_end()

    @property
    def alive(self) -> bool:
        """Whether the driver runs, rather than having ended by itself."""
        return self._driver is not None and self._driver.poll() is None

    def _raise_ended(self, what: str) -> NoReturn:
        """The driver ended before `what`: say why, from its log."""
        said = self._log.read_bytes()[self._said_before :].decode(errors="replace")
        self.wait_end()
        kind = MachineTooBusy if TOO_BUSY in said else DriverEnded
        raise kind(f"the driver ended before {what}; see {self._log}")

    # ------------------------------------------------------------ how far it is

    def faults(self, query: str) -> Faults:
        return self.parts.faults[query]

    def end_of(self, query: str) -> int:
        """The high-water mark of the query's topic."""
        topic = self.parts.topics[query]
        return self.client.read_high_water_mark(self.client.describe_topic(topic)).high_water_mark

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds. Raises `DriverEnded` if the driver ends before."""
        wait_for(lambda: condition() or not self.alive, what, START_TIMEOUT_S)
        if not condition():
            self._raise_ended(what)

    def progress(self, query: str) -> Progress:
        """How far the query is; the numbers are of one moment only while no driver runs."""
        checkpoint, end = self.parts.checkpoints[query], self.end_of(query)
        last = self._epochs(query, end - 1, end) if end else iter([-1])
        return Progress(
            logged=_last_batch(checkpoint / "offsets"),
            visible=next(last),
            done=_last_batch(checkpoint / "commits"),
        )

    def forget_batch(self, query: str, number: int) -> None:
        """As if Spark had not recorded that the batch is done."""
        commits = self.parts.checkpoints[query] / "commits"
        (commits / str(number)).unlink()
        # The driver may have died between the two.
        (commits / f".{number}.crc").unlink(missing_ok=True)

    def _epochs(self, query: str, start: int, end: int) -> Iterator[int]:
        for batch in self.client.read(self.parts.topics[query], start, end, columns=["_epoch"]):
            yield from batch.column("_epoch").to_pylist()

    # ------------------------------------------------------------ the result

    def rows_of(self, query: str) -> list[tuple[int, str]]:
        """The files' rows in the query's topic, in offset order."""
        return self._rows_in(self.parts.topics[query])

    def _rows_in(self, topic: str) -> list[tuple[int, str]]:
        return [row for row in self._all_rows_in(topic) if row[0] != NOISE]

    def _all_rows_in(self, topic: str) -> list[tuple[int, str]]:
        return [
            row
            for batch in self.client.read(topic, columns=["id", "s"])
            for row in zip(
                batch.column("id").to_pylist(), batch.column("s").to_pylist(), strict=True
            )
        ]

    def assert_each_row_once(self) -> None:
        """Every id of the files is in both topics once, and so is every row that was invented."""
        for query in QUERIES:
            self.assert_arrived_once(query)

    def assert_arrived_once(self, query: str) -> None:
        """The same for the topic of one query, which must not be trimmed."""
        noise = [
            text for number, text in self._all_rows_in(self.parts.topics[query]) if number == NOISE
        ]
        assert len(noise) == len(set(noise)), "a row that was invented is there twice"
        assert sorted(self.rows_of(query)) == self.expected(query)

    def assert_in_order(self) -> None:
        """Each batch of the ingest holds the next files, and the pipeline keeps their rows' order.

        A batch is one file; or more, in the order of Spark's tasks, where the driver died after it
        had listed the next file and before it had logged the batch.
        """
        ingested = self.rows_of("ingest")
        epochs = self._epochs("ingest", 0, len(ingested))
        begin = 0
        for epoch, rows in itertools.groupby(
            zip(epochs, ingested, strict=True), lambda row: row[0]
        ):
            ids = sorted(number for _, (number, _) in rows)
            assert ids == list(range(begin, begin + len(ids))), f"batch {epoch} of the ingest"
            begin += len(ids)
        assert self.rows_of("pipeline") == [(number, f"{text}!") for number, text in ingested]

    def assert_evolved(self) -> None:
        """Both of the pipeline's topics have the same rows, each of them with the columns of the
        run that wrote it: a column is null up to some offset, and right from there on."""
        assert sorted(self._rows_in(self.parts.copies)) == self.expected("pipeline")
        for topic in (*self.parts.topics.values(), self.parts.copies):
            table = pa.Table.from_batches(self.client.read(topic))
            table = table.filter(pc.not_equal(table["id"], NOISE))
            names = ["n", *(f"c{column}" for column in range(COLUMNS_MAX))]
            for name in names:
                ids = table["id"]
                right = ids if name == "n" else pc.add(pc.multiply(ids, 10), int(name[1:]))
                had = pc.is_valid(table[name]).to_pylist()
                begin = had.index(True)
                assert all(had[begin:]), f"{name} of {topic} is null again"
                assert table[name][begin:].equals(right[begin:]), f"{name} of {topic}"

    def expected(self, query: str) -> list[tuple[int, str]]:
        """What the query's topic must hold, in the files' order."""
        mark = "!" if query == "pipeline" else ""
        return [(number, f"s{number}{mark}") for number in range(self.rows)]


def _last_batch(folder: Path) -> int:
    """The highest number of a batch in a checkpoint's folder; unfinished files have other names."""
    names = [path.name for path in folder.glob("*")] if folder.exists() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
