"""Record the golden data folder: a folder with everything that version 1 writes.

    python -m tests.golden.record

makes `data.zip` and `expected.json` here, which `tests/golden/test_golden.py` opens. Do this after
each change of what nodes write, and give the change a stamp of its own
(`raftlog.core.types.FORMAT_STAMP`): a stamp that was recorded is not recorded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from raftlog.checksum import chain
from raftlog.core.membership import Membership
from raftlog.core.types import CONTROLLER_GROUP, FORMAT_STAMP, GroupId, LogIndex, NodeId, Offset
from raftlog.image.manifest import SnapshotInfo
from raftlog.image.snapshot_file import read_snapshot
from raftlog.machines import commands as c
from raftlog.machines.evolution import ADD, DROP, SET_TYPE, ColumnChange
from raftlog.machines.kv_commands import DeleteKey, OpenSession, PutKey
from raftlog.machines.topic import TopicMachine
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.records.arrow_types import arrow_schema, schema_of
from raftlog.records.batch_codec import encode_batch
from raftlog.storage.posix import PosixFileSystem
from tests.golden.one_node import NODE, OneNode, WitnessedReplica

HERE = Path(__file__).parent
START_US = 1_700_000_000_000_000
DAY_US = 86_400 * 1_000_000
SCHEMA = schema_of("id bigint, text string")
OTHERS = (NodeId(2), NodeId(3))


class Script:
    """Writes commands to a node. Times and values are fixed, so that a recording is the same."""

    def __init__(self, node: OneNode) -> None:
        self.node = node
        self.group = GroupId(0)
        self._now_us = START_US
        self._rows = 0

    def tick(self, step_us: int = 1_000_000) -> int:
        self._now_us += step_us
        return self._now_us

    def topic(self, name: str, incarnation: str, *voters: NodeId) -> None:
        """Create a topic; what is written from now on goes there."""
        command = c.CreateTopic(
            name=name,
            incarnation=incarnation,
            schema=SCHEMA,
            voters=voters or (NODE,),
            if_not_exists=False,
            timestamp_us=self.tick(),
        )
        self.group = self.node.write(CONTROLLER_GROUP, command).topic.group

    def batch(self, rows: int) -> tuple[c.BatchSummary, tuple[Any, bytes]]:
        """Rows of the topic's newest schema, compressed, some in byte planes."""
        schema = self.node.local(self.group).topic_machine.info.schema
        ids = range(self._rows, self._rows + rows)
        self._rows += rows
        columns = [
            pa.array([f"row {number}" for number in ids])
            if field.type == '"string"'
            else pa.array(ids, pa.int64())
            for field in schema.fields
        ]
        logical = arrow_schema(schema)
        encoded = encode_batch(pa.RecordBatch.from_arrays(columns, schema=logical), schema, "lz4")
        crc = 0
        for column in encoded.header.columns:
            crc = chain(crc, column.crc)
        summary = c.BatchSummary(
            record_count=rows,
            schema_version=schema.version,
            body_bytes=len(encoded.body),
            crc=crc,
        )
        return summary, (encoded.header, bytes(encoded.body))

    def append(self, producer: str, sequence: int, rows: int) -> None:
        summary, carried = self.batch(rows)
        command = c.Append(
            producer=producer, sequence=sequence, timestamp_us=self.tick(), batch=summary
        )
        self.node.write(self.group, command, carried)

    def stage(
        self, key: c.EpochKey, attempt: str, *sizes: int, owner: str = ""
    ) -> c.AttemptReference:
        """Stage batches of these sizes; the attempt's reference."""
        crc = 0
        for number, rows in enumerate(sizes):
            summary, carried = self.batch(rows)
            command = c.Stage(
                key=key,
                attempt=attempt,
                number=number,
                timestamp_us=self.tick(),
                batch=summary,
                create_writer=False,
                owner=owner,
            )
            self.node.write(self.group, command, carried)
            crc = chain(crc, summary.crc)
        return c.AttemptReference(
            attempt=attempt, entry_count=len(sizes), record_count=sum(sizes), chained_crc=crc
        )

    def commit(self, key: c.EpochKey, *attempts: c.AttemptReference, **more: Any) -> Any:
        version = self.node.local(self.group).topic_machine.info.schema.version
        values = {
            "keep_on_mismatch": False,
            "create_writer": False,
            "transient_writer": False,
            **more,
        }
        command = c.CommitEpoch(
            key=key,
            attempts=attempts,
            schema_version=version,
            timestamp_us=self.tick(),
            **values,
        )
        return self.node.write(self.group, command)

    # ------------------------------------------------------------ what is recorded

    def go(self) -> None:
        self.cluster()
        self.topic("flights", "2" * 32)
        self.producers()
        self.streams()
        self.point(keep_from=1)
        self.settings_and_columns()
        self.ages()
        self.streams_left_open()
        self.point(keep_from=30)
        self.append("late", 0, 300)
        self.node.write(self.group, c.Trim(offset=Offset(20)))
        self.key_values()
        self.topic("gone", "7" * 32)
        self.node.write(CONTROLLER_GROUP, c.DeleteTopic(name="gone", incarnation=""))
        self.node.write(CONTROLLER_GROUP, c.SnapshotPoint(keep_from=LogIndex(1)))
        self.node.write(CONTROLLER_GROUP, c.AddNode(node=NodeId(9), address="h9:1"))
        self.joint()

    def cluster(self) -> None:
        """Nodes, one of which leaves, an observer, and a group that is placed elsewhere."""
        registers = [
            c.RegisterNode(
                node=node, store_uuid=f"{node:032}", address=f"h{node}:1", rules=1, rack="a"
            )
            for node in (NODE, *OTHERS)
        ]
        registers[0] = c.RegisterNode(node=NODE, store_uuid="5" * 32, address="h1:1", rules=1)
        for command in (
            *(c.AddNode(node=node, address=f"h{node}:1") for node in OTHERS),
            *registers,
            c.AddNode(node=NodeId(4), address="h4:1"),
            c.AddNode(node=NodeId(5), address="h5:1", observer=True, parents=(NODE,)),
            c.SetDuty(node=NodeId(4), draining=True, leaving=True),
            c.RetireNode(node=NodeId(4)),
        ):
            self.node.write(CONTROLLER_GROUP, command)
        create = c.CreateTopic(
            name="elsewhere",
            incarnation="e" * 32,
            schema=SCHEMA,
            voters=OTHERS,
            if_not_exists=False,
            timestamp_us=self.tick(),
        )
        group = self.node.write(CONTROLLER_GROUP, create).topic.group
        place = c.PlaceGroup(group=group, voters=OTHERS[:1], generation=0, former=OTHERS)
        self.node.write(CONTROLLER_GROUP, place)

    def producers(self) -> None:
        for sequence, rows in enumerate((3, 500, 40)):
            self.append("p", sequence, rows)
        self.append("q", 0, 5)
        self.append("q", 7, 1)  # a gap: its body is of no use

    def streams(self) -> None:
        """A stream over two runs, a batch in `foreachBatch`, an anonymous write, an abort."""
        first = self.stage(stream("r1", 0), "a0", 10, 20)
        second = self.stage(stream("r1", 0), "a1", 30)
        self.stage(stream("r1", 0), "losing", 7)
        self.commit(stream("r1", 0), second, first, plan="plan 0")
        self.commit(stream("r1", 1), plan="plan 1")
        replay = self.stage(stream("r2", 1), "a2", 9)
        self.commit(stream("r2", 1), replay, plan="plan 1")
        self.commit(stream("r2", 2), self.stage(stream("r2", 2), "a3", 11), plan="plan 2")
        within = c.EpochKey(
            writer="app", query_id="app", run="w1", epoch=7, streaming=False,
            stream="q", stream_run="r2", stream_batch=2,
        )  # fmt: skip
        self.commit(within, self.stage(within, "a4", 2, owner="etl"), owner="etl")
        once = c.EpochKey(writer="o1", query_id="o1", run="o1", epoch=0, streaming=False)
        self.commit(once, self.stage(once, "a5", 3), transient_writer=True)
        self.stage(stream("r2", 3), "a6", 4)
        aborted = c.AbortEpoch(key=stream("r2", 3), owner="root", any_owner=True)
        self.node.write(self.group, aborted)

    def settings_and_columns(self) -> None:
        """What the controller decides, and the topic's leader carries into its log."""
        setting = c.TopicSetting(name="retention_records", value=10**9)
        change = c.AlterTopic(name="flights", incarnation="", settings=(setting,))
        self.node.write(CONTROLLER_GROUP, change)
        changes = (
            ColumnChange(action=ADD, name="late", type='"integer"'),
            ColumnChange(action=DROP, name="text"),
        )
        wider = (ColumnChange(action=SET_TYPE, name="late", type='"long"'),)
        for version, each in enumerate((changes, wider), 1):
            alter = c.AlterSchema(name="flights", incarnation="", version=version, changes=each)
            self.node.write(CONTROLLER_GROUP, alter)
            self.node.settle()
        self.append("p", 3, 200)

    def ages(self) -> None:
        """Leases that end by log time, and a writer that is removed."""
        expire = c.Expire(
            timestamp_us=self.tick(2 * DAY_US),
            epoch_lease_us=DAY_US,
            transient_writer_lease_us=DAY_US,
            producer_lease_us=3 * DAY_US,
        )
        self.node.write(self.group, expire)
        removed = c.EpochKey(writer="x", query_id="x", run="x1", epoch=0, streaming=True)
        self.commit(removed, self.stage(removed, "a7", 1))
        self.node.write(self.group, c.RemoveWriter(writer="x"))

    def streams_left_open(self) -> None:
        self.stage(stream("r2", 3), "open", 6, 6)

    def point(self, keep_from: int) -> None:
        """All that is applied goes into a snapshot, and what is visible into history."""
        self.node.write(self.group, c.SnapshotPoint(keep_from=LogIndex(keep_from)))
        for _ in range(20):
            self.node.multiraft.tick()
            self.node.settle()

    def key_values(self) -> None:
        create = c.CreateKv(voters=(NODE,), timestamp_us=self.tick())
        group = self.node.write(CONTROLLER_GROUP, create).kv.group
        session = self.node.write(group, OpenSession(session="5" * 32, owner="", ends="")).session
        for sequence, key in enumerate(("a", "b/1", "b/2"), 1):
            given = {"session": session, "owner": "", "sequence": sequence, "expected": -1}
            self.node.write(group, PutKey(**given, key=key, value=b"1"))
        delete = DeleteKey(session=session, owner="", sequence=4, key="b/1", expected=-1)
        self.node.write(group, delete)
        self.node.write(group, c.SnapshotPoint(keep_from=LogIndex(1)))

    def joint(self) -> None:
        """A topic whose voters change, and whose new ones were never there."""
        self.topic("moving", "8" * 32)
        self.append("p", 0, 8)
        self.point(keep_from=1)
        raft = self.node.local(self.group).raft
        voters = (NODE, *OTHERS)
        raft._change(raft._writing(), Membership(voters=voters, outgoing=(NODE,), generation=1))
        self.node.multiraft.mark_dirty(self.group)
        self.node.settle()


def stream(run: str, epoch: int) -> c.EpochKey:
    return c.EpochKey(writer="w", query_id="q", run=run, epoch=epoch, streaming=True)


def found(node: OneNode, last: dict[str, int]) -> dict[str, Any]:
    """What opening a folder comes to: by group, with the state hash after entry `last`."""
    groups: dict[str, Any] = {}
    for local in node.multiraft.replicas.values():
        replica, image = local.replica, local.image.manifest
        assert isinstance(replica, WitnessedReplica)
        index = LogIndex(last[str(local.group)])
        membership = local.raft.membership
        groups[str(local.group)] = {
            "last": index,
            "state_hash": replica.hashes[index].hex(),
            "snapshots": [_snapshot(node, local, each) for each in image.snapshots],
            "entries": _entries(local, index),
            "history": image.history_digest.hex(),
            "stages": [[each.first, each.last] for each in image.stages],
            "membership": [list(membership.voters), list(membership.outgoing)],
            "records": _records(local) if isinstance(local.machine, TopicMachine) else "",
        }
    return groups


def _snapshot(node: OneNode, local: LocalReplica, info: SnapshotInfo) -> list[Any]:
    """Which state it is of, and a digest of its bytes."""
    state = read_snapshot(node.fs, local.image.folder, local.group, info)
    return [info.index, info.state_hash.hex(), _digest([state])]


def _entries(local: LocalReplica, last: LogIndex) -> str:
    """A digest of the entries in the log up to `last`, without the bodies of batches."""
    log = local.replica.log
    return _digest(
        f"{index} {term} {kind} ".encode() + command
        for index in range(log.base_index + 1, last + 1)
        for term, kind, command in [log.command(LogIndex(index))]
    )


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def _records(local: LocalReplica) -> str:
    """A digest of every visible record's bytes as they lie in history and in the log."""
    machine, parts = local.topic_machine, []
    offset = machine.log_start_offset
    while offset < machine.high_water_mark:
        batch = local.batch_at(offset)
        batch.check()
        ranges = [(column.position, column.length) for column in batch.header.columns]
        parts += [f"{batch.start} ".encode(), *batch.body_slices(ranges)]
        offset = batch.end
    return _digest(parts)


def last_entries(node: OneNode) -> dict[str, int]:
    """The last entry that each group has applied."""
    return {
        str(local.group): local.replica.applied_index for local in node.multiraft.replicas.values()
    }


def main() -> None:
    expected = HERE / "expected.json"
    if expected.exists() and json.loads(expected.read_text())["format"] == FORMAT_STAMP:
        sys.exit(
            f"the format {FORMAT_STAMP} is recorded: give the change another FORMAT_STAMP "
            "(raftlog/core/types.py)"
        )
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        node = OneNode(PosixFileSystem(data))
        Script(node).go()
        groups = found(node, last_entries(node))
        node.close()
        text = json.dumps({"format": FORMAT_STAMP, "groups": groups}, sort_keys=True, indent=1)
        expected.write_text(text + "\n")
        shutil.make_archive(str(HERE / "data"), "zip", data)


if __name__ == "__main__":
    main()
