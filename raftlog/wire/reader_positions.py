"""A reader group's position in a topic, as the key-value store holds it: one key for each.

Clients write it and read it. A topic's leader reads it, if its settings let retention wait for
readers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from raftlog.core.types import Offset
from raftlog.errors import InvalidOption

KEY_PREFIX = "raftlog/positions/"
"""What the keys of positions begin with: prefix, group, `/`, topic; in the group, `%` and `/` stand
as `%25` and `%2F`."""

_FORMAT_VERSION = 1


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
    return json.dumps(
        {
            "v": _FORMAT_VERSION,
            "incarnation": position.incarnation,
            "offset": position.offset,
            "published_us": position.published_us,
            "publisher": position.publisher,
        },
        sort_keys=True,
    ).encode()


def names_of(key: str) -> tuple[str, str]:
    """The group and the topic of a position's key."""
    group, _, topic = key.removeprefix(KEY_PREFIX).partition("/")
    return group.replace("%2F", "/").replace("%25", "%"), topic


def decode(key: str, value: bytes) -> ReaderPosition:
    """The position that a key and its value stand for. Raises `InvalidOption`."""
    group, topic = names_of(key)
    try:
        found = json.loads(value)
        if found["v"] != _FORMAT_VERSION:
            raise ValueError
        return ReaderPosition(
            group=group,
            topic=topic,
            incarnation=str(found["incarnation"]),
            offset=Offset(int(found["offset"])),
            published_us=int(found["published_us"]),
            publisher=str(found["publisher"]),
        )
    except (ValueError, KeyError, TypeError):
        raise InvalidOption(
            option=f"key {key!r}",
            problem="holds no position that this version knows",
            advice=f"Use a newer raftlog, or remove it: raftlog kv delete '{key}'.",
        ) from None
