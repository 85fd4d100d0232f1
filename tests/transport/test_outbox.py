"""What is sent to a peer first: control messages, then bulk, the groups taking turns."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from raftlog.config import ServerSettings
from raftlog.config_raft import RaftSettings
from raftlog.core.messages import (
    PULL_ROWS_MAX,
    AppendRequest,
    Heartbeat,
    ImageManifest,
    PeerMessage,
    PullDone,
    PulledEntries,
    PullRequest,
    PullRow,
)
from raftlog.core.types import Entry, EntryKind, GroupId, LogIndex, NodeId, Payload, Term
from raftlog.transport.outbox import (
    BULK_MESSAGES_MAX,
    CONTROL_BYTES_MAX,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES,
    Outbox,
    message_bytes,
)
from raftlog.wire.codec import decode_peer_messages, encode_peer_messages
from raftlog.wire.codec_peers import ENTRY_BYTES_MAX, FRAME_MESSAGES_MAX
from raftlog.wire.codec_peers import FRAME_BYTES_MAX as PEER_FRAME_BYTES_MAX

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


def pulled(group: int, body_bytes: int = MIB) -> PulledEntries:
    return PulledEntries(
        group=GroupId(group),
        sender=NodeId(1),
        to=NodeId(2),
        term=Term(1),
        leader=NodeId(1),
        held=True,
        base_index=LogIndex(0),
        commit_index=LogIndex(1),
        prev_index=LogIndex(0),
        prev_term=Term(0),
        entries=request(group, 0, body_bytes).entries,
    )


def manifest(group: int) -> ImageManifest:
    text = bytes(MIB)
    return ImageManifest(
        group=GroupId(group), sender=NodeId(1), to=NodeId(2), text=text, snapshot_bytes=0
    )


def done(number: int) -> PullDone:
    return PullDone(sender=NodeId(1), to=NodeId(2), number=number, more=False)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_frame_of_the_smallest_messages_is_one_that_a_peer_takes() -> None:
    outbox = Outbox(bulk_bytes_max=MIB)
    for group in range(CONTROL_BYTES_MAX // MESSAGE_BYTES):
        assert outbox.put(heartbeat(group))
    frame = outbox.take_frame()
    assert len(frame) == FRAME_MESSAGES_MAX
    assert decode_peer_messages(encode_peer_messages(frame)) == frame


def test_a_peer_takes_the_frame_of_an_outbox_that_ends_with_the_largest_request() -> None:
    assert MIB == FRAME_BYTES_MAX, "what stands before the last message counts less"
    _, entry_bytes = ServerSettings.bounds("entry_bytes_max")
    _, append_bytes = RaftSettings.bounds("append_bytes_max")
    _, entries = RaftSettings.bounds("append_entries_max")
    assert entry_bytes
    assert append_bytes
    assert entries
    small = len(encode_peer_messages([filled(AppendRequest, 500)])) - 500 * 500
    numbers = entries * 4 * small // 500  # larger ones take up to four times as much
    assert entry_bytes == append_bytes == ENTRY_BYTES_MAX, "a peer takes each, and no longer one"
    last = ENTRY_BYTES_MAX + numbers
    assert 4 * FRAME_BYTES_MAX + last <= PEER_FRAME_BYTES_MAX


def filled(kind: type, count: int) -> Any:
    """A message with `count` bytes, or as many rows, in each field that has no fixed length.

    A field of a type that is not listed here is a KeyError: its length must be counted, too.
    """
    row = PullRow(
        group=GroupId(1), index=LogIndex(1), term=Term(1), leader_term=Term(1), leader=NodeId(1)
    )
    entries = [entry for index in range(count) for entry in request(1, index + 1, count).entries]
    values = {
        int: 1,
        bool: True,
        str: "x" * count,
        bytes: b"x" * count,
        Payload: Payload(b"x" * count, b"x" * count),
        tuple[Entry, ...]: tuple(entries),
        tuple[PullRow, ...]: (row,) * count,
    }
    hints = get_type_hints(kind)
    types = {each.name: hints[each.name] for each in fields(kind)}
    return kind(
        **{name: values[getattr(each, "__supertype__", each)] for name, each in types.items()}
    )


@pytest.mark.parametrize("kind", get_args(PeerMessage), ids=lambda kind: kind.__name__)
def test_all_that_a_message_carries_counts(kind: type) -> None:
    small, large = filled(kind, 0), filled(kind, 500)
    grown = len(encode_peer_messages([large])) - len(encode_peer_messages([small]))
    assert message_bytes(small) == MESSAGE_BYTES
    assert message_bytes(large) >= grown


@pytest.mark.parametrize("bulk", [pulled, manifest], ids=["pulled entries", "manifests"])
def test_answers_with_bulk_are_bounded_as_bulk_and_close_a_frame(bulk: Any) -> None:
    outbox = Outbox(4 * MIB)
    taken = [outbox.put(bulk(group)) for group in range(8)]
    assert taken == [True] * 3 + [False] * 5
    assert outbox.bulk_bytes == sum(message_bytes(bulk(group)) for group in range(3))
    assert outbox.put(heartbeat(8))
    assert [len(frame) for frame in frames(outbox)] == [2, 1, 1], "a frame ends after a MiB"
    assert outbox.bulk_bytes == 0


@pytest.mark.slow
def test_small_bulk_is_bounded_in_number() -> None:
    outbox = Outbox(64 * MIB)
    for _ in range(BULK_MESSAGES_MAX):
        assert outbox.put(pulled(7, body_bytes=0))
    assert not outbox.put(pulled(7, body_bytes=0))
    outbox.take_frame()
    assert outbox.put(pulled(7, body_bytes=0)), "what has left makes room"
    outbox.clear()
    assert all(outbox.put(pulled(7, body_bytes=0)) for _ in range(BULK_MESSAGES_MAX))


def test_the_end_of_an_answer_to_a_pull_overtakes_none_of_its_entries() -> None:
    outbox = Outbox(64 * MIB)
    answers = [pulled(7), pulled(8), pulled(7), pulled(9, body_bytes=0), done(1), pulled(7)]
    for message in answers:
        assert outbox.put(message)
    assert outbox.put(request(8, 0))
    sent = [message for frame in frames(outbox) for message in frame]
    assert [message for message in sent if message != request(8, 0)] == answers


def test_rows_of_pulls_fill_the_bound_of_control_messages() -> None:
    outbox = Outbox(bulk_bytes_max=MIB)
    pull = filled(PullRequest, PULL_ROWS_MAX)
    taken = [outbox.put(pull) for _ in range(CONTROL_BYTES_MAX // message_bytes(pull) + 1)]
    assert taken == [True] * (len(taken) - 1) + [False]
    assert message_bytes(pull) * len(outbox.take_frame()) < FRAME_BYTES_MAX + message_bytes(pull)
    assert outbox.put(pull), "what has left makes room"
