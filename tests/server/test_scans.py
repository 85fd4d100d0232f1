"""Calls that look through much for little leave the loop to others, however many there are."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from raftlog.auth.principals import Caller
from raftlog.auth.rights import Right, topic_named
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import AuthSettings, Settings
from raftlog.core.ready import Role
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId, Offset
from raftlog.errors import TopicNotFound
from raftlog.image import history_file
from raftlog.image.history_file import HistoryFile
from raftlog.machines.byte_index import JoinedIndex
from raftlog.machines.commands import EpochKey
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.group_info import CONTROLLER
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION, KeyValue
from raftlog.multiraft.group_events import Watcher
from raftlog.multiraft.local_replica import LocalReplica, StoredBatch
from raftlog.predicates.predicate import NODES_MAX, Compare, Or
from raftlog.server import services as node_services
from raftlog.server import views
from raftlog.server.allowed import NEEDS, Allowed
from raftlog.server.calling import calling
from raftlog.server.compactor import Compactor
from raftlog.server.fair_scans import PERIOD_WORK_MAX, WORK_PER_WAKE
from raftlog.server.group_services import GroupServices
from raftlog.server.kv_services import KvServices
from raftlog.server.matching import Matching
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.placing import PlacingServices
from raftlog.server.rights import Rights
from raftlog.server.services import Services
from raftlog.storage.log import GroupLog
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire import calls, group_calls, kv_calls
from raftlog.wire.codec import decode_description, encode_reply
from tests.multiraft.compaction_scene import Scene, topic_of
from tests.server.test_rights import key_value
from tests.storage.memory import MemoryFileSystem
from tests.stores import opened_folder

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


async def served(disk: MemoryFileSystem, work: Work, settings: Settings | None = None) -> None:
    """Do the work at a node over the disk."""
    failed: list[BaseException] = []
    node = Node(
        settings=settings or Settings(),
        folder=opened_folder(disk, ONE, [ONE]),
        compactor=Compactor(Path("unused"), 1),
        addresses={ONE: "127.0.0.1:1"},
        channels=PeerChannels("c", None, 0),
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


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def logged() -> MemoryFileSystem:
    """A node's disk with a topic whose records are in the log."""
    scene = Scene(segment_bytes=1 << 20)
    scene.write(RECORDS, at_once=True)
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    return scene.fs


LARGE = 16
"""Batches of a MiB."""
LARGE_RECORDS = (1 << 20) // 8


@pytest.fixture(scope="module")
def large() -> MemoryFileSystem:
    """A node's disk with a topic of large batches, some of them in history."""
    scene = Scene(segment_bytes=1 << 26)
    for number in range(LARGE):
        scene.append(LARGE_RECORDS)
        if number == LARGE // 2:
            scene.compact_all()
    history_end = scene.topics[TOPIC.group].image.manifest.history_end
    assert 0 < history_end < LARGE * LARGE_RECORDS
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    return scene.fs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_once", "bytes_max"),
    [
        (1, Settings().server.read_bytes_per_turn_max),
        (CALLS, PERIOD_WORK_MAX * node_services._BODY_BYTES_PER_WORK // 2),
    ],
)
def test_bodies_that_are_checked_and_not_sent_count_as_work(
    at_once: int, bytes_max: int, large: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = Iterations()
    for kind, name in ((HistoryFile, "check_row_group"), (GroupLog, "check_entry")):
        monkeypatch.setattr(kind, name, checked.noting(getattr(kind, name)))

    async def read(services: Services) -> None:
        end = Offset(LARGE * LARGE_RECORDS)
        call = calls.ReadCall(
            group=TOPIC.group, incarnation=TOPIC.incarnation, start=Offset(0), end=end, mark=end,
            field_ids=(), all_fields=False, verify=True,
        )  # fmt: skip
        async for _, body in services.read(call):
            assert not body

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await checked.all(*(read(services) for _ in range(at_once)))

    asyncio.run(served(large, work))
    assert checked.counts.total() == at_once * LARGE
    before_the_last = max(checked.counts.values()) - 1
    assert before_the_last * LARGE_RECORDS * 8 < bytes_max


def split(services: Services, end: int) -> Coroutine[Any, Any, calls.RangeSizes]:
    call = calls.ReadSizes(
        group=TOPIC.group, incarnation=TOPIC.incarnation, start=Offset(0), end=Offset(end),
        mark=Offset(end), pieces_max=calls.READ_PIECES_MAX,
    )  # fmt: skip
    return services.read_sizes(call)


@pytest.mark.slow
def test_many_splits_share_out_loop_iterations(
    logged: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = Iterations()
    monkeypatch.setattr(JoinedIndex, "split", pieces.noting(JoinedIndex.split))

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        found = await pieces.all(*(split(services, RECORDS) for _ in range(CALLS)))
        assert {each.offsets for each in found} == {tuple(range(RECORDS + 1))}

    asyncio.run(served(logged, work))
    assert pieces.counts.total() == CALLS
    assert max(pieces.counts.values()) == 1


def test_many_splits_open_files_of_history_by_turns(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Iterations()
    noted = opened.noting(LocalReplica.byte_index_at)
    monkeypatch.setattr(LocalReplica, "byte_index_at", noted)

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await opened.all(*(split(services, RECORDS + LOGGED) for _ in range(CALLS)))

    asyncio.run(served(disk, work))
    assert opened.counts.total() == 2 * CALLS, "a file of history, and the log"
    assert max(opened.counts.values()) <= CALLS // 2


def test_a_split_begins_again_when_a_new_image_holds_what_it_has_not_reached(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    original = LocalReplica.byte_index_at

    def noted(self: LocalReplica, offset: Offset) -> Any:
        opened.append(offset)
        found = original(self, offset)
        if len(opened) == 1:
            self.take_image(replace(self.image.manifest))
        return found

    monkeypatch.setattr(LocalReplica, "byte_index_at", noted)

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        sizes = await split(services, RECORDS + LOGGED)
        assert sizes.offsets[:2] == (0, RECORDS), "a row group"
        assert sizes.offsets[-1] == RECORDS + LOGGED

    asyncio.run(served(disk, work))
    assert opened == [0, 0, RECORDS]


@pytest.mark.slow
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


@pytest.mark.slow
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


SHARED = frozenset(
    "DescribeTopic ListTopics DescribePlacements WatchGroups Read ReadSizes FindOffset ListWriters"
    " PutKey DeleteKey ReadKeys WatchKeys GetEntries WatchEvents".split()
)
"""Calls whose work depends on what a node holds, so that a small request may take much of it. Of
writes of keys, these are grants."""
BOUNDED = frozenset(
    # A few searches.
    "DescribeCluster ReadHighWaterMark OpenKv GetLastApplied GetServers"
    # An entry of the log, which takes as much as the request has bytes.
    " CreateTopic AlterTopic AlterSchema DeleteTopic Append Stage CommitEpoch AbortEpoch Trim"
    " RemoveWriter SetWriterOwner OpenSession"
    # As these, and only with the right `cluster`.
    " RegisterNode AddNode SetParents SetDuty RetireNode PlaceGroup ReportPlacement"
    " TransferLeadership Scrub"
    # Another thread reads a part of bounded size.
    " GetState".split()
)
"""Calls whose work is bounded by their request."""


def methods_of(*classes: type) -> dict[str, str]:
    """The sources of the classes' own methods, by name."""
    return {
        name: inspect.getsource(method)
        for each in classes
        for name, method in vars(each).items()
        if inspect.isfunction(method)
    }


def begins(name: str, methods: dict[str, str]) -> bool:
    """Whether a method, or one of its class that it calls, asks for its share of the loop."""
    source = methods.get(name, "")
    called = set(re.findall(r"self\.(\w+)\(", source)) - {name}
    return "scans.begin()" in source or any(begins(each, methods) for each in called)


@pytest.mark.slow
@pytest.mark.parametrize("call", NEEDS)
def test_every_call_shares_out_the_loop_or_does_bounded_work(call: str) -> None:
    """A new call belongs into one of the lists."""
    methods = methods_of(Services, PlacingServices, GroupServices, KvServices)
    name = re.sub("(?<!^)(?=[A-Z])", "_", call).lower()
    assert name in methods
    assert (call in SHARED, call in BOUNDED) == (begins(name, methods), not begins(name, methods))


WIDE = "\N{GRINNING FACE}"
"""Four bytes."""
WRITERS = 90
"""Rows of some 12 KiB."""


async def with_writers(services: Services) -> None:
    """Give the topic the writers."""
    for number in range(WRITERS):
        key = EpochKey(
            writer=f"w{number:03}", query_id=1000 * WIDE, run=1000 * WIDE, epoch=0, streaming=True
        )
        call = calls.CommitEpochCall(
            group=TOPIC.group, incarnation=TOPIC.incarnation, key=key, attempts=(),
            schema_version=1, keep_on_mismatch=False, create_writer=True, transient_writer=False,
            plan=1000 * WIDE, overwrite=False,
        )  # fmt: skip
        await services.commit_epoch(call)


def writers_after(services: Services, name: str) -> Coroutine[Any, Any, calls.WritersReply]:
    call = calls.ListWriters(
        group=TOPIC.group, incarnation=TOPIC.incarnation, after=name, writer=""
    )
    return services.list_writers(call)


def test_a_page_of_writers_has_bounded_bytes_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Iterations()
    monkeypatch.setattr(views, "writer_view", shown.noting(views.writer_view))

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await with_writers(services)
        names: list[str] = []
        more, pages = True, 0
        while more:
            page = await writers_after(services, names[-1] if names else "")
            assert len(encode_reply(calls.LIST_WRITERS, page)) < (1 << 20) + (1 << 14)
            names += [each.writer for each in page.writers]
            more, pages = page.more, pages + 1
        assert names == [f"w{number:03}" for number in range(WRITERS)]
        assert pages == 2
        await shown.all(*(writers_after(services, "") for _ in range(CALLS)))

    scene = Scene(segment_bytes=1 << 20)
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    asyncio.run(served(scene.fs, work))
    assert max(shown.counts.values()) <= 2 * WRITERS, "two pages"


def test_a_view_is_of_the_groups_that_the_caller_sees_and_no_other_one_is_made(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views are made of all groups at once, on the loop."""
    made: list[GroupId] = []

    def noting(node: Node, local: LocalReplica) -> calls.GroupView:
        made.append(local.group)
        return group_view(node, local)

    group_view = views.group_view
    monkeypatch.setattr(views, "group_view", noting)

    async def work(node: Node, _: Services) -> None:
        await led(node, TOPIC.group)
        rights = Rights(AuthSettings(), asked=True)

        async def grants() -> list[KeyValue]:
            return [key_value("token:ada", topic_named(TOPIC.name), Right.READ)]

        await rights.look(grants, has_store=True)
        services = Services(
            node, rights, Meters(AuthSettings(), node.counts.quotas, requests_max=CALLS)
        )
        both = [CONTROLLER_GROUP, TOPIC.group]
        for who, sees in (("token:ada", both), ("token:eve", both[:1])):
            for groups in ((), both, [*both, GroupId(99)], 1000 * [TOPIC.group, 0]):
                made.clear()
                with calling(Caller(principal=who)):
                    view = await services.watch_groups(calls.WatchGroups(groups=tuple(groups)))
                assert [each.group for each in view.groups] == made == sees

    asyncio.run(served(disk, work))


@pytest.mark.slow
@pytest.mark.parametrize("of", ["keys", "events"])
def test_watches_that_wake_for_nothing_share_out_loop_iterations(
    of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = Iterations()
    watches = 5 * PERIOD_WORK_MAX // WORK_PER_WAKE
    monkeypatch.setattr(KvMachine, "changes", woken.noting(KvMachine.changes))
    monkeypatch.setattr(Watcher, "take", woken.noting(Watcher.take))

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        [store] = (await services.kv.open_kv(kv_calls.OpenKv(create=True))).kvs
        await led(node, store.group)

        async def watch() -> None:
            after = LogIndex(0)
            if of == "keys":
                keys = kv_calls.WatchKeys(group=store.group, prefix="k", after=after, seconds=0)
                async for _ in services.kv.watch_keys(keys):
                    pass
            else:
                events = group_calls.WatchEvents(group=store.group, after=after, seconds=0)
                async for _ in services.groups.watch_events(events):
                    pass

        await woken.all(*(watch() for _ in range(watches)))

    asyncio.run(served(empty_disk(), work))
    assert woken.counts.total() >= watches
    assert max(woken.counts.values()) <= PERIOD_WORK_MAX // WORK_PER_WAKE


def test_topics_that_are_not_there_are_compared_by_turns(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compare a name with all others takes long. Asked whether there is one to write to, a node
    compares none."""
    compared = Iterations()
    noted = compared.noting(ControllerMachine._nearest)
    monkeypatch.setattr(ControllerMachine, "_nearest", noted)
    asked = PERIOD_WORK_MAX // 40

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        create = calls.CreateTopicCall(
            name="absent", incarnation="i", schema=TOPIC.schema, if_not_exists=True, settings=(),
            replicas=1,
        )  # fmt: skip
        assert await services.unchanged.created(create) is None
        assert not compared.counts
        await services.create_topic(replace(create, name="there"))

        async def describe() -> None:
            with pytest.raises(TopicNotFound):
                await services.describe_topic(calls.DescribeTopic(name="theer", any_node=True))

        await compared.all(*(describe() for _ in range(asked)))

    asyncio.run(served(empty_disk(), work))
    assert compared.counts.total() == asked
    assert max(compared.counts.values()) < asked // 4


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
