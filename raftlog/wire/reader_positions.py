"""A reader group's position in a topic, as the key-value store holds it: one key for each.

Clients write it and read it. A topic's leader reads it, if its settings let retention wait for
readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import Offset
from raftlog.machines.topic_names import is_topic_name
from raftlog.stored_values import Name, Number, StoredValue

KEY_PREFIX = "raftlog/positions/"
"""What the keys of positions begin with: prefix, group, `/`, topic; in the group, `%` and `/` stand
as `%25` and `%2F`."""


class PositionValue(StoredValue):
    """The value of a position's key."""

    PREFIX = KEY_PREFIX
    KIND = "position of a reader group"

    incarnation: Name
    offset: Number
    published_us: Number
    publisher: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPosition:
    """How far a group has processed a topic, as it said last."""

    group: str
    """The reader group's name."""
    topic: str
    """The topic's name."""
    incarnation: str
    """The topic's incarnation. The position means nothing in another one."""
    offset: Offset
    """The first offset that is not processed yet."""
    published_us: int
    """When it was published, by the publisher's clock: microseconds since 1970 UTC."""
    publisher: str
    """Who published it, as it calls itself; "" if it did not say."""


def key_of(group: str, topic: str) -> str:
    """The key of a group's position in a topic; of "": what all keys of the group begin with."""
    return f"{KEY_PREFIX}{group.replace('%', '%25').replace('/', '%2F')}/{topic}"


def encode(position: ReaderPosition) -> bytes:
    """The value of the position's key."""
    return PositionValue(
        incarnation=position.incarnation,
        offset=position.offset,
        published_us=position.published_us,
        publisher=position.publisher,
    ).encode()


def names_of(key: str) -> tuple[str, str]:
    """The group and the topic of a position's key."""
    group, _, topic = key.removeprefix(KEY_PREFIX).partition("/")
    return group.replace("%2F", "/").replace("%25", "%"), topic


def decode(key: str, value: bytes) -> ReaderPosition:
    """The position that a key and its value stand for. Raises `StoredValueInvalid`."""
    group, topic = names_of(key)
    if not group or key_of(group, topic) != key or not is_topic_name(topic):
        raise PositionValue.invalid(key, "the key names no group and topic")
    found = PositionValue.decode(key, value)
    return ReaderPosition(
        group=group,
        topic=topic,
        incarnation=found.incarnation,
        offset=Offset(found.offset),
        published_us=found.published_us,
        publisher=found.publisher,
    )
