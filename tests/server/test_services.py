"""What a node refuses before it reaches the log, and streams whose replica changes meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.config import Settings
from raftlog.config_tracing import TracingSettings
from raftlog.core.types import CONTROLLER_GROUP, LogIndex, Offset, Term
from raftlog.errors import CorruptFile, NotYet, OffsetTrimmed
from raftlog.machines.commands import RegisterNode, Trim
from raftlog.machines.kv_commands import ANY_VERSION
from raftlog.machines.outcomes import NodeRegistered
from raftlog.multiraft.groups import GroupFiles
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server import registration
from raftlog.server.node import Node
from raftlog.server.services import Services, _check_not_trimmed
from raftlog.wire import calls, kv_calls
from raftlog.wire.traced import TracedEntry
from tests.machines.scenes import Scene
from tests.server.test_scans import LOGGED, RECORDS, TOPIC, disk, empty_disk, led, served
from tests.storage.memory import MemoryFileSystem

__all__ = ["disk"]


def test_a_read_below_the_log_start_names_the_range_that_exists() -> None:
    scene = Scene()
    scene.append(0, scene.new_batch(10))
    scene.apply(Trim(offset=4))
    _check_not_trimmed(scene.machine, 4)
    with pytest.raises(OffsetTrimmed) as caught:
        _check_not_trimmed(scene.machine, 3)
    error = caught.value
    assert (error.topic, error.requested, error.earliest, error.end) == ("flights", 3, 4, 10)


def test_a_traced_entry_of_a_quarantined_group_ends_nothing(disk: MemoryFileSystem) -> None:
    """A peer may name any group."""
    tracing = TracingSettings(endpoint="http://127.0.0.1:1")

    async def work(node: Node, _: Services) -> None:
        await led(node, TOPIC.group)
        replicas = node.multiraft.replicas
        damage = CorruptFile(file="a log", position=0, problem="a bit was flipped")
        replicas.quarantine(replicas[TOPIC.group], damage)
        node.traced([TracedEntry(TOPIC.group, LogIndex(1), Term(1), "no span")])
        node.traces.look()

    asyncio.run(served(disk, work, Settings(tracing=tracing)))


def rebuild(node: Node, local: LocalReplica) -> None:
    """Let the replica stand at its snapshot again, as after a rebuild: its log is to be applied."""
    store = node.multiraft.replicas._store
    local.replica.log.close()
    local.image.close()
    files = store._open_again(local.info)
    assert isinstance(files, GroupFiles)
    opened = store.replica(local.info, files)
    local.reopen(opened.replica, opened.image, opened.outvoted)


@pytest.mark.slow
def test_a_stream_whose_replica_is_rebuilt_while_it_waits_is_read_elsewhere(
    disk: MemoryFileSystem,
) -> None:
    end = Offset(RECORDS + LOGGED)
    call = calls.ReadCall(
        group=TOPIC.group, incarnation=TOPIC.incarnation, start=Offset(0), end=end, mark=end,
        field_ids=(), all_fields=False,
    )  # fmt: skip

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        stream = services.read(call)
        first, _ = await anext(stream)
        assert first.start == 0
        rebuild(node, node.multiraft.replicas[TOPIC.group])
        with pytest.raises(NotYet) as caught:
            await anext(stream)
        assert (caught.value.have, caught.value.need) == (RECORDS, end)

    asyncio.run(served(disk, work))


def test_a_watch_whose_store_is_rebuilt_repeats_no_change() -> None:
    """What was told is applied again after the rebuild."""

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        kv = services.kv
        [store] = (await kv.open_kv(kv_calls.OpenKv(create=True))).kvs
        await led(node, store.group)
        session = await kv.open_session(kv_calls.OpenSessionCall(group=store.group, ends=""))

        async def put(number: int) -> None:
            call = kv_calls.PutKeyCall(
                group=store.group, session=session.session, sequence=number, key=f"k{number}",
                value=b"", expected=ANY_VERSION,
            )  # fmt: skip
            await kv.put_key(call)

        for number in (1, 2):
            await put(number)
        call = kv_calls.WatchKeys(group=store.group, prefix="k", after=LogIndex(0), seconds=60)
        watch = kv.watch_keys(call)
        found, _ = await anext(watch)
        assert [each.key for each in found.changes] == ["k1", "k2"]
        local = node.multiraft.replicas[store.group]
        following = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await put(3)  # it wakes the watch, which has its turn only after the rebuild
        rebuild(node, local)
        assert local.replica.applied_index < found.index
        await led(node, store.group)
        found, _ = await following
        assert [each.key for each in found.changes] == ["k3"]

    asyncio.run(served(empty_disk(), work))


def test_a_registration_counts_only_once_the_controllers_log_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a member that answers for the leader would have a node forget its earlier boot_ids, and
    it would be taken for a copy of itself after its next start."""
    monkeypatch.setattr(registration, "_APPLIED_WAIT_S", 0.0)

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        asked: list[RegisterNode] = []

        class Answers:
            """What a member says, first a lie."""

            async def register_node(self, call: RegisterNode) -> NodeRegistered:
                asked.append(call)
                if len(asked) == 1:
                    return NodeRegistered(known_before=True)
                return await services.register_node(call)

        await registration.register(node, Answers())  # type: ignore[arg-type]
        assert len(asked) == 2
        [known] = node.multiraft.replicas.controller.nodes.values()
        assert known.boot_id == node.boot_id
        assert node._store.journal.registered_at == known.registered_at > 0

    asyncio.run(served(empty_disk(), work))
