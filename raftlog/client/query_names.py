"""Which query wrote a topic under which name: a hint that a lost checkpoint or topic leaves behind.

Spark lets a query have a name, and gives it an id that is kept only in its checkpoint. The id is
the writer of exactly-once; the name is no identity, because any query may have it. So a topic's
last query of a name, also of the name "", is one key of the cluster's key-value store, not part of
the topic. It outlives the topic.
"""

from __future__ import annotations

from raftlog.client.key_values import KeyValueStore
from raftlog.errors import StoredValueInvalid
from raftlog.machines.commands import TopicInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.wire.reserved_keys import QUERIES_PREFIX, QueryNote

NAME_CHARACTERS_MAX = 900
"""Prefix, incarnation and name then fit into a key. Queries with longer names are not known."""


def known_query(store: KeyValueStore, topic: TopicInfo, name: str) -> str:
    """The id of the query that last wrote this incarnation of the topic under the name; "" if none
    did, or it is not known."""
    if len(name) > NAME_CHARACTERS_MAX:
        return ""
    found = store.get(_key(topic, name))
    noted = None if found is None else _noted(found)
    return "" if noted is None else noted.query_id


def topic_of(store: KeyValueStore, query_id: str) -> str:
    """The name of a topic that the query was the last of its name to write; "" if none is known.
    The topic may be gone since."""
    noted = map(_noted, store.scan(QUERIES_PREFIX))
    return next((each.topic for each in noted if each and each.query_id == query_id), "")


def note_query(store: KeyValueStore, topic: TopicInfo, name: str, query_id: str) -> None:
    """Remember the query, in place of an earlier one of the name."""
    if len(name) <= NAME_CHARACTERS_MAX:
        store.put(_key(topic, name), QueryNote(query_id=query_id, topic=topic.name).encode())


def _noted(found: KeyValue) -> QueryNote | None:
    """What a key says; None if this version cannot read it: it is a hint, and stops nothing."""
    try:
        return QueryNote.decode(found.key, found.value)
    except StoredValueInvalid:
        return None


def _key(topic: TopicInfo, name: str) -> str:
    return f"{QUERIES_PREFIX}{topic.incarnation}/{name}"
