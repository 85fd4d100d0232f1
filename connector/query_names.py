"""A lost checkpoint of a query without `txnAppId`: noticed by the query's name, also by none.

Without its checkpoint a query is a new one to Spark and to the log, and writes all rows again. Its
name is no identity, but a *new* query under the name of one that wrote the topic is a hint, and so
is a second query without a name: its first batch is rejected unless `onCheckpointReset=append` says
that it is meant. The names are kept by `raftlog.client.query_names`. What goes wrong with them is a
warning: no batch depends on a hint.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from raftlog.client.query_names import known_query, note_query
from raftlog.errors import QueryNameKnown, RaftlogError, WriterNotFound
from raftlog.spark.options import SinkOptions
from raftlog.spark.worker_log import one_line

if TYPE_CHECKING:
    from raftlog import EpochKey, LogClient, TopicInfo

log = logging.getLogger("raftlog.spark")

_said: set[tuple[int, str]] = set()
"""(process id, kind of error) of what was warned of."""

_noted: set[tuple[int, str, str, str]] = set()
"""(process id, incarnation, name, query id) of the names that are known to be noted."""


def check(client: LogClient, topic: TopicInfo, key: EpochKey, options: SinkOptions) -> None:
    """Raise `QueryNameKnown` if a query's first batch in a topic looks like one after a lost
    checkpoint. All queries without a name count as queries of one name."""
    if options.txn_app_id is not None or options.append_on_reset:
        return
    name = options.query_name
    try:
        known = known_query(client.kv, topic, name)
        last_epoch = _last_epoch(client, topic, known) if known not in ("", key.query_id) else -1
    except RaftlogError as error:
        _warn(error)
        return
    if last_epoch >= 0:
        raise QueryNameKnown(
            topic=topic.name,
            name=name,
            query_id=key.query_id,
            known_query_id=known,
            last_epoch=last_epoch,
        )


def note(client: LogClient, topic: TopicInfo, key: EpochKey, options: SinkOptions) -> None:
    """Remember under which name the query writes, with this process's first batch of it: for the
    check above, and for `raftlog doctor`, which asks later where the query wrote."""
    name = options.query_name
    here = (os.getpid(), topic.incarnation, name, key.query_id)
    if here in _noted:
        return
    try:
        if known_query(client.kv, topic, name) != key.query_id:
            note_query(client.kv, topic, name, key.query_id)
        _noted.add(here)
    except RaftlogError as error:
        _warn(error)


def _last_epoch(client: LogClient, topic: TopicInfo, writer: str) -> int:
    """The last batch of a query in the topic; -1 if it wrote none, or was forgotten."""
    try:
        return client.writers.describe(topic, writer).last_epoch
    except WriterNotFound:
        return -1


def _warn(error: RaftlogError) -> None:
    if (os.getpid(), type(error).__name__) in _said:
        return
    _said.add((os.getpid(), type(error).__name__))
    log.warning(
        "The log could not be asked for the query's name, or told it (%s) So it is not noticed "
        "if its checkpoint is lost.",
        one_line(error),
    )
