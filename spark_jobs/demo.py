"""The demo, on real data: three nodes, two queries, the leader killed, every row compared.

    python -m raftlog.spark_jobs.demo

Starts a cluster with `raftlog up` and runs ingest.py and pipeline.py side by side. Kills the leader
of `flights` with -9 while both run, and starts it again with `raftlog serve`. Waits until all rows
have arrived, and lets verify.py compare both topics with the input. It uses the commands as a user
would. With --zookeeper, nodes, jobs and commands meet in a ZooKeeper ensemble of three, which is
killed together with the leader. Exits with 1 on any difference, or if a step did not happen as it
should.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from raftlog.spark_jobs import nycflights

BIN = Path(sys.executable).parent
ROWS = nycflights.FLIGHTS_ROWS

NODES = 3
FILES = 24
"""Micro-batches of the ingest. All but the first few arrive when the pipeline has its first batch,
so that both queries run at the kill, however slowly Spark starts."""
FIRST_FILES = 4

STALL_S = 240.0
"""Without a new row for so long, the demo gives up. A busy machine is only slow."""
STOP_TIMEOUT_S = 20.0
LOOK_INTERVAL_S = 0.1
WATCH_INTERVAL_S = 0.2
NEAR_KILL_US = 5_000_000
"""A gap between writes counts as around the kill if it begins up to this long after it."""

SPARK_FLAGS = (
    "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false "
    "--conf spark.ui.showConsoleProgress=false pyspark-shell"
)
"""Each of the two Sparks is small, because they share the machine with three nodes."""


class StoryError(Exception):
    """The demo could not continue. The text says why and where to look."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo. Exits with 0 only if every row is where it should be."""
    options = parser().parse_args(arguments)
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = options.data.absolute()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(
            f"error: {folder} exists: an earlier demo failed, or kept its data.\n"
            "  Remove it, or give another --data. If its nodes still run, end them with\n"
            f"  raftlog down --data {shlex.quote(str(folder / 'cluster'))}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    stage = Stage(folder, options.port, console, zookeeper=options.zookeeper)
    equal = False
    try:
        equal = play(stage)
    except StoryError as error:
        console.print(f"[bold red]error:[/bold red] {error}", highlight=False)
    finally:
        stage.end(keep_cluster=options.keep)
    if not (folder / "cluster").exists() or (equal and not options.keep):
        shutil.rmtree(folder)
    else:
        console.print(f"logs, checkpoints and data: {folder}")
    sys.exit(0 if equal else 1)


def parser() -> argparse.ArgumentParser:
    """The demo's flags."""
    made = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument("--data", type=Path, default=Path("demo-data"), help="a folder of its own")
    made.add_argument("--port", type=int, default=7401, help="of node 1; the others follow")
    made.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    made.add_argument("--zookeeper", action="store_true", help="find the cluster by ZooKeeper")
    return made


# ---------------------------------------------------------------- the steps


def play(stage: Stage) -> bool:
    """The demo from start to end. Returns whether the log equals the input."""
    say = stage.console.print
    began = time.monotonic()
    if stage.wants_zookeeper:
        stage.start_zookeeper()
        say(f"three ZooKeeper servers run: {stage.zookeeper}")
    stage.start_cluster()
    say(f"{NODES} nodes are ready after {time.monotonic() - began:.1f} s: {stage.servers}")
    stage.start_watch()
    files = Arrivals(stage.folder)
    files.arrive(FIRST_FILES)
    ingest = stage.start_job("ingest", "--input", str(files.inbox))
    pipeline = stage.start_job("pipeline")
    say("two Spark queries start: files -> flights, flights -> delays")
    with progress_bars(stage) as refresh:
        kill = through(stage, files, (ingest, pipeline), refresh)
    for name, job in (("ingest", ingest), ("pipeline", pipeline)):
        job.send_signal(signal.SIGTERM)
        stage.await_end(job, name)
    say("everything has arrived; comparing every row with the input")
    verify = stage.start_job("verify", "--report", str(stage.folder / "report.json"))
    code = verify.wait(STALL_S)
    report_file = stage.folder / "report.json"
    if not report_file.exists():
        raise StoryError(f"verify.py ended with {code}; its log: {stage.log_file('verify')}")
    marks = subprocess.run([*stage.raftlog(), "watermark"], capture_output=True, text=True)
    say(marks.stdout, soft_wrap=True, markup=False, highlight=False)
    report = json.loads(report_file.read_text())
    say(measures(report["writes_us"], kill))
    say(comparisons(report["comparisons"]))
    say(f"the demo took {time.monotonic() - began:.0f} s")
    return code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Which node led `flights` and was killed, and when (microseconds since 1970)."""

    node: int
    at_us: int
    flights_end: int
    """The topic's high-water mark as last seen before the kill."""


def through(
    stage: Stage,
    files: Arrivals,
    jobs: Sequence[subprocess.Popen[bytes]],
    refresh: Callable[[], None],
) -> Kill:
    """Wait until every row is in both topics; kill the leader on the way and start it again.

    The remaining files arrive when both queries have a batch in the log. The leader is killed some
    batches later, so both queries run at that moment.
    """
    say = stage.console.print
    kill: Kill | None = None
    revived = False
    kill_above = ROWS
    arrived, arrived_s = (0, 0), time.monotonic()
    while True:
        refresh()
        flights, delays = stage.end_of("flights"), stage.end_of("delays")
        if (flights, delays) != arrived:
            arrived, arrived_s = (flights, delays), time.monotonic()
        if any(job.poll() is not None for job in jobs):
            raise StoryError(f"a query ended; the logs: {stage.folder / 'log'}")
        if files.waiting and delays:
            files.arrive(FILES)
            kill_above = flights + 2 * ROWS // FILES
        elif kill is None and kill_above <= flights < ROWS:
            if stage.zookeeper:
                stage.order_zookeeper("kill")
                say("killed all three ZooKeeper servers: a cluster that is known needs none")
            kill = stage.kill_leader(flights)
            say(f"killed node {kill.node}, the leader of flights, at record {flights:,}")
        elif kill is not None and not revived and flights > kill.flights_end:
            say(f"flights continues with two nodes; node {kill.node} is started again")
            stage.revive(kill.node)
            if stage.zookeeper:
                stage.order_zookeeper("start")
                say("started the ZooKeeper servers again")
            revived = True
        elif kill is not None and flights == delays == ROWS:
            return kill
        if kill is None and flights == ROWS:
            raise StoryError("all rows were in before the leader could be killed")
        if time.monotonic() > arrived_s + STALL_S:
            raise StoryError(
                f"no new row for {STALL_S:g} s: flights at {flights}, delays at {delays}; "
                f"the logs: {stage.folder / 'log'}"
            )
        stage.pause(LOOK_INTERVAL_S)


class Arrivals:
    """The input files, and the folder in which they arrive one after another."""

    def __init__(self, folder: Path) -> None:
        outside = folder / "files"
        nycflights.split_flights(outside, FILES)
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self.waiting = sorted(outside.iterdir())

    def arrive(self, count: int) -> None:
        """Let up to `count` more files appear; each appears at once and complete."""
        for path in self.waiting[:count]:
            path.rename(self.inbox / path.name)
        self.waiting = self.waiting[count:]


@contextlib.contextmanager
def progress_bars(stage: Stage) -> Iterator[Callable[[], None]]:
    """Two bars; calling the yielded function updates them."""
    with Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:>9,.0f} rows"),
        console=stage.console,
    ) as bars:
        tasks = {topic: bars.add_task(topic, total=ROWS) for topic in ("flights", "delays")}

        def refresh() -> None:
            for topic, task in tasks.items():
                bars.update(task, completed=stage.end_of(topic))

        yield refresh


# ---------------------------------------------------------------- the processes


class Stage:
    """The processes of the demo, their logs, and what `raftlog watermark --watch` prints."""

    def __init__(
        self, folder: Path, port: int, console: Console, *, zookeeper: bool = False
    ) -> None:
        self.folder = folder
        self.wants_zookeeper = zookeeper
        self.zookeeper = ""
        """How the ensemble is reached, once it runs; "": the cluster is found by its servers."""
        self.console = console
        self.servers = ",".join(f"127.0.0.1:{port + number}" for number in range(NODES))
        self._port = port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pids: dict[int, int] = {}
        self._marks: dict[str, dict[str, Any]] = {}
        self._idle = threading.Event()
        (folder / "log").mkdir(exist_ok=True)

    def raftlog(self) -> list[str]:
        """The command, for this demo's cluster."""
        return [str(BIN / "raftlog"), *self._found_by()]

    def _found_by(self) -> list[str]:
        """The flags of commands and jobs that say where the cluster is."""
        return ["--zookeeper", self.zookeeper] if self.zookeeper else ["--servers", self.servers]

    def _nodes_command(self) -> list[str]:
        """The command to run nodes, which announce themselves if there is an ensemble."""
        announce = ["--set", f"discovery.zookeeper={self.zookeeper}"] if self.zookeeper else []
        return [str(BIN / "raftlog"), *announce]

    def log_file(self, name: str) -> Path:
        """Where a process's output goes."""
        return self.folder / "log" / f"{name}.log"

    def pause(self, seconds: float) -> None:
        self._idle.wait(seconds)

    def start_zookeeper(self) -> None:
        """Start an ensemble, and wait until it answers."""
        command = [sys.executable, "-P", "-m", "raftlog.chaos.ensemble"]
        command += ["--folder", str(self.folder / "zookeeper")]
        process = self._start("zookeeper", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None, "its output is a pipe"
        hosts = process.stdout.readline().decode().strip()
        if not hosts:
            raise StoryError(f"ZooKeeper did not start: {self.log_file('zookeeper').read_text()}")
        self.zookeeper = f"{hosts}/raftlog/demo"

    def order_zookeeper(self, order: str) -> None:
        """Have all its servers killed, or started again."""
        process = self._processes["zookeeper"]
        assert process.stdin is not None, "its input is a pipe"
        assert process.stdout is not None, "its output is a pipe"
        process.stdin.write(f"{order}\n".encode())
        process.stdin.flush()
        if process.stdout.readline().decode().strip() != order:
            raise StoryError(f"ZooKeeper ended: {self.log_file('zookeeper').read_text()}")

    def start_cluster(self) -> None:
        """Start `raftlog up`, and wait for its one line that says that all nodes are ready."""
        data = str(self.folder / "cluster")
        command = [*self._nodes_command(), "up", "--nodes", str(NODES), "--port", str(self._port)]
        command += ["--data", data, "-o", "json"]
        up = self._start("up", command, stdout=subprocess.PIPE)
        assert up.stdout is not None, "its output is a pipe"
        line = up.stdout.readline()
        if not line:
            why = _reason(self.log_file("up").read_text().strip())
            with_make = (
                '\n  In the source, run make demo ARGS="--port 7501"' if "--port" in why else ""
            )
            raise StoryError(f"The nodes did not start. {why}{with_make}")
        self._pids = {row["node"]: row["pid"] for row in json.loads(line)["nodes"]}

    def start_watch(self) -> None:
        """Follow the topics' marks from now on, on a separate thread."""
        command = [*self.raftlog(), "watermark", "--watch", "--interval", str(WATCH_INTERVAL_S)]
        watch = self._start("watermark", [*command, "-o", "json"], stdout=subprocess.PIPE)
        threading.Thread(target=self._follow, args=(watch,), daemon=True).start()

    def _follow(self, watch: subprocess.Popen[bytes]) -> None:
        assert watch.stdout is not None, "its output is a pipe"
        for line in watch.stdout:
            self._marks = {mark["topic"]: mark for mark in json.loads(line)}

    def start_job(self, name: str, *flags: str) -> subprocess.Popen[bytes]:
        """One of the other jobs, on this Python, in a small Spark of its own."""
        work = self.folder / "jobs" / name
        command = [sys.executable, "-P", "-m", f"raftlog.spark_jobs.{name}"]
        command += [*self._found_by(), "--work", str(work), *flags]
        return self._start(name, command)

    def _start(
        self,
        name: str,
        command: list[str],
        stdout: int | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start it outside this process's group: Ctrl-C reaches only the demo, which ends it in
        order.
        """
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": SPARK_FLAGS,
        }
        with self.log_file(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log if stdout is None else stdout,
                stderr=log,
                env=environment,
                process_group=0,
            )
        self._processes[name] = process
        return process

    def end_of(self, topic: str) -> int:
        """The topic's high-water mark as last seen; 0 before it exists."""
        watch = self._processes["watermark"]
        if watch.poll() is not None:
            raise StoryError(f"`raftlog watermark` ended: {self.log_file('watermark').read_text()}")
        mark: int = self._marks.get(topic, {"high_water_mark": 0})["high_water_mark"]
        return mark

    def kill_leader(self, flights_end: int) -> Kill:
        """Kill the leader of `flights` with -9. It is known, because a batch was committed just
        now.
        """
        node = self._marks["flights"]["leader"]
        if node not in self._pids:
            raise StoryError(f"flights has no leader to kill: {node}")
        at_us = time.time_ns() // 1000
        os.kill(self._pids[node], signal.SIGKILL)
        return Kill(node=node, at_us=at_us, flights_end=flights_end)

    def revive(self, node: int) -> None:
        """Start a node again as `raftlog up` advises."""
        command = [*self._nodes_command(), "serve", "--node", str(node)]
        self._start(f"serve-{node}", [*command, "--data", str(self.folder / "cluster")])

    def await_end(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Wait for a job that was told to end. It must exit with 0."""
        if process.wait(STOP_TIMEOUT_S) != 0:
            raise StoryError(f"{name} ended with {process.returncode}: {self.log_file(name)}")

    def end(self, *, keep_cluster: bool) -> None:
        """End all processes, jobs first. With `keep_cluster` the nodes keep running."""
        for name, process in reversed(self._processes.items()):
            is_node = name == "up" or name.startswith("serve-")
            if process.poll() is not None or (keep_cluster and is_node):
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if keep_cluster:
            self.console.print(
                f"the cluster keeps running: {self.servers}\n"
                f"  raftlog --servers {shlex.quote(self.servers)} watermark --watch\n"
                f"  raftlog down --data {shlex.quote(str(self.folder / 'cluster'))}",
                soft_wrap=True,
                highlight=False,
            )


# ---------------------------------------------------------------- what came of it


def _reason(said: str) -> str:
    """Why `raftlog up -o json` ended: the cause and remedy of its error, or else all it said."""
    try:
        error = json.loads(said.rpartition("\n")[2])
        return f"{error['message']}\n  {error['remedy']}"
    except (ValueError, KeyError, TypeError):  # a line for people, or of a node's log
        return said.removeprefix("error: ")


def measures(writes_us: dict[str, list[tuple[int, int]]], kill: Kill) -> Table:
    """Rows per second, and the longest gap between writes around the kill, for each topic.

    Both come from the records' `_timestamp`: the leader's clock, in microseconds, when it made the
    entry that made a batch visible. So a gap includes Spark's own work between two micro-batches,
    whose usual length is next to it. The failover shows only where it took longer. Rows per second
    count the batches from the kill on, so they include the failover.
    """
    table = Table(title="Writes, by the leaders' clocks")
    for head in (
        "topic",
        "batches",
        "rows/s after the kill",
        "longest gap around the kill",
        "median gap",
    ):
        table.add_column(head, justify="left" if head == "topic" else "right")
    for topic, writes in writes_us.items():
        times = [at for at, _ in writes]
        gaps = [(after - before, before, after) for before, after in pairwise(times)]
        near = [g for g, a, b in gaps if b > kill.at_us and a < kill.at_us + NEAR_KILL_US]
        after_kill = [(at, count) for at, count in writes if at > kill.at_us]
        rows = sum(count for _, count in after_kill)
        table.add_row(
            topic,
            str(len(writes)),
            f"{rows / (times[-1] - kill.at_us) * 1e6:,.0f}" if after_kill else "-",
            f"{max(near) / 1e6:.2f} s" if near else "-",
            f"{statistics.median(g for g, _, _ in gaps) / 1e6:.2f} s" if gaps else "-",
        )
    return table


def comparisons(rows: list[dict[str, Any]]) -> Table:
    """What verify.py found, with one word for each topic."""
    table = Table(title="The log against the input")
    heads = ("topic", "expected", "found", "lost", "duplicated", "changed", "gaps")
    for head in heads:
        table.add_column(head, justify="left" if head == "topic" else "right")
    table.add_column("result")
    for row in rows:
        equal = row["expected"] == row["found"] and not any(row[head] for head in heads[3:])
        table.add_row(
            *(f"{row[head]:,}" if head != "topic" else row[head] for head in heads),
            "[green]equal[/green]" if equal else "[bold red]DIFFERENT[/bold red]",
        )
    return table


if __name__ == "__main__":
    main()
