"""Keys of the key-value store that raftlog itself has, besides positions, grants and quotas."""

from __future__ import annotations

import hashlib
from typing import Annotated, Self

from pydantic import Field

from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.machines.topic_names import is_topic_name
from raftlog.stored_values import Name, Number, StoredValue

QUERIES_PREFIX = "raftlog/queries/"
"""The last query of a name that wrote a topic: prefix, the topic's incarnation, `/`, the name."""

WRITTEN_PREFIX = "raftlog/written/"
"""Since when a writer writes a topic: prefix, a digest of the writer, `/`, the topic."""

_WRITER_DIGEST_BYTES = 16
"""Of the writer's name, which may be as long as a key."""


class QueryNote(StoredValue):
    """The value of a key under `QUERIES_PREFIX`."""

    PREFIX = QUERIES_PREFIX
    KIND = "note of a query"

    query_id: Name
    topic: Name

    @classmethod
    def decode(cls, key: str, value: bytes) -> Self:
        incarnation, slash, _ = key.removeprefix(QUERIES_PREFIX).partition("/")
        if not incarnation or not slash:
            raise cls.invalid(key, "the key names no incarnation and query")
        return super().decode(key, value)


class WrittenNote(StoredValue):
    """The value of a key under `WRITTEN_PREFIX`."""

    PREFIX = WRITTEN_PREFIX
    KIND = "note of a writer's first epoch"

    writer: Annotated[str, Field(max_length=TEXT_CHARACTERS_MAX)]
    epoch: Number

    @classmethod
    def decode(cls, key: str, value: bytes) -> Self:
        note, topic = super().decode(key, value), key.rpartition("/")[2]
        if not is_topic_name(topic) or written_key(note.writer, topic) != key:
            raise cls.invalid(key, "the key names no topic, or not the writer of its value")
        return note


def written_key(writer: str, topic: str) -> str:
    """The key of a writer's note about a topic; of "": what all keys of the writer begin with."""
    digest = hashlib.blake2b(writer.encode(), digest_size=_WRITER_DIGEST_BYTES).hexdigest()
    return f"{WRITTEN_PREFIX}{digest}/{topic}"
