"""Every value of the wire survives the way to bytes and back."""

from __future__ import annotations

import dataclasses
import struct
from functools import cache
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog import errors
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
from raftlog.core.types import Entry, EntryKind, Payload
from raftlog.machines.commands import (
    Append,
    AttemptReference,
    BatchSummary,
    Command,
    CommitEpoch,
    EpochKey,
    SetSchema,
    Stage,
)
from raftlog.machines.limits import (
    FORMER_FIELDS_MAX,
    SCHEMA_CHARACTERS_MAX,
    ControllerLimits,
    TopicLimits,
)
from raftlog.machines.schema import Field, FormerField, Schema
from raftlog.predicates.predicate import Predicate
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.calls import (
    APPEND,
    CALLS,
    LIST_TOPICS,
    READ,
    BodyCall,
    Call,
    ListTopics,
)
from raftlog.wire.codec import (
    ERROR_BYTES_MAX,
    decode_batch_header,
    decode_command,
    decode_error,
    decode_hello,
    decode_peer_messages,
    decode_reply,
    decode_request,
    decode_welcome,
    encode_command,
    encode_error,
    encode_hello,
    encode_peer_messages,
    encode_reply,
    encode_request,
    encode_welcome,
    predicate_of_text,
    predicate_text,
)
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome
from tests.wire.strategies import BOUNDS, COMMAND_TYPES, PREDICATES, values_of

PEER_TYPES = (
    VoteRequest,
    VoteReply,
    TimeoutNow,
    AppendRequest,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    GroupDeleted,
    NodeHeartbeat,
    ImageOffer,
    ImageRequest,
    ImageManifest,
    ImageChunkRequest,
    ImageChunk,
    EntryRequest,
    EntryReply,
    PullRequest,
    PulledEntries,
    PullDone,
)
HEADERS = values_of(BatchHeader)


_values = cache(values_of)

# ---------------------------------------------------------------- commands


def test_the_commands_tested_here_are_all_commands():
    assert set(COMMAND_TYPES) == set(Command.__args__)


def test_the_peer_messages_tested_here_are_all_peer_messages():
    assert set(PEER_TYPES) == set(get_args(PeerMessage))


@pytest.mark.parametrize("kind", COMMAND_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_a_command_survives_the_log(kind: type, data: st.DataObject):
    command = data.draw(_values(kind))
    header = data.draw(HEADERS) if isinstance(command, (Append, Stage)) else None
    encoded = encode_command(command, header)
    assert decode_command(encoded) == command
    if header is not None:
        assert decode_batch_header(encoded) == header


@given(BOUNDS)
def test_a_bound_keeps_its_type_and_its_value(bound: object):
    chunk = ColumnChunk(
        field_id=1, position=0, length=0, crc=0, null_count=0, minimum=bound, maximum=None
    )
    header = BatchHeader(record_count=1, schema_version=1, columns=(chunk,))
    found = decode_batch_header(encode_command(_append(), header)).columns[0].minimum
    assert found == bound
    assert type(found) is type(bound)


def test_a_zero_bound_is_not_taken_for_an_unknown_one():
    for bound in (0, 0.0, False, "", b""):
        chunk = ColumnChunk(field_id=1, position=0, length=0, crc=0, null_count=0, minimum=bound)
        header = BatchHeader(record_count=1, schema_version=1, columns=(chunk,))
        assert decode_batch_header(encode_command(_append(), header)) == header


def test_decoding_a_command_leaves_its_batch_header_unread():
    data = encode_command(_append(), BatchHeader(record_count=1, schema_version=1, columns=()))
    broken = data[:-1] + b"\xff"  # the header's bytes come last
    assert decode_command(broken) == _append()
    with pytest.raises(errors.MalformedRequest):
        decode_batch_header(broken)


def test_the_longest_commands_that_a_machine_takes_are_read():
    attempt = AttemptReference(attempt="1f" * 16, entry_count=1, record_count=1, chained_crc=1)
    commit = CommitEpoch(
        key=EpochKey(writer="w", query_id="q", run="r", epoch=1, streaming=True),
        attempts=(attempt,) * TopicLimits().attempts_per_epoch_max,
        schema_version=1,
        timestamp_us=1,
        keep_on_mismatch=False,
        create_writer=False,
        transient_writer=False,
    )
    columns = ControllerLimits().fields_max
    share = SCHEMA_CHARACTERS_MAX // (columns + FORMER_FIELDS_MAX)
    wide = "\U0001f600" * share
    field = Field(id=2**31, name=wide, type="", nullable=True, since=2**31)
    former = FormerField(id=2**31, name=wide, type="", nullable=True, until=2**31, since=2**31)
    schema = Schema(version=2**31, fields=(field,) * columns, former=(former,) * FORMER_FIELDS_MAX)
    for command in (commit, SetSchema(schema=schema)):
        assert decode_command(encode_command(command, None)) == command


def test_a_command_without_a_batch_has_no_batch_header():
    command = next(kind for kind in COMMAND_TYPES if kind.__name__ == "DeleteTopic")
    data = encode_command(command(name="flights", incarnation="1f"), None)
    with pytest.raises(errors.MalformedRequest, match="has no batch"):
        decode_batch_header(data)


def test_a_command_of_another_version_is_refused():
    data = encode_command(_append(), BatchHeader(record_count=1, schema_version=1, columns=()))
    with pytest.raises(errors.MalformedRequest, match="begins with 02"):
        decode_command(b"\x02" + data[1:])


def _append() -> Append:
    summary = BatchSummary(record_count=1, schema_version=1, body_bytes=1, crc=1)
    return Append(producer="p", sequence=0, timestamp_us=1, batch=summary)


# ---------------------------------------------------------------- calls


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=lambda call: call.name)
@settings(max_examples=12)
@given(data=st.data())
def test_a_request_survives_the_wire(call: Call, data: st.DataObject):
    request = data.draw(_values(call.request))
    body = data.draw(st.binary(max_size=20)) if isinstance(call, BodyCall) else b""
    found, found_body = decode_request(call, encode_request(call, request, body))
    assert found == request
    assert found_body == body
    assert type(found_body) is bytes


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=lambda call: call.name)
@settings(max_examples=12)
@given(data=st.data())
def test_a_reply_survives_the_wire(call: Call, data: st.DataObject):
    reply = data.draw(_values(call.reply))
    body = data.draw(st.lists(st.binary(max_size=20), max_size=3)) if call is READ else b""
    found, found_body = decode_reply(call, encode_reply(call, reply, body))
    assert found == reply
    assert found_body == b"".join(body) if body else not found_body


def test_a_peer_makes_no_digest_as_long_as_a_frame():
    long = b"x" * 100_000
    to = {"group": 1, "sender": 2, "to": 1, "term": 1, "read_round": 0, "quiesce_round": 0}
    for message in (
        Heartbeat(**to, commit_index=0, agreed_hash=long),
        Heartbeat(**to, commit_index=0, agreed_history_digest=long),
        HeartbeatReply(**to, last_index=0, disk_keeps_up=True, state_hash=long),
        HeartbeatReply(**to, last_index=0, disk_keeps_up=True, history_digest=long),
    ):
        with pytest.raises(errors.MalformedRequest, match="digest"):
            decode_peer_messages(encode_peer_messages([message]))


def test_a_body_where_none_belongs_is_malformed():
    frame = encode_request(LIST_TOPICS, ListTopics())
    with pytest.raises(errors.MalformedRequest, match="ListTopics"):
        decode_request(LIST_TOPICS, frame + b"\0")


def test_a_request_without_a_part_it_needs_is_malformed():
    empty = struct.pack("<II", 1, 0)
    with pytest.raises(errors.MalformedRequest, match="AppendCall lacks batch"):
        decode_request(APPEND, empty)


# ---------------------------------------------------------------- refusals


def _some_errors() -> list[errors.RaftlogError]:
    return [
        errors.NotLeader(
            group=3, node=1, what="topic 'flights'", leader=2, address="127.0.0.1:7402"
        ),
        errors.OffsetTrimmed(topic="flights", requested=10, earliest=500, end=900),
        errors.SchemaMismatch(topic="flüge", difference="  missing: a INT\n  extra:   b"),
        errors.CorruptFile(file="x.log", position=12, problem="its CRC differs"),
        errors.Internal(what="a defect"),
    ]


@pytest.mark.parametrize("error", _some_errors(), ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_on_the_other_side(error: errors.RaftlogError):
    found = decode_error(encode_error(error))
    assert type(found) is type(error)
    assert str(found) == str(error)


@pytest.mark.parametrize("text", ["x" * 50_000, "ü" * 50_000, "🦊" * 50_000])
def test_an_error_never_outgrows_grpc_metadata(text: str):
    error = errors.SchemaMismatch(topic="flights", difference=text)
    data = encode_error(error)
    assert len(data) <= ERROR_BYTES_MAX
    found = decode_error(data)
    assert found.topic == "flights"
    assert found.difference.endswith("...")
    assert len(found.difference) > 1000


def test_an_error_with_several_long_texts_is_shortened_where_it_is_longest():
    error = errors.InvalidOption(option="o" * 9_000, problem="p" * 7_000, advice="short")
    data = encode_error(error)
    assert len(data) <= ERROR_BYTES_MAX
    assert decode_error(data).advice == "short"


def test_an_error_with_text_that_is_no_unicode_still_arrives():
    error = errors.InvalidTopicName(topic="a\ud800")
    assert decode_error(encode_error(error)).topic == "a?"


def test_an_unknown_error_arrives_as_internal():
    class OfTomorrow(errors.WriteRefused):
        def to_wire(self):
            return "OfTomorrow2", {"writer": "w"}

    assert "OfTomorrow2" in str(decode_error(encode_error(OfTomorrow())))


def test_a_family_of_errors_is_no_error():
    class Family(errors.RaftlogError):
        def to_wire(self):
            return "Unavailable", {}

    with pytest.raises(errors.MalformedRequest, match="family"):
        decode_error(encode_error(Family()))


# ---------------------------------------------------------------- peers


@given(st.lists(st.one_of([values_of(kind) for kind in PEER_TYPES]), max_size=6))
def test_peer_messages_arrive_as_they_left_and_in_order(messages: list):
    assert decode_peer_messages(encode_peer_messages(messages)) == messages


@given(values_of(PeerHello), values_of(PeerWelcome))
def test_greetings_survive_the_wire(hello: PeerHello, welcome: PeerWelcome):
    hello = dataclasses.replace(hello, format=hello.format[:64])
    assert decode_hello(encode_hello(hello)) == hello
    roomy = dataclasses.replace(
        welcome,
        format=welcome.format[:64],
        message_bytes_max=welcome.message_bytes_max | 1 << 12,
    )
    assert decode_welcome(encode_welcome(roomy)) == roomy


def test_entries_with_a_gap_are_never_sent():
    entries = tuple(Entry(i, 1, EntryKind.COMMAND, Payload(b"c", b"")) for i in (5, 7))
    request = AppendRequest(
        group=1, sender=1, to=2, term=1, prev_index=4, prev_term=1, entries=entries, commit_index=4
    )
    with pytest.raises(AssertionError, match="gap"):
        encode_peer_messages([request])


@settings(max_examples=50)
@given(PREDICATES)
def test_a_predicate_survives_as_text(predicate: Predicate):
    assert predicate_of_text(predicate_text(predicate)) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        '{"comparison": {"column": {"name": "a"}, "operator": "!", "value": {"integer": 1}}}',
        '{"comparison": {"column": {}, "operator": "=", "value": {"integer": 1}}}',
        '{"comparison": {"column": {"name": "a"}, "operator": "=", "value": {"real": "NaN"}}}',
        '{"membership": {"column": {"name": "a"}}}',
        '{"membership": {"column": {"name": "a"}, "values": [{"integer": 2}, {"integer": 1}]}}',
        '{"membership": {"column": {"name": "a"}, "values": [{"integer": 2}, {"text": "a"}]}}',
        '{"negation": ' * 300 + '{"unknown": true}' + "}" * 300,
        '{"all_of": {"parts": [' + ",".join(['{"unknown": true}'] * 300) + "]}}",
    ],
)
def test_a_text_that_is_no_predicate_is_malformed(text: str):
    with pytest.raises(errors.MalformedRequest):
        predicate_of_text(text)
