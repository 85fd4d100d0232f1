"""Which topics a query has written whose rows name their topics, and since which batch.

Such a query meets a topic in any of its batches. In a topic that does not know the writer above
epoch 0, the log cannot tell a new topic from one that was created again under the query. So before
its first commit there, the topic is noted: one key of the cluster's key-value store for each writer
and topic, which is never changed. A query must not go on without it.
"""

from __future__ import annotations

from raftlog.client.key_values import KeyValueStore
from raftlog.errors import VersionConflict
from raftlog.wire.reserved_keys import WrittenNote, written_key


def first_epochs(store: KeyValueStore, writer: str) -> dict[str, int]:
    """The epochs in which the writer met its topics, by topic."""
    prefix = written_key(writer, "")
    notes = (
        (found.key, WrittenNote.decode(found.key, found.value)) for found in store.scan(prefix)
    )
    return {key.removeprefix(prefix): note.epoch for key, note in notes}


def first_epoch(store: KeyValueStore, writer: str, topic: str) -> int | None:
    """The epoch in which the writer met the topic; None if that is not noted."""
    found = store.get(written_key(writer, topic))
    return None if found is None else WrittenNote.decode(found.key, found.value).epoch


def note(store: KeyValueStore, writer: str, topic: str, epoch: int) -> None:
    """Remember that the writer met the topic in this epoch, unless an earlier one is noted."""
    value = WrittenNote(writer=writer, epoch=epoch).encode()
    try:
        store.put(written_key(writer, topic), value, expected=0)
    except VersionConflict:
        pass  # noted, by an earlier try of this call or by another run


def forget(store: KeyValueStore, writer: str, topic: str) -> None:
    """Remove the note of a topic that the writer has not committed to."""
    store.delete(written_key(writer, topic))
