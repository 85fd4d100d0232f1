"""What is sent to a peer first: control messages, then bulk, the groups taking turns."""

from __future__ import annotations

from raftlog.core.messages import AppendRequest, Heartbeat, PeerMessage
from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, NodeId, Payload, Term
from raftlog.transport.outbox import CONTROL_BYTES_MAX, FRAME_BYTES_MAX, MESSAGE_BYTES, Outbox
from raftlog.wire.codec import decode_peer_messages, encode_peer_messages
from raftlog.wire.codec_peers import FRAME_MESSAGES_MAX

MIB = 1024 * 1024


def request(group: int, prev_index: int, body_bytes: int = MIB) -> AppendRequest:
    """One entry; without bytes only the check of the previous one."""
    payload = Payload(b"", bytes(body_bytes))
    entry = Entry(LogIndex(prev_index + 1), Term(1), EntryKind.COMMAND, payload)
    return AppendRequest(
        group=GroupId(group),
        sender=NodeId(1),
        to=NodeId(2),
        term=Term(1),
        prev_index=LogIndex(prev_index),
        prev_term=Term(1),
        entries=(entry,) if body_bytes else (),
        commit_index=LogIndex(0),
    )


def heartbeat(group: int) -> Heartbeat:
    return Heartbeat(
        group=GroupId(group),
        sender=NodeId(1),
        to=NodeId(2),
        term=Term(1),
        commit_index=LogIndex(0),
        read_round=0,
        quiesce_round=0,
    )


def frames(outbox: Outbox) -> list[list[PeerMessage]]:
    found = []
    while outbox:
        found.append(outbox.take_frame())
    return found


def test_a_heartbeat_leaves_before_the_megabytes_that_were_queued_before_it() -> None:
    outbox = Outbox(64 * MIB)
    for index in range(40):
        assert outbox.put(request(7, index))
    assert outbox.put(heartbeat(8))
    assert outbox.take_frame()[0] == heartbeat(8)


def test_append_requests_of_a_group_keep_their_order_and_so_do_its_checks() -> None:
    outbox = Outbox(64 * MIB)
    sent = [request(7, 0), request(7, 1), request(7, 2, body_bytes=0), request(7, 2)]
    for message in sent:
        assert outbox.put(message)
    assert [message for frame in frames(outbox) for message in frame] == sent


def test_a_group_with_little_to_send_does_not_wait_for_one_with_much() -> None:
    outbox = Outbox(64 * MIB)
    for index in range(30):
        assert outbox.put(request(7, index))
    assert outbox.put(request(8, 0, body_bytes=100))
    groups = [[message.group for message in frame] for frame in frames(outbox)]
    assert 8 in groups[0] + groups[1]


def test_a_frame_closes_at_its_size_and_takes_any_one_request() -> None:
    outbox = Outbox(64 * MIB)
    for index in range(8):
        assert outbox.put(request(7, index, body_bytes=FRAME_BYTES_MAX // 2))
    assert outbox.put(request(9, 0, body_bytes=3 * FRAME_BYTES_MAX))
    for frame in frames(outbox):
        assert sum(len(each.entries[0].payload.body) for each in frame[:-1]) < FRAME_BYTES_MAX


def test_full_bulk_drops_bulk_and_never_a_heartbeat() -> None:
    outbox = Outbox(4 * MIB)
    taken = [outbox.put(request(7, index)) for index in range(8)]
    assert taken == [True] * 3 + [False] * 5
    assert outbox.put(heartbeat(8))
    for _ in range(CONTROL_BYTES_MAX // MESSAGE_BYTES - 1):
        assert outbox.put(heartbeat(8))
    assert not outbox.put(heartbeat(8)), "control messages are bounded, too"
    outbox.clear()
    assert not outbox
    assert outbox.bulk_bytes == 0
    assert outbox.put(request(7, 0, body_bytes=8 * MIB)), "the largest entry always fits"


def test_a_frame_of_the_smallest_messages_is_one_that_a_peer_takes() -> None:
    outbox = Outbox(bulk_bytes_max=MIB)
    for group in range(CONTROL_BYTES_MAX // MESSAGE_BYTES):
        assert outbox.put(heartbeat(group))
    frame = outbox.take_frame()
    assert len(frame) == FRAME_MESSAGES_MAX
    assert decode_peer_messages(encode_peer_messages(frame)) == frame
