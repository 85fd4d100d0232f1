"""Record a node's data folder, and the result of its logs, with the raftlog that is imported.

    PYTHONPATH=<a checkout> python tests/recorded/make.py tests/recorded/<name>

makes `data.zip` and `expected.json` there (CONTRIBUTING.md, "Rules and recorded logs").
`tests/recorded/test_recorded.py` replays every set. This file runs alone, so that an older
checkout, which does not have it, can be recorded as well.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from raftlog.checksum import chain, crc32c
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, NodeId, Payload, RaftTiming
from raftlog.machines import commands as c
from raftlog.machines.schema import Field, Schema
from raftlog.multiraft.catch_up_budget import CatchUpLimits
from raftlog.multiraft.compaction import CompactionLimits
from raftlog.multiraft.groups import GroupStore
from raftlog.multiraft.limits import MultiRaftLimits
from raftlog.multiraft.multiraft import MultiRaft
from raftlog.replica import Replica
from raftlog.storage.contract import FileSystem
from raftlog.storage.folder import DataFolder
from raftlog.storage.limits import LogLimits
from raftlog.storage.posix import PosixFileSystem
from raftlog.wire.batch import BatchHeader, ColumnChunk
from raftlog.wire.codec import decode_batch_header, encode_command

CLUSTER_ID = "recorded"
STORE = "5" * 32
START_US = 1_700_000_000_000_000
SCHEMA = Schema(version=1, fields=(Field(id=1, name="text", type='"string"', nullable=False),))
PROSE = frozenset({"advice", "call", "problem", "what"})
"""Values of a refusal that are sentences: their wording may change."""


class OneNode:
    """A node alone in its cluster, in one thread: the real `MultiRaft`, driven until it is idle."""

    def __init__(self, fs: FileSystem) -> None:
        self.seen: dict[int, list[dict[str, Any]]] = {}
        """By group, the outcome of each applied command."""
        self._todo: deque[Callable[[], None]] = deque()
        timing = RaftTiming()
        random = Random(1)
        folder = DataFolder.open(fs, cluster_id=CLUSTER_ID, node=NodeId(1), new_store_uuid=STORE)
        store = GroupStore(
            folder=folder,
            voters=(NodeId(1),),
            timing=timing,
            log_limits=LogLimits(segment_bytes_max=16_384, preallocate_bytes=0),
            random=random,
            tell=self.tell,
            replica_type=partial(Witnessed, node_seen=self.seen),
        )
        self.multiraft = made(
            MultiRaft,
            node=NodeId(1),
            nodes={NodeId(1): ""},
            store=store,
            effects=self,
            timing=timing,
            boot_id="recorded",
            random=random,
            limits=MultiRaftLimits(
                idle_ticks_max=10,
                quiesce_refresh_ticks=100_000,
                request_bytes_max=1 << 30,
                slow_disk_ticks=1_000,
                full_disk_ticks=10,
                reserve_bytes=0,
                retention_ticks=1_000_000,
                turn_work_us=1_000,
                catch_up=CatchUpLimits(1 << 20, 1 << 20, 1 << 40),
                compaction=CompactionLimits(
                    entries_max=1 << 30,
                    bytes_max=1 << 40,
                    age_ticks=1 << 30,
                    node_entries_max=1 << 30,
                    behind_bytes_max=1 << 40,
                    backlog_max=16,
                ),
            ),
        )
        self.multiraft.start(store.open_all())
        self.settle()

    def settle(self) -> None:
        """Tick until this node leads every group and has applied all of each log."""
        for _ in range(1_000):
            self.run_pending()
            groups = self.multiraft.replicas.values()
            if all(
                local.replica.raft.role is Role.LEADER
                and local.replica.applied_index == local.replica.raft.log.last_index
                for local in groups
            ):
                return
            self.multiraft.tick()
        raise AssertionError("the node is not at rest")

    def run_pending(self) -> None:
        """Do everything that is pending, without another tick."""
        while self._todo:
            self._todo.popleft()()

    def write(self, group: int, command: Any, batch: tuple[Any, bytes] | None = None) -> Any:
        """The outcome of the command."""
        local = self.multiraft.replicas.get(group)
        assert local is not None
        header, body = batch if batch is not None else (None, b"")
        answers: list[Any] = []
        self.multiraft.propose(
            local, Payload(encode_command(command, header), body), answers.append
        )
        self.settle()
        return answers[0]

    def close(self) -> None:
        self.multiraft.stop()
        self.multiraft.close()

    # ------------------------------------------------------------ effects of `MultiRaft`

    def soon(self, turn: Callable[[], None]) -> None:
        self._todo.append(turn)

    def follow_nodes(self, nodes: Any) -> None:
        """There is no other node."""

    def report(self, report: Any) -> None:
        raise AssertionError("no group is moved")

    def send(self, peer: Any, messages: Any) -> None:
        raise AssertionError("there is no peer")

    def run_write(self, write: Any, ran: Callable[[], None]) -> None:
        write.run()
        self._todo.append(ran)

    def run_compaction(self, job: Any, done: Any) -> None:
        """Never done: a recording keeps its whole log."""

    def run_job(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        value = work()
        self._todo.append(lambda: done(value))

    def later(self, delay_us: int, turn: Callable[[], None]) -> None:
        raise AssertionError("no follower catches up")

    def monotonic_us(self) -> int:
        return 0

    def clock_us(self) -> int:
        return 1

    def work_us(self) -> int:
        return 0

    def tell(self, event: Any) -> None:
        """No one listens."""


class Witnessed(Replica):
    """The real replica; what its machine applies is recorded."""

    def __init__(self, *, node_seen: dict[int, list[dict[str, Any]]], **parts: Any) -> None:
        super().__init__(**parts)
        machine = self.machine
        seen = node_seen.setdefault(self.group, [])
        original = machine.apply

        def apply(index: int, command: Any) -> Any:
            outcome = original(index, command)
            seen.append(
                {
                    "index": index,
                    "outcome": plain(outcome),
                    "fingerprint": machine.fingerprint().hex(),
                    "mark": getattr(machine, "high_water_mark", None),
                }
            )
            return outcome

        machine.apply = apply


def plain(outcome: Any) -> list[Any]:
    """The outcome as JSON: its kind, then its values in order, without sentences."""
    kind = type(outcome).__name__
    if kind == "Refused":
        return [kind, outcome.code, *(v for name, v in outcome.values if name not in PROSE)]
    values = [getattr(outcome, field.name) for field in dataclasses.fields(outcome)]
    return [kind, *map(_name_of, values)]


def _name_of(value: Any) -> Any:
    """A topic's incarnation, the values of the key-value store; anything else is plain."""
    if type(value).__name__ == "KvInfo":
        return list(dataclasses.astuple(value))
    return getattr(value, "incarnation", value)


def records_digest(node: OneNode, group: int) -> str:
    """Over every visible record's bytes, offset and time, in order."""
    local = node.multiraft.replicas.get(group)
    assert local is not None
    machine, log = local.machine, local.replica.log
    digest = hashlib.blake2b(digest_size=16)
    for extent in machine.extents_between(machine.log_start_offset, machine.high_water_mark):
        header = decode_batch_header(log.command(extent.index)[2])
        ranges = [(column.position, column.length) for column in header.columns]
        body = b"".join(log.body_slices(extent.index, ranges))
        digest.update(f"{extent.start} {extent.count} {extent.timestamp_us} ".encode() + body)
    return digest.hexdigest()


def expected(node: OneNode) -> dict[str, Any]:
    """The result that every later version must have when it replays the folder."""
    groups = {}
    for local in node.multiraft.replicas.values():
        group = local.group
        found: dict[str, Any] = {"commands": node.seen[group]}
        if hasattr(local.machine, "pairs"):
            found["keys"] = [
                [pair.key, pair.version, pair.value.hex()]
                for pair in local.machine.pairs("", "", "", local.replica.applied_index)
            ]
        elif group != CONTROLLER_GROUP:
            found["topic"] = local.machine.info.name
            found["records"] = records_digest(node, group)
        groups[str(group)] = found
    return {"groups": groups}


# ---------------------------------------------------------------- what is recorded


def made(kind: Any, **values: Any) -> Any:
    """The command, or `MultiRaft`, without the values that an older version does not have."""
    names = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in values.items() if name in names})


class Script:
    """Commands of every kind, and every refusal that a log may hold."""

    def __init__(self, node: OneNode) -> None:
        self.node = node
        self.now_us = START_US
        self.group = 0

    def batch(self, text: str) -> tuple[Any, tuple[Any, bytes]]:
        body = text.encode() * 3
        column = ColumnChunk(
            field_id=1, position=0, length=len(body), crc=crc32c(body), null_count=0
        )
        header = BatchHeader(record_count=len(text), schema_version=1, columns=(column,))
        summary = c.BatchSummary(
            record_count=len(text),
            schema_version=1,
            body_bytes=len(body),
            crc=chain(0, column.crc),
        )
        return summary, (header, body)

    def topic(self, name: str, incarnation: str) -> None:
        command = c.CreateTopic(
            name=name,
            incarnation=incarnation,
            schema=SCHEMA,
            voters=(NodeId(1),),
            if_not_exists=False,
            timestamp_us=self.tick(),
        )
        outcome = self.node.write(CONTROLLER_GROUP, command)
        if type(outcome).__name__ == "TopicCreated":
            self.group = outcome.topic.group

    def tick(self, step_us: int = 1_000_000) -> int:
        self.now_us += step_us
        return self.now_us

    def append(self, producer: str, sequence: int, text: str) -> None:
        summary, carried = self.batch(text)
        command = c.Append(
            producer=producer, sequence=sequence, timestamp_us=self.tick(), batch=summary
        )
        self.node.write(self.group, command, carried)

    def key(
        self, run: str, epoch: int, *, query: str = "query", writer: str = "w", **fence: Any
    ) -> Any:
        return made(
            c.EpochKey,
            writer=writer,
            query_id=query,
            run=run,
            epoch=epoch,
            streaming=not writer.startswith("b"),
            **fence,
        )

    def stage(self, key: Any, attempt: str, texts: list[str], first: int = 0, **more: Any) -> Any:
        """Stage the texts and return the attempt's reference."""
        crc, count = 0, 0
        for number, text in enumerate(texts, first):
            summary, carried = self.batch(text)
            command = c.Stage(
                key=key,
                attempt=attempt,
                number=number,
                timestamp_us=self.tick(),
                batch=summary,
                create_writer=more.get("create_writer", False),
            )
            self.node.write(self.group, command, carried)
            crc, count = chain(crc, summary.crc), count + len(text)
        return c.AttemptReference(
            attempt=attempt, entry_count=len(texts), record_count=count, chained_crc=crc
        )

    def commit(self, key: Any, *attempts: Any, **more: Any) -> None:
        flags = ("keep_on_mismatch", "create_writer", "transient_writer", "overwrite")
        values = {"schema_version": 1, "plan": "", **dict.fromkeys(flags, False), **more}
        values |= {"key": key, "attempts": attempts, "timestamp_us": self.tick()}
        self.node.write(self.group, made(c.CommitEpoch, **values))

    def abort(self, key: Any) -> None:
        self.node.write(self.group, c.AbortEpoch(key=key))

    def go(self) -> None:
        self.cluster()
        self.producers()
        self.stream()
        self.runs()
        self.batch_writers()
        self.expiries()
        self.come_and_go()
        for command, part in (("Rules", self.rules_2), ("Trim", self.rules_3),
                              ("AddNode", self.rules_4), ("CreateKv", self.rules_5),
                              ("SetParents", self.observers)):  # fmt: skip
            if hasattr(c, command):
                part()

    def observers(self) -> None:
        import_module("tests.recorded.observers" if __package__ else "observers").record(self)

    def cluster(self) -> None:
        for store in (STORE, STORE, "6" * 32, ""):
            command = made(
                c.RegisterNode, node=NodeId(1), store_uuid=store, address="127.0.0.1:1", rules=0
            )
            self.node.write(CONTROLLER_GROUP, command)
        self.topic(".bad", "1" * 32)
        self.topic("flights", "2" * 32)
        self.topic("flights", "3" * 32)

    def producers(self) -> None:
        for sequence, text in enumerate(("abc", "de", "f")):
            self.append("p", sequence, text)
        self.append("p", 1, "de")
        self.append("p", 1, "other")
        self.append("p", 7, "early")
        self.append("stranger", 3, "never began")
        self.append("p", -1 + 2**63, "no sequence")
        for sequence in range(70):
            self.append("many", sequence, "x")
        self.append("many", 0, "x")

    def stream(self) -> None:
        first, second = self.stage(self.key("r1", 0), "a0", ["ab", "c"]), None
        second = self.stage(self.key("r1", 0), "a1", ["def"])
        self.stage(self.key("r1", 0), "a1", ["def"])
        self.stage(self.key("r1", 0), "a1", ["late"], first=5)
        self.commit(self.key("r1", 0), first, dataclasses.replace(second, chained_crc=1))
        self.commit(self.key("r1", 0), second, first, schema_version=9)
        self.commit(self.key("r1", 0), second, first)
        self.commit(self.key("r1", 0), second, first)
        self.commit(self.key("r1", 0), first)
        self.commit(self.key("r1", 1))
        self.stage(self.key("r1", 2), "a2", ["gone"])
        self.abort(self.key("r1", 2))
        self.abort(self.key("r1", 1))
        third = self.stage(self.key("r1", 2), "a3", ["xyz"])
        self.commit(self.key("r1", 2), third)

    def runs(self) -> None:
        """A restart replays its last batch; rivals, an older checkpoint, another checkpoint."""
        again = self.stage(self.key("r2", 2), "a4", ["xyz"])
        self.commit(self.key("r2", 2), again)
        other = self.stage(self.key("r3", 2), "a5", ["four"])
        self.commit(self.key("r3", 2), other)
        self.commit(self.key("r3", 2), other, keep_on_mismatch=True)
        self.stage(self.key("r2", 3), "a6", ["fenced"])
        self.commit(self.key("r1", 3))
        self.commit(self.key("r4", 1))
        self.commit(self.key("r5", 0, query="another"))
        self.stage(self.key("r6", 5, writer="unseen"), "a7", ["?"])
        self.commit(self.key("r6", 5, writer="unseen"))
        created_again = self.stage(
            self.key("r6", 5, writer="unseen"), "a8", ["ok"], create_writer=True
        )
        self.commit(self.key("r6", 5, writer="unseen"), created_again, create_writer=True)
        for number in range(18):
            self.commit(self.key(f"s{number}", 3 + number))
        self.commit(self.key("s0", 30))
        self.commit(self.key("r1", 31))

    def batch_writers(self) -> None:
        for epoch in (1, 5, 5, 3):
            key = self.key(f"b{epoch}", epoch, writer="batch", query="batch")
            attempt = self.stage(key, f"b{epoch}", ["row"])
            self.commit(key, attempt)
        key = self.key("once", 0, writer="b-once", query="b-once")
        self.commit(key, self.stage(key, "o", ["once"]), transient_writer=True)
        self.commit(self.key("once", 0, writer="w2"), transient_writer=True)

    def expiries(self) -> None:
        machine = self.node.multiraft.replicas.get(self.group).machine
        self.stage(self.key("r9", 40), "a9", ["left open"])
        writer, run, epoch, renewals = machine.open_epochs()[0]
        for seen in (renewals + 1, renewals):
            command = made(
                c.ExpireEpoch,
                writer=writer,
                run=run,
                epoch=epoch,
                renewals=seen,
                timestamp_us=self.tick(),
            )
            self.node.write(self.group, command)
        for following in (1, 3):
            command = made(
                c.ExpireProducer, producer="p", next_sequence=following, timestamp_us=self.tick()
            )
            self.node.write(self.group, command)
        self.append("p", 3, "expired")
        for name, index in machine.transient_writers():
            command = made(c.ExpireWriter, writer=name, last_index=index, timestamp_us=self.tick())
            self.node.write(self.group, command)
        self.stage(self.key("r9", 41), "open", ["stays", "open"])

    def come_and_go(self) -> None:
        self.topic("scratch", "7" * 32)
        self.append("p", 0, "soon gone")
        for incarnation in ("9" * 32, "7" * 32, "7" * 32):
            command = c.DeleteTopic(name="scratch", incarnation=incarnation)
            self.node.write(CONTROLLER_GROUP, command)
        self.node.write(CONTROLLER_GROUP, c.DeleteTopic(name="nowhere", incarnation=""))
        self.topic("scratch", "7" * 32)
        self.topic("scratch", "8" * 32)
        self.append("p", 0, "again")

    def rules_2(self) -> None:
        """The same again under version 2, and what only that version knows."""
        command = made(
            c.RegisterNode, node=NodeId(1), store_uuid=STORE, address="127.0.0.1:1", rules=2
        )
        self.node.write(CONTROLLER_GROUP, command)
        # A program that knows a later version does not permit this one by itself.
        self.node.write(CONTROLLER_GROUP, c.Rules(version=2))
        self.topic("later", "a" * 32)
        self.producers()
        self.stream()
        self.runs()
        self.plans()
        self.foreach_batch()
        self.batch_writers()
        self.ages()

    def plans(self) -> None:
        """A replay by its plan, another plan at the last epoch, and a rewound checkpoint."""
        for run, epoch, plan, keep in (
            ("p1", 0, "one", False),
            ("p1", 1, "two", False),
            ("p2", 1, "two", False),
            ("p3", 1, "other", False),
            ("p3", 1, "other", True),
            ("p4", 0, "one", True),
        ):
            key = self.key(run, epoch, writer="planned")
            staged = self.stage(key, f"{run}-{epoch}", [f"{run} rows"])
            self.commit(key, staged, plan=plan, keep_on_mismatch=keep)

    def foreach_batch(self) -> None:
        """Named writes inside a streaming query: its restart, an earlier batch, another query."""
        for number, (version, stream, start, batch) in enumerate(
            ((7, "q", "s1", 3), (7, "q", "s2", 3), (7, "q", "s2", 3), (7, "q", "s3", 2)), 1
        ):
            self.write_in(f"w{number}", version, stream, start, batch)
        self.write_in("w5", 7, "another", "s4", 3)

    def write_in(self, run: str, version: int, stream: str, start: str, batch: int) -> None:
        key = self.key(
            run, version, query="b-each", writer="b-each",
            stream=stream, stream_run=start, stream_batch=batch,
        )  # fmt: skip
        self.commit(key, self.stage(key, run, ["row"]))

    def ages(self) -> None:
        """Leases by log time, a writer that is removed, and one that comes back afterwards."""
        self.stage(self.key("r9", 40), "a9", ["left open"])
        day_us = 86_400 * 1_000_000
        for step_us in (day_us // 2, day_us):
            command = c.Expire(
                timestamp_us=self.tick(step_us),
                epoch_lease_us=day_us,
                transient_writer_lease_us=day_us,
                producer_lease_us=day_us,
            )
            self.node.write(self.group, command)
        self.append("p", 3, "expired")
        once = self.key("once", 0, writer="b-once", query="b-once")
        self.commit(once, self.stage(once, "o2", ["late"]), transient_writer=True)
        for writer in ("planned", "planned", "nobody"):
            self.node.write(self.group, c.RemoveWriter(writer=writer))
        self.commit(self.key("p5", 2, writer="planned"))

    def rules_3(self) -> None:
        """The same again under version 3, in the topic of before and in a new one, among trims."""
        command = made(
            c.RegisterNode, node=NodeId(1), store_uuid=STORE, address="127.0.0.1:1", rules=3
        )
        self.trims(0)
        self.node.write(CONTROLLER_GROUP, command)
        self.node.write(CONTROLLER_GROUP, c.Rules(version=3))
        self.node.write(CONTROLLER_GROUP, c.SnapshotPoint(keep_from=1))
        self.append("raised", 0, "under other rules")
        self.settings()
        self.trims(20)
        self.topic("latest", "b" * 32)
        self.producers()
        self.trims(3)
        self.stream()
        self.runs()
        self.trims(75)
        self.plans()
        self.foreach_batch()
        self.trims(1_000_000)
        self.batch_writers()
        self.ages()
        for sequence in range(4):
            self.append("large", sequence, "x" * 30_000)
        self.trims(70_000)
        self.append("q", 0, "after all")

    def settings(self) -> None:
        """Set, change and remove settings of two topics; some are refused."""
        for name, setting, value in (
            ("flights", "retention_s", 86_400),
            ("flights", "retention_s", 86_400),
            ("flights", "retention_records", 10**6),
            ("flights", "retention_s", 0),
            ("scratch", "retention_bytes", 10**9),
            ("scratch", "retention", 1),
            ("scratch", "retention_s", -1),
            ("nowhere", "retention_s", 1),
        ):
            setting = c.TopicSetting(name=setting, value=value)
            command = c.AlterTopic(name=name, incarnation="", settings=(setting,))
            self.node.write(CONTROLLER_GROUP, command)
        for version in (3, 1, 10**9, 0):
            command = c.Configure(version=version, settings=(setting,))
            self.node.write(self.group, command)

    def trims(self, offset: int) -> None:
        """Trim there, then below it, and in between a snapshot point; some are refused."""
        for command in (
            c.Trim(offset=offset),
            c.SnapshotPoint(keep_from=offset),
            c.Trim(offset=offset // 2),
            c.Trim(offset=-1),
            c.SnapshotPoint(keep_from=-1),
        ):
            self.node.write(self.group, command)

    def rules_4(self) -> None:
        """Nodes are added, leave and are removed, and a topic that is not here is moved."""
        two, three, four = map(NodeId, (2, 3, 4))

        def register(node: int, store: str) -> Any:
            return made(
                c.RegisterNode, node=NodeId(node), store_uuid=store, address="127.0.0.1:1",
                rules=4, rack="a",
            )  # fmt: skip

        before = [c.AddNode(node=two, address="h2:1"), register(1, STORE), c.Rules(version=4)]
        for command in [*before, register(1, STORE), register(1, "another")]:
            self.node.write(CONTROLLER_GROUP, command)
        for node, address in ((2, "h2:1"), (2, "h2:1"), (2, "h9:1"), (3, "h2:1"), (3, "h3:1"),
                              (4, "h4:1"), (5, "nowhere"), (0, "h0:1")):  # fmt: skip
            self.node.write(CONTROLLER_GROUP, c.AddNode(node=NodeId(node), address=address))
        group = self.node.write(
            CONTROLLER_GROUP,
            c.CreateTopic(
                name="elsewhere",
                incarnation="e" * 32,
                schema=SCHEMA,
                voters=(two, three),
                if_not_exists=False,
                timestamp_us=self.tick(),
            ),
        ).topic.group
        for voters, generation, of in (
            ((two, four), 0, group), ((two, four), 0, group), ((two,), 0, group),
            ((two,), 1, group), ((two, three), 1, group), ((three, two), 2, group),
            ((), 2, group), ((two, NodeId(9)), 2, group), ((two,), 0, 10**6),
        ):  # fmt: skip
            place = c.PlaceGroup(
                group=of, voters=voters, generation=generation, former=(two, three)
            )
            self.node.write(CONTROLLER_GROUP, place)
        leaving = c.SetDuty(node=three, draining=True, leaving=True)
        place = c.PlaceGroup(group=group, voters=(two, four), generation=2, former=(two, three))
        for command in (
            c.ReportPlacement(group=group, generation=1),
            c.ReportPlacement(group=group, generation=2),
            c.ReportPlacement(group=group, generation=2),
            c.RetireNode(node=three),
            leaving,
            dataclasses.replace(leaving, node=NodeId(9)),
            c.RetireNode(node=three),
            place,
            c.RetireNode(node=three),
            c.ReportPlacement(group=group, generation=3),
            c.RetireNode(node=three),
            c.RetireNode(node=three),
            c.AddNode(node=three, address="h3:1"),
            register(3, "store"),
            c.SnapshotPoint(keep_from=1),
        ):
            self.node.write(CONTROLLER_GROUP, command)

    def rules_5(self) -> None:
        """The key-value store: it is created once, and its writes are judged and repeated."""
        create = c.CreateKv(voters=(NodeId(1),), timestamp_us=self.tick())
        node = c.RegisterNode(node=NodeId(1), store_uuid=STORE, address="127.0.0.1:1", rules=5)
        again = (dataclasses.replace(create, voters=()), create, create)
        for command in (create, node, c.Rules(version=5), *again):
            created = self.node.write(CONTROLLER_GROUP, command)
        group = created.kv.group
        one, two = (self.node.write(group, c.OpenSession()).session for _ in "12")
        names = "session sequence key value expected".split()
        for values in (
            (one, 1, "a", b"1", -1), (one, 1, "a", b"1", -1), (one, 2, "a", b"2", 0),
            (one, 2, "a", b"2", 0), (one, 1, "a", b"late", -1), (two, 1, "b/1", b"", 0),
            (two, 3, "a", b"of its version", 4), (999, 1, "a", b"", -1), (two, 0, "a", b"", -1),
            (two, 4, "", b"", -1), (two, 4, "k" * 1025, b"", -1), (two, 4, "k", b"", -2),
            (two, 4, "k", b"1" * 65_537, -1), (two, 4, "k", b"1" * 65_536, -1),
        ):  # fmt: skip
            self.node.write(group, c.PutKey(**dict(zip(names, values, strict=True))))
        for sequence, key, expected in ((5, "b/1", 1), (6, "b/1", -1), (6, "b/1", -1), (7, "z", 0)):
            delete = c.DeleteKey(session=two, sequence=sequence, key=key, expected=expected)
            self.node.write(group, delete)
        self.node.write(group, c.SnapshotPoint(keep_from=1))


def main(target: Path) -> None:
    if (target / "data.zip").exists():
        sys.exit(f"{target} holds a recording, which must not change: name another folder")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        node = OneNode(PosixFileSystem(data))
        Script(node).go()
        text = json.dumps(expected(node), sort_keys=True, indent=1)
        node.close()
        (target / "expected.json").write_text(text + "\n")
        shutil.make_archive(str(target / "data"), "zip", data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
