"""The load on a cluster while it is broken: writers, readers and watchers, each on a thread.

Every record's number is unique, so that the history can follow each record. Patient writers wait
longer than any fault lasts. Hasty ones give up soon, which produces writes of unknown fate and
replays. All have a fixed pace, because the test judges safety, and it shares the cores.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from raftlog import AttemptReference, EpochKey, LogClient, TopicInfo
from raftlog.chaos.history import Fate, History, MarkRead, Read, Write, record_number
from raftlog.client.connection import Connection, Judge
from raftlog.client.retries import Deadline
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, NodeId
from raftlog.errors import DeadlineExceeded, RaftlogError

T = TypeVar("T")

SCHEMA = "number bigint, filling string"
PATIENT_S = 120.0
"""Longer than a fault and the restart after it, on a machine that is busy with other things."""
HASTY_S = 1.5
"""About as long as an election takes, so that each election loses some writes."""
ONE_TRY_S = 8.0
"""Longer than a node is paused: the answer of a node that wakes up must be right, however late it
is."""
_FILLING = "x" * 80
_BATCH_BYTES = 1024
"""So small that an append of some records needs several entries, with several in flight."""
_ROWS_MAX = 40
_WRITE_PAUSE_S = 0.02
_READ_PAUSE_S = 0.1
_JOIN_S = PATIENT_S + 30.0


class OneNode(Connection):
    """A connection to only one node, which it asks once, whichever node leads."""

    def __init__(self, settings: ClientSettings, address: str) -> None:
        found_by = {"bootstrap_servers": address, "zookeeper": ""}
        super().__init__(settings.model_copy(update=found_by))
        self._only = address

    def addresses(self, nodes: Collection[NodeId] = (), doubted: bool = False) -> tuple[str, ...]:
        """The address of the one node."""
        return (self._only,)

    def leader(self, group: GroupId) -> str:
        """The one node, though it may not lead: then it has to say so."""
        return self._only

    def retry(
        self,
        once: Callable[[float], T],
        deadline: Deadline,
        earlier: RaftlogError | None = None,
        judge: Judge | None = None,
    ) -> T:
        """Try only once."""
        return once(deadline.remaining_s())


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a worker needs to know: the cluster, its topics, the history, and when to end."""

    settings: ClientSettings
    nodes: dict[int, str]
    """The address at which each node listens. Nodes come and go."""
    topics: tuple[TopicInfo, ...]
    history: History
    stop: threading.Event

    def client(self, request_timeout_s: float) -> LogClient:
        """A client of the whole cluster."""
        return LogClient(
            Connection(
                self.settings.model_copy(
                    update={
                        "request_timeout_s": request_timeout_s,
                        "batch_bytes": _BATCH_BYTES,
                        "compression": "none",
                    }
                )
            )
        )

    def client_of(self, node: int) -> LogClient:
        """A client that asks only this node, once."""
        settings = self.settings.model_copy(
            update={"request_timeout_s": ONE_TRY_S, "try_timeout_s": ONE_TRY_S}
        )
        return LogClient(OneNode(settings, self.nodes[node]))


@dataclass(slots=True)
class Workload:
    """All workers of one site. Use as a context manager: leaving it waits until they have ended."""

    site: Site
    seed: int
    failures: list[BaseException] = field(default_factory=list)
    """What ended a worker: an answer that no client may get, or a defect of the harness."""
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Workload:
        site = self.site
        for number, topic in enumerate(site.topics):
            random = Random(f"{self.seed}/{topic.name}")
            self._spawn(append_patiently, topic, random, 1 if number == 0 else _ROWS_MAX)
            self._spawn(append_hastily, topic, random)
        self._spawn(write_epochs, site.topics[-1], Random(f"{self.seed}/epochs"))
        self._spawn(follow_nodes, self._spawn)
        self._spawn(ask_mark)
        return self

    def __exit__(self, *_: object) -> None:
        self.site.stop.set()
        for thread in self._threads:
            thread.join(_JOIN_S)
            if thread.is_alive():
                self.failures.append(DeadlineExceeded(what=thread.name, seconds=f"{_JOIN_S:g}"))

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                work(self.site, *arguments)
            finally:
                error = sys.exception()
                if error is not None:
                    self.failures.append(error)
                    self.site.stop.set()

        thread = threading.Thread(target=run, name=work.__name__, daemon=True)
        self._threads.append(thread)
        thread.start()


# ---------------------------------------------------------------- writers


def append_patiently(site: Site, topic: TopicInfo, random: Random, rows_max: int) -> None:
    """Append as one producer to the end. Every append must be acknowledged, despite all faults."""
    with site.client(PATIENT_S) as client:
        _append(site, client, topic, random, rows_max, patient=True)


def append_hastily(site: Site, topic: TopicInfo, random: Random) -> None:
    """Append, and after an append without an answer in time continue with another producer and
    another origin: the fate of that append is unknown."""
    while not site.stop.is_set():
        with site.client(HASTY_S) as client:
            _append(site, client, topic, random, _ROWS_MAX, patient=False)


def _append(
    site: Site, client: LogClient, topic: TopicInfo, random: Random, rows_max: int, *, patient: bool
) -> None:
    """Append as one origin until told to stop, or until an append fails."""
    origin, first = site.history.new_origin(), 0
    while not site.stop.wait(_WRITE_PAUSE_S):
        count = random.randint(1, rows_max)
        begin_s = time.monotonic()
        fate, start, end = Fate.UNKNOWN, 0, 0
        try:
            reply = client.append(topic.name, batch_of(origin, first, count))
            fate, start, end = Fate.ACKNOWLEDGED, reply.start, reply.end
        except RaftlogError as error:
            if not error.retriable:
                raise
        site.history.writes.append(
            Write(
                topic=topic.name,
                origin=origin,
                first=first,
                count=count,
                begin_s=begin_s,
                end_s=time.monotonic(),
                fate=fate,
                start=start,
                end=end,
                patient=patient,
            )
        )
        if fate is not Fate.ACKNOWLEDGED:
            return
        first += count


def write_epochs(site: Site, topic: TopicInfo, random: Random) -> None:
    """Write as a streaming query does: epochs of two tasks, staged and then made visible at once.

    After an error, and sometimes without one, the query starts again: another run writes the same
    epoch with the same records. Some tasks have a losing attempt, which no CommitEpoch names.
    """
    writer = EpochWriter(site=site, topic=topic, random=random, origin=site.history.new_origin())
    epoch = 0
    while not site.stop.wait(_WRITE_PAUSE_S):
        run, done = uuid.uuid4().hex, True
        while done and not site.stop.wait(_WRITE_PAUSE_S):
            done = writer.write(run, epoch)
            if done and random.random() < 0.1:
                done = (
                    False  # the writer's process died after its write and before it knew the result
                )
            elif done:
                epoch += 1


@dataclass(slots=True, kw_only=True)
class EpochWriter:
    """Writes epochs. An epoch that is written again gets the same records again."""

    site: Site
    topic: TopicInfo
    random: Random
    origin: int
    _firsts: list[tuple[int, int]] = field(default_factory=list)
    """By epoch: the ordinal of its first record, and how many it has."""

    def write(self, run: str, epoch: int) -> bool:
        """Write one epoch in one run of the query. Returns False if its fate is unknown."""
        first, count = self._extent_of(epoch)
        key = EpochKey(writer="query", query_id="query", run=run, epoch=epoch, streaming=True)
        begin_s = time.monotonic()
        fate, start, end = Fate.UNKNOWN, 0, 0
        try:
            with self.site.client(HASTY_S) as client:
                attempts = self._stage(client, key, first, count)
                reply = client.commit_epoch(self.topic, key, attempts, create_writer=epoch == 0)
                if self.random.random() < 0.2:
                    again = client.commit_epoch(self.topic, key, attempts)
                    assert (again.start, again.end) == (reply.start, reply.end)
            fate, start, end = Fate.ACKNOWLEDGED, reply.start, reply.end
        except RaftlogError as error:
            # The newest run is never refused. One without an answer starts again, as Spark would.
            if not error.retriable:
                raise
        self._note(self.origin, first, count, begin_s, fate, start, end)
        return fate is Fate.ACKNOWLEDGED

    def _extent_of(self, epoch: int) -> tuple[int, int]:
        if epoch == len(self._firsts):
            first = sum(self._firsts[-1]) if self._firsts else 0
            self._firsts.append((first, self.random.randint(2, _ROWS_MAX)))
        return self._firsts[epoch]

    def _stage(
        self, client: LogClient, key: EpochKey, first: int, count: int
    ) -> Sequence[AttemptReference]:
        """The attempts of two tasks, each with a part of the records."""
        if self.random.random() < 0.2:
            loser = self.site.history.new_origin()
            self._note(loser, 0, 1, time.monotonic(), Fate.NEVER)
            self._attempt(client, key, loser, 0, 1)
        middle = self.random.randint(1, count - 1)
        return [
            self._attempt(client, key, self.origin, first, middle),
            self._attempt(client, key, self.origin, first + middle, count - middle),
        ]

    def _attempt(
        self, client: LogClient, key: EpochKey, origin: int, first: int, count: int
    ) -> AttemptReference:
        attempt = client.attempt(self.topic, key, create_writer=key.epoch == 0)
        try:
            attempt.write(batch_of(origin, first, count))
            staged = attempt.finish()
        finally:
            attempt.close()
        assert staged is not None, "the attempt has records"
        return staged

    def _note(
        self,
        origin: int,
        first: int,
        count: int,
        begin_s: float,
        fate: Fate,
        start: int = 0,
        end: int = 0,
    ) -> None:
        self.site.history.writes.append(
            Write(
                topic=self.topic.name,
                origin=origin,
                first=first,
                count=count,
                begin_s=begin_s,
                end_s=time.monotonic(),
                fate=fate,
                start=start,
                end=end,
                whole=True,
            )
        )


def batch_of(origin: int, first: int, count: int) -> pa.RecordBatch:
    """Records [first, first + count) of an origin."""
    numbers = [record_number(origin, ordinal) for ordinal in range(first, first + count)]
    columns: dict[str, list[int] | list[str]]
    columns = {"number": numbers, "filling": [_FILLING] * count}
    return pa.record_batch(columns)


# ---------------------------------------------------------------- readers


def follow_nodes(site: Site, spawn: Callable[..., None]) -> None:
    """Have every node read that there is, and those that come."""
    followed: set[int] = set()
    while not site.stop.wait(_READ_PAUSE_S):
        for node in site.nodes.keys() - followed:
            followed.add(node)
            spawn(read_from, node)
            spawn(ask_mark_of, node)


def read_from(site: Site, node: int) -> None:
    """Follow every topic at one replica: the mark from the leader, the records from this node."""
    with site.client(HASTY_S) as marks, site.client_of(node) as replica:
        positions = {topic.name: 0 for topic in site.topics}
        while node in site.nodes and not site.stop.wait(_READ_PAUSE_S):
            for topic in site.topics:
                try:
                    mark = marks.read_high_water_mark(topic).high_water_mark
                    for read in read_range(replica, topic, node, positions[topic.name], mark):
                        site.history.reads.append(read)
                        positions[topic.name] += len(read.numbers)
                except RaftlogError as error:
                    if not error.retriable:
                        raise


def read_range(
    client: LogClient, topic: TopicInfo, node: int, start: int, mark: int
) -> Sequence[Read]:
    """[start, mark) as the client's node gives it. Keeps what came before an error."""
    reads: list[Read] = []
    columns = ["_offset", "number"]
    try:
        for batch in client.read(topic, start, mark, mark=mark, columns=columns):
            offsets: list[Any] = batch.column(0).to_pylist()
            numbers: list[Any] = batch.column(1).to_pylist()
            reads.append(
                Read(
                    topic=topic.name,
                    node=node,
                    mark=mark,
                    start=offsets[0],
                    numbers=array("q", numbers),
                )
            )
    except RaftlogError as error:
        if not error.retriable:
            raise
    return reads


def ask_mark(site: Site) -> None:
    """Read linearizable marks as any client does."""
    with site.client(HASTY_S) as client:
        while not site.stop.wait(_READ_PAUSE_S):
            _ask_marks(site, client, "the leader")


def ask_mark_of(site: Site, node: int) -> None:
    """Read linearizable marks from this node, whichever leads: one that was paused while another
    was elected must not answer with what it knew before."""
    with site.client_of(node) as client:
        while node in site.nodes and not site.stop.wait(_READ_PAUSE_S):
            _ask_marks(site, client, f"node {node}")


def _ask_marks(site: Site, client: LogClient, asked: str) -> None:
    for topic in site.topics:
        begin_s = time.monotonic()
        try:
            mark = client.read_high_water_mark(topic).high_water_mark
        except RaftlogError as error:
            if not error.retriable:
                raise
            continue
        site.history.marks.append(
            MarkRead(
                topic=topic.name,
                asked=asked,
                begin_s=begin_s,
                end_s=time.monotonic(),
                mark=mark,
            )
        )
