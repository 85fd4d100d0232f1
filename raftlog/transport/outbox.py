"""The queue of messages to one peer: control messages before bulk, and the groups' bulk in turns.

A heartbeat, vote or reply must not wait behind megabytes of another group's entries, or a follower
would campaign against a leader that is only busy. Append requests, even those without entries,
keep their order within their group: a probe that overtook the entries before it would be rejected,
and everything would be sent again. Manifests and chunks of images, and entries for repairs, are
bulk as well. So are the answers to pulls, which share one queue: `PullDone` must follow all of
them, or the observer would ask for the same entries again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TypeAlias, assert_never

from raftlog.core.messages import (
    AppendReply,
    AppendRequest,
    EntryReply,
    EntryRequest,
    GroupDeleted,
    Heartbeat,
    HeartbeatReply,
    ImageChunk,
    ImageChunkRequest,
    ImageManifest,
    ImageOffer,
    ImageRequest,
    NodeHeartbeat,
    PeerMessage,
    PullDone,
    PulledEntries,
    PullRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from raftlog.core.types import GroupId

FRAME_BYTES_MAX = 1024 * 1024
"""A frame is closed once it carries this many bytes. A heartbeat waits for one frame, besides what
grpc holds. Not a setting: it goes with `raft.append_bytes_max`, and larger frames gained nothing
(docs/DECISIONS.md, "Heartbeats go ahead of bulk")."""

MESSAGE_BYTES = 64
"""What the numbers of a message count, and those of each row of a pull: about their size in a
frame, so no setting."""

ENTRY_BYTES = 256
"""What an entry counts besides its payload: about what it takes in memory. In a frame it is less.
No setting, either."""

CONTROL_BYTES_MAX = 4 * 1024 * 1024
"""Control messages have a separate bound, so that a full bulk queue never drops a heartbeat. It has
room for the heartbeats of 10,000 awake groups, with both hashes, three times over, so users need
not set it."""

BULK_MESSAGES_MAX = CONTROL_BYTES_MAX // MESSAGE_BYTES
"""As many as control messages: a small one takes more in memory than it counts, and a full queue
has room for a million of them."""

_Bulk = AppendRequest | EntryReply | ImageChunk | ImageManifest | PullDone | PulledEntries
"""What may be large, and what must stay behind it."""

_Sized: TypeAlias = tuple[PeerMessage, int]
"""A message and its `message_bytes`."""


class Outbox:
    """Bounded queues to one peer. For one event loop only."""

    def __init__(self, bulk_bytes_max: int) -> None:
        self._bulk_bytes_max = bulk_bytes_max
        self._control: deque[_Sized] = deque()
        self._control_bytes = 0
        self._bulk: OrderedDict[GroupId | None, deque[_Sized]] = OrderedDict()
        """By group; None: the answers to pulls."""
        self._bulk_messages = 0
        self.bulk_bytes = 0
        """Bytes of the bulk messages in the queue."""

    def __bool__(self) -> bool:
        return bool(self._control or self._bulk)

    def put(self, message: PeerMessage) -> bool:
        """Queue the message. Returns False if there is no room: then the message is dropped."""
        size = message_bytes(message)
        if not isinstance(message, _Bulk):
            if self._control and self._control_bytes + size > CONTROL_BYTES_MAX:
                return False
            self._control.append((message, size))
            self._control_bytes += size
            return True
        if self._bulk and self.bulk_bytes + size > self._bulk_bytes_max:
            return False
        if self._bulk_messages >= BULK_MESSAGES_MAX:
            return False
        queue = None if isinstance(message, PulledEntries | PullDone) else message.group
        self._bulk.setdefault(queue, deque()).append((message, size))
        self._bulk_messages += 1
        self.bulk_bytes += size
        return True

    def take_frame(self) -> list[PeerMessage]:
        """The messages to send next: all control messages that fit, then one bulk message of each
        queue in turn."""
        frame: list[PeerMessage] = []
        size = 0
        while self._control and size < FRAME_BYTES_MAX:
            message, message_size = self._control.popleft()
            frame.append(message)
            size += message_size
        self._control_bytes -= size
        while self._bulk and size < FRAME_BYTES_MAX:
            queue, waiting = self._bulk.popitem(last=False)
            message, message_size = waiting.popleft()
            if waiting:
                self._bulk[queue] = waiting
            frame.append(message)
            size += message_size
            self._bulk_messages -= 1
            self.bulk_bytes -= message_size
        return frame

    def clear(self) -> None:
        """Drop everything, because the stream ended."""
        self._control.clear()
        self._control_bytes = 0
        self._bulk.clear()
        self._bulk_messages = self.bulk_bytes = 0


def message_bytes(message: PeerMessage) -> int:
    """What a message counts in a frame and against its queue's bound."""
    match message:
        case Heartbeat():
            more = len(message.agreed_hash) + len(message.agreed_history_digest)
        case HeartbeatReply():
            more = len(message.state_hash) + len(message.history_digest)
        case AppendRequest() | PulledEntries():
            more = sum(ENTRY_BYTES + entry.payload.size for entry in message.entries)
        case ImageChunk():
            more = len(message.name) + len(message.data)
        case ImageManifest():
            more = len(message.text)
        case EntryReply():
            more = message.payload.size
        case PullRequest():
            more = MESSAGE_BYTES * len(message.rows)
        case ImageRequest():
            more = len(message.refused)
        case ImageChunkRequest():
            more = len(message.name)
        case NodeHeartbeat():
            more = len(message.boot_id)
        case (
            VoteRequest()
            | VoteReply()
            | TimeoutNow()
            | AppendReply()
            | GroupDeleted()
            | ImageOffer()
            | EntryRequest()
            | PullDone()
        ):
            more = 0
        case _:
            assert_never(message)
    return MESSAGE_BYTES + more
