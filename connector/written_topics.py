"""What a query whose rows name their topics must know of the topics that it has written.

A topic need not have rows in each batch, so the log alone, which judges topic by topic, misses two
things. A topic that does not know the query may be new to it, or may have been created again under
it: `may_be_first` tells the two apart. And a checkpoint that is an older copy is behind some of its
topics, but not behind all: `check` compares it with all of them, before a batch writes any.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from raftlog.client import written_topics
from raftlog.errors import (
    CheckpointReset,
    CheckpointRewound,
    EpochContentMismatch,
    TopicNotFound,
    TopicRecreated,
    WriterNotFound,
)

if TYPE_CHECKING:
    from raftlog import EpochKey, LogClient, WriterView

_known: dict[tuple[int, str], dict[str, int]] = {}
"""By process id and writer: the epochs in which it met its topics, which never change."""

_checked: set[tuple[int, str]] = set()
"""(process id, run) of the queries whose checkpoint was compared with their topics."""


def may_be_first(client: LogClient, key: EpochKey, topic: str) -> bool:
    """Whether no batch before this one can have written the topic."""
    if key.epoch == 0:
        return True
    known = _known.setdefault((os.getpid(), key.writer), {})
    if topic not in known:
        found = written_topics.first_epoch(client.kv, key.writer, topic)
        if found is None:
            return True
        known[topic] = found
    return known[topic] >= key.epoch


def note(client: LogClient, key: EpochKey, topics: Collection[str]) -> None:
    """Remember that the query writes these topics, durably, before it does."""
    known = _known.setdefault((os.getpid(), key.writer), {})
    for topic in topics:
        if topic not in known:
            written_topics.note(client.kv, key.writer, topic, key.epoch)
            known[topic] = key.epoch


def check(
    client: LogClient, key: EpochKey, topics: Collection[str], *, plan: str, keep: bool
) -> None:
    """Compare a run's first batch, which is for `topics`, with all topics that its writer knows.

    Raises `CheckpointReset` or `CheckpointRewound` if one of them is ahead of it. The log compares
    the batch with those of `topics` that have it; for others that have it: `EpochContentMismatch`,
    unless the first commit is to be kept.
    """
    here = (os.getpid(), key.run)
    if here in _checked:
        return
    for topic in written_topics.first_epochs(client.kv, key.writer):
        try:
            _compare(
                key,
                client.writers.describe(topic, key.writer),
                plan=plan,
                judged=keep or topic in topics,
            )
        except (TopicNotFound, TopicRecreated, WriterNotFound):
            continue
    _checked.add(here)


def _compare(key: EpochKey, found: WriterView, *, plan: str, judged: bool) -> None:
    if found.last_epoch < key.epoch:
        return
    if found.query_id != key.query_id:
        raise CheckpointReset(
            writer=key.writer,
            epoch=key.epoch,
            last_epoch=found.last_epoch,
            query_id=key.query_id,
            known_query_id=found.query_id,
        )
    if found.last_epoch > key.epoch:
        raise CheckpointRewound(writer=key.writer, batch=key.epoch, last_batch=found.last_epoch)
    known = plan and found.plan
    if not judged and not (known and plan == found.plan):
        raise EpochContentMismatch(
            writer=key.writer,
            epoch=key.epoch,
            committed_records=found.last_end - found.last_start,
            replayed_records=0,
            committed_plan=found.plan if known else "",
            replayed_plan=plan if known else "",
        )
