"""How much a node lets its callers stage, also while it is being staged."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter

import pyarrow as pa
import pytest

from raftlog.auth.principals import Caller
from raftlog.errors import (
    QuotaExceeded,
    RaftlogError,
    WriterBytesExceeded,
    WriterEntriesExceeded,
)
from raftlog.machines.commands import BatchSummary, EpochKey, Stage
from raftlog.machines.group_info import CONTROLLER
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.server.calling import calling
from raftlog.server.node import Node
from raftlog.server.services import Services
from raftlog.wire import calls
from tests.multiraft.compaction_scene import Scene
from tests.server.test_meters import key_value
from tests.server.test_scans import TOPIC, led, served
from tests.storage.memory import MemoryFileSystem

ADA = Caller(principal="token:ada")
ROWS = 4_000
CALLS = 6


@pytest.fixture
def disk() -> MemoryFileSystem:
    """A node's disk with an empty topic."""
    scene = Scene(segment_bytes=1 << 20)
    scene.store.make_group(CONTROLLER).log.close()
    scene.fs.crash()
    return scene.fs


async def staged(
    services: Services, *, writers: int, run: str = "r"
) -> list[BaseException | object]:
    """What calls of one caller come to that stage at the same time, with so many writers."""
    rows = pa.RecordBatch.from_pylist(
        [dict.fromkeys(arrow_schema(TOPIC.schema).names, None)] * ROWS,
        schema=arrow_schema(TOPIC.schema),
    )
    batch = encode_batch(conform(rows, TOPIC.schema, TOPIC.name), TOPIC.schema, "none")

    def stage(number: int) -> calls.StageCall:
        writer = f"w{number % writers}"
        key = EpochKey(writer=writer, query_id=writer, run=run, epoch=0, streaming=True)
        return calls.StageCall(
            group=TOPIC.group, incarnation=TOPIC.incarnation, key=key, attempt=uuid.uuid4().hex,
            number=0, create_writer=True, batch=batch.header, crc=batch.crc,
        )  # fmt: skip

    with calling(ADA):
        sent = [services.stage(stage(number), batch.body) for number in range(CALLS)]
        return await asyncio.gather(*sent, return_exceptions=True)


def in_all(services: Services, node: Node) -> int:
    return node.multiraft.replicas[TOPIC.group].topic_machine.staged_bytes_of(ADA.principal)


@pytest.mark.parametrize("writers", [CALLS, 1])
def test_stages_at_the_same_time_have_one_quota(disk: MemoryFileSystem, writers: int) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        assert [type(each).__name__ for each in await staged(services, writers=1)] == [
            "Staged"
        ] * CALLS
        one = in_all(services, node) // CALLS
        key = EpochKey(writer="w0", query_id="w0", run="r", epoch=0, streaming=True)
        with calling(ADA):
            await services.abort_epoch(
                calls.AbortEpochCall(group=TOPIC.group, incarnation=TOPIC.incarnation, key=key)
            )
        assert in_all(services, node) == 0
        services.meters.take([key_value(ADA.principal, staged_bytes=2 * one + one // 2)])
        for _ in range(2):  # what is no longer in flight is not counted twice
            found = Counter(type(each) for each in await staged(services, writers=writers))
            assert in_all(services, node) == 2 * one
            rejected = found[QuotaExceeded] + found[WriterBytesExceeded]
            assert rejected >= CALLS - 2
        assert rejected == CALLS

    asyncio.run(served(disk, work))


def test_stages_at_the_same_time_have_one_limit_of_their_writer(disk: MemoryFileSystem) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await staged(services, writers=1)
        one = in_all(services, node) // CALLS
        services._staging._bytes_max = in_all(services, node) + one + one // 2
        found = await staged(services, writers=1)
        errors = [each for each in found if isinstance(each, RaftlogError)]
        assert [type(each) for each in errors] == [WriterBytesExceeded] * (CALLS - 1)

    asyncio.run(served(disk, work))


def test_what_another_sends_for_a_writer_leaves_its_owner_all_of_its_limit(
    disk: MemoryFileSystem,
) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await staged(services, writers=1)
        services._staging._bytes_max = 2 * in_all(services, node)
        local, eve = node.multiraft.replicas[TOPIC.group], Caller(principal="token:eve")
        summary = BatchSummary(record_count=1, schema_version=1, body_bytes=1_000, crc=0)
        key = EpochKey(writer="w0", query_id="w0", run="r", epoch=0, streaming=True)
        sent = Stage(
            key=key, attempt="a", number=0, timestamp_us=0, batch=summary, create_writer=True,
            owner=eve.principal,
        )  # fmt: skip
        services._staging.begin(local, sent, eve)
        found = await staged(services, writers=1)
        assert {type(each).__name__ for each in found} == {"Staged"}

    asyncio.run(served(disk, work))


def test_an_open_batch_has_a_limit_of_entries(disk: MemoryFileSystem) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        services._staging._entries_max = CALLS
        for run in ("r", "s"):  # the first stage of another run drops what this one has open
            taken = await staged(services, writers=1, run=run)
            assert not any(isinstance(each, BaseException) for each in taken)
            rejected = await staged(services, writers=1, run=run)
            assert [type(each) for each in rejected] == [WriterEntriesExceeded] * CALLS
            assert "server.staged_entries_max" in str(rejected[0])

    asyncio.run(served(disk, work))


def test_another_run_has_the_same_limits_as_the_open_one(disk: MemoryFileSystem) -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        await staged(services, writers=1)
        one = in_all(services, node) // CALLS
        services.meters.take([key_value(ADA.principal, staged_bytes=2 * one + one // 2)])
        for run in ("s", "t"):
            found = await staged(services, writers=1, run=run)
            assert sum(isinstance(each, RaftlogError) for each in found) == CALLS - 2
            assert in_all(services, node) == 2 * one

    asyncio.run(served(disk, work))
