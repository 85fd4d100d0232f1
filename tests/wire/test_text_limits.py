"""Every text that comes in a call, a reply or a message between nodes is bounded when it is
decoded, whichever field it is in; a field that is added needs a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from raftlog.errors import MalformedRequest
from raftlog.machines.limits import (
    KEY_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    TopicLimits,
)
from raftlog.predicates.predicate import NODES_MAX, OPERATORS
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.calls import CALLS, BodyCall
from raftlog.wire.codec_texts import _LIMITS, text_limit
from raftlog.wire.framing import join
from raftlog.wire.traced import CARRIED_MAX
from tests.wire.decoders import DECODERS, decode_traced

Path = tuple[FieldDescriptor, ...]

APPLIED = (pb.Command, pb.MachineState)
"""What the machines judge, of which each replica has to come to the same."""
SENT = {"peer messages": pb.PeerMessage, "hello": pb.PeerHello, "welcome": pb.PeerWelcome}
PLAIN = {"error": pb.Error, "row group description": pb.RowGroupDescription}
"""What comes without a frame."""


class Way(NamedTuple):
    """To a text: which decoder reads it, in what message, through which fields."""

    decoder: str
    message: Any
    path: Path

    def __str__(self) -> str:
        return "-".join((self.decoder.replace(" ", "-"), *(field.name for field in self.path)))

    def encoded(self, end: str | int) -> bytes:
        """A message with this text, or a list of so many values, as the decoder takes it."""
        message = self.message()
        if self.path:
            _set_end(message, self.path, end)
        if self.decoder == "peer messages":
            message = pb.PeerMessages(messages=[message])
        data: bytes = message.SerializeToString()
        if self.decoder in PLAIN:
            return data
        has_body = isinstance(CALLS.get(self.decoder.removesuffix(" request")), BodyCall)
        return join(data, b"body" if has_body else b"")


def texts_of(kind: Descriptor, above: tuple[Descriptor, ...] = ()) -> Iterator[Path]:
    """The ways to all texts of a message, each kind of message once on a way."""
    for field in kind.fields:
        if field.type == field.TYPE_STRING:
            yield (field,)
        elif field.message_type is not None and field.message_type not in (*above, kind):
            for path in texts_of(field.message_type, (*above, kind)):
                yield (field, *path)


def _set_end(message: Any, path: Path, end: str | int) -> None:
    """Set the text or the list at the end of the path, and what the message cannot be without."""
    _set_required(message)
    for field in path[:-1]:
        part = getattr(message, field.name)
        message = part.add() if field.is_repeated else part
        message.SetInParent()
        _set_required(message)
    if isinstance(end, int):
        is_number = path[-1].message_type is None and path[-1].type != FieldDescriptor.TYPE_STRING
        wire_type = 0 if is_number else 2
        message.MergeFromString(end * bytes([path[-1].number << 3 | wire_type, 0]))
    elif path[-1].is_repeated:
        getattr(message, path[-1].name).append(end)
    else:
        setattr(message, path[-1].name, end)


def _set_required(message: Any) -> None:
    for field in message.DESCRIPTOR.fields:
        part = None if field.is_repeated or field.containing_oneof else field.message_type
        if part is not None and part.name != "Bound":
            getattr(message, field.name).SetInParent()
    if isinstance(message, pb.Comparison):
        message.operator = OPERATORS[0]


def _decoded() -> Iterator[tuple[str, Any]]:
    for name, call in CALLS.items():
        yield f"{name} request", getattr(pb, call.request.__name__)
        yield f"{name} reply", getattr(pb, call.reply.__name__)
    yield from (SENT | PLAIN).items()


DECODED = dict(_decoded())
WAYS = [
    Way(decoder, message, path)
    for decoder, message in DECODED.items()
    for path in texts_of(message.DESCRIPTOR)
]


def kinds_of(messages: Any) -> set[str]:
    """The kinds of messages whose own texts are found in these messages."""
    paths = (path for each in messages for path in texts_of(each.DESCRIPTOR))
    return {path[-1].containing_type.name for path in paths}


def problem_of(way: Way, end: str | int) -> str:
    """Why a message with this text, or so many values, is malformed; "": it is not."""
    try:
        DECODERS[way.decoder](way.encoded(end))
    except MalformedRequest as error:
        return error.what
    return ""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_text_is_refused_for_its_length_beyond_its_limit(way: Way) -> None:
    most = limit_of(way)
    assert re.search(rf"(of|has) {most + 1} characters", problem_of(way, "x" * (most + 1)))
    assert "characters" not in problem_of(way, "x" * most)


def limit_of(way: Way) -> int:
    kind, field = way.path[-1].containing_type.name, way.path[-1].name
    return TEXT_CHARACTERS_MAX if kind == "Bound" else text_limit(kind, field)


def test_every_text_of_the_proto_has_a_limit_and_is_decoded_or_applied() -> None:
    kinds = pb.DESCRIPTOR.message_types_by_name.values()
    texts = [field for kind in kinds for field in kind.fields if field.type == field.TYPE_STRING]
    decoded = kinds_of(DECODED.values())
    by_hand = {"Bound", "TracedEntry"}
    applied = kinds_of(APPLIED) - decoded
    assert {field.containing_type.name for field in texts} == decoded | applied | by_hand
    for field in texts:
        if field.containing_type.name not in applied | by_hand:
            assert text_limit(field.containing_type.name, field.name) > 0
    known = {field.name for field in texts} | {
        f"{field.containing_type.name}.{field.name}" for field in texts
    }
    assert known >= _LIMITS.keys(), "a limit of no field"


def test_names_have_the_bound_of_names_and_a_range_of_keys_ends_behind_the_longest() -> None:
    limits = {(way.decoder, way.path[-1].name): limit_of(way) for way in WAYS}
    assert limits["CreateTopic request", "incarnation"] == NAME_CHARACTERS_MAX
    assert limits["DescribeTopic request", "name"] == NAME_CHARACTERS_MAX
    assert limits["Append request", "producer"] == NAME_CHARACTERS_MAX
    assert limits["ReadKeys request", "end"] == KEY_CHARACTERS_MAX + 1


def test_the_span_of_a_traced_entry_is_cut_so_that_replication_goes_on() -> None:
    traced = pb.TracedEntry(carried="x" * (CARRIED_MAX + 1))
    frame = join(pb.PeerMessages(traced=[traced]).SerializeToString())
    assert [len(each.carried) for each in decode_traced(frame)] == [CARRIED_MAX]


def lists_of(kind: Descriptor, above: tuple[Descriptor, ...] = ()) -> Iterator[Path]:
    """The ways to all lists in a message, each kind of message once on a way."""
    for field in kind.fields:
        if field.message_type in (*above, kind):
            continue
        if field.is_repeated:
            yield (field,)
        if field.message_type is not None:
            for path in lists_of(field.message_type, (*above, kind)):
                yield (field, *path)


LISTS = [
    Way(decoder, message, path)
    for decoder, message in DECODED.items()
    if decoder.endswith(" request")
    for path in lists_of(message.DESCRIPTOR)
]


LIST_BOUND = 2 * TopicLimits().attempts_per_epoch_max
"""The longest list that a request may have."""


@pytest.mark.parametrize("way", LISTS, ids=str)
def test_a_list_of_a_request_is_refused_for_its_length(way: Way) -> None:
    """Two bytes can be a value, and a request has room for a million. A new list needs a limit."""
    assert re.search("are allowed|may be$|more than", problem_of(way, LIST_BOUND + 1))


@pytest.mark.parametrize("kind", ["negation", "all_of", "any_of"])
@pytest.mark.parametrize("where", [1, 16])
def test_nodes_of_all_predicates_of_a_request_have_one_bound(kind: str, where: int) -> None:
    """However they lie in each other; `where` are lists of as many trees."""

    def problem(nodes: int) -> str:
        trees = [tree(kind, nodes // where) for _ in range(where)]
        return problem_of(Way("ReadSizes request", lambda: pb.ReadSizes(where=trees), ()), "")

    assert not problem(NODES_MAX)
    assert problem(NODES_MAX + where) == (
        f"a predicate of more than {NODES_MAX} tests and connectives"
    )


def tree(kind: str, nodes: int) -> pb.Predicate:
    """A predicate of so many nodes, at most 30 of them within each other."""
    root = pb.Predicate()
    if kind == "negation":
        chains = root.all_of.parts
        for start in range(0, nodes - 1, 30):
            node = chains.add()
            for _ in range(min(30, nodes - 1 - start) - 1):
                node = node.negation
            node.unknown = True
    else:
        getattr(root, kind).parts.extend(pb.Predicate(unknown=True) for _ in range(nodes - 1))
    return root
