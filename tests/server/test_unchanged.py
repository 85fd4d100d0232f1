"""Calls that would change nothing, as handlers of a real node serve them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from raftlog.config import ServerSettings
from raftlog.config_audit import AuditSettings
from raftlog.config_auth import AuthSettings
from raftlog.core.types import CONTROLLER_GROUP, GroupId, Offset
from raftlog.errors import (
    MalformedRequest,
    TopicExists,
    TopicNotFound,
    TopicRecreated,
    Unauthenticated,
)
from raftlog.machines.commands import AlterSchema
from raftlog.machines.outcomes import (
    TopicCreated,
    TopicDeleted,
    Trimmed,
    WriterOwnerSet,
    WriterRemoved,
)
from raftlog.server.audit import AuditLog
from raftlog.server.calling import begin
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.rpc import CallGate, client_handlers
from raftlog.server.services import Services
from raftlog.wire import calls
from raftlog.wire.codec import decode_reply, encode_request
from tests.server.test_rpc import Aborted, Context
from tests.server.test_scans import LOGGED, RECORDS, TOPIC, disk, empty_disk, led, served

__all__ = ["disk"]

CREATE = calls.CreateTopicCall(
    name="there", incarnation="i1", schema=TOPIC.schema, if_not_exists=False, settings=(),
    replicas=1,
)  # fmt: skip
DELETE = calls.DeleteTopicCall(name="there", incarnation="i1")

Ask = Callable[[calls.Call[Any, Any], Any], Awaitable[Any]]


class Method(NamedTuple):
    method: str


def asking(services: Services, node: Node, audit: AuditLog | None = None) -> Ask:
    """Makes a call at the node's handlers. Raises what its client would."""
    meters = Meters(AuthSettings(), node.counts.quotas, requests_max=10)
    gate = CallGate(
        ServerSettings(), "c", node.counts, services.allowed, meters, services.scans,
        node.traces, audit,
    )  # fmt: skip
    handlers = client_handlers(services, gate)

    async def ask(call: calls.Call[Any, Any], request: Any) -> Any:
        handler = handlers.service(Method(f"/{calls.SERVICE}/{call.name}"))
        try:
            frame = await handler.unary_unary(encode_request(call, request), Context())
        except Aborted as aborted:
            raise aborted.args[0] from None
        return decode_reply(call, frame)[0]

    return ask


def end_of(node: Node, group: GroupId = CONTROLLER_GROUP) -> int:
    return node.multiraft.replicas[group].raft.log.last_index


def test_a_change_of_no_topic_writes_no_entry() -> None:
    """Else who may delete a name would fill the controller's log, and use up what a full disk keeps
    for deletions of all topics."""

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        ask = asking(services, node)
        created = await ask(calls.CREATE_TOPIC, CREATE)
        end = end_of(node)
        with pytest.raises(TopicExists):
            await ask(calls.CREATE_TOPIC, replace(CREATE, incarnation="i2"))
        assert (
            await ask(calls.CREATE_TOPIC, CREATE)
            == created
            == TopicCreated(topic=created.topic, existed=False)
        )
        alter = calls.AlterTopicCall(name="there", incarnation="", settings=())
        schema = AlterSchema(name="there", incarnation="", version=1, changes=())
        for call, request in (
            (calls.DELETE_TOPIC, DELETE), (calls.ALTER_TOPIC, alter), (calls.ALTER_SCHEMA, schema),
        ):  # fmt: skip
            with pytest.raises(TopicNotFound):
                await ask(call, replace(request, name="absent"))
            with pytest.raises(TopicRecreated):
                await ask(call, replace(request, incarnation="f" * 249))
        assert end_of(node) == end
        deleted = await ask(calls.DELETE_TOPIC, DELETE)
        assert end_of(node) > end
        end = end_of(node)
        assert await ask(calls.DELETE_TOPIC, DELETE) == deleted == TopicDeleted(topic=deleted.topic)
        assert end_of(node) == end

    asyncio.run(served(empty_disk(), work))


def test_a_deletion_waits_for_the_creation_that_is_in_flight() -> None:
    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        ask = asking(services, node)
        end = end_of(node)
        creation = asyncio.ensure_future(ask(calls.CREATE_TOPIC, CREATE))
        while end_of(node) == end:
            await asyncio.sleep(0)
        assert node.multiraft.replicas.controller.known_topic("there") is None, "it is in flight"
        deleted = await ask(calls.DELETE_TOPIC, DELETE)
        assert deleted.topic == (await creation).topic

    asyncio.run(served(empty_disk(), work))


def test_trims_and_removals_that_remove_nothing_write_no_entry(
    disk: Any,
) -> None:
    topic, mark = {"group": TOPIC.group, "incarnation": TOPIC.incarnation}, RECORDS + LOGGED

    async def work(node: Node, services: Services) -> None:
        await led(node, TOPIC.group)
        ask = asking(services, node)
        end = end_of(node, TOPIC.group)
        gone = await ask(calls.REMOVE_WRITER, calls.RemoveWriterCall(**topic, writer="absent"))
        assert gone == WriterRemoved(known=False, staged_bytes=0)
        owner = calls.SetWriterOwnerCall(**topic, writer="absent", owner="token:ada")
        assert await ask(calls.SET_WRITER_OWNER, owner) == WriterOwnerSet(known=False, former="")
        trim = calls.TrimCall(**topic, offset=Offset(0))
        assert await ask(calls.TRIM, trim) == Trimmed(log_start_offset=Offset(0))
        with pytest.raises(MalformedRequest):
            await ask(calls.TRIM, replace(trim, offset=Offset(-1)))
        assert end_of(node, TOPIC.group) == end
        for offset, start in ((10, 10), (mark + 9, mark)):
            there = Trimmed(log_start_offset=Offset(start))
            assert await ask(calls.TRIM, replace(trim, offset=Offset(offset))) == there
            assert end_of(node, TOPIC.group) > end
            end = end_of(node, TOPIC.group)
            assert await ask(calls.TRIM, replace(trim, offset=Offset(offset))) == there
            assert end_of(node, TOPIC.group) == end

    asyncio.run(served(disk, work))


def test_a_call_whose_proof_was_taken_away_while_it_was_judged_changes_nothing() -> None:
    """It may wait there for as long as its caller has work left."""
    looks = iter([None])

    def until_taken_away() -> Any:
        for look in looks:
            return look
        raise Unauthenticated(problem="the token was removed")

    async def work(node: Node, services: Services) -> None:
        nonlocal looks
        await led(node, CONTROLLER_GROUP)
        ask = asking(services, node)
        await ask(calls.CREATE_TOPIC, CREATE)
        end = end_of(node)
        begin(None, until_taken_away)  # type: ignore[arg-type]
        for call, request in (
            (calls.CREATE_TOPIC, replace(CREATE, name="another")),
            (calls.DELETE_TOPIC, DELETE),
        ):
            looks = iter([None])
            with pytest.raises(Unauthenticated):
                await ask(call, request)
        assert end_of(node) == end

    asyncio.run(served(empty_disk(), work))


def test_what_changes_nothing_is_audited_once_however_often_it_is_asked_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "audit"

    async def work(node: Node, services: Services) -> None:
        await led(node, CONTROLLER_GROUP)
        audit = AuditLog(AuditSettings(file=str(file)), 1)
        ask = asking(services, node, audit)
        for _ in range(50):
            with pytest.raises(TopicNotFound):
                await ask(calls.DELETE_TOPIC, DELETE)
        audit.stop()

    asyncio.run(served(empty_disk(), work))
    first, again = map(json.loads, file.read_text().splitlines())
    assert (first["call"], first["outcome"]) == ("DeleteTopic", "TopicNotFound")
    assert again["repeated"] == 49
