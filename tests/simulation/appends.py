"""A simulation with threads that append through one real `LogClient`, and a count of their rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from raftlog.client.connection import Connection
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.core.types import GroupId, Offset
from raftlog.errors import RaftlogError
from raftlog.machines.commands import TopicInfo
from raftlog.machines.outcomes import Appended
from raftlog.records.batch_codec import decode_batch
from tests.simulation.cluster import Result, Simulation
from tests.simulation.node import SimulatedNode
from tests.simulation.promises import Promise, Violation
from tests.simulation.records import Label
from tests.simulation.serving import SimulatedChannels, address_of
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import SECOND, draw
from tests.simulation.tasks import Task
from tests.simulation.threads import SimulatedThread, Threads

NAME = "shared"
THREADS = 4
ROWS_MAX = 6
LABEL_CHARACTERS = 700
"""Two or three rows fill an entry."""

CHAOS_EVENTS_MAX = 3_000
COLUMN_NAMES = ("padding", "filler")
"""What the topic's second column is called, in turn. A leader rejects who knows it by the former
name, after it has taken the first entries of the same append."""


class AppendSimulation(Simulation):
    """Topics as always, and one beside them that a client's threads share."""

    def __init__(self, seed: int) -> None:
        settings = replace(
            draw(Simulator(seed).random("swarm")),
            topics=1,
            producers=1,
            window=1,
            writers=0,
            readers=0,
            damage_weight=0,
            chaos_events_max=CHAOS_EVENTS_MAX,
            pace=1,
        )
        super().__init__(seed, settings)
        self.threads = Threads(self.simulator, 8 * settings.latency_us)
        self.shared: TopicInfo | None = None
        self.appended: dict[str, Appended] = {}
        """By the label of each row whose append returned: what it returned."""
        self.raised: set[str] = set()
        """The labels of rows whose append raised."""

    def groups(self) -> list[GroupId]:
        return [*super().groups(), *([self.shared.group] if self.shared is not None else [])]

    def go(self) -> Result:
        self.clients.spawn("shared topic", self._share())
        try:
            with self.threads.client_modules():
                result = super().go()
        finally:
            self.threads.end()
        for node in self.nodes.values():
            self._check(self._labels(node))
        return result

    # ------------------------------------------------------------ threads

    def _share(self) -> Task:
        self.shared = yield from self.clients.create_topic(NAME)
        client, other = self._client(), self._client()
        works = {
            f"append {number}": partial(self._append, client, number) for number in range(THREADS)
        }
        works |= {
            f"alter {number}": partial(self._alter, altering, number)
            for number, altering in enumerate((client, other))
        }
        for name, work in works.items():
            self.clients.spawn(name, self._end_of(self.threads.start(name, work)))

    def _end_of(self, thread: SimulatedThread) -> Task:
        while not thread.ended:
            yield self.clients.think()

    def _client(self) -> LogClient:
        random, try_s = self.clients.random, self.settings.request_timeout_us / SECOND
        settings = ClientSettings(
            bootstrap_servers=",".join(map(address_of, self.nodes)),
            try_timeout_s=try_s,
            request_timeout_s=random.choice((1, 3, 20)) * try_s,
            producer_idle_max_s=random.choice((0.0, 3600.0)),
            max_in_flight=random.choice((1, 1, 3)),
            batch_bytes=1024,
            compression="none",
        )
        channels = SimulatedChannels(settings, self.threads, self.network, self.nodes)
        return LogClient(Connection(settings, channels))

    def _append(self, client: LogClient, number: int) -> None:
        """Append until clients stop, by the topic's name or as the topic was at some time."""
        random, tries = self.simulator.random(f"appends {number}"), 0
        topic: TopicInfo | str = NAME
        while not self.clients.stopping:
            tries += 1
            rows = _rows(random, f"thread-{number}", tries)
            labels = [row["label"] for row in rows]
            try:
                appended = client.append(topic, rows)
            except RaftlogError as error:
                self.raised.update(labels)
                self.simulator.counts[f"appends that raised {type(error).__name__}"] += 1
            else:
                self.appended.update(dict.fromkeys(labels, appended))
                self.simulator.counts["appends that returned"] += 1
            if number % 2 and random.random() < 0.3:
                topic = self._known(client, topic)
            self._think(random)

    def _known(self, client: LogClient, topic: TopicInfo | str) -> TopicInfo | str:
        try:
            return client.describe_topic(NAME)
        except RaftlogError:
            return topic

    def _alter(self, client: LogClient, number: int) -> None:
        """Rename a column again and again, until clients stop."""
        random = self.simulator.random(f"alterations {number}")
        while not self.clients.stopping:
            try:
                topic = client.describe_topic(NAME)
                name = topic.schema.fields[1].name
                (other,) = set(COLUMN_NAMES) - {name}
                client.alter_schema(topic, rename={name: other})
                self.simulator.counts["columns renamed"] += 1
            except RaftlogError:
                self.simulator.counts["alterations that raised"] += 1
            for _ in range(3):
                self._think(random)

    def _think(self, random: Random) -> None:
        if not self.clients.stopping:
            self.threads.sleep(random.randrange(2 * self.settings.think_us) / SECOND)

    # ------------------------------------------------------------ what is in the log

    def _labels(self, node: SimulatedNode) -> list[str]:
        """Those of all rows that a node has, in offset order."""
        assert self.shared is not None
        local = node.local(self.shared.group)
        assert local is not None
        schema, labels = local.topic_machine.info.schema, list[str]()
        while (offset := len(labels)) < local.topic_machine.high_water_mark:
            batch = local.batch_at(Offset(offset))
            slices = [(each.position, each.length) for each in batch.header.columns]
            body = b"".join(batch.body_slices(slices))
            (column,) = decode_batch(batch.header, body, schema, ["label"]).columns
            labels += column.to_pylist()
        return labels

    def _check(self, labels: list[str]) -> None:
        """Rows that were appended are there once, in their place; others once at most."""
        counted = Counter(labels)
        for what, wrong in (
            ("are there twice", [label for label, count in counted.items() if count > 1]),
            ("are lost", self.appended.keys() - counted.keys()),
            ("were never appended", counted.keys() - self.appended.keys() - self.raised),
        ):
            if wrong:
                rows = ", ".join(sorted(label.rstrip(".") for label in wrong))
                raise Violation(Promise.NOTHING_LOST, f"rows that {what}: {rows}")
        for offset, label in enumerate(labels):
            told = self.appended.get(label)
            if told is not None and not told.start <= offset < told.end:
                raise Violation(Promise.NOTHING_LOST, f"{label} is at {offset}, not in {told}")


def _rows(random: Random, source: str, number: int) -> list[dict[str, Any]]:
    """A few rows; now and then with a column that the topic may not have."""
    name = random.choice((*COLUMN_NAMES, *[None] * 6))
    labels = [
        Label("append", source, number, place, "." * LABEL_CHARACTERS).text()
        for place in range(random.randrange(1, ROWS_MAX + 1))
    ]
    return [{"label": label} | ({name: b""} if name else {}) for label in labels]
