"""Every error a user can meet: one tree, each with its cause, its remedy and whether to retry.

    RaftlogError
    |-- Unavailable                 retriable: nobody can answer now
    |   |-- NotLeader               the asked node does not lead; carries a hint
    |   |-- NodeUnreachable         no answer from that address
    |   |-- NodeStopping            the node was told to end
    |   |-- NoQuorum                a leader that lost its majority, or an election in progress
    |   |-- NotYet                  this replica has not applied far enough; ask another
    |   |-- Overloaded              a bounded queue is full
    |   |-- DiskFull                writes wait or are refused until there is room; reads continue
    |   `-- DeadlineExceeded        the request's one total deadline has passed
    |-- InvalidRequest              the request can never succeed as it is
    |   |-- MalformedRequest        bytes or values that the called node cannot accept
    |   |-- InvalidOption           an option's name or value
    |   |-- ClusterMismatch         a checkpoint of another cluster
    |   |-- ExtraMissing            the parts that run a node are not installed
    |   |-- InvalidTopicName
    |   |-- PeerProtocolViolation   a message that no correct peer sends: it is dropped
    |   |-- ProducerClosed          rows for a producer that was closed, failed, or is the parent's
    |   |-- SchemaMismatch          a field-by-field difference
    |   |-- TooLarge                a size over its limit
    |   `-- TooMany                 a count over its bound
    |-- NotFound
    |   |-- TopicNotFound           with the nearest names
    |   `-- WriterNotFound
    |-- AlreadyExists
    |   `-- TopicExists
    |-- TopicRecreated              the requested incarnation was deleted, or recreated
    |-- OffsetTrimmed               below the log's start
    |-- DataLoss                    records that must exist do not
    |   `-- CorruptFile             a file's bytes are not what was written
    |-- WriteRefused                the exactly-once rules refused the write
    |   |-- RunFenced               another run of the same writer took over
    |   |-- EpochTooOld             older than the counts that are remembered
    |   |-- EpochContentMismatch    a replay of another plan or size
    |   |-- CheckpointReset         another query id at an epoch already passed
    |   |-- CheckpointRewound       a stream below its last batch: an older copy of its checkpoint
    |   |-- VersionReused           another write of a stream took this txnVersion
    |   |-- EpochIncomplete         a named attempt is missing, or not as named
    |   |-- UnknownWriter           recreated topic, removed writer, or another cluster's topic
    |   |-- WriterForgotten         a late call of a batch write that had committed
    |   |-- RulesTooOld             the topic's rules do not support the request yet
    |   |-- StageGap                a stage arrived before its predecessor
    |   |-- UnknownProducer         a forgotten producer, whose last append may be in the log
    |   |-- EpochReferencesMismatch the same run names other attempts than it committed
    |   |-- SequenceGap             a producer's append arrived before its predecessor
    |   |-- SequenceReused          other records under a producer's earlier sequence
    |   |-- UnknownSchemaVersion    the client must describe the topic again
    |   |-- TooManyWriters          the topic's limit
    |   `-- WriterBytesExceeded     too many staged bytes of one writer
    |-- NodeRefused                 this process must not serve: `raftlog.node_errors`
    `-- Internal                    a defect of ours

An error is made only from keyword values, so the other side of the wire can build the same error:
`to_wire()` gives its code and values, `from_wire()` the typed error.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.error_base import Internal as Internal  # exported from here, like those below
from raftlog.error_base import RaftlogError as RaftlogError
from raftlog.error_base import from_wire as from_wire
from raftlog.exit_code import ExitCode as ExitCode
from raftlog.loss_errors import CorruptFile as CorruptFile
from raftlog.loss_errors import DataLoss as DataLoss
from raftlog.loss_errors import OffsetTrimmed as OffsetTrimmed
from raftlog.loss_errors import TopicRecreated as TopicRecreated
from raftlog.node_errors import AddressInUse as AddressInUse
from raftlog.node_errors import DataFolderForeign as DataFolderForeign
from raftlog.node_errors import DataFolderLocked as DataFolderLocked
from raftlog.node_errors import DiskFailed as DiskFailed
from raftlog.node_errors import FormatUnsupported as FormatUnsupported
from raftlog.node_errors import IdentityRefused as IdentityRefused
from raftlog.node_errors import LogFromNewerVersion as LogFromNewerVersion
from raftlog.node_errors import NodeRefused as NodeRefused


class Unavailable(RaftlogError):
    """Nobody can answer now; the same request may succeed later."""

    retriable = True
    exit_code = ExitCode.UNAVAILABLE
    grpc_status = "UNAVAILABLE"


@dataclass(kw_only=True, eq=False)
class NotLeader(Unavailable):
    """The asked node does not lead `group`. `leader` and `address` are a hint (0, "": none)."""

    group: int
    leader: int = 0
    address: str = ""

    cause_text = "This node does not lead group {group}."

    @property
    def remedy(self) -> str:
        if self.leader:
            return f"Ask node {self.leader} at {self.address}."
        return "No leader is known: an election may be in progress; try again shortly."


@dataclass(kw_only=True, eq=False)
class NodeUnreachable(Unavailable):
    """No answer from `address`. What was asked of it may still have been done."""

    address: str
    problem: str

    cause_text = "The node at {address} gave no answer: {problem}."
    remedy_text = (
        "Start the cluster (`raftlog up`) or name its nodes: --servers, client.bootstrap_servers, "
        "in Spark raftlog.bootstrap.servers."
    )


@dataclass(kw_only=True, eq=False)
class NodeStopping(Unavailable):
    """The node was told to end and takes no more calls."""

    cause_text = "This node is stopping."
    remedy_text = "Another node answers; the client asks there."


@dataclass(kw_only=True, eq=False)
class NoQuorum(Unavailable):
    """A majority did not confirm the write or read. A write may still become visible."""

    what: str

    cause_text = "No majority of voters confirmed {what}."
    remedy_text = "See `raftlog status`: a majority of the nodes must run and reach one another."


@dataclass(kw_only=True, eq=False)
class NotYet(Unavailable):
    """This replica has applied the topic only up to `have`, below the mark `need`."""

    topic: str
    have: int
    need: int

    cause_text = "This replica of {topic!r} has applied up to offset {have} of {need}."
    remedy_text = "Another replica may have it; the client asks there."


@dataclass(kw_only=True, eq=False)
class Overloaded(Unavailable):
    """A bounded queue is full; nothing was accepted."""

    queue: str
    limit: int

    cause_text = "The queue {queue} holds its limit of {limit}."
    remedy_text = "Send less at once, or raise {queue} in conf/raftlog.toml."


@dataclass(kw_only=True, eq=False)
class DiskFull(Unavailable):
    """There is no room for a write to `file`. Nothing of it counts; it may be written later."""

    file: str
    node: str = "this node"
    grpc_status = "RESOURCE_EXHAUSTED"

    cause_text = "The disk of {node} is full: there is no room for {file}."
    remedy_text = (
        "Make room on that disk or delete topics. A running node then continues by itself, and "
        "serves reads meanwhile; start a node that could not start again."
    )


@dataclass(kw_only=True, eq=False)
class DeadlineExceeded(Unavailable):
    """The request's one total deadline passed. `last` is the last answer, if there was any."""

    what: str
    seconds: str
    last: str = ""
    exit_code = ExitCode.UNAVAILABLE
    grpc_status = "DEADLINE_EXCEEDED"

    @property
    def cause(self) -> str:
        because = f" The last answer was: {self.last}" if self.last else ""
        return f"{self.what} was not done within {self.seconds} s.{because}"

    remedy_text = (
        "See `raftlog status`; a slow cluster needs a higher client.request_timeout_s (option "
        "raftlog.request.timeout.ms in Spark)."
    )


class InvalidRequest(RaftlogError):
    exit_code = ExitCode.USAGE
    grpc_status = "INVALID_ARGUMENT"


@dataclass(kw_only=True, eq=False)
class MalformedRequest(InvalidRequest):
    """Bytes that are not a request of the named call, or values that it can never accept."""

    call: str
    what: str

    cause_text = "{call} got a request that it cannot read: {what}."
    remedy_text = "Use a client of the same major version as the server."


@dataclass(kw_only=True, eq=False)
class PeerProtocolViolation(InvalidRequest):
    """A message between nodes that breaks the rules of Raft. It has changed nothing."""

    group: int
    peer: int
    kind: str
    problem: str

    cause_text = "Node {peer} sent {kind} of group {group} that no correct node sends: {problem}."
    remedy_text = "It was dropped. Stop node {peer}, check its version and disk, or replace it."


@dataclass(kw_only=True, eq=False)
class InvalidOption(InvalidRequest):
    """An option's name or value. `problem` continues the sentence, `advice` is one of its own."""

    option: str
    problem: str
    advice: str

    cause_text = "Option {option!r} {problem}."

    remedy_text = "{advice}"


@dataclass(kw_only=True, eq=False)
class ClusterMismatch(InvalidRequest):
    """A checkpoint has offsets of cluster `wanted`, but `servers` are of cluster `found`."""

    wanted: str
    found: str
    servers: str

    cause_text = (
        "This checkpoint is of cluster {wanted}, and the servers {servers} are of cluster {found}."
    )
    remedy_text = (
        "Name the servers of cluster {wanted} in raftlog.bootstrap.servers. To read this cluster "
        "instead, use a new checkpointLocation; failOnDataLoss does not change this."
    )


@dataclass(kw_only=True, eq=False)
class ExtraMissing(InvalidRequest):
    """The verb runs nodes, but this is a client's installation."""

    verb: str
    missing: str

    cause_text = "`raftlog {verb}` runs nodes, and this installation lacks {missing}."
    remedy_text = 'Install the server\'s parts: pip install "raftlog[server]"'


@dataclass(kw_only=True, eq=False)
class InvalidTopicName(InvalidRequest):
    topic: str

    cause_text = "{topic!r} is not a valid topic name."
    remedy_text = "Use 1 to 249 of A-Z a-z 0-9 . _ - without a leading dot."


@dataclass(kw_only=True, eq=False)
class SchemaMismatch(InvalidRequest):
    """`difference` lists the fields that differ, one per line."""

    topic: str
    difference: str

    cause_text = "The schema does not fit topic {topic!r}:\n{difference}\n"
    remedy_text = "Select and cast the columns to the topic's schema (`raftlog topic describe`)."


@dataclass(kw_only=True, eq=False)
class TooLarge(InvalidRequest):
    """`what` has `size` bytes, more than `limit`, which the setting `option` raises."""

    what: str
    size: int
    limit: int
    option: str

    cause_text = "{what} has {size} bytes; the limit is {limit}."
    remedy_text = "Split it, or raise {option}."


@dataclass(kw_only=True, eq=False)
class TooMany(InvalidRequest):
    """A count over a fixed bound. It is not a setting, because what is applied, or both ends of a
    call, depend on it."""

    what: str
    limit: int
    unit: str

    cause_text = "{what} would have more than {limit} {unit}."
    remedy_text = "Use fewer; this bound is the same in every cluster."


@dataclass(kw_only=True, eq=False)
class ProducerClosed(InvalidRequest):
    """The producer takes no more rows. Nothing of this call was accepted."""

    topic: str
    problem: str = "it was closed"

    cause_text = "This producer of topic {topic!r} takes no more rows: {problem}."
    remedy_text = "Make a new one. Rows that were not flushed may be in the log: check its end."


class NotFound(RaftlogError):
    exit_code = ExitCode.NOT_FOUND
    grpc_status = "NOT_FOUND"


@dataclass(kw_only=True, eq=False)
class TopicNotFound(NotFound):
    """`nearest` holds the closest known names, comma-separated, or is empty."""

    topic: str
    nearest: str = ""

    @property
    def cause(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"There is no topic {self.topic!r}.{hint}"

    remedy_text = (
        "Create it: raftlog topic create {topic} --schema '...'; or name the servers of the "
        "cluster that has it: --servers, in Spark raftlog.bootstrap.servers."
    )


@dataclass(kw_only=True, eq=False)
class WriterNotFound(NotFound):
    topic: str
    writer: str

    cause_text = "Topic {topic!r} remembers no writer {writer!r}."
    remedy_text = "See `raftlog writers list {topic}`."


class AlreadyExists(RaftlogError):
    exit_code = ExitCode.ALREADY_EXISTS
    grpc_status = "ALREADY_EXISTS"


@dataclass(kw_only=True, eq=False)
class TopicExists(AlreadyExists):
    topic: str

    cause_text = "Topic {topic!r} exists."
    remedy_text = "Write to it, choose another name, or accept it as it is (--if-not-exists)."


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
        "Run {run} of writer {writer!r} was fenced by run {current_run}: two drivers write "
        "with one checkpointLocation or txnAppId."
    )
    remedy_text = "Stop one of the two; a restarted query continues where the log ends."


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
        "Do not roll a checkpoint back that far; write under a new txnAppId if you mean to."
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
            f"{text}, which Spark planned again: the log has plan {self.committed_plan}, the "
            f"checkpoint's offsets/{self.epoch} is {self.replayed_plan}."
        )

    remedy_text = (
        "The source returned other rows than before, the query changed, or the checkpoint is an "
        "older copy. With onReplayMismatch=keep the query continues: the first commit stays, and "
        "the rows of this batch are discarded."
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
    remedy_text = "Restart the query; report this if it happens again."


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
    remedy_text = "Restore the checkpointLocation. Another txnAppId writes the rows once more."


@dataclass(kw_only=True, eq=False)
class CheckpointRewound(WriteRefused):
    """Spark replays only the last batch of a checkpoint, so this is not a replay."""

    writer: str
    batch: int
    last_batch: int

    cause_text = (
        "A query writes batch {batch} as writer {writer!r}, whose last batch in the log is "
        "{last_batch}: the checkpointLocation is an older copy, or another driver that uses it is "
        "ahead. A restart repeats at most the last batch, so this one's content is not known."
    )
    remedy_text = (
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
    remedy_text = "Nothing became visible; the query's restart stages the epoch again."


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
            f"{self.epoch}: the topic was recreated, or the writer removed, under a running "
            "query, or the checkpoint is of another cluster."
        )

    remedy_text = (
        "Check that raftlog.bootstrap.servers names the cluster that the query wrote to. If it "
        "does, start with a new checkpoint, or set createTopic=always to continue in the new topic."
    )


@dataclass(kw_only=True, eq=False)
class WriterForgotten(WriteRefused):
    """Its row was removed by age or to make room. Otherwise it would look like a new writer's."""

    writer: str

    cause_text = (
        "Batch write {writer!r} was committed, and the topic has forgotten it since: this is a "
        "late repeat."
    )
    remedy_text = (
        "Its records are in the topic: do not write them again. With txnAppId and txnVersion a "
        "repeat is recognised no matter how late it is."
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
        "Producer {producer} is not known at sequence {sequence}: it expired, so nobody can tell "
        "whether its last unacknowledged append is in the log."
    )
    remedy_text = (
        "Check the end of the topic, then continue with a new producer. A producer that is often "
        "idle needs client.producer_idle_max_s below topic.producer_lease_s."
    )


@dataclass(kw_only=True, eq=False)
class SequenceGap(WriteRefused):
    """An append with `sequence` came while `expected` was due. Nothing was appended."""

    producer: str
    sequence: int
    expected: int

    cause_text = "Producer {producer} sent sequence {sequence} before {expected}."
    remedy_text = "The client resends from the expected sequence."


@dataclass(kw_only=True, eq=False)
class SequenceReused(WriteRefused):
    """Other bytes under a used sequence. Taking them for a resend would lose them."""

    producer: str
    sequence: int

    cause_text = (
        "Producer {producer} sent sequence {sequence} again with other records: two clients share "
        "one producer id, or a retry changed its batch."
    )
    remedy_text = "Check the end of the topic, then continue with a new producer."


@dataclass(kw_only=True, eq=False)
class WriterBytesExceeded(WriteRefused):
    writer: str
    staged_bytes: int
    limit: int
    option: str = ""
    """The setting behind the limit; empty under rules 1, whose limit is fixed."""

    cause_text = (
        "The open batch of writer {writer!r} would have {staged_bytes} staged bytes; the limit "
        "is {limit}."
    )

    @property
    def remedy(self) -> str:
        smaller = "Write smaller batches (maxOffsetsPerTrigger, maxFilesPerTrigger)"
        if not self.option:
            return f"{smaller}, or through more than one txnAppId."
        return f"{smaller}, or raise {self.option} on all nodes (0: no limit)."


@dataclass(kw_only=True, eq=False)
class TooManyWriters(WriteRefused):
    """A new writer of a stream, or with a txnAppId, in a topic that has `limit` of them."""

    topic: str
    limit: int

    cause_text = "The topic already remembers its limit of {limit} writers."
    remedy_text = (
        "Reuse a txnAppId, or remove the rows of writers that are gone: raftlog writers list "
        "{topic}, raftlog writers remove {topic} WRITER."
    )


@dataclass(kw_only=True, eq=False)
class UnknownSchemaVersion(WriteRefused):
    version: int
    latest: int

    cause_text = "Schema version {version} is not known here; the latest is {latest}."
    remedy_text = "The client describes the topic again."
