"""The queue of messages to one peer: control messages before bulk, and the groups' bulk in turns.

A heartbeat, vote or reply must not wait behind megabytes of another group's entries, or a follower
would campaign against a leader that is only busy. Append requests, even those without entries,
keep their order within their group: a probe that overtook the entries before it would be rejected,
and everything would be sent again. Chunks of images, and entries for repairs, are bulk as well.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from raftlog.core.messages import AppendRequest, EntryReply, ImageChunk, PeerMessage
from raftlog.core.types import GroupId

FRAME_BYTES_MAX = 1024 * 1024
"""A frame is closed once it carries this many bytes. A heartbeat waits for one frame, besides what
grpc holds. Not a setting: it goes with `raft.append_bytes_max`, and larger frames gained nothing
(docs/DECISIONS.md, "Heartbeats go ahead of bulk")."""

MESSAGE_BYTES = 64
"""What a message counts besides its entries: about its size in a frame, so no setting."""

CONTROL_BYTES_MAX = 4 * 1024 * 1024
"""Control messages have a separate bound, so that a full bulk queue never drops a heartbeat. It has
room for the heartbeats of 10,000 awake groups six times over, so users need not set it."""


class Outbox:
    """Bounded queues to one peer. For one event loop only."""

    def __init__(self, bulk_bytes_max: int) -> None:
        self._bulk_bytes_max = bulk_bytes_max
        self._control: deque[PeerMessage] = deque()
        self._bulk: OrderedDict[GroupId, deque[AppendRequest | ImageChunk | EntryReply]] = (
            OrderedDict()
        )
        self.bulk_bytes = 0
        """Bytes of the append requests and chunks in the queue."""

    def __bool__(self) -> bool:
        return bool(self._control or self._bulk)

    def put(self, message: PeerMessage) -> bool:
        """Queue the message. Returns False if there is no room: then the message is dropped."""
        if not isinstance(message, AppendRequest | ImageChunk | EntryReply):
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
        """The messages to send next: all control messages that fit, then one append request or
        chunk of each group in turn."""
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
        """Drop everything, because the stream ended."""
        self._control.clear()
        self._bulk.clear()
        self.bulk_bytes = 0


def message_bytes(message: PeerMessage) -> int:
    """What a message counts in a frame and against the queue's bound."""
    if isinstance(message, AppendRequest):
        return MESSAGE_BYTES + sum(entry.payload.size for entry in message.entries)
    if isinstance(message, ImageChunk):
        return MESSAGE_BYTES + len(message.data)
    if isinstance(message, EntryReply):
        return MESSAGE_BYTES + message.payload.size
    return MESSAGE_BYTES
