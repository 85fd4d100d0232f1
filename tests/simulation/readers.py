"""Reader groups of topics whose retention waits for them: what they publish, and when.

Positions are keys of the key-value store. Its group is not part of these simulations: it is enough
that leaders read the keys late, or not at all, while groups go on, and go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog.core.types import LogIndex, Offset
from raftlog.machines.commands import TopicInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.wire.reader_positions import ReaderPosition, encode, key_of

if TYPE_CHECKING:
    from tests.simulation.history import TopicHistory
    from tests.simulation.tasks import Task
    from tests.simulation.workload import Clients

SLIP = 1_000
"""How far above the mark a group's position is by a slip of somebody."""


class Positions:
    """The keys of the store, as nodes read them."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyValue] = {}

    def keys(self) -> list[KeyValue]:
        return [self._keys[key] for key in sorted(self._keys)]

    def publish(self, topic: TopicInfo, group: str, offset: int, incarnation: str = "") -> None:
        key = key_of(group, topic.name)
        position = ReaderPosition(
            group=group,
            topic=topic.name,
            incarnation=incarnation or topic.incarnation,
            offset=Offset(offset),
            published_us=0,
            publisher="",
        )
        self._keys[key] = KeyValue(key, LogIndex(1), encode(position))


class ReaderGroup:
    """One group of one topic. It has a position before retention begins."""

    def __init__(
        self,
        positions: Positions,
        topic: TopicInfo,
        history: TopicHistory,
        *,
        name: str,
        stalls: bool,
    ) -> None:
        """`stalls`: it stops after some reads, and keeps its position."""
        self.name = name
        self._positions = positions
        self._topic = topic
        self._history = history
        self._stalls = stalls
        self._publish(0)
        positions.publish(topic, f"{name} of before", 0, incarnation="another")

    def _publish(self, offset: int) -> None:
        self._positions.publish(self._topic, self.name, offset)
        self._history.group_at(self.name, offset)

    def run(self, clients: Clients) -> Task:
        """Read on, go back now and then, and publish each position."""
        random = clients.simulator.random(f"reader group {self.name}")
        position = 0
        reads = random.randrange(6) if self._stalls else 1 << 60
        while not clients.stopping and reads:
            reads -= 1
            start, mark = yield from clients.bounds(self._topic, self._history)
            position = min(mark, max(position, start) + random.randrange(30))
            if random.random() < 0.1:
                position = random.randrange(start, mark + 1)
            slips = random.random() < 0.3
            self._publish(mark + SLIP if slips else position)
            clients.simulator.counts["positions published"] += 1
            yield clients.think()
        if not self._stalls:
            _, mark = yield from clients.bounds(self._topic, self._history)
            self._publish(mark)
