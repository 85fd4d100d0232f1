"""Spark's queries while the cluster under them changes in every way an operator can change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql.streaming import StreamingQuery

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.log_client import LogClient
from tests.cluster.joining import Joined
from tests.spark.conftest import Lab, wait_until

NODES = 6
BETWEEN_FILES_S = 0.3
ROWS = 10
"""Rows of one micro-batch."""
BY_OBSERVERS = {"readPreference": "observer", "raftlog.client.rack": "nowhere"}
"""Where there is none, the others are read."""


class Flow:
    """A stream from files into a topic and a stream out of it. A file is added whenever all rows
    before it have been read, so rows flow all the time."""

    def __init__(self, lab: Lab, reader: Lab) -> None:
        self.seen: list[int] = []
        self._lab = lab
        self._reader = reader
        self._files = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self._queries: list[StreamingQuery] = []

    def _feed(self) -> None:
        while not self._stop.wait(BETWEEN_FILES_S):
            if len(self.seen) == ROWS * self._files:
                self._files += 1
                end = ROWS * self._files
                self._lab.rows_file(f"f{self._files}", *range(end - ROWS, end))

    def __enter__(self) -> Flow:
        lab, trigger = self._lab, {"processingTime": "300 milliseconds"}
        # From the earliest offset: what is written before the query first looks must be read, too.
        data = lab.read_stream(startingOffsets="earliest", **BY_OBSERVERS)
        self._queries.append(self._reader.collect(data, self.seen, **trigger))
        self._queries.append(lab.sink(lab.file_stream()).trigger(**trigger).start())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for query in self._queries:
            query.stop()

    def goes_on(self, what: str) -> None:
        """Wait until rows that are written from now on have been read, by the stream and by a
        batch."""
        end = ROWS * (self._files + 1)
        wait_until(lambda: len(self.seen) >= end, f"the rows after {what}", *self._queries)
        least = len(self.seen)
        rows = sorted(row.id for row in self._lab.read(**BY_OBSERVERS).collect())
        assert rows == list(range(len(rows))), what
        assert len(rows) >= least, what

    def end(self) -> list[int]:
        """Write no more; return what the stream has read, which is all that was written."""
        self._stop.set()
        self._thread.join()
        wait_until(lambda: len(self.seen) == ROWS * self._files, "the last rows", *self._queries)
        return self.seen


class Changes:
    """What an operator does: each command once, or as often as there is a choice."""

    def __init__(self, cluster: ProcessCluster, client: LogClient, lab: Lab, flow: Flow) -> None:
        self._cluster = cluster
        self._members = client.members
        self._client = client
        self._lab = lab
        self._flow = flow
        self._joined: dict[int, Joined] = {}

    def close(self) -> None:
        for each in self._joined.values():
            each.end()

    def _start(self, node: int) -> None:
        folder = self._lab.folder.parent / f"node-{node}"
        self._joined[node] = Joined(self._cluster.servers, node, folder)
        self._members.wait_for(node, PATIENCE_S)

    def add(self) -> None:
        self._members.add(4, self._cluster.address(4))
        self._start(4)

    def rebalance(self) -> None:
        moves = self._members.plan_rebalance()
        assert moves, "the new node holds nothing yet"
        list(self._members.carry_out(moves, timeout_s=PATIENCE_S))

    def transfer(self) -> None:
        info = self._client.describe_topic(self._lab.topic)
        for voter in info.voters:
            self._members.transfer(info.group, voter, timeout_s=PATIENCE_S)
            self._flow.goes_on(f"node {voter} was made the leader")

    def drain(self) -> None:
        leader = self._lab.leader()
        self._members.drain(leader, timeout_s=PATIENCE_S)
        assert self._lab.leader() != leader
        self._flow.goes_on(f"node {leader} was drained")
        self._members.end_drain(leader)

    def observe(self) -> None:
        address = self._cluster.address(5)
        assert self._members.add(5, address, observer=True, parents=(3,))
        self._start(5)
        wait_for(lambda: self._members.lags()[5] is not None, "the observer", PATIENCE_S)

    def unobserve(self) -> None:
        list(self._members.remove(5, timeout_s=PATIENCE_S))
        self._joined[5].process.wait(PATIENCE_S)

    def replace(self) -> None:
        self._cluster.kill(2)
        self._members.add(6, self._cluster.address(6))
        self._start(6)
        list(self._members.replace(2, 6, timeout_s=PATIENCE_S))

    def remove(self) -> None:
        list(self._members.remove(1, timeout_s=PATIENCE_S))

    def all(self) -> tuple[Callable[[], None], ...]:
        """In an order in which each finds what it needs."""
        return (
            self.add, self.rebalance, self.transfer, self.drain,
            self.observe, self.unobserve, self.replace, self.remove,
        )  # fmt: skip


@contextmanager
def flowing(spark, folder: Path) -> Iterator[tuple[Changes, Flow, Lab]]:
    """Three nodes with addresses for more, and rows that flow."""
    with ExitStack() as stack:
        started = ProcessCluster.start(folder / "data", port=free_ports(NODES))
        cluster = stack.enter_context(started)
        client = stack.enter_context(cluster.client())
        lab = Lab(spark, cluster, client, folder / "lab")
        lab.create()
        for number in range(3):
            client.create_topic(f"other-{number}", "id bigint")
        flow = stack.enter_context(Flow(lab, Lab(spark, cluster, client, folder / "reader")))
        changes = Changes(cluster, client, lab, flow)
        stack.callback(changes.close)
        yield changes, flow, lab


@pytest.mark.soak
def test_streams_and_batches_go_on_over_every_change_of_the_cluster(spark, tmp_path: Path) -> None:
    """The queries were told of nodes 1 to 3, and read from observers where there are some. Every
    row comes once, in order, and each batch finds all rows, over each change and after it."""
    with flowing(spark, tmp_path) as (changes, flow, lab):
        flow.goes_on("the start")
        for change in changes.all():
            change()
            flow.goes_on(f"the change: {change.__name__}")
        seen = flow.end()
        assert seen == list(range(len(seen))) == lab.ids()
        assert lab.client.describe_topic(lab.topic).voters == (3, 4, 6)
