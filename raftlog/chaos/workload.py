"""What a cluster has to do while it is broken: writers, readers and watchers, each on a thread.

Every record's number is unique, so that the history tells each one's way. Patient writers wait
longer than any fault lasts; hasty ones give up soon, so that writes of unknown fate and replays
come about. All of them go at a measured pace: what is judged is safety, and the cores are shared.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from raftlog import AttemptReference, EpochKey, LogClient, TopicInfo
from raftlog.chaos.history import Fate, History, MarkRead, Read, Write, record_number
from raftlog.client.connection import Connection, Deadline
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId
from raftlog.errors import DeadlineExceeded, RaftlogError

T = TypeVar("T")

SCHEMA = "number bigint, filling string"
PATIENT_S = 120.0
"""Longer than a fault and the restart after it, on a machine that is busy with other things."""
HASTY_S = 1.5
"""About as long as an election takes, so that some are lost in each."""
ONE_TRY_S = 8.0
"""A question to one node waits longer than a node is paused: the answer of one that wakes must be
right, however late."""
_FILLING = "x" * 80
_BATCH_BYTES = 1024
"""So small that an append of some records takes several entries, with several in flight."""
_ROWS_MAX = 40
_WRITE_PAUSE_S = 0.02
_READ_PAUSE_S = 0.1
_JOIN_S = PATIENT_S + 30.0


class OneNode(Connection):
    """A connection that knows one node alone and asks it once, whoever leads."""

    def __init__(self, settings: ClientSettings, address: str) -> None:
        super().__init__(settings)
        self._only = address

    def addresses(self) -> tuple[str, ...]:
        """The one node's."""
        return (self._only,)

    def leader(self, group: GroupId) -> str:
        """The one node's, though it may not lead: then it has to say so."""
        return self._only

    def retry(self, once: Callable[[float], T], deadline: Deadline) -> T:
        """One try, whatever comes of it."""
        return once(deadline.remaining_s())


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a worker needs to know: where, what, and when to end."""

    settings: ClientSettings
    nodes: dict[int, str]
    """By node, where it listens."""
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
        """A client that asks this node alone, once."""
        settings = self.settings.model_copy(
            update={"request_timeout_s": ONE_TRY_S, "attempt_timeout_s": ONE_TRY_S}
        )
        return LogClient(OneNode(settings, self.nodes[node]))


@dataclass(slots=True)
class Workload:
    """All workers of one site. Use as a context manager: leaving it waits for their end."""

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
        for node in site.nodes:
            self._spawn(read_from, node)
            self._spawn(ask_mark_of, node)
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
    """One producer to the end; each append must be acknowledged in spite of every fault."""
    with site.client(PATIENT_S) as client:
        _append(site, client, topic, random, rows_max, patient=True)


def append_hastily(site: Site, topic: TopicInfo, random: Random) -> None:
    """After an append that was not answered in time another producer, and another source: what
    became of it is not known."""
    while not site.stop.is_set():
        with site.client(HASTY_S) as client:
            _append(site, client, topic, random, _ROWS_MAX, patient=False)


def _append(
    site: Site, client: LogClient, topic: TopicInfo, random: Random, rows_max: int, *, patient: bool
) -> None:
    """Append as one source until told to stop, or until an append fails."""
    source, first = site.history.new_source(), 0
    while not site.stop.wait(_WRITE_PAUSE_S):
        count = random.randint(1, rows_max)
        begin_s = time.monotonic()
        fate, start, end = Fate.UNKNOWN, 0, 0
        try:
            reply = client.append(topic.name, batch_of(source, first, count))
            fate, start, end = Fate.ACKNOWLEDGED, reply.start, reply.end
        except RaftlogError as error:
            if not error.retriable:
                raise
        site.history.writes.append(
            Write(
                topic=topic.name,
                source=source,
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
    """A streaming query's writer: epochs of two tasks, staged and then made visible at once.

    After an error, and now and then without one, the query starts again: another run writes the
    same epoch with the same records. Some tasks have a losing attempt that nobody names.
    """
    writer = EpochWriter(site=site, topic=topic, random=random, source=site.history.new_source())
    epoch = 0
    while not site.stop.wait(_WRITE_PAUSE_S):
        run, done = uuid.uuid4().hex, True
        while done and not site.stop.wait(_WRITE_PAUSE_S):
            done = writer.write(run, epoch)
            if done and random.random() < 0.1:
                done = False  # the driver is gone after its write and before it knew
            elif done:
                epoch += 1


@dataclass(slots=True, kw_only=True)
class EpochWriter:
    """Writes epochs; those that it wrote before it writes as before."""

    site: Site
    topic: TopicInfo
    random: Random
    source: int
    _firsts: list[tuple[int, int]] = field(default_factory=list)
    """By epoch: its first record's place, and how many it has."""

    def write(self, run: str, epoch: int) -> bool:
        """One epoch in one run of the query; False: its fate is not known."""
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
            # The newest run is refused nothing; one that had no answer begins again as Spark would.
            if not error.retriable:
                raise
        self._note(self.source, first, count, begin_s, fate, start, end)
        return fate is Fate.ACKNOWLEDGED

    def _extent_of(self, epoch: int) -> tuple[int, int]:
        if epoch == len(self._firsts):
            first = sum(self._firsts[-1]) if self._firsts else 0
            self._firsts.append((first, self.random.randint(2, _ROWS_MAX)))
        return self._firsts[epoch]

    def _stage(
        self, client: LogClient, key: EpochKey, first: int, count: int
    ) -> Sequence[AttemptReference]:
        """Two tasks' attempts, each with a part of the records."""
        if self.random.random() < 0.2:
            loser = self.site.history.new_source()
            self._note(loser, 0, 1, time.monotonic(), Fate.NEVER)
            self._attempt(client, key, loser, 0, 1)
        middle = self.random.randint(1, count - 1)
        return [
            self._attempt(client, key, self.source, first, middle),
            self._attempt(client, key, self.source, first + middle, count - middle),
        ]

    def _attempt(
        self, client: LogClient, key: EpochKey, source: int, first: int, count: int
    ) -> AttemptReference:
        attempt = client.attempt(self.topic, key, create_writer=key.epoch == 0)
        try:
            attempt.write(batch_of(source, first, count))
            staged = attempt.finish()
        finally:
            attempt.close()
        assert staged is not None, "there are records"
        return staged

    def _note(
        self,
        source: int,
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
                source=source,
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


def batch_of(source: int, first: int, count: int) -> pa.RecordBatch:
    """Records [first, first + count) of a source."""
    numbers = [record_number(source, place) for place in range(first, first + count)]
    columns: dict[str, list[int] | list[str]]
    columns = {"number": numbers, "filling": [_FILLING] * count}
    return pa.record_batch(columns)


# ---------------------------------------------------------------- readers


def read_from(site: Site, node: int) -> None:
    """Follow every topic at one replica: the mark from the leader, the records from here."""
    with site.client(HASTY_S) as marks, site.client_of(node) as replica:
        positions = {topic.name: 0 for topic in site.topics}
        while not site.stop.wait(_READ_PAUSE_S):
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
    """[start, mark) as the client's node gives it; what came before an error is kept."""
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
    """Linearizable marks as any client gets them."""
    with site.client(HASTY_S) as client:
        _ask_marks(site, client, "the leader")


def ask_mark_of(site: Site, node: int) -> None:
    """Linearizable marks of this node whoever leads: one that was paused while another was elected
    must not answer with what it knew."""
    with site.client_of(node) as client:
        _ask_marks(site, client, f"node {node}")


def _ask_marks(site: Site, client: LogClient, asked: str) -> None:
    while not site.stop.wait(_READ_PAUSE_S):
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
