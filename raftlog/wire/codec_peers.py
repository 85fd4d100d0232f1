"""Private to `raftlog.wire`: what nodes say to one another, as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, get_args

from google.protobuf.message import Message

from raftlog.core.messages import (
    PULL_ROWS_MAX,
    AppendReply,
    AppendRequest,
    CopyRequest,
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
from raftlog.core.types import Entry, EntryKind, LogIndex, NodeId, Payload, Term
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec_commands import COMMAND_BYTES_MAX
from raftlog.wire.codec_fields import LENGTH_DELIMITED, field, parse
from raftlog.wire.codec_texts import has_texts, text_check
from raftlog.wire.codec_values import CONVERSIONS, UNREADABLE, malformed
from raftlog.wire.framing import Assembly, Unreadable, join, split
from raftlog.wire.mapping import Conversion
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome
from raftlog.wire.traced import CARRIED_MAX, TRACED_MAX, TracedEntry

V = TypeVar("V", PeerHello, PeerWelcome)

_CALL = "peer stream"
ENTRY_BYTES_MAX = 256 * 1024 * 1024
"""Of an entry's command and body. No setting allows more, also in all entries of an append request:
so what a node has stored fits into its frames, whichever node sent it."""
FRAME_BYTES_MAX = ENTRY_BYTES_MAX + 8 * 1024 * 1024
"""With all that an outbox puts before an append request into its frame, and their header."""
FRAME_MESSAGES_MAX = 16384
"""No outbox puts more into a frame: it closes one that counts 1 MiB, and a message counts 64 bytes
or more (`raftlog.transport.outbox`)."""
_FRAME_REQUESTS_MAX = 1024
"""Those for copies of what the receiver stores. A node asks another one for a few chunks of a few
images, and for one entry, and again after seconds."""
_FRAME_ITEMS_MAX = 262_144
"""Entries and rows in a frame's messages: four times what a setting allows in one, and one for each
4 bytes that an outbox puts into a frame."""
_PART_BYTES_MAX = 256 * 1024
"""Of a message besides its bulk: 4,096 rows of a pull, with the longest numbers."""
_ENTRIES_BYTES_MAX = 2 * 1024 * 1024
"""The same with 65,536 entries, of which it has the terms, kinds and lengths."""
_MANIFEST_BYTES_MAX = 65 * 1024 * 1024
"""The same with the text of an image's manifest (`raftlog.image.manifest`)."""
_HEADER_BYTES_MAX = 2 * _MANIFEST_BYTES_MAX
"""Of all of a frame's messages besides their bulk."""
_MESSAGE_BYTES_MIN = 4096
"""No node takes only shorter messages: pieces of a frame need room."""
_DIGEST_BYTES_MAX = 64
"""Of a state or a history."""
_KINDS = {kind.value: kind for kind in EntryKind}


def encode_peer_messages(
    messages: Sequence[PeerMessage], traced: Iterable[TracedEntry] = ()
) -> bytes:
    """One frame of messages in this order, and which entries of theirs, or of later ones, are
    traced; the entries' bytes are copied once."""
    header = pb.PeerMessages(traced=[_put_traced(each) for each in traced])
    body: list[bytes] = []
    for message in messages:
        add = header.messages.add
        match message:
            case AppendRequest():
                _put_append(add().append_request, message, body)
            case Heartbeat():
                _put_heartbeat(add().heartbeat, message)
            case ImageChunk():
                _put_chunk(add().image_chunk, message)
                body.append(message.data)
            case EntryReply():
                _put_entry(add().entry_reply, message)
                body.extend(message.payload)
            case PulledEntries():
                _put_pulled(add().pulled_entries, message, body)
            case _:
                name, conversion = _NAMES[type(message)]
                add(**{name: conversion.encode(message)})
    return join(header.SerializeToString(), body)


def decode_peer_messages(data: bytes) -> list[PeerMessage]:
    """The messages in order; each entry's bytes are its own. Raises `MalformedRequest`."""
    messages, _ = _decode_frame(data, None)
    return messages


def _decode_frame(
    data: bytes, way: tuple[NodeId, NodeId] | None
) -> tuple[list[PeerMessage], list[TracedEntry]]:
    """`way`: who sends all of the messages, and to which node."""
    try:
        header, body = split(data, _HEADER_BYTES_MAX)
        found: list[PeerMessage] = []
        traced: list[TracedEntry] = []
        # Slicing `data` makes each entry's bytes at once; a view of it would cost an object more.
        position = len(data) - len(body)
        items = requests = 0
        for name, part in _parts(header):
            if name == "traced":
                if len(traced) < TRACED_MAX:
                    traced.append(_get_traced(pb.TracedEntry.FromString(part)))
                continue
            message: Any = _PARSERS[name](part)
            if way is not None and (message.sender, message.to) != way:
                raise Unreadable("a message of or to another node")
            if name in _COPY_REQUESTS:
                requests += 1
                if requests > _FRAME_REQUESTS_MAX:
                    raise Unreadable(f"more than {_FRAME_REQUESTS_MAX} requests for copies")
            if name in _LISTS:
                count = len(getattr(message, _LISTS[name]))
                items += count
                if items > _FRAME_ITEMS_MAX:
                    raise Unreadable(f"more than {_FRAME_ITEMS_MAX} entries and rows")
                if name == "pull_request" and count > PULL_ROWS_MAX:
                    raise Unreadable(f"a request of {count} rows; {PULL_ROWS_MAX} are allowed")
            if name == "append_request":
                request, position = _get_append(message, data, position)
                found.append(request)
            elif name == "heartbeat":
                found.append(_get_heartbeat(message))
            elif name == "heartbeat_reply":
                _check_digest(message.state_hash)
                _check_digest(message.history_digest)
                found.append(_DECODERS[name](message))
            elif name == "image_chunk":
                _TEXT_CHECKS[name](message)
                chunk, position = _get_chunk(message, data, position)
                found.append(chunk)
            elif name == "entry_reply":
                reply, position = _get_entry(message, data, position)
                found.append(reply)
            elif name == "pulled_entries":
                pulled, position = _get_pulled(message, data, position)
                found.append(pulled)
            else:
                if name in _TEXT_CHECKS:
                    _TEXT_CHECKS[name](message)
                found.append(_DECODERS[name](message))
        if position != len(data):
            raise Unreadable(f"{len(data) - position} bytes follow the last entry")
        return found, traced
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error


def _parts(header: bytes) -> Iterator[tuple[str, bytes]]:
    """The bytes of a frame's messages, and of what is traced, with the kind of each.

    Protobuf would make objects of all of them at once, and of two bytes one of hundreds. So each is
    looked at before the next one: a frame of a peer that lies costs what it has sent.
    """
    position, end, count = 0, len(header), 0
    while position < end:
        tag, start, stop = field(header, position, end)
        position = stop
        count += 1
        if count > FRAME_MESSAGES_MAX + TRACED_MAX:
            raise Unreadable(f"a frame of more than {FRAME_MESSAGES_MAX} messages")
        if tag == _MESSAGES_TAG:
            if start == stop:
                raise Unreadable("a message of an unknown kind")
            tag, start, stop = field(header, start, stop)
            if stop != position or tag not in _KINDS_BY_TAG:
                raise Unreadable("a message of an unknown kind")
            name, most = _KINDS_BY_TAG[tag]
        elif tag == _TRACED_TAG:
            name, most = "traced", _PART_BYTES_MAX
        else:
            raise Unreadable("a frame with an unknown field")
        if stop - start > most:
            raise Unreadable(f"a {name} of {stop - start} bytes; {most} are allowed")
        yield name, header[start:stop]


class PeerFrames:
    """What comes on one peer stream: frames, long ones in pieces."""

    def __init__(self, sender: NodeId, to: NodeId) -> None:
        """All messages are from `sender` and to this node, `to`."""
        self._way = sender, to
        self._assembly = Assembly(FRAME_BYTES_MAX)
        self.traced: list[TracedEntry] = []
        """What is traced of the messages that came last, or come next."""

    def add(self, data: bytes) -> list[PeerMessage]:
        """The messages of the frame that is whole now, if one is. Raises `MalformedRequest`."""
        try:
            frame = self._assembly.add(data)
        except Unreadable as error:
            raise malformed(_CALL, error) from error
        messages: list[PeerMessage] = []
        self.traced = []
        if frame is not None:
            messages, self.traced = _decode_frame(frame, self._way)
        return messages


def encode_hello(hello: PeerHello) -> bytes:
    """The first frame of a peer stream."""
    return join(_HELLO.encode(hello).SerializeToString())


def decode_hello(data: bytes) -> PeerHello:
    """Raises `MalformedRequest`."""
    return _decode_alone(data, pb.PeerHello, _HELLO)


def encode_welcome(welcome: PeerWelcome) -> bytes:
    """The accepting node's first frame."""
    return join(_WELCOME.encode(welcome).SerializeToString())


def decode_welcome(data: bytes) -> PeerWelcome:
    """Raises `MalformedRequest`."""
    welcome = _decode_alone(data, pb.PeerWelcome, _WELCOME)
    if welcome.message_bytes_max < _MESSAGE_BYTES_MIN:
        problem = f"a peer that takes messages of {welcome.message_bytes_max} bytes at most"
        raise malformed(_CALL, Unreadable(problem))
    return welcome


def _decode_alone(data: bytes, message_type: type[Message], conversion: Conversion[V]) -> V:
    try:
        header, body = split(data)
        if body:
            raise Unreadable(f"a greeting comes with a body of {len(body)} bytes")
        message = parse(message_type, header)
        text_check(message_type.DESCRIPTOR)(message)
        return conversion.decode(message)
    except UNREADABLE as error:
        raise malformed(_CALL, error) from error


def _put_append(message: pb.AppendRequest, request: AppendRequest, body: list[bytes]) -> None:
    message.group = request.group
    message.sender = request.sender
    message.to = request.to
    message.term = request.term
    message.prev_index = request.prev_index
    message.prev_term = request.prev_term
    message.commit_index = request.commit_index
    _put_entries(message, request.prev_index, request.entries, body)


def _put_entries(
    message: pb.AppendRequest | pb.PulledEntries,
    prev_index: LogIndex,
    entries: Sequence[Entry],
    body: list[bytes],
) -> None:
    if not entries:
        return
    assert entries[0].index == prev_index + 1, "entries follow on prev_index"
    assert entries[-1].index == prev_index + len(entries), "entries have no gap"
    message.entry_terms.extend([entry.term for entry in entries])
    message.entry_kinds.extend([entry.kind for entry in entries])
    message.command_lengths.extend([len(entry.payload.command) for entry in entries])
    message.body_lengths.extend([len(entry.payload.body) for entry in entries])
    for entry in entries:
        body.extend(entry.payload)


def _get_append(message: Any, frame: bytes, position: int) -> tuple[AppendRequest, int]:
    entries, position = _get_entries(message, frame, position)
    request = AppendRequest(
        group=message.group,
        sender=message.sender,
        to=message.to,
        term=message.term,
        prev_index=message.prev_index,
        prev_term=message.prev_term,
        entries=entries,
        commit_index=message.commit_index,
    )
    return request, position


def _get_entries(message: Any, frame: bytes, position: int) -> tuple[tuple[Entry, ...], int]:
    """The entries of an append request, or pulled ones, whose bytes begin there; and their end."""
    count = len(message.entry_terms)
    columns = (message.entry_kinds, message.command_lengths, message.body_lengths)
    if any(len(column) != count for column in columns):
        raise Unreadable("the columns of entries differ in length")
    entries: list[Entry] = []
    index = message.prev_index
    for term, kind, command_length, body_length in zip(message.entry_terms, *columns, strict=True):
        if kind not in _KINDS:
            raise Unreadable(f"an entry of the unknown kind {kind}")
        index += 1
        payload, position = _get_payload(command_length, body_length, frame, position)
        entries.append(Entry(LogIndex(index), Term(term), _KINDS[kind], payload))
    return tuple(entries), position


def _get_payload(
    command_length: int, body_length: int, frame: bytes, position: int
) -> tuple[Payload, int]:
    """What an entry holds, whose bytes begin there; and their end."""
    middle = position + command_length
    end = middle + body_length
    if command_length > COMMAND_BYTES_MAX or end - position > ENTRY_BYTES_MAX:
        raise Unreadable(
            f"an entry of {command_length} and {body_length} bytes; its command may have "
            f"{COMMAND_BYTES_MAX}, and both {ENTRY_BYTES_MAX}"
        )
    if end > len(frame):
        raise Unreadable(f"an entry ends beyond the frame's {len(frame)} bytes")
    return Payload(frame[position:middle], frame[middle:end]), end


def _put_pulled(message: pb.PulledEntries, pulled: PulledEntries, body: list[bytes]) -> None:
    message.group = pulled.group
    message.sender = pulled.sender
    message.to = pulled.to
    message.term = pulled.term
    message.leader = pulled.leader
    message.held = pulled.held
    message.base_index = pulled.base_index
    message.commit_index = pulled.commit_index
    message.prev_index = pulled.prev_index
    message.prev_term = pulled.prev_term
    _put_entries(message, pulled.prev_index, pulled.entries, body)


def _get_pulled(message: Any, frame: bytes, position: int) -> tuple[PulledEntries, int]:
    entries, position = _get_entries(message, frame, position)
    pulled = PulledEntries(
        group=message.group,
        sender=message.sender,
        to=message.to,
        term=message.term,
        leader=message.leader,
        held=message.held,
        base_index=message.base_index,
        commit_index=message.commit_index,
        prev_index=message.prev_index,
        prev_term=message.prev_term,
        entries=entries,
    )
    return pulled, position


def _put_heartbeat(message: pb.Heartbeat, heartbeat: Heartbeat) -> None:
    """Written by hand: a frame has one for each group."""
    message.group = heartbeat.group
    message.sender = heartbeat.sender
    message.to = heartbeat.to
    message.term = heartbeat.term
    message.commit_index = heartbeat.commit_index
    message.commit_term = heartbeat.commit_term
    message.recovery = heartbeat.recovery
    message.read_round = heartbeat.read_round
    message.quiesce_round = heartbeat.quiesce_round
    message.hash_index = heartbeat.hash_index
    message.agreed_index = heartbeat.agreed_index
    message.agreed_hash = heartbeat.agreed_hash
    message.disputed = heartbeat.disputed
    message.recovered = heartbeat.recovered
    message.history_index = heartbeat.history_index
    message.agreed_history_index = heartbeat.agreed_history_index
    message.agreed_history_digest = heartbeat.agreed_history_digest
    message.history_disputed = heartbeat.history_disputed


def _check_digest(digest: bytes) -> None:
    if len(digest) > _DIGEST_BYTES_MAX:
        raise Unreadable(f"a digest of {len(digest)} bytes; {_DIGEST_BYTES_MAX} are allowed")


def _get_heartbeat(message: Any) -> Heartbeat:
    _check_digest(message.agreed_hash)
    _check_digest(message.agreed_history_digest)
    return Heartbeat(
        group=message.group,
        sender=message.sender,
        to=message.to,
        term=message.term,
        commit_index=message.commit_index,
        commit_term=message.commit_term,
        recovery=message.recovery,
        read_round=message.read_round,
        quiesce_round=message.quiesce_round,
        hash_index=message.hash_index,
        agreed_index=message.agreed_index,
        agreed_hash=message.agreed_hash,
        disputed=message.disputed,
        recovered=message.recovered,
        history_index=message.history_index,
        agreed_history_index=message.agreed_history_index,
        agreed_history_digest=message.agreed_history_digest,
        history_disputed=message.history_disputed,
    )


def _put_chunk(message: pb.ImageChunk, chunk: ImageChunk) -> None:
    message.group = chunk.group
    message.sender = chunk.sender
    message.to = chunk.to
    message.name = chunk.name
    message.position = chunk.position
    message.crc = chunk.crc
    message.gone = chunk.gone
    message.length = len(chunk.data)


def _get_chunk(message: Any, frame: bytes, position: int) -> tuple[ImageChunk, int]:
    end = position + message.length
    if end > len(frame):
        raise Unreadable(f"a chunk ends beyond the frame's {len(frame)} bytes")
    chunk = ImageChunk(
        group=message.group,
        sender=message.sender,
        to=message.to,
        name=message.name,
        position=message.position,
        crc=message.crc,
        gone=message.gone,
        data=frame[position:end],
    )
    return chunk, end


def _put_entry(message: pb.EntryReply, reply: EntryReply) -> None:
    message.group = reply.group
    message.sender = reply.sender
    message.to = reply.to
    message.index = reply.index
    message.term = reply.term
    message.held = reply.held
    message.dropped = reply.dropped
    message.crc = reply.crc
    message.command_length = len(reply.payload.command)
    message.body_length = len(reply.payload.body)


def _get_entry(message: Any, frame: bytes, position: int) -> tuple[EntryReply, int]:
    payload, position = _get_payload(message.command_length, message.body_length, frame, position)
    reply = EntryReply(
        group=message.group,
        sender=message.sender,
        to=message.to,
        index=message.index,
        term=message.term,
        held=message.held,
        dropped=message.dropped,
        crc=message.crc,
        payload=payload,
    )
    return reply, position


def _put_traced(entry: TracedEntry) -> pb.TracedEntry:
    return pb.TracedEntry(
        group=entry.group, index=entry.index, term=entry.term, carried=entry.carried
    )


def _get_traced(message: Any) -> TracedEntry:
    return TracedEntry(message.group, message.index, message.term, message.carried[:CARRIED_MAX])


_HELLO = CONVERSIONS.of(PeerHello)
_WELCOME = CONVERSIONS.of(PeerWelcome)
_NAMES: dict[type, tuple[str, Conversion[Any]]] = {
    kind: (name, CONVERSIONS.of(kind))
    for name, kind in {
        "vote_request": VoteRequest,
        "vote_reply": VoteReply,
        "timeout_now": TimeoutNow,
        "append_reply": AppendReply,
        "heartbeat_reply": HeartbeatReply,
        "group_deleted": GroupDeleted,
        "node_heartbeat": NodeHeartbeat,
        "image_offer": ImageOffer,
        "image_request": ImageRequest,
        "image_manifest": ImageManifest,
        "image_chunk_request": ImageChunkRequest,
        "entry_request": EntryRequest,
        "pull_request": PullRequest,
        "pull_done": PullDone,
    }.items()
}
_DECODERS = {name: conversion.decode for name, conversion in _NAMES.values()}
_PARTS: dict[str, Any] = {
    field.name: field.message_type for field in pb.PeerMessage.DESCRIPTOR.fields
}
_PARSERS: dict[str, Callable[[bytes], Any]] = {
    name: getattr(pb, kind.name).FromString for name, kind in _PARTS.items()
}
_LISTS = {
    "append_request": "entry_terms",
    "pulled_entries": "entry_terms",
    "pull_request": "rows",
}
"""The lists in messages, of which one is as long as the others of the same message."""
_COPY_REQUESTS = frozenset(_NAMES[kind][0] for kind in get_args(CopyRequest))
_LONG = {
    "append_request": _ENTRIES_BYTES_MAX,
    "pulled_entries": _ENTRIES_BYTES_MAX,
    "image_manifest": _MANIFEST_BYTES_MAX,
}
_KINDS_BY_TAG = {
    field.number << 3 | LENGTH_DELIMITED: (field.name, _LONG.get(field.name, _PART_BYTES_MAX))
    for field in pb.PeerMessage.DESCRIPTOR.fields
}
_MESSAGES_TAG, _TRACED_TAG = (
    field.number << 3 | LENGTH_DELIMITED for field in pb.PeerMessages.DESCRIPTOR.fields
)
_TEXT_CHECKS = {name: text_check(kind) for name, kind in _PARTS.items() if has_texts(kind)}
"""Of the messages that have texts. Most have none, and a frame has thousands of these."""
