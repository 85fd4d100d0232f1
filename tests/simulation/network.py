"""The network between nodes: frames of the real codec, late, lost, duplicated, reordered or cut.

A frame is what one turn of a node sends to another node. Clients reach nodes by `call`, over the
same latencies and losses, but never cut: a cut client only loses its request or the answer, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from raftlog.core.messages import ImageChunk, PeerMessage
from raftlog.core.types import NodeId
from raftlog.wire.codec import decode_peer_messages, encode_peer_messages
from tests.simulation.readers import Positions
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import Settings

Receive = Callable[[NodeId, Sequence[PeerMessage]], None]
PeerReachable = Callable[[int], None]
Link = tuple[NodeId, NodeId]


CONNECT_US = 50_000
"""How long a node waits before it tries again to open its stream to a peer."""


DAMAGED_WHEN_HEALED = 3
"""Chunks of images. More would let none of those arrive that consist of many."""


class Network:
    """Directed links between nodes. A healed network delays, and damages a few chunks of images at
    most. Frames need no stream here, but opening one is an event for the node that opened it.
    """

    def __init__(self, simulator: Simulator, settings: Settings) -> None:
        self._simulator = simulator
        self._settings = settings
        self._random = simulator.random("network")
        self._receivers: dict[NodeId, Receive] = {}
        self._openers: dict[NodeId, PeerReachable] = {}
        self._up: set[NodeId] = set()
        self._stores: dict[NodeId, str] = {}
        self.unknown_stores: dict[NodeId, str] = {}
        """Of nodes that came with another store than the first time."""
        self._connecting: set[Link] = set()
        self._cuts: dict[Link, int] = {}
        self._last_arrival: dict[Link, int] = {}
        self.faulty = True
        self.founding = False
        """Is nothing looked for yet? Then what nodes wait for comes at once, in large turns."""
        self._damaged_when_healed = DAMAGED_WHEN_HEALED
        self.positions = Positions()
        """What every node can read in the key-value store."""

    def attach(
        self, node: NodeId, store: str, receive: Receive, peer_reachable: PeerReachable
    ) -> None:
        """`peer_reachable` is told how many nodes can be reached when the node's stream opens."""
        if self._stores.setdefault(node, store) != store:
            self.unknown_stores[node] = store
        self._receivers[node] = receive
        self._openers[node] = peer_reachable

    def started(self, node: NodeId) -> None:
        """The node's process runs: it opens a stream to every peer, and every peer to it."""
        self._up.add(node)
        for peer in sorted(self._up - {node}):
            self.connect(node, peer)
            self.connect(peer, node)

    def ended(self, node: NodeId) -> None:
        self._up.discard(node)

    def connect(self, here: NodeId, there: NodeId) -> None:
        """Open a stream as soon as the link is open, for as long as both processes run."""
        link = (here, there)
        if link in self._connecting:
            return
        self._connecting.add(link)

        def dial() -> None:
            self._connecting.discard(link)
            if not self._up.issuperset(link) or not self.unknown_stores.keys().isdisjoint(link):
                return
            if link in self._cuts:
                self.connect(here, there)
                return
            reached = sum((here, peer) not in self._cuts for peer in self._up)
            self._openers[here](reached)

        self._simulator.at(CONNECT_US + self._latency(), dial)

    def heal(self) -> None:
        """End all cuts, and lose, duplicate and reorder nothing from now on."""
        self._cuts.clear()
        self.faulty = False

    def cut(self, links: Sequence[Link]) -> None:
        """Cut directed links; each cut needs its own `mend`."""
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1

    def mend(self, links: Sequence[Link]) -> None:
        for link in links:
            left = self._cuts.get(link, 0) - 1
            if left > 0:
                self._cuts[link] = left
            else:
                self._cuts.pop(link, None)

    def send(self, sender: NodeId, to: NodeId, messages: Sequence[PeerMessage]) -> None:
        frame = encode_peer_messages([self._damaged(message) for message in messages])
        link = (sender, to)
        simulator = self._simulator
        if link in self._cuts:
            simulator.counts["frame cut"] += 1
            return
        if self._happens(self._settings.loss):
            simulator.counts["frame lost"] += 1
            return
        self._carry(link, frame)
        if self._happens(self._settings.duplication):
            simulator.counts["frame doubled"] += 1
            self._carry(link, frame)

    def _damaged(self, message: PeerMessage) -> PeerMessage:
        """The message, or a chunk of an image with another byte: a few also in a healed network,
        where most images travel. One that is noticed is asked for again."""
        if not isinstance(message, ImageChunk) or not message.data:
            return message
        if self._random.random() >= self._settings.chunk_damage:
            return message
        if not self.faulty:
            if not self._damaged_when_healed:
                return message
            self._damaged_when_healed -= 1
        self._simulator.counts["chunk damaged"] += 1
        place = self._random.randrange(len(message.data))
        flipped = bytes([message.data[place] ^ 1])
        data = message.data[:place] + flipped + message.data[place + 1 :]
        return replace(message, data=data)

    def call(self, request: Callable[[], None]) -> None:
        """Carry a client's request, or the answer to one, one way."""
        if self._happens(self._settings.loss):
            self._simulator.counts["call lost"] += 1
            return
        self._simulator.at(self._latency(), request)

    def delay_us(self) -> int:
        return self._latency()

    def _carry(self, link: Link, frame: bytes) -> None:
        simulator = self._simulator
        delay = self._latency()
        if self._happens(self._settings.reordering):
            simulator.counts["frame overtaken"] += 1
        else:
            arrival = max(simulator.now_us + delay, self._last_arrival.get(link, 0))
            self._last_arrival[link] = arrival
            delay = arrival - simulator.now_us
        checksum = zlib.crc32(frame)
        connected = [self.unknown_stores.get(end) for end in link]

        def arrive() -> None:
            if connected != [self.unknown_stores.get(end) for end in link]:
                return  # a process took the place of another one: their connections are closed
            if link[1] not in self._receivers:
                return  # it was added, and has not come yet
            simulator.note("frame", *link, checksum)
            self._receivers[link[1]](link[0], decode_peer_messages(frame))

        simulator.at(delay, arrive)

    def _latency(self) -> int:
        settings = self._settings
        if self.founding:
            return 1
        latency = settings.latency_us
        if self._happens(settings.spike_share):
            self._simulator.counts["frame late"] += 1
            return self._random.randrange(latency, latency + settings.election_us)
        return latency // 2 + int(self._random.random() * 1.5 * latency)

    def _happens(self, share: float) -> bool:
        return self.faulty and share > 0 and self._random.random() < share
