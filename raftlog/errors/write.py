"""Errors of a write that the exactly-once rules refused."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from raftlog.errors.exit_code import ExitCode
from raftlog.errors.raftlog_error import OPTIONS, RaftlogError


class WriteRefused(RaftlogError):
    exit_code = ExitCode.REFUSED
    grpc_status = "FAILED_PRECONDITION"


@dataclass(kw_only=True, eq=False)
class RunFenced(WriteRefused):
    """The writer's run `run` writes after `current_run` took over."""

    writer: str
    run: str
    current_run: str

    cause_text = (
        "Run {run} of writer {writer!r} was fenced by run {current_run}: two processes write as "
        "this writer."
    )
    remedy_text = "Stop one of the two; a restart continues where the log ends."
    spark_remedy_text = (
        "Two drivers write with one checkpointLocation or txnAppId. Stop one of the two; a "
        "restarted query continues where the log ends."
    )


@dataclass(kw_only=True, eq=False)
class EpochTooOld(WriteRefused):
    """An epoch below the writer's last that cannot be compared with what was committed."""

    writer: str
    epoch: int
    last_epoch: int

    cause_text = (
        "Epoch {epoch} of writer {writer!r} is below its last, {last_epoch}, and its record count "
        "is not known (any more)."
    )
    remedy_text = (
        "Do not write an epoch that old again; if you mean to, write under a new {writer_name}."
    )


@dataclass(kw_only=True, eq=False)
class EpochContentMismatch(WriteRefused):
    """The writer's last epoch comes again with another plan or, if plans are unknown, size."""

    writer: str
    epoch: int
    committed_records: int
    replayed_records: int
    committed_plan: str = ""
    replayed_plan: str = ""
    """Both are empty if one of the two is not known."""

    @property
    def cause(self) -> str:
        text = (
            f"Epoch {self.epoch} of writer {self.writer!r} was committed with "
            f"{self.committed_records} records and is replayed with {self.replayed_records}"
        )
        if not self.replayed_plan:
            return f"{text}."
        return (
            f"{text}, under another plan: the log has {self.committed_plan}, the replay "
            f"{self.replayed_plan}."
        )

    remedy_text = (
        "Nothing was changed. Go on from the writer's last epoch (client.writers.describe), and "
        "give other rows the next one. With keep_on_mismatch=True the first commit stays, and the "
        "rows of this one are discarded."
    )
    spark_remedy_text = (
        "Nothing was changed. If the checkpoint is an older copy (the replay's plan is in its "
        "folder offsets), restore the newest; if the query was changed, start it again as it was, "
        "with its checkpoint. If its source gives other "
        "rows than before, only onReplayMismatch=keep lets the query continue: the first commit "
        "stays, and the rows of this batch are discarded. A batch job that writes other rows gives "
        "them the next txnVersion."
    )


@dataclass(kw_only=True, eq=False)
class EpochReferencesMismatch(WriteRefused):
    """The same run named other attempts for an epoch it had committed: a defect or a zombie."""

    writer: str
    epoch: int
    run: str

    cause_text = (
        "Run {run} of writer {writer!r} committed epoch {epoch} before, naming other attempts."
    )
    remedy_text = "Restart the writer or query; report this if it happens again."


@dataclass(kw_only=True, eq=False)
class CheckpointReset(WriteRefused):
    """Query `query_id` writes an epoch that query `known_query_id` has passed already."""

    writer: str
    epoch: int
    last_epoch: int
    query_id: str
    known_query_id: str

    cause_text = (
        "Query {query_id} writes epoch {epoch} as writer {writer!r}, whose last epoch "
        "{last_epoch} came from query {known_query_id}: the checkpoint was deleted or replaced."
    )
    remedy_text = (
        "Give the query_id that the writer had. Another EpochKey.writer writes the rows again."
    )
    spark_remedy_text = "Restore the checkpointLocation. Another txnAppId writes the rows again."


@dataclass(kw_only=True, eq=False)
class QueryNameKnown(WriteRefused):
    """A new query begins under the name of another that wrote the topic, or neither has a name, and
    it has no txnAppId.

    A name is no identity, but this is what a lost checkpoint looks like.
    """

    topic: str
    name: str
    """"": the query has none."""
    query_id: str
    known_query_id: str
    last_epoch: int

    @property
    def cause(self) -> str:
        called = f"is called {self.name!r}, as is" if self.name else "has no name, like"
        return (
            f"New query {self.query_id} {called} query {self.known_query_id}, which wrote topic "
            f"{self.topic!r} up to batch {self.last_epoch}: its checkpoint was lost, or this is "
            "another query. Nothing was written."
        )

    remedy_text = (
        "Restore the checkpoint and give its checkpointLocation. If the query is to write all its "
        "rows, those in the topic again: onCheckpointReset=append. If it is another query, "
        "give it a queryName of its own."
    )


@dataclass(kw_only=True, eq=False)
class CheckpointRewound(WriteRefused):
    """Spark replays only the last batch of a checkpoint, so this is not a replay."""

    writer: str
    batch: int
    last_batch: int

    cause_text = (
        "A query writes batch {batch} as writer {writer!r}, whose last batch in the log is "
        "{last_batch}: its checkpoint is an older copy, or another driver that uses it is ahead. A "
        "restart repeats at most the last batch, so this one's content is not known."
    )
    remedy_text = "Go on from the writer's last epoch (client.writers.describe)."
    spark_remedy_text = (
        "Restore the newer checkpoint. To write from the older one's offsets on, start under "
        "another txnAppId with createTopic=always: rows that the log has from there on are "
        "duplicated. onReplayMismatch=keep does not help."
    )


@dataclass(kw_only=True, eq=False)
class VersionReused(WriteRefused):
    """Two different writes inside foreachBatch; `last_batch` is the one that wrote first."""

    writer: str
    version: int
    batch: int
    last_batch: int

    cause_text = (
        "txnVersion {version} of txnAppId {writer!r} was written before, in batch {last_batch} of "
        "this query. Another write uses it in batch {batch} and would be taken for its replay."
    )
    remedy_text = (
        "In foreachBatch give each write a txnAppId of its own, and the batch's id as txnVersion. "
        "If it repeats a write whose reply was lost, that one is in the log: restart the query."
    )


@dataclass(kw_only=True, eq=False)
class EpochIncomplete(WriteRefused):
    """An attempt of a CommitEpoch is not as named. `problem` continues the sentence."""

    writer: str
    epoch: int
    attempt: str
    problem: str

    cause_text = (
        "Epoch {epoch} of writer {writer!r} cannot be committed: attempt {attempt} {problem}."
    )
    remedy_text = "Nothing became visible. Stage the epoch again, as a query's restart does."


@dataclass(kw_only=True, eq=False)
class PositionMoved(WriteRefused):
    """A reader group's position is not the one that this reader left. `found` is -1 if it is gone,
    `publisher` who moved it."""

    group: str
    topic: str
    found: int
    publisher: str = ""

    @property
    def cause(self) -> str:
        by = f" by {self.publisher}" if self.publisher else ""
        what = "was removed" if self.found == -1 else f"was moved to offset {self.found}{by}"
        return (
            f"The position of reader group {self.group!r} in topic {self.topic!r} {what} while "
            "this reader followed it."
        )

    remedy_text = (
        "Nothing was committed. If another consumer of the group runs, stop one of the two, or "
        "give it a group of its own. To go on from the position as it is now, follow again."
    )


@dataclass(kw_only=True, eq=False)
class UnknownWriter(WriteRefused):
    """`cluster` is the id of the cluster that refused; `servers` are the client's."""

    writer: str
    epoch: int
    cluster: str = ""
    servers: str = ""

    @property
    def cause(self) -> str:
        of = f" of cluster {self.cluster}" if self.cluster else ""
        at = f" (servers: {self.servers})" if self.servers else ""
        return (
            f"This topic{of}{at} does not know writer {self.writer!r}, which is at epoch "
            f"{self.epoch}: the topic was recreated, or the writer removed, since it began, or it "
            "wrote another topic or another cluster before, or under another name."
        )

    remedy_text = (
        "Check that {bootstrap_servers}, topic and EpochKey.writer are those that it wrote with. "
        "If they are, or if one of them is to change, continue there with this epoch: "
        "create_writer=True, in attempt and commit_epoch."
    )
    spark_remedy_text = (
        "Check that raftlog.bootstrap.servers, topic and txnAppId are those that it wrote with. If "
        "they are, or if one of them is to change, set createTopic=always to continue there with "
        "the next batch, or start with a new checkpoint."
    )


@dataclass(kw_only=True, eq=False)
class WriterOfAnother(WriteRefused):
    """A query or `txnAppId` belongs to the principal that began it, and only that one may continue
    it, unless another has the right to."""

    writer: str
    owner: str
    principal: str
    topic: str

    cause_text = "{principal!r} may not continue writer {writer!r}, which belongs to {owner!r}."

    @property
    def remedy(self) -> str:
        names = [self.topic, self.writer, self.principal]
        return (
            f"Write as {self.owner!r}, or under a name of your own. An admin of the topic can hand "
            f"it over: raftlog writers chown {shlex.join(names)}"
        )


@dataclass(kw_only=True, eq=False)
class WriterForgotten(WriteRefused):
    """Its writer row was removed by age or to make room. Without this it would look new."""

    writer: str

    cause_text = (
        "Batch write {writer!r} was committed, and the topic has forgotten it since: this is a "
        "late repeat."
    )
    remedy_text = (
        "Its records are in the topic: do not write them again. A repeat under its own "
        "{writer_name} is recognised no matter how late it is."
    )


@dataclass(kw_only=True, eq=False)
class RulesTooOld(WriteRefused):
    """`what` needs rules version `needed`, and the topic is still at `rules`."""

    topic: str
    what: str
    rules: int
    needed: int

    cause_text = "{what} needs rules {needed}; topic {topic!r} applies rules {rules}."
    remedy_text = "Upgrade all nodes: a topic's rules follow once every node knows them."


@dataclass(kw_only=True, eq=False)
class StageGap(WriteRefused):
    """Stage `number` arrived while `expected` was due: resend from there, in order."""

    attempt: str
    number: int
    expected: int

    cause_text = "Stage {number} of attempt {attempt} came before stage {expected}."
    remedy_text = "The client resends from the expected number."


@dataclass(kw_only=True, eq=False)
class UnknownProducer(WriteRefused):
    """An append above sequence 0, or a late one, of a producer that the topic has forgotten."""

    producer: str
    sequence: int

    cause_text = (
        "Producer {producer} is not known at sequence {sequence}: it expired, so it is not known "
        "whether its last unacknowledged append is in the log."
    )
    remedy_text = (
        "Check the end of the topic, then continue with a new producer. A producer that is often "
        "idle needs client.producer_idle_max_s below topic.producer_lease_s."
    )


@dataclass(kw_only=True, eq=False)
class SequenceGap(WriteRefused):
    """A producer's append, or a write in a session of the key-value store, with `sequence` came
    while `expected` was due. Nothing was written."""

    producer: str
    sequence: int
    expected: int

    cause_text = "{producer} sent sequence {sequence} before {expected}."
    remedy_text = "The client resends from the expected sequence."


@dataclass(kw_only=True, eq=False)
class SequenceReused(WriteRefused):
    """Other bytes under a used sequence of a producer, or of a session of the key-value store.
    Taking them for a resend would lose them."""

    producer: str
    sequence: int

    cause_text = (
        "{producer} sent sequence {sequence} again with other bytes: two clients share one "
        "producer or session, or a retry changed what it sends."
    )
    remedy_text = (
        "Check the end of the topic, or the key, then continue with a new producer or client."
    )


@dataclass(kw_only=True, eq=False)
class WriterBytesExceeded(WriteRefused):
    writer: str
    staged_bytes: int
    limit: int
    option: str = ""
    """The setting behind the limit; "" if the limit is a quota."""
    advice: str = ""
    """How to raise the quota."""

    cause_text = (
        "The open batch of writer {writer!r} would have {staged_bytes} staged bytes; the limit "
        "is {limit}."
    )

    @property
    def remedy(self) -> str:
        smaller = f"Write smaller batches{OPTIONS[self.surface]['batch_limits']}"
        if self.option:
            return f"{smaller}, or raise {self.option} on all nodes (0: no limit)."
        return f"{smaller}, or {self.advice}"


@dataclass(kw_only=True, eq=False)
class WriterEntriesExceeded(WriteRefused):
    writer: str
    limit: int
    option: str

    cause_text = "The open batch of writer {writer!r} has {limit} staged entries, the limit."
    remedy_text = (
        "Write smaller batches{batch_limits} or larger entries ({batch_bytes}), or raise {option} "
        "on all nodes."
    )


@dataclass(kw_only=True, eq=False)
class TooManyWriters(WriteRefused):
    """A new writer of a stream, or with a txnAppId, in a topic that has `limit` of them, or half of
    them of the same `owner`."""

    topic: str
    limit: int
    owner: str = ""

    @property
    def cause(self) -> str:
        of = f" of {self.owner!r}" if self.owner else ""
        return f"The topic already remembers its limit of {self.limit} writers{of}."

    @property
    def remedy(self) -> str:
        return (
            f"Reuse one {OPTIONS[self.surface]['writer_name']}, or remove writers that are gone: "
            f"raftlog writers list {shlex.quote(self.topic)}, raftlog writers remove "
            f"{shlex.quote(self.topic)} WRITER."
        )


@dataclass(kw_only=True, eq=False)
class UnknownSchemaVersion(WriteRefused):
    """A later version comes to the topic's log a moment after the topic was altered."""

    version: int
    latest: int

    retriable = True
    cause_text = "Schema version {version} is not known here; the latest is {latest}."
    remedy_text = "The client tries again. If it stays so, describe the topic again."


@dataclass(kw_only=True, eq=False)
class SchemaChanged(WriteRefused):
    """An alteration of version `expected`, where the topic's schema is at `found`."""

    topic: str
    expected: int
    found: int

    cause_text = (
        "The schema of topic {topic!r} is at version {found}, and the alteration is of version "
        "{expected}: another client altered it meanwhile."
    )

    @property
    def remedy(self) -> str:
        look = f"`raftlog topic describe {shlex.quote(self.topic)}`"
        return f"Look at the columns ({look}) and alter it again."
