"""The rules of docs/EXACTLY_ONCE.md as pure decisions, all in one place.

The rules are tried in the order written here; the first that applies decides. Before them all
comes `refusal_of_owner`: who may not continue this writer is told nothing else of it. A refusal
changes nothing at all: not the current run, no lease, no writer row.
`raftlog.machines.writers` carries a decision out.

`judge_commit`:
 1. If the epoch is not above the writer's last (it is repeated, or was passed):
     - another query id, of the writer or of the stream around it: CheckpointReset;
     - the run and references that committed the last epoch: a lost reply, answered from the row.
       A run that has been fenced since gets the answer too: it is true and changes nothing;
     - a fenced run: RunFenced;
     - the same run with other references: EpochReferencesMismatch;
     - a stream below its last batch, which Spark never replays: CheckpointRewound;
     - a version that another write of the same stream has taken: VersionReused;
     - an epoch whose count is not remembered, or that never was (a hole): EpochTooOld;
     - the last epoch's plan or, if a plan is unknown, as many records: a replay;
     - otherwise EpochContentMismatch, or with onReplayMismatch=keep the first commit stays.
 2. Otherwise:
     - a fenced run: RunFenced;
     - a stream above epoch 0 that the topic does not know: UnknownWriter;
     - no room for its writer row: TooManyWriters, or for its bytes: TooMany;
     - an attempt named twice, not open in this run and epoch, or not exactly as named:
       EpochIncomplete;
     - UnknownSchemaVersion.
    Another query id *above* the last epoch is accepted (a txnAppId whose new checkpoint continued
    with higher epochs); the row belongs to that query from then on.

`judge_stage`:
 1. If the epoch is not above the last: CheckpointReset, CheckpointRewound, VersionReused and
    EpochTooOld as above, so that no bytes are staged for a commit that would be refused. Otherwise
    the stage is taken, because a replay stages before it commits. A zombie's late stage is never
    visible: no commit at or below the last epoch publishes anything. The next CommitEpoch, fencing
    or expiry forgets it.
 2. Otherwise:
     - a fenced run: RunFenced;
     - a known number: repeated (other bytes under it: EpochIncomplete);
     - UnknownWriter;
     - a number ahead of the one due: StageGap;
     - UnknownSchemaVersion; TooManyWriters;
     - too many attempts, entries or bytes: TooMany.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftlog.core.types import Offset
from raftlog.machines.commands import AbortEpoch, AttemptReference, CommitEpoch, EpochKey, Stage
from raftlog.machines.limits import TopicLimits
from raftlog.machines.outcomes import EpochCommitted, Refused, Staged, refused
from raftlog.machines.writer_row import OpenAttempt, WriterRow, references_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """What the rules need besides the command and the writer row."""

    schema_version: int
    """The latest version of the schema; all versions from 1 are known."""
    no_room: Refused | None
    """Why there is no room for the row that the command asks for; None: there is, or it exists."""
    limits: TopicLimits


@dataclass(frozen=True, slots=True)
class TakeStage:
    """The stage is the one due: store it."""


@dataclass(frozen=True, slots=True)
class RepeatStage:
    """The stage is stored already: renew the lease and answer."""

    outcome: Staged


@dataclass(frozen=True, slots=True)
class Answer:
    """A lost reply: give the answer of the writer row again, change nothing."""

    outcome: EpochCommitted


@dataclass(frozen=True, slots=True)
class Replay:
    """The epoch stays as first committed: drop the stages up to it."""

    outcome: EpochCommitted


@dataclass(frozen=True, slots=True)
class Publish:
    """Make these attempts visible, in this order."""

    attempts: tuple[OpenAttempt, ...]


StageDecision = TakeStage | RepeatStage | Refused
CommitDecision = Publish | Replay | Answer | Refused

TAKE_STAGE = TakeStage()


def refusal_of_owner(
    row: WriterRow | None, command: Stage | CommitEpoch | AbortEpoch, topic: str
) -> Refused | None:
    """Reject a principal that may continue only its own writers, if this one has another owner."""
    if row is None or command.any_owner or row.owner in ("", command.owner):
        return None
    return refused(
        "WriterOfAnother", writer=row.name, owner=row.owner, principal=command.owner, topic=topic
    )


def judge_stage(row: WriterRow | None, command: Stage, context: RuleContext) -> StageDecision:
    """The decision on a Stage, by the order of rules above."""
    key, batch = command.key, command.batch
    if row is not None:
        refusal = _refusal_of_stage(row, key)
        if refusal is not None:
            return refusal
    attempt = row.attempt(key.run, key.epoch, command.attempt) if row is not None else None
    due = attempt.entry_count if attempt is not None else 0
    if command.number < due:
        assert attempt is not None
        if not attempt.holds(command.number, batch):
            problem = f"staged other bytes as number {command.number} before"
            return _incomplete(key, command.attempt, problem)
        return RepeatStage(Staged(number=command.number, repeated=True))
    if _is_unknown(row, key, command.create_writer):
        return refused("UnknownWriter", writer=key.writer, epoch=key.epoch)
    if command.number > due:
        return refused("StageGap", attempt=command.attempt, number=command.number, expected=due)
    if not 1 <= batch.schema_version <= context.schema_version:
        return _unknown_schema(batch.schema_version, context)
    return _judge_room(row, command, context)


def _refusal_of_stage(row: WriterRow, key: EpochKey) -> Refused | None:
    """Why no stage of the key can ever be published or replayed, as far as the row shows."""
    passed = key.epoch <= row.last_epoch
    refusal = _refusal_of_query(row, key) if passed else None
    if refusal is None and row.is_fenced(key.run):
        refusal = _fenced(row, key)
    if refusal is None and passed:
        refusal = _refusal_of_passed(row, key)
    return refusal


def judge_commit(
    row: WriterRow | None, command: CommitEpoch, context: RuleContext
) -> CommitDecision:
    """The decision on a CommitEpoch, by the order of rules above."""
    key = command.key
    if row is not None and key.epoch <= row.last_epoch:
        return _judge_repeated(row, command)
    if row is not None and row.is_fenced(key.run):
        return _fenced(row, key)
    if _is_unknown(row, key, command.create_writer):
        return refused("UnknownWriter", writer=key.writer, epoch=key.epoch)
    if context.no_room is not None:
        return context.no_room
    found = _find_attempts(row, key, command.attempts)
    if isinstance(found, Refused):
        return found
    if not 1 <= command.schema_version <= context.schema_version:
        return _unknown_schema(command.schema_version, context)
    return Publish(tuple(found))


def _judge_repeated(row: WriterRow, command: CommitEpoch) -> Answer | Replay | Refused:
    """Tell a lost reply, a replay and a mistake apart, for an epoch that is not above the last."""
    key = command.key
    refusal = _refusal_of_query(row, key)
    if refusal is not None:
        return refusal
    own_last = key.epoch == row.last_epoch and key.run == row.last_run
    if own_last and references_digest(command.attempts) == row.last_references:
        return Answer(_as_committed(row, key.epoch, kept=False))
    if row.is_fenced(key.run):
        return _fenced(row, key)
    if own_last:
        return refused("EpochReferencesMismatch", writer=key.writer, epoch=key.epoch, run=key.run)
    refusal = _refusal_of_passed(row, key)
    if refusal is not None:
        return refusal
    committed = row.count_of(key.epoch)
    assert committed is not None, "an epoch without a count is too old"
    replayed = sum(reference.record_count for reference in command.attempts)
    plans = (row.plan, command.plan) if key.epoch == row.last_epoch else ("", "")
    same = plans[0] == plans[1] if all(plans) else replayed == committed
    if same or command.keep_on_mismatch:
        return Replay(_as_committed(row, key.epoch, kept=not same))
    if all(plans):
        return refused(
            "EpochContentMismatch",
            writer=key.writer,
            epoch=key.epoch,
            committed_records=committed,
            replayed_records=replayed,
            committed_plan=plans[0],
            replayed_plan=plans[1],
        )
    return refused(
        "EpochContentMismatch",
        writer=key.writer,
        epoch=key.epoch,
        committed_records=committed,
        replayed_records=replayed,
    )


def _refusal_of_query(row: WriterRow, key: EpochKey) -> Refused | None:
    """Refuse another query at an epoch not above the last: its checkpoint is another one."""
    if key.query_id != row.query_id:
        return _checkpoint_reset(row, key, key.query_id, row.query_id)
    if key.stream and row.stream and key.stream != row.stream:
        return _checkpoint_reset(row, key, key.stream, row.stream)
    return None


def _refusal_of_passed(row: WriterRow, key: EpochKey) -> Refused | None:
    """Refuse an epoch not above the last that can be neither a lost reply nor a replay."""
    if key.streaming and key.epoch < row.last_epoch:
        return _rewound(key, key.epoch, row.last_epoch)
    if key.stream and row.stream:
        if key.stream_batch < row.stream_batch:
            return _rewound(key, key.stream_batch, row.stream_batch)
        if key.stream_batch > row.stream_batch:
            return _reused(key, row.stream_batch)
    taken = row.taken_by(key)
    if taken is not None:
        return _reused(key, taken.stream_batch)
    return _too_old(row, key) if row.count_of(key.epoch) is None else None


def _as_committed(row: WriterRow, epoch: int, *, kept: bool) -> EpochCommitted:
    """The answer for an epoch committed before. Offsets are known only for the last one."""
    count = row.count_of(epoch)
    assert count is not None
    is_last = epoch == row.last_epoch
    return EpochCommitted(
        start=row.last_start if is_last else Offset(-1),
        end=row.last_end if is_last else Offset(-1),
        record_count=count,
        replayed=True,
        kept=kept,
    )


def _find_attempts(
    row: WriterRow | None, key: EpochKey, references: Sequence[AttemptReference]
) -> list[OpenAttempt] | Refused:
    """The named attempts, if each is open and exactly as named. The first that is not refuses."""
    found: dict[str, OpenAttempt] = {}
    for named in references:
        if named.attempt in found:
            return _incomplete(key, named.attempt, "is named twice")
        opened = row.attempt(key.run, key.epoch, named.attempt) if row is not None else None
        if opened is None:
            return _incomplete(key, named.attempt, "has no open stages here")
        staged = (opened.entry_count, opened.record_count, opened.chained_crc)
        if staged != (named.entry_count, named.record_count, named.chained_crc):
            problem = (
                f"holds {opened.entry_count} entries, {opened.record_count} records, CRC "
                f"{opened.chained_crc:08x}, where {named.entry_count}, {named.record_count}, "
                f"{named.chained_crc:08x} are named"
            )
            return _incomplete(key, named.attempt, problem)
        found[named.attempt] = opened
    return list(found.values())


def _judge_room(row: WriterRow | None, command: Stage, context: RuleContext) -> TakeStage | Refused:
    """Whether the bounds leave room for the stage. The first stage of a new run counts from 0."""
    key, limits = command.key, context.limits
    if context.no_room is not None:
        return context.no_room
    own = row is not None and row.run == key.run
    opened = row.open_epochs.get(key.epoch) if row is not None and own else None
    if (
        opened is not None
        and command.attempt not in opened.attempts
        and len(opened.attempts) >= limits.attempts_per_epoch_max
    ):
        return refused(
            "TooMany",
            what=f"Epoch {key.epoch} of writer {key.writer!r}",
            limit=limits.attempts_per_epoch_max,
            unit="open attempts",
        )
    if row is None or not own:
        return TAKE_STAGE
    opens = opened is None or command.attempt not in opened.attempts
    for have, more, limit, unit in (
        (row.staged_entries, 1, limits.staged_entries_per_writer_max, "staged entries"),
        (row.open_attempts, opens, limits.attempts_per_writer_max, "open attempts"),
        (len(row.open_epochs), opened is None, limits.epochs_per_writer_max, "open epochs"),
    ):
        if have + more > limit:
            return refused("TooMany", what=f"Writer {key.writer!r}", limit=limit, unit=unit)
    return TAKE_STAGE


def _is_unknown(row: WriterRow | None, key: EpochKey, create_writer: bool) -> bool:
    """Whether a stream continues above epoch 0 without a row: its topic was created again."""
    known = row is not None and row.known
    return key.streaming and key.epoch > 0 and not known and not create_writer


def _fenced(row: WriterRow, key: EpochKey) -> Refused:
    return refused("RunFenced", writer=key.writer, run=key.run, current_run=row.run)


def _too_old(row: WriterRow, key: EpochKey) -> Refused:
    return refused("EpochTooOld", writer=key.writer, epoch=key.epoch, last_epoch=row.last_epoch)


def _rewound(key: EpochKey, batch: int, last_batch: int) -> Refused:
    return refused("CheckpointRewound", writer=key.writer, batch=batch, last_batch=last_batch)


def _reused(key: EpochKey, last_batch: int) -> Refused:
    return refused(
        "VersionReused",
        writer=key.writer,
        version=key.epoch,
        batch=key.stream_batch,
        last_batch=last_batch,
    )


def _checkpoint_reset(row: WriterRow, key: EpochKey, query_id: str, known: str) -> Refused:
    return refused(
        "CheckpointReset",
        writer=key.writer,
        epoch=key.epoch,
        last_epoch=row.last_epoch,
        query_id=query_id,
        known_query_id=known,
    )


def _incomplete(key: EpochKey, attempt: str, problem: str) -> Refused:
    return refused(
        "EpochIncomplete", writer=key.writer, epoch=key.epoch, attempt=attempt, problem=problem
    )


def _unknown_schema(version: int, context: RuleContext) -> Refused:
    return refused("UnknownSchemaVersion", version=version, latest=context.schema_version)
