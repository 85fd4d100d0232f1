"""Clients that write all the time, while a test changes the cluster under them."""

from __future__ import annotations

import threading

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import RaftlogError
from raftlog.machines.commands import TopicInfo

ROWS = 20
PAUSE_S = 0.01
"""Between two appends: a load in the background leaves the processor to what the test is about."""


class Load:
    """Appends to a topic, one batch after the other, until it is told to stop."""

    def __init__(self, cluster: ProcessCluster, topic: TopicInfo) -> None:
        self.written: list[int] = []
        self.failed: list[RaftlogError] = []
        self._cluster = cluster
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._cluster.client() as client, client.producer(self._topic) as producer:
            number = 0
            while not self._stop.wait(PAUSE_S):
                rows = [{"id": number * ROWS + each} for each in range(ROWS)]
                try:
                    producer.append_and_flush(rows)
                except RaftlogError as error:
                    self.failed.append(error)
                    return
                self.written += [row["id"] for row in rows]
                number += 1

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """No more is written when this returns."""
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def goes_on(self) -> None:
        """Wait until some more is written."""
        so_far = len(self.written)
        wait_for(lambda: len(self.written) > so_far + 3 * ROWS, "appends to go on", PATIENCE_S)


class NumberedLoad:
    """Appends numbered records without a pause, one entry each, until it is stopped. It continues
    after an append that fails."""

    def __init__(self, client: LogClient, topic: str, **other: str) -> None:
        """`other`: the values of the columns beside `number`, in every record."""
        self.acknowledged: list[tuple[int, int]] = []
        """(offset, number) of each append that was answered."""
        self.failed: list[str] = []
        self._client = client
        self._topic = topic
        self._other = other
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> NumberedLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait_for_more(self, count: int) -> None:
        """Wait until `count` more appends are acknowledged."""
        goal = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= goal, f"{goal} acknowledged appends", PATIENCE_S)

    def check(self, client: LogClient, *, acknowledged_min: int = 1) -> None:
        """Nothing acknowledged is lost, duplicated or reordered, no record is there twice, and no
        append failed. A load with fewer acknowledged than the minimum has proved nothing."""
        assert len(self.acknowledged) >= acknowledged_min
        found = numbers_in(client, self._topic)
        for offset, number in self.acknowledged:
            assert found[offset] == number, f"offset {offset} holds {found[offset]}, not {number}"
        assert len(set(found)) == len(found), "a record is in the log twice"
        assert found == sorted(found), "records are out of order"
        assert not self.failed, "writes continue while a majority runs"

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                reply = self._client.append(self._topic, [{"number": number, **self._other}])
            except RaftlogError as error:
                self.failed.append(str(error))
            else:
                self.acknowledged.append((reply.start, number))
            number += 1


def numbers_in(client: LogClient, topic: str) -> list[int]:
    """The `number` of all readable records, by offset."""
    found: list[int] = []
    for batch in client.read(topic, columns=["number"]):
        found += batch.column("number").to_pylist()
    return found


def rows_of(client: LogClient, topic: TopicInfo) -> list[int]:
    mark = client.read_high_water_mark(topic).high_water_mark
    found: list[int] = []
    for batch in client.read(topic, end=mark):
        found += batch.column("id").to_pylist()
    return found
