"""Calls that look through much for little leave the loop to others, however many there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import AuthSettings, Settings
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId, Offset
from raftlog.image import history_file
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.kv_commands import ANY_VERSION
from raftlog.multiraft.local_replica import StoredBatch
from raftlog.predicates.predicate import NODES_MAX, Compare, Or
from raftlog.server.allowed import Allowed
from raftlog.server.compactor import Compactor
from raftlog.server.fair_scans import PERIOD_WORK_MAX
from raftlog.server.kv_services import KvServices
from raftlog.server.matching import Matching
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.rights import Rights
from raftlog.server.services import Services
from raftlog.storage.folder import DataFolder
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire import calls, kv_calls
from raftlog.wire.codec import decode_description, encode_reply
from tests.multiraft.compaction_scene import Scene, topic_of
from tests.storage.memory import MemoryFileSystem

ONE = NodeId(1)
TOPIC = topic_of(1)
RECORDS = 2000
"""One batch each, so that history has a row group of so many runs."""
LOGGED = 50
"""Records after these, in the log."""
CALLS = 30

Work = Callable[[Node, Services], Awaitable[None]]


@pytest.fixture(scope="module")
def disk() -> MemoryFileSystem:
    """A node's disk with a topic whose records are in history."""
    scene = Scene(segment_bytes=1 << 20)
    scene.write(RECORDS, at_once=True)
    scene.compact_all()
    assert scene.topics[TOPIC.group].image.manifest.history_end == RECORDS
    scene.write(LOGGED, at_once=True)
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    return scene.fs


def empty_disk() -> MemoryFileSystem:
    """A node's disk with the controller's group alone."""
    scene = Scene(topics=0)
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    return scene.fs


async def led(node: Node, group: GroupId) -> None:
    """Wait until the node has the group and leads it."""
    replicas = node.multiraft.replicas
    while group not in replicas or replicas[group].raft.role is not Role.LEADER:
        await asyncio.sleep(0)


async def served(disk: MemoryFileSystem, work: Work) -> None:
    """Do the work at a node over the disk."""
    failed: list[BaseException] = []
    node = Node(
        settings=Settings(),
        folder=DataFolder.open(disk, cluster_id="c", node=ONE, new_store_uuid="s"),
        compactor=Compactor(Path("unused"), 1),
        addresses={ONE: "127.0.0.1:1"},
        founders=[ONE],
        channels=PeerChannels("c", None, 0),
        boot_id="boot",
        fail=failed.append,
    )
    await node.start()
    rights = Rights(AuthSettings(), asked=False)
    meters = Meters(AuthSettings(), node.counts.quotas, requests_max=CALLS)
    services = Services(node, rights, meters)
    async with asyncio.timeout(PATIENCE_S):
        await work(node, services)
    await node.stop()
    assert not failed


class Iterations:
    """How often something was done in each loop iteration."""

    def __init__(self) -> None:
        self._now = 0
        self.counts: Counter[int] = Counter()

    def noting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls are counted."""

        def noted(*given: Any) -> Any:
            self.counts[self._now] += 1
            return original(*given)

        return noted

    async def all(self, *work: Coroutine[Any, Any, Any]) -> list[Any]:
        """What all of it comes to, done at the same time."""
        tasks = [asyncio.create_task(each) for each in work]
        self.counts.clear()
        while not all(task.done() for task in tasks):
            self._now += 1
            await asyncio.sleep(0)
        return [task.result() for task in tasks]


def find_offset(services: Services) -> Coroutine[Any, Any, Any]:
    call = calls.FindOffset(
        group=TOPIC.group, incarnation=TOPIC.incarnation, timestamp_us=RECORDS // 2
    )
    return services.find_offset(call)


def read_sizes(services: Services, end: int = RECORDS) -> Coroutine[Any, Any, Any]:
    tests = [Compare(column="_writer", operator="=", value="zz")] * (NODES_MAX - 1)
    call = calls.ReadSizes(
        group=TOPIC.group, incarnation=TOPIC.incarnation, start=Offset(0), end=Offset(end),
        mark=Offset(end), pieces_max=2, where=(Or(parts=tuple(tests)),), where_version=1,
    )  # fmt: skip
    return services.read_sizes(call)


async def read(services: Services) -> list[Any]:
    """One record without a column."""
    call = calls.ReadCall(
        group=TOPIC.group, incarnation=TOPIC.incarnation, start=Offset(RECORDS - 2),
        end=Offset(RECORDS - 1), mark=Offset(RECORDS), field_ids=(), all_fields=False,
    )  # fmt: skip
    return [reply async for reply, _ in services.read(call)]


@pytest.mark.parametrize("call", [find_offset, read_sizes, read])
def test_many_calls_that_decode_many_runs_share_out_loop_iterations(
    call: Callable[[Services], Coroutine[Any, Any, Any]],
    disk: MemoryFileSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = Iterations()
    noted = decoded.noting(decode_description)
    monkeypatch.setattr(history_file, "decode_description", noted)

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await decoded.all(*(call(services) for _ in range(CALLS)))

    asyncio.run(served(disk, work))
    assert decoded.counts.total() == CALLS, "each decodes the runs of one row group, once"
    assert max(decoded.counts.values()) * RECORDS // 4 <= 2 * PERIOD_WORK_MAX


def test_splits_of_one_caller_are_served_one_after_another(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By turns, all of many would end past their deadlines."""
    served_calls: list[Matching] = []
    judge = Matching.judge

    def noted(self: Matching, batch: StoredBatch) -> int:
        served_calls.append(self)
        return judge(self, batch)

    monkeypatch.setattr(Matching, "judge", noted)

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await asyncio.gather(*(read_sizes(services, RECORDS + LOGGED) for _ in range(CALLS)))

    asyncio.run(served(disk, work))
    assert len(list(groupby(served_calls, id))) == CALLS


def test_a_reader_is_sent_the_runs_of_what_it_asked_for(disk: MemoryFileSystem) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        [reply] = await read(services)
        assert reply.batch.record_count == RECORDS, "of the whole row group"
        assert len(reply.runs) == 1
        assert reply.runs.timestamps_us[0] == RECORDS - 2
        frame = encode_reply(calls.READ, reply, b"")
        assert len(frame) < 100

    asyncio.run(served(disk, work))


def test_many_watches_share_out_loop_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them passes over the changes that its caller must not see."""
    changes, watches = 900, 10
    judged = Iterations()
    noted = judged.noting(Allowed.sees_key)
    monkeypatch.setattr(Allowed, "sees_key", noted)

    async def watch(kv: KvServices, group: GroupId) -> int:
        call = kv_calls.WatchKeys(group=group, prefix="", after=LogIndex(0), seconds=0)
        return sum([len(reply.changes) async for reply, _ in kv.watch_keys(call)])

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        kv = services.kv
        [store] = (await kv.open_kv(kv_calls.OpenKv(create=True))).kvs
        await led(node, store.group)
        session = await kv.open_session(kv_calls.OpenSessionCall(group=store.group, ends=""))
        for number in range(1, changes + 1):
            put = kv_calls.PutKeyCall(
                group=store.group, session=session.session, sequence=number, key=f"k{number}",
                value=b"", expected=ANY_VERSION,
            )  # fmt: skip
            await kv.put_key(put)
        found = await judged.all(*(watch(kv, store.group) for _ in range(watches)))
        assert found == [changes] * watches

    asyncio.run(served(empty_disk(), work))
    assert judged.counts.total() == watches * changes
    assert max(judged.counts.values()) < changes


def test_times_are_found_in_history_files_and_the_log_by_one_row_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.small_file_bytes = 0
    for _ in range(6):
        scene.write_until_point()
        scene.compact_all()
    scene.write(2)
    local = scene.topics[TOPIC.group]
    decoded = Iterations()
    noted = decoded.noting(decode_description)
    monkeypatch.setattr(history_file, "decode_description", noted)
    files, mark = local.image.manifest.history, local.topic_machine.high_water_mark
    assert len(files) > 4
    assert files[-1].end < mark
    for log_start in (0, files[1].start + 1, files[-1].end, mark):
        scene.trim(log_start)
        for offset in range(mark + 2):  # each record's time is its offset
            decoded.counts.clear()
            assert local.offset_at(offset) == min(max(offset, log_start), mark)
            assert decoded.counts.total() <= 1
