"""What a node refuses before it reaches the log, and streams whose replica changes meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from raftlog.config import Settings
from raftlog.config_tracing import TracingSettings
from raftlog.core.types import BOOT_IDS_MAX, CONTROLLER_GROUP, LogIndex, Offset, Payload, Term
from raftlog.errors import CorruptFile, DiskFull, NotYet, OffsetTrimmed
from raftlog.machines.commands import RegisterNode, Trim
from raftlog.machines.controller import ControllerMachine
from raftlog.machines.kv_commands import ANY_VERSION
from raftlog.machines.outcomes import NodeRegistered
from raftlog.machines.rules import RULES_LATEST
from raftlog.multiraft.admission import ROOM_MADE_SHARE_BYTES, RoomUse
from raftlog.multiraft.groups import GroupFiles
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server import registration
from raftlog.server.node import Node
from raftlog.server.scrapes import Scrapes
from raftlog.server.services import Services, _check_not_trimmed
from raftlog.storage.frames import FRAME_HEADER_BYTES
from raftlog.wire import calls, kv_calls
from raftlog.wire.reader_positions import ReaderPosition
from raftlog.wire.traced import TracedEntry
from tests.machines.scenes import Scene
from tests.server.test_scans import (
    LOGGED,
    RECORDS,
    TOPIC,
    Iterations,
    disk,
    empty_disk,
    led,
    served,
)
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


def test_a_scrape_shows_positions_of_topics_whose_replica_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other metrics are there too, and no position of an unknown topic is compared with all
    names: a caller may store any."""

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        create = calls.CreateTopicCall(
            name="there", incarnation="i", schema=TOPIC.schema, if_not_exists=False, settings=(),
            replicas=1,
        )  # fmt: skip
        topic = (await services.create_topic(create)).topic
        await led(node, topic.group)
        replicas = node.multiraft.replicas
        scrapes = Scrapes(node, None, Path())  # type: ignore[arg-type]

        def behind(name: str) -> int | None:
            position = ReaderPosition(
                group="g", topic=name, incarnation="i", offset=Offset(0), published_us=1,
                publisher="",
            )  # fmt: skip
            return scrapes._position(position).behind

        assert behind(topic.name) == 0
        looked_up = Iterations()
        noted = looked_up.noting(ControllerMachine._nearest)
        monkeypatch.setattr(ControllerMachine, "_nearest", noted)
        assert behind("absent") is None
        assert not looked_up.counts
        replicas[topic.group].deleted_elsewhere = True
        assert behind(topic.name) is None
        damage = CorruptFile(file="a log", position=0, problem="a bit was flipped")
        replicas.quarantine(replicas[topic.group], damage)
        assert behind(topic.name) is None

    asyncio.run(served(empty_disk(), work))


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


def test_a_registration_writes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node registers on a full disk too. Else its certificate could use up the reserve."""

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        local = node.multiraft.replicas.of_controller
        boots = tuple(f"{number:064x}" for number in range(BOOT_IDS_MAX))
        sizes: list[int] = []
        check = node.multiraft.admission.check

        def noted(at: LocalReplica, payload: Payload, use: RoomUse) -> None:
            sizes.append(payload.size)
            assert use == RoomUse(makes_room=True, share="node:1")
            check(at, payload, use)

        monkeypatch.setattr(node.multiraft.admission, "check", noted)

        async def register(earlier: tuple[str, ...]) -> None:
            call = RegisterNode(
                node=node.node, store_uuid=node.identity.store_uuid,
                address=node.addresses[node.node], rules=RULES_LATEST, boot_id=node.boot_id,
                earlier_boot_ids=earlier, registered_at=node.registered_at,
            )  # fmt: skip
            await services.register_node(call)

        await register(())
        # The registered process may be any of the earlier ones.
        await register((*boots[:100], node.boot_id, *boots[101:]))
        assert max(sizes) < 2_000
        node.multiraft.admission._disk._freed_for = DiskFull(file="a log")
        registered = len(sizes)
        for _ in range(ROOM_MADE_SHARE_BYTES // (FRAME_HEADER_BYTES + sizes[0])):
            await register(())
        assert set(sizes[registered:]) == {sizes[0]}
        with pytest.raises(DiskFull):
            await register(())
        trim = Payload(bytes(ROOM_MADE_SHARE_BYTES - FRAME_HEADER_BYTES), b"")
        check(local, trim, RoomUse(makes_room=True, share="token:ada"))

    asyncio.run(served(empty_disk(), work))
