"""Every error a user can meet: one tree, each with its cause, its remedy and whether to retry.

    RaftlogError
    |-- Unavailable                 retriable: no node can answer now
    |   |-- NotLeader               the asked node does not lead; carries a hint
    |   |-- NodeUnreachable         no answer from that address
    |   |-- ZooKeeperUnavailable    it named no node, and none is known from elsewhere
    |   |-- NodeStopping            the node was told to stop
    |   |-- IdentityProviderUnavailable  a node has no keys to prove access tokens with
    |   |-- TokenReplaced           a token was refused that has been replaced meanwhile
    |   |-- AuditUnavailable        an operation that cannot be audited, where it must be
    |   |-- MemberUnknown           a certificate names a node that is not known as a member
    |   |-- RegisteredJustNow       a node registers again within seconds
    |   |-- RightsUnknown           a node does not know what callers may do
    |   |-- NodesNotReady           those that `raftlog up` waited for
    |   |-- NoQuorum                a leader that lost its majority, or an election in progress
    |   |-- ReplicaDiverged         this replica's state or history differs from the majority's
    |   |-- ReplicaQuarantined      this replica's files are damaged; ask another
    |   |-- StateDisputed           the replicas' states differ, and none has a majority
    |   |-- HistoryDisputed         the replicas' histories differ, and none has a majority
    |   |-- ChangeUnderWay          one change of a group's members at a time
    |   |-- MemberBehind            a node that is to vote has not got the log yet
    |   |-- TransferUnderWay        the leader hands its role to another node
    |   |-- IndexOverflow           this replica has not applied that index of its log
    |   |-- NotYet                  this replica has not applied far enough; ask another
    |   |-- Overloaded              a bounded queue is full
    |   |-- ResourceShortage        what is asked for needs what is used up
    |   |   |-- DiskFull            writes wait or are refused until there is room; reads continue
    |   |   `-- LimitReached        no more open files, memory, threads or processes
    |   `-- DeadlineExceeded        the request's one total deadline has passed
    |       `-- ChangeUnfinished    so has that of a change of nodes or placements, which goes on
    |-- InvalidRequest              the request can never succeed as it is
    |   |-- MalformedRequest        bytes or values that the called node cannot accept
    |   |-- InvalidOption           an option's name or value
    |   |-- ClientClosed            a call of a client that was closed
    |   |-- ClusterMismatch         a checkpoint of another cluster
    |   |-- ExtraMissing            the parts that run a node are not installed
    |   |-- InvalidTopicName
    |   |-- PathUnusable            the operating system refused a file or folder
    |   |-- PeerProtocolViolation   a message that no correct peer sends: it is dropped
    |   |-- ProducerClosed          rows for a producer that was closed, failed, or is the parent's
    |   |-- SchemaMismatch          a field-by-field difference
    |   |-- StoredValueInvalid      a key of raftlog's own that holds no value of its kind
    |   |-- SparkTooOld             this PySpark cannot read a topic as a stream
    |   |-- TooLarge                a size over its limit
    |   `-- TooMany                 a count over its bound
    |-- Unauthenticated             the node does not know who calls
    |-- Forbidden                   the caller was not granted that right
    |-- NotFound
    |   |-- TopicNotFound           with the nearest names
    |   |-- ReaderGroupNotFound
    |   `-- WriterNotFound
    |-- AlreadyExists
    |   `-- TopicExists
    |-- TopicRecreated              the requested incarnation was deleted, or recreated
    |-- OffsetTrimmed               below the log's start
    |-- IndexUnderflow              below what is kept of a log's states
    |-- NoSnapshot                  none was taken, or not yet
    |-- WatcherTooSlow              events came faster than they were taken
    |-- DataLoss                    records that must exist do not
    |   |-- AcknowledgedEntriesLost an older copy of a folder, a lying disk, or a lying leader
    |   `-- CorruptFile             a file's bytes are not what was written
    |-- WriteRefused                the exactly-once rules refused the write
    |   |-- RunFenced               another run of the same writer took over
    |   |-- EpochTooOld             older than the counts that are remembered
    |   |-- EpochContentMismatch    a replay of another plan or size
    |   |-- CheckpointReset         another query id at an epoch already passed
    |   |-- QueryNameKnown          a new query under the name of one that wrote the topic
    |   |-- CheckpointRewound       a stream below its last batch: an older copy of its checkpoint
    |   |-- VersionReused           another write of a stream took this txnVersion
    |   |-- EpochIncomplete         a named attempt is missing, or not as named
    |   |-- UnknownWriter           recreated topic, removed writer, or another cluster's topic
    |   |-- WriterForgotten         a late call of a batch write that had committed
    |   |-- WriterOfAnother         it belongs to another principal
    |   |-- RulesTooOld             the topic's rules do not support the request yet
    |   |-- StageGap                a stage arrived before its predecessor
    |   |-- UnknownProducer         a forgotten producer, whose last append may be in the log
    |   |-- EpochReferencesMismatch the same run names other attempts than it committed
    |   |-- SequencePassed          a late resend to the key-value store
    |   |-- UnknownSession          the key-value store has ended the session
    |   |-- VersionConflict         the key has another version than the write expects
    |   |-- PositionMoved           another reader of the group committed since
    |   |-- SequenceGap             a producer's or session's write arrived before its predecessor
    |   |-- SequenceReused          other bytes under a producer's or session's earlier sequence
    |   |-- UnknownSchemaVersion    later than the topic's log knows yet: retriable
    |   |-- SchemaChanged           another alteration of the schema was faster
    |   |-- TooManyWriters          the topic's limit
    |   |-- WriterBytesExceeded     too many staged bytes of one writer
    |   `-- WriterEntriesExceeded   too many staged entries of one writer
    |-- MembersRefused              of nodes and placements: `raftlog.errors.members`
    |-- NodeRefused                 this process must not serve: `raftlog.errors.node`
    |-- CompactorKilled             a signal ended the compaction process: it is tried again
    |-- CompactorOutOfMemory        it has too little memory: it is tried again
    |-- FileTooLarge                what it holds has grown beyond a bound: it is tried again
    |-- OutputUnwritable            standard output is full or closed
    `-- Internal                    a defect of ours

An error is made only from keyword values, so the other side of the wire can build the same error:
`to_wire()` gives its code and values, `from_wire()` the typed error.
"""

from __future__ import annotations

from raftlog.errors.data import (
    AcknowledgedEntriesLost,
    CorruptFile,
    DataLoss,
    OffsetTrimmed,
    TopicRecreated,
)
from raftlog.errors.exit_code import (
    ExitCode,
)
from raftlog.errors.index import (
    IndexOverflow,
    IndexUnderflow,
    NoSnapshot,
    SequencePassed,
    StoredValueInvalid,
    UnknownSession,
    VersionConflict,
    WatcherTooSlow,
)
from raftlog.errors.members import (
    AddressTaken,
    GroupUnknown,
    MembersRefused,
    NodeExists,
    NodeInUse,
    NodeUnknown,
    NotAVoter,
    ObserverRefused,
    PlacementOutdated,
    PlacementUnderWay,
    QuorumAtRisk,
    TooFewNodes,
    TransferRefused,
)
from raftlog.errors.node import (
    AddressInUse,
    DataFolderForeign,
    DataFolderLocked,
    DiskFailed,
    FormatUnsupported,
    IdentityRefused,
    LogFromNewerVersion,
    NodeRefused,
    NodeRemoved,
    PeerUnproven,
    StoreCopied,
    StoreMissing,
    StoreUnfinished,
)
from raftlog.errors.raftlog_error import (
    CompactorKilled,
    CompactorOutOfMemory,
    FileTooLarge,
    Internal,
    RaftlogError,
    from_wire,
)
from raftlog.errors.request import (
    AlreadyExists,
    ClientClosed,
    ClusterMismatch,
    ExtraMissing,
    Forbidden,
    InvalidOption,
    InvalidRequest,
    InvalidTopicName,
    MalformedRequest,
    NotFound,
    OutputUnwritable,
    PathUnusable,
    PeerProtocolViolation,
    ProducerClosed,
    ReaderGroupNotFound,
    SchemaMismatch,
    SparkTooOld,
    TooLarge,
    TooMany,
    TopicExists,
    TopicNotFound,
    Unauthenticated,
    WriterNotFound,
)
from raftlog.errors.unavailable import (
    AuditUnavailable,
    ChangeUnderWay,
    ChangeUnfinished,
    DeadlineExceeded,
    DiskFull,
    HistoryDisputed,
    IdentityProviderUnavailable,
    LimitReached,
    MemberBehind,
    MemberUnknown,
    NodesNotReady,
    NodeStopping,
    NodeUnreachable,
    NoQuorum,
    NotLeader,
    NotYet,
    Overloaded,
    QuotaExceeded,
    RegisteredJustNow,
    ReplicaDiverged,
    ReplicaQuarantined,
    ResourceShortage,
    RightsUnknown,
    StateDisputed,
    TokenReplaced,
    TransferUnderWay,
    Unavailable,
    ZooKeeperUnavailable,
    shortage_of,
)
from raftlog.errors.write import (
    CheckpointReset,
    CheckpointRewound,
    EpochContentMismatch,
    EpochIncomplete,
    EpochReferencesMismatch,
    EpochTooOld,
    PositionMoved,
    QueryNameKnown,
    RulesTooOld,
    RunFenced,
    SchemaChanged,
    SequenceGap,
    SequenceReused,
    StageGap,
    TooManyWriters,
    UnknownProducer,
    UnknownSchemaVersion,
    UnknownWriter,
    VersionReused,
    WriterBytesExceeded,
    WriteRefused,
    WriterEntriesExceeded,
    WriterForgotten,
    WriterOfAnother,
)

__all__ = [
    "AcknowledgedEntriesLost",
    "AddressInUse",
    "AddressTaken",
    "AlreadyExists",
    "AuditUnavailable",
    "ChangeUnderWay",
    "ChangeUnfinished",
    "CheckpointReset",
    "CheckpointRewound",
    "ClientClosed",
    "ClusterMismatch",
    "CompactorKilled",
    "CompactorOutOfMemory",
    "CorruptFile",
    "DataFolderForeign",
    "DataFolderLocked",
    "DataLoss",
    "DeadlineExceeded",
    "DiskFailed",
    "DiskFull",
    "EpochContentMismatch",
    "EpochIncomplete",
    "EpochReferencesMismatch",
    "EpochTooOld",
    "ExitCode",
    "ExtraMissing",
    "FileTooLarge",
    "Forbidden",
    "FormatUnsupported",
    "GroupUnknown",
    "HistoryDisputed",
    "IdentityProviderUnavailable",
    "IdentityRefused",
    "IndexOverflow",
    "IndexUnderflow",
    "Internal",
    "InvalidOption",
    "InvalidRequest",
    "InvalidTopicName",
    "LimitReached",
    "LogFromNewerVersion",
    "MalformedRequest",
    "MemberBehind",
    "MemberUnknown",
    "MembersRefused",
    "NoQuorum",
    "NoSnapshot",
    "NodeExists",
    "NodeInUse",
    "NodeRefused",
    "NodeRemoved",
    "NodeStopping",
    "NodeUnknown",
    "NodeUnreachable",
    "NodesNotReady",
    "NotAVoter",
    "NotFound",
    "NotLeader",
    "NotYet",
    "ObserverRefused",
    "OffsetTrimmed",
    "OutputUnwritable",
    "Overloaded",
    "QuotaExceeded",
    "ReaderGroupNotFound",
    "RegisteredJustNow",
    "PathUnusable",
    "PeerProtocolViolation",
    "PeerUnproven",
    "PlacementOutdated",
    "PlacementUnderWay",
    "PositionMoved",
    "ProducerClosed",
    "QueryNameKnown",
    "QuorumAtRisk",
    "RaftlogError",
    "ReplicaDiverged",
    "ReplicaQuarantined",
    "ResourceShortage",
    "RightsUnknown",
    "RulesTooOld",
    "RunFenced",
    "SchemaChanged",
    "SchemaMismatch",
    "SequenceGap",
    "SequencePassed",
    "SequenceReused",
    "SparkTooOld",
    "StoreCopied",
    "StoreMissing",
    "StoreUnfinished",
    "StoredValueInvalid",
    "StageGap",
    "StateDisputed",
    "TooFewNodes",
    "TokenReplaced",
    "TooLarge",
    "TooMany",
    "TooManyWriters",
    "TopicExists",
    "TopicNotFound",
    "TopicRecreated",
    "TransferRefused",
    "TransferUnderWay",
    "Unauthenticated",
    "Unavailable",
    "UnknownProducer",
    "UnknownSchemaVersion",
    "UnknownSession",
    "UnknownWriter",
    "VersionConflict",
    "VersionReused",
    "WatcherTooSlow",
    "WriteRefused",
    "WriterBytesExceeded",
    "WriterEntriesExceeded",
    "WriterForgotten",
    "WriterOfAnother",
    "WriterNotFound",
    "ZooKeeperUnavailable",
    "from_wire",
    "shortage_of",
]
