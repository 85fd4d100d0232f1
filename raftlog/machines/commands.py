"""The commands of the two machines: a closed set of typed values.

`raftlog.wire.codec` alone turns them into bytes and back. The numbers in them were decided by a
leader or a client; a machine only judges them. Ids minted outside (attempt, producer, run,
incarnation) are lower-case hex text of a UUID; a writer, a query id and a run of a Spark stream
are the text that Spark gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.core.types import GroupId, NodeId
from raftlog.machines.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """What a machine knows of a record batch whose bytes it never looks at."""

    record_count: int
    """1 or more."""
    schema_version: int
    body_bytes: int
    crc: int
    """CRC-32C over the batch's column CRCs in order, each as 4 little-endian bytes."""


# ---------------------------------------------------------------- every group


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Apply the entries after this one by version `version` (`raftlog.machines.rules`)."""

    version: int


# ---------------------------------------------------------------- a topic's group


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Records of a plain producer, visible once committed. Sequences count from 0."""

    producer: str
    sequence: int
    timestamp_us: int
    """The leader's clock, microseconds since 1970 UTC; the machine keeps time from falling."""
    batch: BatchSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochKey:
    """Which batch of which writer, in which start of it.

    `query_id` is the streaming query's id, or the writer's own name for batch writes. `streaming`
    tells a stream's epoch from a batch write's (docs/EXACTLY_ONCE.md, rules 6 and 7).

    The `stream` values are a fence and no part of the key: which batch, in which start, of which
    streaming query a named batch write stands in (foreachBatch). All unset where the write stands
    in none, or its tasks do not see it, and for a stream's own epochs, whose key says it.
    """

    writer: str
    query_id: str
    run: str
    epoch: int
    streaming: bool
    stream: str = ""
    """The surrounding query's id."""
    stream_run: str = ""
    """Its start; "" if it is not known, though the query is."""
    stream_batch: int = 0
    """Its batch."""

    @property
    def anonymous(self) -> bool:
        """A batch write without txnAppId: its run is its writer."""
        return not self.streaming and self.writer == self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Records of an open epoch: invisible until its `CommitEpoch` names the attempt.

    `number` counts from 0 within the attempt. `create_writer` allows a stream's first epoch above
    0 in a topic that does not know the writer (createTopic=always).
    """

    key: EpochKey
    attempt: str
    number: int
    timestamp_us: int
    batch: BatchSummary
    create_writer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReference:
    """An attempt exactly as its task staged it: its entries, records and chained CRC.

    `chained_crc` starts at 0; each stage's batch CRC (4 little-endian bytes) extends it.
    """

    attempt: str
    entry_count: int
    record_count: int
    chained_crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEpoch:
    """Make the named attempts visible, in this order, all or nothing. None named is valid."""

    key: EpochKey
    attempts: tuple[AttemptReference, ...]
    schema_version: int
    timestamp_us: int
    keep_on_mismatch: bool
    create_writer: bool
    transient_writer: bool
    """A batch write without txnAppId: its row goes by a logged `Expire`."""
    plan: str = ""
    """A digest of what the driver planned this batch to be, "" if it could not be read: the same in
    a replay, another one if the batch was planned again (docs/EXACTLY_ONCE.md, rule 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortEpoch:
    """Drop the open attempts of exactly this (writer, run, epoch); never an applied commit."""

    key: EpochKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireEpoch:
    """The leader's word that an open epoch's lease ran out. Proposed under rules 1 alone, as the
    two after it; `Expire` came in their place.

    `renewals` is what the leader saw: the number that the machine's `open_epochs` gave. A Stage
    that came before this entry renewed the lease, so the numbers differ and nothing expires: log
    order alone decides.
    """

    writer: str
    run: str
    epoch: int
    renewals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireProducer:
    """Forget a producer unless it appended since the leader saw `next_sequence`."""

    producer: str
    next_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireWriter:
    """Forget a transient writer's row, unless it committed or staged since `last_index`."""

    writer: str
    last_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """End what was silent for its lease, the oldest first, `EXPIRED_AT_ONCE_MAX` at most (rules 2).

    Judged by the later of log time and `timestamp_us`, the leader's clock: a topic that falls idle
    has nobody else who moves its time. The leases are the leader's settings, and so travel along.
    """

    timestamp_us: int
    epoch_lease_us: int
    transient_writer_lease_us: int
    producer_lease_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWriter:
    """Forget a writer's row with all that it has open: an operator's word (rules 2)."""

    writer: str


TopicCommand = (
    Append
    | Stage
    | CommitEpoch
    | AbortEpoch
    | ExpireEpoch
    | ExpireProducer
    | ExpireWriter
    | Expire
    | RemoveWriter
    | Rules
)


# ---------------------------------------------------------------- the controller's group


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """Bind a node id to its data folder's random identity, once and for all."""

    node: NodeId
    store_uuid: str
    address: str
    rules: int
    """The highest version of the rules that its program knows; 0 from one that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic, whose group and incarnation exist from this entry on.

    With `if_not_exists` an equal name is answered with the topic as it is, whatever its schema.
    """

    name: str
    incarnation: str
    schema: Schema
    voters: tuple[NodeId, ...]
    if_not_exists: bool
    timestamp_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete a topic; with `incarnation`, only that one."""

    name: str
    incarnation: str


ControllerCommand = RegisterNode | CreateTopic | DeleteTopic | Rules

Command = TopicCommand | ControllerCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as the controller knows it."""

    name: str
    incarnation: str
    group: GroupId
    schema: Schema
    voters: tuple[NodeId, ...]
    created_us: int
    rules: int
    """The version its machine starts under."""
