"""What of the messages of peers is not taken: entries that are too many to check at once, and what
no honest peer sends a sound node, which is counted, and logged now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from raftlog.core.messages import AppendRequest, PeerMessage, PulledEntries
from raftlog.core.types import NodeId
from raftlog.errors import AcknowledgedEntriesLost, PeerProtocolViolation
from raftlog.multiraft.effects import Effects, PeerMessagesRefused

_TOLD_TICKS = 100
"""A peer is logged once in so many ticks, however often it breaks the protocol. It bounds lines of
the node's log and nothing else, so it is no setting."""

_COMMAND_BYTES_MAX = 2 * 1024 * 1024
"""Bytes of the commands of one frame, without the records beside them, after which no further one
is checked. No setting: it bounds for how long the loop stands still.

An outbox puts less than 1 MiB into a frame before the last message of it. So that one's first entry
is checked, however long it is, and the others unless `raft.append_bytes_max` is above 1 MiB."""


def beginnings(messages: Iterable[PeerMessage]) -> Iterator[PeerMessage]:
    """The messages of a frame, without the entries that come after as many bytes of commands as are
    checked at once. Those count as lost: they are sent, or asked for, again."""
    room = _COMMAND_BYTES_MAX
    for message in messages:
        if not isinstance(message, AppendRequest | PulledEntries) or not message.entries:
            yield message
            continue
        taken = 0
        for entry in message.entries:
            if room <= 0:
                break
            room -= len(entry.payload.command)
            taken += 1
        if taken == len(message.entries):
            yield message
        elif taken:
            yield replace(message, entries=message.entries[:taken])


class Refusals:
    """What was refused of each peer since this process started.

    The peer's stream stays open: its other messages may be sound, and to open the stream again and
    say the same would only cost more.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._told_tick: dict[NodeId, int] = {}
        self.counts: Counter[NodeId] = Counter()
        """By peer, how many of its messages were dropped."""

    def note(self, violation: PeerProtocolViolation | AcknowledgedEntriesLost, now: int) -> None:
        """A message was dropped at tick `now`."""
        peer = NodeId(violation.peer)
        self.counts[peer] += 1
        told_tick = self._told_tick.get(peer)
        if told_tick is None or now >= told_tick + _TOLD_TICKS:
            self._told_tick[peer] = now
            self._effects.tell(PeerMessagesRefused(latest=violation, count=self.counts[peer]))
