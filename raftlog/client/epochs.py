"""The requests that end an epoch: what makes its attempts visible, or drops them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raftlog.client.arguments import attempts_argument, flag_argument, text_argument
from raftlog.client.connection import Connection
from raftlog.machines.commands import AttemptReference, EpochKey, TopicInfo
from raftlog.machines.limits import TEXT_CHARACTERS_MAX
from raftlog.machines.outcomes import EpochCommitted
from raftlog.wire.calls import (
    ABORT_EPOCH,
    COMMIT_EPOCH,
    AbortEpochCall,
    CommitEpochCall,
)


def make_visible(
    connection: Connection,
    find: Callable[[], TopicInfo],
    key: EpochKey,
    attempts: Sequence[AttemptReference],
    *,
    keep_on_mismatch: bool,
    create_writer: bool,
    transient_writer: bool,
    plan: str,
    overwrite: bool,
) -> EpochCommitted:
    """Commit the epoch in the topic that `find` gives; see `LogClient.commit_epoch`.

    Raises `InvalidOption` for an argument of another type, before the topic is looked for.
    """
    named = attempts_argument(attempts)
    text_argument("plan", plan, most=TEXT_CHARACTERS_MAX)
    flag_argument("keep_on_mismatch", keep_on_mismatch)
    flag_argument("create_writer", create_writer)
    flag_argument("transient_writer", transient_writer)
    flag_argument("overwrite", overwrite)
    topic = find()
    call = CommitEpochCall(
        group=topic.group,
        incarnation=topic.incarnation,
        key=key,
        attempts=tuple(named),
        schema_version=topic.schema.version,
        keep_on_mismatch=keep_on_mismatch,
        create_writer=create_writer,
        transient_writer=transient_writer,
        plan=plan,
        overwrite=overwrite,
    )
    with connection.traces.committing(topic, key):
        return connection.call_leader(topic.group, COMMIT_EPOCH, call)


def drop(connection: Connection, topic: TopicInfo, key: EpochKey) -> int:
    """Abort the epoch's open attempts; how many there were."""
    call = AbortEpochCall(group=topic.group, incarnation=topic.incarnation, key=key)
    with connection.traces.staging(topic, key):
        return connection.call_leader(topic.group, ABORT_EPOCH, call).attempts
