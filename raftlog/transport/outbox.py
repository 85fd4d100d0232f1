"""What waits to be sent to one peer: control messages ahead of bulk, bulk in turns over the groups.

A heartbeat, vote or reply must not wait behind megabytes of another group's entries, or a follower
would campaign against a leader that is merely busy. Append requests, those without entries among
them, keep their order within their group: a check that overtook the entries before it would be
rejected, and everything sent again.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from raftlog.core.messages import AppendRequest, PeerMessage
from raftlog.core.types import GroupId

FRAME_BYTES_MAX = 1024 * 1024
"""A frame closes once it carries this many bytes: what a heartbeat waits for, beside what grpc
holds. Not a setting: it goes with `raft.append_bytes_max`, and more bytes at once gained nothing
(docs/DECISIONS.md, "Heartbeats go ahead of bulk")."""

MESSAGE_BYTES = 64
"""What a message counts for besides its entries."""

CONTROL_BYTES_MAX = 4 * 1024 * 1024
"""Control messages have a bound of their own, so that full bulk never costs a heartbeat. It holds
the heartbeats of 10,000 awake groups six times over, so it is not a user's business."""


class Outbox:
    """Bounded queues to one peer. One event loop's own."""

    def __init__(self, bulk_bytes_max: int) -> None:
        self._bulk_bytes_max = bulk_bytes_max
        self._control: deque[PeerMessage] = deque()
        self._bulk: OrderedDict[GroupId, deque[AppendRequest]] = OrderedDict()
        self.bulk_bytes = 0
        """Bytes of append requests that wait."""

    def __bool__(self) -> bool:
        return bool(self._control or self._bulk)

    def put(self, message: PeerMessage) -> bool:
        """Queue the message; False: there is no room, and it is dropped."""
        if not isinstance(message, AppendRequest):
            if len(self._control) * MESSAGE_BYTES >= CONTROL_BYTES_MAX:
                return False
            self._control.append(message)
            return True
        size = message_bytes(message)
        if self._bulk and self.bulk_bytes + size > self._bulk_bytes_max:
            return False
        self._bulk.setdefault(message.group, deque()).append(message)
        self.bulk_bytes += size
        return True

    def take_frame(self) -> list[PeerMessage]:
        """The messages to send next: all control messages that fit, then one append request of
        each group in turn."""
        frame: list[PeerMessage] = []
        size = 0
        while self._control and size < FRAME_BYTES_MAX:
            frame.append(self._control.popleft())
            size += MESSAGE_BYTES
        while self._bulk and size < FRAME_BYTES_MAX:
            group, waiting = self._bulk.popitem(last=False)
            request = waiting.popleft()
            if waiting:
                self._bulk[group] = waiting
            frame.append(request)
            size += message_bytes(request)
            self.bulk_bytes -= message_bytes(request)
        return frame

    def clear(self) -> None:
        """Drop everything, as a stream that ended does."""
        self._control.clear()
        self._bulk.clear()
        self.bulk_bytes = 0


def message_bytes(message: PeerMessage) -> int:
    """What a message counts for in a frame and in the queue's bound."""
    if isinstance(message, AppendRequest):
        return MESSAGE_BYTES + sum(entry.payload.size for entry in message.entries)
    return MESSAGE_BYTES
