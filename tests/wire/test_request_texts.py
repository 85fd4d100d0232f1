"""Every text that a request can have is bounded when it is decoded, whichever field it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

import raftlog.wire.group_calls
import raftlog.wire.kv_calls
import raftlog.wire.placing_calls  # noqa: F401 - every call is known
from raftlog.errors import MalformedRequest
from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.calls import CALLS, BodyCall
from raftlog.wire.codec import decode_request
from raftlog.wire.codec_calls import TEXTS_MAX
from raftlog.wire.framing import join

Path = tuple[FieldDescriptor, ...]


def texts_of(kind: Descriptor, above: tuple[Descriptor, ...] = ()) -> Iterator[Path]:
    """The ways to all texts of a message, each kind of message once on a way."""
    for field in kind.fields:
        if field.type == field.TYPE_STRING:
            yield (field,)
        elif field.message_type is not None and field.message_type not in (*above, kind):
            for path in texts_of(field.message_type, (*above, kind)):
                yield (field, *path)


def with_text(message: Any, path: Path, text: str) -> None:
    """Set the text at the end of the path, and what a request cannot be without."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type and not field.is_repeated and not field.containing_oneof:
            getattr(message, field.name).SetInParent()
    for field in path[:-1]:
        part = getattr(message, field.name)
        message = part.add() if field.is_repeated else part
        message.SetInParent()
    if path[-1].is_repeated:
        getattr(message, path[-1].name).append(text)
    else:
        setattr(message, path[-1].name, text)


WAYS = [
    (name, path)
    for name, call in CALLS.items()
    for path in texts_of(getattr(pb, call.request.__name__).DESCRIPTOR)
]


@pytest.mark.parametrize(
    ("name", "path"), WAYS, ids=[f"{name}-{'.'.join(f.name for f in path)}" for name, path in WAYS]
)
def test_a_text_that_is_too_long_is_refused_when_it_is_decoded(name: str, path: Path) -> None:
    call = CALLS[name]
    most = TEXTS_MAX.get(path[-1].name, TEXT_CHARACTERS_MAX)
    message = getattr(pb, call.request.__name__)()
    with_text(message, path, "x" * (most + 1))
    body = b"body" if isinstance(call, BodyCall) else b""
    with pytest.raises(MalformedRequest, match=f"of {most + 1} characters|has {most + 1} char"):
        decode_request(call, join(message.SerializeToString(), body))


def test_every_call_with_a_name_is_looked_at() -> None:
    assert len(WAYS) > 60
    assert {"Append", "Stage", "CreateTopic", "AlterSchema", "PutKey"} <= {name for name, _ in WAYS}
