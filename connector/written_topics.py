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
"""By process id and run: the epochs in which its writer met its topics."""

_checked: set[tuple[int, str]] = set()
"""(process id, run) of the queries whose checkpoint was compared with their topics."""


def may_be_first(client: LogClient, key: EpochKey, topic: str) -> bool:
    """Whether no batch before this one can have written the topic."""
    if key.epoch == 0:
        return True
    known = _known.setdefault((os.getpid(), key.run), {})
    if topic not in known:
        found = written_topics.first_epoch(client.kv, key.writer, topic)
        if found is None or found >= key.epoch:
            return True  # the run's first batch may still forget it
        known[topic] = found
    return known[topic] >= key.epoch


def note(client: LogClient, key: EpochKey, topics: Collection[str]) -> None:
    """Remember that the query writes these topics, durably, before it does."""
    known = _known.setdefault((os.getpid(), key.run), {})
    for topic in topics:
        if topic not in known:
            written_topics.note(client.kv, key.writer, topic, key.epoch)
            known[topic] = key.epoch


def check(
    client: LogClient, key: EpochKey, topics: Collection[str], *, plan: str, keep: bool
) -> None:
    """Compare a run's first batch, which is for `topics`, with all topics that its writer knows,
    and forget the notes of topics that no batch before it has committed to.

    Raises `CheckpointReset` or `CheckpointRewound` if one of them is ahead of it. The log compares
    the batch with those of `topics` that have it; for others that have it: `EpochContentMismatch`,
    unless the first commit is to be kept. In others, the writer that another principal owns is no
    sign: who may write there chooses its name.
    """
    here = (os.getpid(), key.run)
    if here in _checked:
        return
    for topic, epoch in written_topics.first_epochs(client.kv, key.writer).items():
        try:
            found = client.writers.describe(topic, key.writer)
        except (TopicNotFound, TopicRecreated, WriterNotFound):
            has_committed = False
        else:
            if topic not in topics and found.owner not in ("", _principal(client)):
                continue
            _compare(key, found, plan=plan, judged=keep or topic in topics)
            has_committed = found.last_epoch >= 0
        if epoch >= key.epoch and not has_committed:
            written_topics.forget(client.kv, key.writer, topic)
    _checked.add(here)


def _principal(client: LogClient) -> str:
    known = client.whoami()
    return known.principal if known is not None else ""


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
