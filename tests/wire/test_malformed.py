"""Decoding any bytes gives a value or `MalformedRequest`, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.core.messages import PULL_ROWS_MAX
from raftlog.core.types import NodeId
from raftlog.errors import MalformedRequest
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import (
    PeerFrames,
    decode_batch_header,
    decode_command,
    decode_description,
    decode_footer,
    decode_peer_messages,
)
from raftlog.wire.codec_commands import COMMAND_BYTES_MAX
from raftlog.wire.codec_fields import parse
from raftlog.wire.codec_peers import ENTRY_BYTES_MAX, FRAME_MESSAGES_MAX
from raftlog.wire.framing import Unreadable, join
from tests.wire.decoders import DECODERS, samples

_LONG = "x" * 50
_COLUMN = pb.Field(id=1, name=_LONG, type="t", nullable=True)
_FORMER = pb.FormerField(id=1, name=_LONG, type="t", until=2)
_PREFIX = pb.Prefix(column=pb.ColumnReference(name="n"), prefix=_LONG)
_CHUNK = pb.ColumnChunk(crc=2**31, minimum=pb.Bound(real=0.5))


def _accepts(decoder: str, data: bytes) -> bool:
    try:
        DECODERS[decoder](data)
    except MalformedRequest:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_random_bytes_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(st.binary(max_size=60), st.sampled_from([b"", b"\x01", b"\x01\0\0\0", join(b"")[:8]]))
    def check(data: bytes, prefix: bytes):
        _accepts(decoder, prefix + data)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_random_messages_in_a_good_frame_are_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(st.binary(max_size=40), st.binary(max_size=20))
    def check(header: bytes, body: bytes):
        _accepts(decoder, join(header, body))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("decoder", samples())
def test_a_good_message_with_one_byte_changed_is_a_value_or_malformed(decoder: str):
    @settings(max_examples=15)
    @given(samples()[decoder], st.data())
    def check(message: bytes, data: st.DataObject):
        if not message:
            return
        position = data.draw(st.integers(0, len(message) - 1))
        changed = bytes([data.draw(st.integers(0, 255))])
        _accepts(decoder, message[:position] + changed + message[position + 1 :])
        _accepts(decoder, message[:position])

    check()


def test_an_entry_of_an_unknown_kind_is_malformed():
    frame = _append_request(entry_terms=[1], entry_kinds=[9], command_lengths=[0], body_lengths=[0])
    with pytest.raises(MalformedRequest, match="unknown kind 9"):
        decode_peer_messages(frame)


def test_entries_longer_than_the_body_are_malformed():
    columns = {"entry_terms": [1], "entry_kinds": [2], "command_lengths": [3]}
    with pytest.raises(MalformedRequest, match="ends beyond"):
        decode_peer_messages(_append_request(body=b"1234", body_lengths=[2], **columns))
    with pytest.raises(MalformedRequest, match="1 bytes follow"):
        decode_peer_messages(_append_request(body=b"1234", body_lengths=[0], **columns))
    assert decode_peer_messages(_append_request(body=b"1234", body_lengths=[1], **columns))


@pytest.mark.parametrize("name", ["append_request", "pulled_entries", "entry_reply"])
@pytest.mark.parametrize(
    ("command", "body"),
    [(COMMAND_BYTES_MAX, ENTRY_BYTES_MAX - COMMAND_BYTES_MAX), (0, ENTRY_BYTES_MAX)],
)
def test_an_entry_that_is_longer_than_settings_allow_is_malformed(
    name: str, command: int, body: int
):
    """Once it was stored, no frame of an honest node could hold it."""

    def decode(command: int, body: int) -> None:
        if name == "entry_reply":
            columns: dict[str, Any] = {"command_length": command, "body_length": body}
        else:
            columns = {"entry_terms": [1], "entry_kinds": [2]}
            columns |= {"command_lengths": [command], "body_lengths": [body]}
        header = pb.PeerMessages(messages=[pb.PeerMessage(**{name: columns})])
        decode_peer_messages(join(header.SerializeToString()))

    with pytest.raises(MalformedRequest, match="ends beyond"):
        decode(command, body)
    for longer in ((command + 1, body), (command, body + 1), (COMMAND_BYTES_MAX + 1, 0)):
        with pytest.raises(MalformedRequest, match="an entry of"):
            decode(*longer)


def test_entry_columns_of_different_lengths_are_malformed():
    with pytest.raises(MalformedRequest, match="differ in length"):
        decode_peer_messages(_append_request(entry_terms=[1, 2], entry_kinds=[2]))


def test_a_message_of_an_unknown_kind_is_malformed():
    frame = join(pb.PeerMessages(messages=[pb.PeerMessage()]).SerializeToString())
    with pytest.raises(MalformedRequest, match="unknown kind"):
        decode_peer_messages(frame)
    with pytest.raises(MalformedRequest, match="unknown kind"):
        decode_command(b"\x01")


def _flood(message: pb.PeerMessage, count: int) -> bytes:
    return join(pb.PeerMessages(messages=[message]).SerializeToString() * count)


def test_a_frame_with_more_than_an_outbox_puts_into_one_is_malformed_before_it_is_decoded():
    """Empty messages of four bytes took hundreds each, and blocked the loop for seconds."""
    message = pb.PeerMessage(heartbeat=pb.Heartbeat())
    assert len(decode_peer_messages(_flood(message, FRAME_MESSAGES_MAX))) == FRAME_MESSAGES_MAX
    more = pb.PeerMessages(messages=[message]).SerializeToString() * (2 * FRAME_MESSAGES_MAX)
    with pytest.raises(MalformedRequest, match=f"more than {FRAME_MESSAGES_MAX} messages"):
        decode_peer_messages(join(more + b"what no parser reads"))


def test_a_frame_asks_for_a_bounded_number_of_copies():
    message = pb.PeerMessage(entry_request=pb.EntryRequest())
    assert len(decode_peer_messages(_flood(message, 1024))) == 1024
    with pytest.raises(MalformedRequest, match="more than 1024 requests for copies"):
        decode_peer_messages(_flood(message, 1025))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "items"),
    [
        (pb.PullRequest(rows=[pb.PullRow()] * PULL_ROWS_MAX), PULL_ROWS_MAX),
        (
            pb.AppendRequest(
                entry_terms=[1] * 65_536,
                entry_kinds=[2] * 65_536,
                command_lengths=[0] * 65_536,
                body_lengths=[0] * 65_536,
            ),
            65_536,
        ),
    ],
    ids=["rows", "entries"],
)
def test_the_entries_and_rows_of_a_frame_are_bounded_together(message: Any, items: int):
    name = "pull_request" if isinstance(message, pb.PullRequest) else "append_request"
    in_frame = pb.PeerMessage(**{name: message})
    assert decode_peer_messages(_flood(in_frame, 262_144 // items))
    with pytest.raises(MalformedRequest, match="more than 262144 entries and rows"):
        decode_peer_messages(_flood(in_frame, 262_144 // items + 1))


def test_a_request_of_more_rows_than_an_observer_asks_for_at_once_is_malformed():
    """Two bytes make a row, and each row is answered."""
    rows = [pb.PullRow()] * (PULL_ROWS_MAX + 1)
    message = pb.PeerMessage(pull_request=pb.PullRequest(rows=rows))
    with pytest.raises(MalformedRequest, match=f"{PULL_ROWS_MAX + 1} rows"):
        decode_peer_messages(_flood(message, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "most"),
    [
        (pb.PeerMessage(pull_request=pb.PullRequest(rows=[pb.PullRow()] * 140_000)), 256 * 1024),
        (pb.PeerMessage(image_manifest=pb.ImageManifest(text=bytes(66 * 2**20))), 65 * 2**20),
        (pb.PeerMessage(append_request=pb.AppendRequest(entry_terms=[1] * 2**21)), 2 * 2**20),
    ],
    ids=["rows", "manifest", "terms"],
)
def test_a_message_is_not_parsed_beyond_its_bound(message: pb.PeerMessage, most: int):
    with pytest.raises(MalformedRequest, match=f"bytes; {most} are allowed"):
        decode_peer_messages(_flood(message, 1))


def _command(kind: str, content: bytes) -> bytes:
    """A command of this kind with these bytes, which may be none of its messages."""
    number = pb.Command.DESCRIPTOR.fields_by_name[kind].number
    tag = bytes((number << 3 & 0x7F | 0x82, number >> 4))
    return b"\x01" + tag + pb.MembershipState(command=content).SerializeToString()[1:]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("alter_schema", pb.AlterSchema(changes=[pb.ColumnChange()] * 110_000)),
        ("register_node", pb.RegisterNode(earlier_boot_ids=[""] * 110_000)),
        ("place_group", pb.PlaceGroup(voters=[1] * 210_000)),
        ("set_schema", pb.SetSchema(schema=pb.Schema(fields=[pb.Field()] * 110_000))),
    ],
)
def test_a_command_is_not_parsed_beyond_its_bound(kind: str, message: Any):
    """Two bytes of an entry were an object of a hundred, and blocked the loop for seconds."""
    content = message.SerializeToString()
    with pytest.raises(MalformedRequest, match="has more than 100000 fields"):
        decode_command(_command(kind, content + b"what no parser reads"))
    with pytest.raises(MalformedRequest, match="20971520 are allowed"):
        decode_command(_command(kind, bytes(20 * 2**20)))


def test_the_unknown_kind_of_a_command_is_that_of_its_first_field():
    """All unknown fields of one were objects, which took 43 s for 64 MiB."""
    with pytest.raises(MalformedRequest, match="unknown kind 100"):
        decode_command(b"\x01\xa0\x06\x01" + b"what no parser reads")


def test_a_command_of_two_kinds_is_malformed():
    trim = pb.Command(trim=pb.Trim(offset=1)).SerializeToString()
    with pytest.raises(MalformedRequest, match=f"{len(trim)} bytes follow the command"):
        decode_command(b"\x01" + trim + trim)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ("CommitEpoch request", pb.CommitEpochCall(attempts=[pb.AttemptReference()] * 110_000)),
        ("hello", pb.PeerHello(earlier_boot_ids=[""] * 110_000)),
    ],
)
def test_a_frame_is_not_parsed_beyond_its_bound(decoder: str, message: Any):
    frame = join(message.SerializeToString() + b"what no parser reads")
    with pytest.raises(MalformedRequest, match="has more than 100000 fields"):
        DECODERS[decoder](frame)


@pytest.mark.parametrize("name", ["batch header", "row group description"])
def test_a_batch_s_header_is_not_parsed_beyond_its_bound(name: str):
    header = pb.BatchHeader(columns=[pb.ColumnChunk()] * 110_000)
    data = pb.RowGroupDescription(header=header).SerializeToString() + b"what no parser reads"
    if name == "batch header":
        header_bytes = header.SerializeToString() + b"what no parser reads"
        append = pb.Append(batch=pb.BatchSummary(record_count=1), batch_header=header_bytes)
        data = _command("append", append.SerializeToString())
        assert decode_command(data), "it is left unread"
    with pytest.raises(MalformedRequest, match="has more than 100000 fields"):
        DECODERS[name](data)


def test_a_digest_that_is_none_of_ours_is_malformed():
    header, runs = pb.BatchHeader(record_count=1), pb.Runs(counts=[1], names=[""])
    with pytest.raises(MalformedRequest, match="a digest of 65 bytes"):
        decode_description(
            pb.RowGroupDescription(header=header, runs=runs, digest=bytes(65)).SerializeToString()
        )


@pytest.mark.parametrize("number", [1, 300], ids=["short", "long"])
def test_a_footer_has_no_more_rows_than_its_reader_allows(number: int):
    """Each takes a hundred bytes of memory, and eight or more of the file."""
    columns = {each.name: [number] * 8 for each in pb.HistoryFooter.DESCRIPTOR.fields}
    data = pb.HistoryFooter(**columns).SerializeToString()
    assert len(decode_footer(data).record_counts) == len(decode_footer(data, 8).record_counts) == 8
    for most in (7, 1):
        with pytest.raises(MalformedRequest, match="more than"):
            decode_footer(data, most)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (pb.SetSchema(schema=pb.Schema(version=3, fields=[_COLUMN] * 9, former=[_FORMER] * 8)), 19),
        (pb.PlaceGroup(group=1, voters=[1, 2**63], generation=7, former=[300] * 8), 14),
        (pb.RegisterNode(node=1, address=_LONG, earlier_boot_ids=["a", "b", _LONG]), 5),
        (pb.ReadSizes(where=[pb.Predicate(negation=pb.Predicate(prefix=_PREFIX))]), 5),
        (pb.RowGroupDescription(header=pb.BatchHeader(columns=[_CHUNK] * 5)), 16),
        (pb.HistoryFooter(record_counts=[300] * 9, description_crcs=[1] * 9), 20),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_message_of_just_as_many_fields_as_may_be_is_parsed(message: Any, fields: int):
    """Each message, value of a list, and field of a message that contains some counts."""
    data = message.SerializeToString()
    assert len(data) > 2 * fields, "a shorter one is not counted"
    assert parse(type(message), data, fields) == message
    with pytest.raises(Unreadable, match=f"{type(message).__name__} has more than {fields - 1} "):
        parse(type(message), data, fields - 1)


@pytest.mark.parametrize(
    "field", [b"\x0b", b"\x08" + b"\xff" * 10, b"\x09\0", b"\x0d\0", b"\xff\xff\xff\xff\xff\x01"]
)
def test_a_field_that_cannot_be_is_malformed(field: bytes):
    with pytest.raises(Unreadable):
        parse(pb.SetSchema, field, 0)


def test_a_message_from_or_to_another_node_ends_the_frame():
    good = pb.Heartbeat(sender=2, to=1)
    for wrong in (pb.Heartbeat(sender=3, to=1), pb.Heartbeat(sender=2, to=2)):
        messages = [pb.PeerMessage(heartbeat=each) for each in (good, wrong)]
        frame = join(pb.PeerMessages(messages=messages).SerializeToString())
        assert len(decode_peer_messages(frame)) == 2
        with pytest.raises(MalformedRequest, match="of or to another node"):
            PeerFrames(NodeId(2), NodeId(1)).add(frame)


@pytest.mark.parametrize("header", [b"\x0a", b"\x0a\x05", b"\x0a\xff\xff\xff\xff\xff", b"\x1a\x00",
                                    b"\x0a\x04\x2a\x00\x2a\x00", b"\x0a\x02\x2a\x01x"])  # fmt: skip
def test_a_header_that_no_encoder_writes_is_malformed(header: bytes):
    with pytest.raises(MalformedRequest):
        decode_peer_messages(join(header))


def test_a_bound_of_an_unknown_kind_is_malformed():
    header = pb.BatchHeader(columns=[pb.ColumnChunk(minimum=pb.Bound())]).SerializeToString()
    summary = pb.BatchSummary(record_count=1)
    command = pb.Command(append=pb.Append(batch=summary, batch_header=header))
    with pytest.raises(MalformedRequest, match="bound"):
        decode_batch_header(b"\x01" + command.SerializeToString())


@example(digits="9" * 5000)
@given(st.text("0123456789-", max_size=5))
def test_a_number_of_any_length_in_an_error_is_an_error_or_malformed(digits: str):
    values = [pb.ErrorValue(name="group", text=digits)]
    _accepts("error", pb.Error(code="NotLeader", values=values).SerializeToString())


def _append_request(body: bytes = b"", **columns: list[int]) -> bytes:
    request = pb.AppendRequest(prev_index=4, **columns)
    messages = pb.PeerMessages(messages=[pb.PeerMessage(append_request=request)])
    return join(messages.SerializeToString(), body)
