"""Random histories: restarts, replays, aborts, zombies, rivals and resends against an oracle.

Each seed is one history. A failure names its seed; to replay seed 17:
`pytest "tests/machines/test_histories.py::test_no_history_loses_duplicates_or_leaks_a_record[17]"`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from raftlog.core.types import LogIndex
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    AttemptReference,
    BatchSummary,
    CommitEpoch,
    EpochKey,
    Expire,
    Stage,
    TopicCommand,
)
from raftlog.machines.limits import INTEGER_MAX
from raftlog.machines.outcomes import (
    Appended,
    EpochAborted,
    EpochCommitted,
    Expired,
    Refused,
    Staged,
    TopicOutcome,
)
from raftlog.machines.topic import TopicMachine
from tests.machines.oracle import Oracle
from tests.machines.scenes import TOPIC, Scene, batch, reference

SEEDS = 80
COMMANDS = 160


def kind(outcome: TopicOutcome) -> str:
    """An outcome in the oracle's words."""
    match outcome:
        case Refused():
            return outcome.code
        case Appended():
            return "repeated append" if outcome.repeated else "appended"
        case Staged():
            return "repeated stage" if outcome.repeated else "staged"
        case EpochCommitted():
            word = "replayed" if outcome.replayed else "published"
            return f"{'kept' if outcome.kept else word} {outcome.record_count}"
        case EpochAborted():
            return f"aborted {outcome.attempts}"
        case Expired():
            assert outcome.writers == 0, "no transient writer was silent for so long"
            return f"expired {outcome.epochs} epochs, {outcome.producers} producers"


class Driver:
    """One run of one query, and where it believes the writer to be.

    As a job it writes inside foreachBatch: two versions in a batch, each write with a run of its
    own.
    """

    def __init__(
        self, writer: str, query_id: str, run: str, epoch: int, *, is_job: bool = False
    ) -> None:
        self.writer, self.query_id, self.run, self.epoch = writer, query_id, run, epoch
        self.is_job = is_job
        self.write = run
        self.tasks: dict[str, list[BatchSummary]] = {}

    def key(self, back: int = 0, *, fenced: bool = True) -> EpochKey:
        epoch = max(0, self.epoch - back)
        if not self.is_job:
            return EpochKey(
                writer=self.writer,
                query_id=self.query_id,
                run=self.run,
                epoch=epoch,
                streaming=True,
            )
        return EpochKey(
            writer=self.writer,
            query_id=self.writer,
            run=self.write,
            epoch=epoch,
            streaming=False,
            stream=self.query_id if fenced else "",
            stream_run=self.run if fenced else "",
            stream_batch=epoch // 2 if fenced else 0,
        )

    def references(self) -> tuple[AttemptReference, ...]:
        return tuple(reference(name, batches) for name, batches in self.tasks.items())

    def advance(self) -> None:
        self.epoch += 1
        self.tasks = {}


class History:
    """Makes commands as clients would, good and bad; old drivers stay active as zombies."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_us = 0
        self.drivers = [Driver(writer, f"query-{writer}", "run-0", 0) for writer in "ab"]
        self.drivers.append(Driver("c", "query-c", "run-0", 0, is_job=True))
        self.plans: dict[tuple[str, int], str] = {}
        self.appended: dict[str, list[BatchSummary]] = {"p": [], "q": []}
        self.sent: list[TopicCommand] = []
        self.minted = 0

    def next_command(self) -> TopicCommand:
        self.now_us += self.random.randrange(10)
        if self.sent and self.random.random() < 0.15:
            return self.random.choice(self.sent[-12:])
        # The youngest drivers act most; the others are zombies.
        recent = self.drivers[-3:] if self.random.random() < 0.85 else self.drivers
        driver = self.random.choice(recent)
        choice = self.random.choices(
            (
                self._stage, self._commit_epoch, self._abort_epoch, self._restart, self._append,
                self._expire,
            ),
            weights=(50, 25, 4, 6, 15, 2),
        )[0]  # fmt: skip
        command = choice(driver)
        self.sent.append(command)
        return command

    def _mint(self) -> int:
        self.minted += 1
        return self.minted

    def _new_batch(self) -> BatchSummary:
        # Few sizes, so that replays of equal and of other size both occur.
        return batch(self._mint(), records=self.random.choice((1, 1, 2)))

    def _stage(self, driver: Driver) -> TopicCommand:
        if driver.is_job and self.random.random() < 0.03:
            driver.write, driver.tasks = f"write-{self._mint()}", {}  # another one of one version
        if not driver.tasks or self.random.random() < 0.3:
            driver.tasks[f"attempt-{self._mint()}"] = []
        attempt = self.random.choice(list(driver.tasks))
        batches = driver.tasks[attempt]
        number = len(batches)
        if self.random.random() < 0.05:
            number += self.random.choice((-1, 1))
        data = self._new_batch()
        if number == len(batches):
            batches.append(data)
        return Stage(
            key=driver.key(),
            attempt=attempt,
            number=max(0, number),
            timestamp_us=self.now_us,
            batch=data,
            create_writer=False,
        )

    def _commit_epoch(self, driver: Driver) -> TopicCommand:
        named = [each for each in driver.references() if each.entry_count]
        self.random.shuffle(named)
        if named and self.random.random() < 0.15:
            named.pop()
        key = driver.key(
            back=self.random.choice((0, 0, 0, 0, 0, 1)), fenced=self.random.random() < 0.9
        )
        command = CommitEpoch(
            key=key,
            attempts=tuple(named),
            schema_version=1,
            timestamp_us=self.now_us,
            keep_on_mismatch=self.random.random() < 0.1,
            create_writer=False,
            transient_writer=False,
            plan="" if driver.is_job or self.random.random() < 0.1 else self._plan(key),
            overwrite=self.random.random() < 0.1,
        )
        if self.random.random() < 0.8:
            driver.advance()
            driver.write = f"write-{self._mint()}"
        return command

    def _plan(self, key: EpochKey) -> str:
        """What the query's checkpoint holds of the epoch: planned once, unless the checkpoint is
        set back."""
        return self.plans.setdefault((key.query_id, key.epoch), f"plan-{self._mint()}")

    def _abort_epoch(self, driver: Driver) -> TopicCommand:
        return AbortEpoch(key=driver.key(back=self.random.choice((0, 1))))

    def _restart(self, driver: Driver) -> TopicCommand:
        """A new run of the query: where it was, one batch back, or from a deleted checkpoint."""
        query_id, epoch = driver.query_id, driver.epoch - self.random.choice((0, 1, 1, 2))
        if self.random.random() < 0.2:
            query_id, epoch = f"query-{self._mint()}", self.random.choice((0, driver.epoch + 1))
        elif self.random.random() < 0.2:
            self.plans.pop((query_id, epoch), None)  # an older copy of the checkpoint
        run = f"run-{self._mint()}"
        again = Driver(driver.writer, query_id, run, max(0, epoch), is_job=driver.is_job)
        self.drivers.append(again)
        return self._stage(self.drivers[-1])

    def _append(self, driver: Driver) -> TopicCommand:
        producer = self.random.choice("pq")
        done = self.appended[producer]
        sequence = len(done) + self.random.choice((0, 0, 0, 0, -1, 1))
        data = self._new_batch()
        if sequence == len(done):
            done.append(data)
        elif 0 <= sequence < len(done) and self.random.random() < 0.5:
            data = done[sequence]
        return Append(
            producer=producer, sequence=max(0, sequence), timestamp_us=self.now_us, batch=data
        )

    def _expire(self, _: Driver) -> TopicCommand:
        """Some leases end and others do not. The leader's clock may be behind or ahead."""
        return Expire(
            timestamp_us=max(0, self.now_us + self.random.choice((-50, 0, 0, 50))),
            epoch_lease_us=self.random.choice((20, 100, 1_000)),
            transient_writer_lease_us=INTEGER_MAX - 1,
            producer_lease_us=self.random.choice((200, 1_000)),
        )


def play(seed: int) -> Counter[str]:
    """Play one history through two machines and the oracle; count how often each thing happened."""
    history, scene, twin = History(Random(seed)), Scene(), TopicMachine(TOPIC)
    oracle = Oracle()
    seen: Counter[str] = Counter()
    published: set[tuple[str, int]] = set()
    for _ in range(COMMANDS):
        command = history.next_command()
        before = scene.machine.fingerprint()
        outcome = scene.apply(command)
        at = f"seed {seed}, entry {scene.index}: {command}"
        assert kind(outcome) == oracle.outcome(command), at
        assert twin.apply(LogIndex(scene.index), command) == outcome, at
        seen[kind(outcome).partition(" ")[0]] += 1
        if isinstance(outcome, Expired):
            seen["expired epoch"] += outcome.epochs > 0
            seen["expired producer"] += outcome.producers > 0
            seen["expired nothing"] += not (outcome.epochs or outcome.producers)
        if isinstance(outcome, Refused):
            assert scene.machine.fingerprint() == before, f"a refusal changed something: {at}"
        if isinstance(outcome, Appended | EpochCommitted):
            assert scene.visible() == oracle.visible, at
        if isinstance(outcome, EpochCommitted) and not outcome.replayed:
            assert isinstance(command, CommitEpoch)
            seen["overwritten"] += command.overwrite
            epoch = (command.key.writer, command.key.epoch)
            assert epoch not in published, f"an epoch became visible twice: {at}"
            published.add(epoch)
    identities = [identity for identity, _ in scene.visible()]
    assert len(identities) == len(set(identities)), f"a batch is visible twice: seed {seed}"
    assert twin.fingerprint() == scene.machine.fingerprint(), f"seed {seed}"
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_history_loses_duplicates_or_leaks_a_record(seed: int) -> None:
    """CHECKLIST row 70: the same entries also give the same outcomes and the same state."""
    play(seed)


@pytest.mark.slow
def test_histories_meet_every_rule() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1000, 1020):
        seen += play(seed)
    wanted = {
        "published", "replayed", "kept", "staged", "repeated", "appended", "aborted",
        "expired epoch", "expired producer", "expired nothing",
        "CheckpointReset", "EpochTooOld", "RunFenced", "UnknownWriter", "StageGap",
        "EpochIncomplete", "EpochReferencesMismatch", "EpochContentMismatch", "SequenceGap",
        "SequenceReused", "UnknownProducer", "CheckpointRewound", "VersionReused", "overwritten",
    }  # fmt: skip
    assert wanted <= set(seen), f"never met: {sorted(wanted - set(seen))}; met: {seen}"
