"""Keys of the key-value store that raftlog itself has, besides positions, grants and quotas."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.stored_values import Name, Number, StoredValue

QUERIES_PREFIX = "raftlog/queries/"
"""The last query of a name that wrote a topic: prefix, the topic's incarnation, `/`, the name."""

WRITTEN_PREFIX = "raftlog/written/"
"""Since when a writer writes a topic: prefix, a digest of the writer, `/`, the topic."""


class QueryNote(StoredValue):
    """The value of a key under `QUERIES_PREFIX`."""

    PREFIX = QUERIES_PREFIX
    KIND = "note of a query"

    query_id: Name
    topic: Name


class WrittenNote(StoredValue):
    """The value of a key under `WRITTEN_PREFIX`."""

    PREFIX = WRITTEN_PREFIX
    KIND = "note of a writer's first epoch"

    writer: Annotated[str, Field(max_length=TEXT_CHARACTERS_MAX)]
    epoch: Number
