"""How far all reader groups of a topic have read it, for retention that waits for them.

Positions are keys of the key-value store, which is another group than the topic. They are read, as
of then, each time before something is removed; an older position would only keep more, except one
that was moved back since. What cannot be trusted counts as nothing read: retention then
keeps what its settings keep of unread records, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.core.types import Offset
from raftlog.errors import StoredValueInvalid
from raftlog.machines.commands import TopicInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.wire.reader_positions import decode, names_of


class Unread(NamedTuple):
    """What some reader group of a topic has not read."""

    start: Offset
    """All groups have read what is below it."""
    group: str
    """The group that has read least; "" if there is none, or if positions are not known."""


def first_unread(positions: Sequence[KeyValue] | None, topic: TopicInfo, mark: Offset) -> Unread:
    """Of the topic, whose high-water mark is `mark`; None: the positions could not be read.

    A group counts if it has a position in this incarnation of the topic, however old that is.
    A position above the mark (of a log that was lost, or a mistake) says nothing of what
    was read, nor does one that this version does not know.
    """
    if positions is None:
        return Unread(Offset(0), "")
    groups = [
        Unread(offset if offset <= mark else Offset(0), group)
        for each in positions
        for group, offset in _position_in(topic, each.key, each.value)
    ]
    return min(groups, default=Unread(mark, ""))


def _position_in(topic: TopicInfo, key: str, value: bytes) -> list[tuple[str, Offset]]:
    """The group and its position, if it is one in this topic."""
    group, name = names_of(key)
    if name != topic.name:
        return []
    try:
        position = decode(key, value)
    except StoredValueInvalid:
        return [(group, Offset(0))]
    return [(group, position.offset)] if position.incarnation == topic.incarnation else []
