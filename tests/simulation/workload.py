"""Simulated clients: generators that ask nodes, sleep, and never give up on what they began.

A client resends whatever outcome it does not know. Producers keep a window of appends in flight;
writers are streaming queries: they stage a batch's attempts, commit the epoch, sometimes abort, die
and come back as a new run that replays its last batch, or meet a rival run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from raftlog.checksum import chain, crc32c
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId, Offset, Payload
from raftlog.errors import (
    CorruptFile,
    HistoryDisputed,
    NotYet,
    ReplicaDiverged,
    StateDisputed,
)
from raftlog.machines.commands import (
    AbortEpoch,
    Append,
    AttemptReference,
    Command,
    CommitEpoch,
    Configure,
    CreateTopic,
    DeleteTopic,
    EpochKey,
    Expire,
    RegisterNode,
    Stage,
    TopicInfo,
    Trim,
)
from raftlog.machines.limits import INTEGER_MAX
from raftlog.machines.outcomes import (
    Appended,
    Configured,
    EpochAborted,
    EpochCommitted,
    Expired,
    NodeRegistered,
    Refused,
    Staged,
    TopicCreated,
    TopicDeleted,
    Trimmed,
)
from raftlog.machines.settings import TopicSetting
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.wire.codec import encode_command
from tests.simulation.history import (
    AppendKey,
    EpochName,
    TopicHistory,
    append_labels,
)
from tests.simulation.node import Failed, Reply, SimulatedNode
from tests.simulation.promises import Promise, Violation
from tests.simulation.records import SCHEMA, Batch, Label, Row, facts_of, texts_of
from tests.simulation.tasks import Ask, Sleep, Task, Tasks


def read_rows(node: SimulatedNode, group: GroupId, start: int, end: int, mark: int) -> Any:
    """[start, end) from the node's own log as `Read` serves it: a `Row` each, or Failed, or
    Trimmed where the replica's log starts above `start`.

    A column whose bytes are not what its client wrote is a violation, unless its file was damaged.
    """
    local = node.local(group)
    if local is None or local.machine.high_water_mark < mark:
        return Failed(written=False)
    try:
        local.require_agreed(Offset(start), Offset(end))
    except (NotYet, ReplicaDiverged, StateDisputed, HistoryDisputed):
        return Failed(written=False)
    log_start = local.machine.log_start_offset
    if start < log_start:
        return Trimmed(log_start_offset=log_start)
    try:
        return _rows(node, group, local, start, end)
    except CorruptFile as damage:
        if not node.damaged:
            raise
        node.multiraft.repairs.met(local, damage)
        return Failed(written=False)


def _rows(
    node: SimulatedNode, group: GroupId, local: LocalReplica, start: int, end: int
) -> list[Row]:
    rows: list[Row] = []
    columns = node.checker.group(group).columns
    offset = start
    while offset < end:
        batch = local.batch_at(Offset(offset))
        place = f"group {group}: node {node.node} reads [{batch.start}, {batch.end}) at {offset}"
        if not batch.start <= offset < batch.end:
            raise Violation(Promise.READS_BELOW_THE_MARK, place)
        chunks = batch.body_slices([(each.position, each.length) for each in batch.header.columns])
        for column, chunk in zip(batch.header.columns, chunks, strict=True):
            if crc32c(chunk) != column.crc:
                if node.damaged:
                    raise CorruptFile(file=place, position=0, problem="a client found it damaged")
                raise Violation(Promise.READS_BELOW_THE_MARK, f"{place}, but other bytes")
        texts = texts_of(batch.header, b"".join(chunks), columns, columns.drawn_version(offset))
        every = zip(range(batch.start, batch.end), texts, facts_of(batch.runs), strict=True)
        rows += [Row(*each) for each in every if start <= each[0] < end]
        offset = batch.end
    return rows


class Clients(Tasks):
    """Everything that clients of topics do."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._formats = self.simulator.random("formats of bodies")
        self._versions = self.simulator.random("versions of schemas")

    # ------------------------------------------------------------ asking leaders

    def write(
        self, group: GroupId, make: Callable[[int], Command], batch: Batch | None = None
    ) -> Task:
        """Replicate the command that `make` makes of the leader's clock."""

        def payload(now_us: int) -> Payload:
            header = batch.header if batch is not None else None
            body = batch.body if batch is not None else b""
            return Payload(encode_command(make(now_us), header), body)

        def action(node: SimulatedNode, reply: Reply) -> None:
            node.propose(group, payload, reply)

        return (yield from self.ask_leader(group, action))

    def _encoded(
        self, history: TopicHistory, labels: list[Label], padding: int, version: int
    ) -> Batch:
        arrow = self._formats.random() < self.settings.arrow_share
        return history.encoded(labels, padding, version, arrow=arrow)

    def _version(self, history: TopicHistory) -> int:
        """That of a client's schema: many know the latest, some an earlier one."""
        latest = history.schema.version
        if latest == 1 or self._versions.random() < 0.6:
            return latest
        self.simulator.counts["writes under an earlier version"] += 1
        return self._versions.randrange(1, latest)

    # ------------------------------------------------------------ nodes

    def register(self, node: NodeId, rules: int) -> Task:
        """Say which rules the node's program knows, some time during the simulation."""
        # Groups are placed on nodes that registered.
        early = 20 if self.settings.changes_members else 1
        yield Sleep(self.random.randrange(1, self.settings.chaos_us // early))
        command = RegisterNode(
            node=node, store_uuid=f"store-{node}", address=f"node-{node}:1", rules=rules
        )
        outcome = yield from self.write(CONTROLLER_GROUP, lambda _: command)
        if not isinstance(outcome, NodeRegistered):
            raise Violation(
                Promise.EXPECTED_OUTCOMES, f"registering {node} had the outcome {outcome}"
            )

    # ------------------------------------------------------------ topics

    def create_topic(self, name: str) -> Task:
        """The task's value is the topic's `TopicInfo`."""
        incarnation = f"{self.random.getrandbits(128):032x}"

        def make(now_us: int) -> Command:
            return CreateTopic(
                name=name,
                incarnation=incarnation,
                schema=SCHEMA,
                voters=tuple(sorted(self._nodes)),
                if_not_exists=False,
                timestamp_us=now_us,
            )

        outcome = yield from self.write(CONTROLLER_GROUP, make)
        if not isinstance(outcome, TopicCreated) or outcome.existed:
            raise Violation(Promise.EXPECTED_OUTCOMES, f"creating {name} had the outcome {outcome}")
        return outcome.topic

    def configure(self, topic: TopicInfo, history: TopicHistory) -> Task:
        """Let the topic keep only what the seed says."""
        settings = tuple(
            TopicSetting(name=name, value=value) for name, value in sorted(self.settings.retention)
        )
        history.configured(settings)
        command = Configure(version=LogIndex(1), settings=settings)
        outcome = yield from self.write(topic.group, lambda _: command)
        assert isinstance(outcome, Configured)

    def come_and_go(self, name: str) -> Task:
        """Create topics and delete them again, while nodes come and go."""
        for number in range(3):
            if self.stopping:
                return
            topic = yield from self.create_topic(f"{name}-{number}")
            yield self.think()
            outcome = yield from self.write(
                CONTROLLER_GROUP,
                lambda now_us, topic=topic: DeleteTopic(
                    name=topic.name, incarnation=topic.incarnation
                ),
            )
            if not isinstance(outcome, TopicDeleted):
                raise Violation(
                    Promise.EXPECTED_OUTCOMES, f"deleting {topic.name} had the outcome {outcome}"
                )
            self.simulator.counts["topics deleted"] += 1

    # ------------------------------------------------------------ producers

    def start_producer(self, topic: TopicInfo, history: TopicHistory, name: str) -> None:
        """A producer is as many tasks as its window is wide; they take sequences in turn."""
        state = _Producer(name)
        for slot in range(self.settings.window):
            self.spawn(f"{name}.{slot}", self._produce(topic, history, state))

    def _produce(self, topic: TopicInfo, history: TopicHistory, producer: _Producer) -> Task:
        while not self.stopping:
            key = AppendKey(producer.name, producer.next_sequence)
            producer.next_sequence += 1
            count = self.random.randrange(1, self.settings.records_max + 1)
            padding = self.random.randrange(self.settings.body_padding + 1)
            labels = append_labels(key, count)
            batch = self._encoded(history, labels, padding, self._version(history))
            history.append_tried(key, count)
            outcome = yield from self._append(topic, producer, key, batch)
            history.append_acknowledged(key, outcome)
            producer.acknowledged = max(producer.acknowledged, key.sequence)
            self.simulator.counts["appends acknowledged"] += 1
            if outcome.repeated:
                self.simulator.counts["resent appends recognised"] += 1
            yield self.think()

    def _append(self, topic: TopicInfo, producer: _Producer, key: AppendKey, batch: Batch) -> Task:
        def make(now_us: int) -> Command:
            return Append(
                producer=key.producer,
                sequence=key.sequence,
                timestamp_us=now_us,
                batch=batch.summary,
            )

        for tries in itertools.count(1):
            while self.stopping and producer.acknowledged < key.sequence - 1:
                yield self.think()  # for its predecessor: now it is known to come
            outcome = yield from self.write(topic.group, make, batch)
            if isinstance(outcome, Appended):
                return outcome
            assert isinstance(outcome, Refused)
            early = outcome.code in ("SequenceGap", "UnknownProducer") and key.sequence > 0
            if not early and not self._is_ahead(outcome):
                raise Violation(Promise.EXPECTED_OUTCOMES, f"{key} had the outcome {outcome}")
            # Its predecessor is not in the log yet: another slot is still at it.
            # Every try is an entry: too many would leave no room for that one.
            self.simulator.counts["append before its predecessor"] += 1
            yield Sleep(self.random.randrange(1, 2 * min(tries, 16) * self.settings.think_us))

    def _is_ahead(self, outcome: Refused) -> bool:
        """The topic's log does not know the version of a batch yet."""
        ahead = outcome.code == "UnknownSchemaVersion" and self.settings.alterers > 0
        self.simulator.counts["writes ahead of their topic's schema"] += ahead
        return ahead

    # ------------------------------------------------------------ writers

    def query(self, writer: str) -> Query:
        random = self.simulator.random(f"overwrites of {writer}")
        return Query(writer, self.settings.records_max, lambda: self._draws_overwrite(random))

    def _draws_overwrite(self, random: Random) -> bool:
        return random.random() < self.settings.overwrites

    def write_stream(
        self, topic: TopicInfo, history: TopicHistory, query: Query, slot: int
    ) -> Task:
        """Runs of one streaming query, one after another; a second slot of a query is its rival."""
        while not self.stopping:
            query.runs += 1
            run = f"{query.writer}-run-{query.runs}"
            # Without its commit file the last batch is run again.
            replays = query.next_epoch > 0 and self.random.random() < 0.4
            epoch = query.next_epoch - 1 if replays else query.next_epoch
            plans = query.plans
            if query.next_epoch > 0 and self.random.random() < 0.15:
                # An older copy of the checkpoint: what comes now is planned again.
                epoch = max(0, query.next_epoch - self.random.randrange(1, 4))
                plans = {}
                query.rewinds += 1
                self.simulator.counts["checkpoints set back"] += 1
            goes_on = True
            while goes_on and not self.stopping:
                plan = plans.setdefault(epoch, f"{run}-{epoch}")
                goes_on = yield from self._epoch(topic, history, query, run, epoch, plan)
                if goes_on:
                    epoch += 1
                    query.next_epoch = max(query.next_epoch, epoch)
                    goes_on = self.random.random() < 0.8
                yield self.think()
            self.simulator.counts["runs of a writer"] += 1
            yield self.pause(10 + 40 * slot)

    def _epoch(
        self,
        topic: TopicInfo,
        history: TopicHistory,
        query: Query,
        run: str,
        epoch: int,
        plan: str,
    ) -> Task:
        """Stage and commit one batch. The value is False if the run is over."""
        random = self.random
        key = EpochKey(
            writer=query.writer, query_id=query.writer, run=run, epoch=epoch, streaming=True
        )
        name = EpochName(query.writer, epoch)
        attempts: list[AttemptReference] = []
        version = self._version(history)
        for labels in query.tasks(epoch, random.randrange(1, 3)):
            if random.random() < 0.2:  # a task that fails, or loses against its twin
                loser = yield from self._stage(topic, history, query, key, labels, version)
                if loser is None:
                    return False
            winner = yield from self._stage(topic, history, query, key, labels, version)
            if winner is None:
                return False
            attempts.append(winner)
        if random.random() < 0.1:
            outcome = yield from self.write(topic.group, lambda _: AbortEpoch(key=key))
            assert isinstance(outcome, EpochAborted)
            self.simulator.counts["epochs aborted"] += 1
            return False
        if random.random() < 0.1:
            return False  # the driver dies before it commits
        history.epoch_tried(name, [reference.attempt for reference in attempts])
        outcome = yield from self.write(
            topic.group,
            lambda now_us: CommitEpoch(
                key=key,
                attempts=tuple(attempts),
                schema_version=version,
                timestamp_us=now_us,
                keep_on_mismatch=False,
                create_writer=False,
                transient_writer=False,
                plan=plan,
                overwrite=query.overwrites(epoch),
            ),
        )
        return (yield from self._committed(topic, history, query, key, plan, outcome))

    def _committed(
        self,
        topic: TopicInfo,
        history: TopicHistory,
        query: Query,
        key: EpochKey,
        plan: str,
        outcome: Any,
    ) -> Task:
        name = EpochName(key.writer, key.epoch)
        if isinstance(outcome, Refused):
            return self._refused(query, key, outcome)
        assert isinstance(outcome, EpochCommitted)
        history.epoch_acknowledged(name, plan, outcome, overwrites=query.overwrites(key.epoch))
        self.simulator.counts["epochs acknowledged"] += 1
        if outcome.replayed:
            self.simulator.counts["replays recognised"] += 1
        if self.random.random() < 0.15:
            # A driver that lost the answer aborts an epoch that it believes failed; the epoch
            # stays.
            yield from self.write(topic.group, lambda _: AbortEpoch(key=key))
            self.simulator.counts["aborts after a commit"] += 1
            return False
        return True

    def _refused(self, query: Query, key: EpochKey, outcome: Refused) -> bool:
        """A run may be fenced, or behind, an open epoch expired; nothing else.

        Only an older copy of the checkpoint brings other batches under numbers that are taken.
        """
        expected = {"RunFenced", "CheckpointRewound"} if query.runs > 1 else set()
        if query.rewinds:
            expected |= {"EpochContentMismatch"}
        if self.settings.expiries:
            expected |= {"EpochIncomplete", "StageGap"}
        if outcome.code not in expected and not self._is_ahead(outcome):
            raise Violation(Promise.EXPECTED_OUTCOMES, f"{key} had the outcome {outcome}")
        self.simulator.counts[f"refused: {outcome.code}"] += 1
        return False

    def _stage(
        self,
        topic: TopicInfo,
        history: TopicHistory,
        query: Query,
        key: EpochKey,
        labels: Sequence[Label],
        version: int,
    ) -> Task:
        """Stage an attempt of a task; the value is its reference, or None if the run is over."""
        attempt = f"{self.random.getrandbits(64):016x}"
        mine = [label._replace(attempt=attempt) for label in labels]
        history.staged(attempt, mine)
        pieces = [mine[start : start + 3] for start in range(0, len(mine), 3)]
        crc = 0
        for number, piece in enumerate(pieces):
            if self.stopping:
                return None  # the query ends in the middle of a batch
            padding = self.random.randrange(self.settings.body_padding + 1)
            batch = self._encoded(history, piece, padding, version)
            crc = chain(crc, batch.summary.crc)

            def make(now_us: int, number: int = number, batch: Batch = batch) -> Command:
                return Stage(
                    key=key,
                    attempt=attempt,
                    number=number,
                    timestamp_us=now_us,
                    batch=batch.summary,
                    create_writer=False,
                )

            outcome = yield from self.write(topic.group, make, batch)
            if isinstance(outcome, Refused):
                self._refused(query, key, outcome)
                return None
            assert isinstance(outcome, Staged)
        return AttemptReference(
            attempt=attempt,
            entry_count=len(pieces),
            record_count=len(mine),
            chained_crc=crc,
        )

    def expire_epochs(self, topic: TopicInfo) -> Task:
        """Let leases run out that some node has epochs of, as the topic's leader does."""
        while not self.stopping:
            node = self._nodes[self.any_node()]
            local = node.local(topic.group)
            opened = local.machine.open_epochs() if local is not None else []
            if opened:
                lease_us = self.random.choice((0, 1, 4)) * self.settings.tick_us

                def make(now_us: int, lease_us: int = lease_us) -> Command:
                    return Expire(
                        timestamp_us=now_us,
                        epoch_lease_us=lease_us,
                        transient_writer_lease_us=INTEGER_MAX - 1,
                        producer_lease_us=INTEGER_MAX - 1,
                    )

                outcome = yield from self.write(topic.group, make)
                assert isinstance(outcome, Expired)
                self.simulator.counts["epochs expired" if outcome.epochs else "leases renewed"] += 1
            yield self.pause(40)

    def trim(self, topic: TopicInfo, history: TopicHistory) -> Task:
        """Remove the oldest records now and then, up to all that there are."""
        while not self.stopping:
            yield self.pause(60)
            if self.stopping:
                return
            known = history.floor
            offset = self.random.randrange(known + 1)
            if self.random.random() < 0.2:
                offset = known + 10  # all there is
            elif self.random.random() < 0.7:
                offset //= 2
            history.trim_tried(offset)
            outcome = yield from self.write(
                topic.group, lambda _, offset=offset: Trim(offset=Offset(offset))
            )
            if not isinstance(outcome, Trimmed):
                raise Violation(Promise.EXPECTED_OUTCOMES, f"a trim had the outcome {outcome}")
            history.trim_acknowledged(min(offset, known), outcome.log_start_offset)
            self.simulator.counts["trims acknowledged"] += 1

    # ------------------------------------------------------------ readers

    def read(self, topic: TopicInfo, history: TopicHistory) -> Task:
        """Strong reads of the mark at the leader, then ranges below it from any replica."""
        floor = start_floor = 0

        def asked() -> None:
            nonlocal floor, start_floor
            floor, start_floor = history.floor, history.start_floor

        while not self.stopping:
            log_start, mark = yield from self.bounds(topic, history, asked)
            history.mark_read(floor, mark)
            history.log_start_read(start_floor, log_start)
            self.simulator.counts["marks read"] += 1
            trimmed_too = log_start and self.random.random() < 0.2
            start = self.random.randrange(0 if trimmed_too else log_start, mark + 1)
            end = min(mark, start + self.random.randrange(40))
            yield from self._read_range(topic, history, start, end, mark)
            yield self.think()

    def bounds(
        self, topic: TopicInfo, history: TopicHistory, asked: Callable[[], None] | None = None
    ) -> Task:
        """A strong read of the log start and the mark."""
        action = self._range_at(topic.group, history)
        return (yield from self.ask_leader(topic.group, action, asked))

    def _range_at(
        self, group: GroupId, history: TopicHistory
    ) -> Callable[[SimulatedNode, Reply], None]:
        def action(node: SimulatedNode, reply: Reply) -> None:
            def confirmed(answer: Any) -> None:
                local = node.local(group)
                if answer is not None or local is None:
                    reply(answer or Failed(written=False))
                else:
                    reply((local.machine.log_start_offset, local.machine.high_water_mark))

            local = node.local(group)
            if local is not None and history.is_deposed(local.replica.raft):
                self.simulator.counts["marks asked of a deposed leader"] += 1
            node.read_barrier(group, confirmed)

        return action

    def _read_range(
        self, topic: TopicInfo, history: TopicHistory, start: int, end: int, mark: int
    ) -> Task:
        for _ in range(3):  # a replica that lags, or is down: ask another one, then give up
            node = self.any_node()
            rows = yield Ask(
                node, lambda at, reply: reply(read_rows(at, topic.group, start, end, mark))
            )
            if isinstance(rows, Trimmed):
                history.read_refused(start, rows.log_start_offset)
                self.simulator.counts["reads of what is trimmed"] += 1
                return
            if not isinstance(rows, Failed):
                history.rows_read(start, end, mark, rows)
                self.simulator.counts["ranges read"] += 1
                return


class _Producer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.next_sequence = 0
        self.acknowledged = -1
        """The highest sequence that the log has, as far as it knows."""


class Query:
    """A streaming query: what its checkpoint holds, and its input, which never changes."""

    def __init__(self, writer: str, records_max: int, draws_overwrite: Callable[[], bool]) -> None:
        self.writer = writer
        self.next_epoch = 0
        self.runs = 0
        self.rewinds = 0
        self.plans: dict[int, str] = {}
        self._records_max = records_max
        self._draws_overwrite = draws_overwrite
        self._overwrites: dict[int, bool] = {}

    def overwrites(self, epoch: int) -> bool:
        """Whether the epoch overwrites the topic: as its records, the same in each run."""
        if epoch not in self._overwrites:
            self._overwrites[epoch] = self._draws_overwrite()
        return self._overwrites[epoch]

    def tasks(self, epoch: int, count: int) -> list[list[Label]]:
        """The epoch's records in `count` tasks; the records are the same in each run."""
        total = (7 * epoch + len(self.writer)) % (self._records_max + 1)
        labels = [Label("epoch", self.writer, epoch, place, "") for place in range(total)]
        split = [labels[task::count] for task in range(count)]
        return [labels for labels in split if labels]
