"""A node that reads keys from another one, which lies."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.config import Settings
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex, NodeId
from raftlog.errors import MalformedRequest, NotLeader, RaftlogError, Unavailable
from raftlog.machines.commands import CreateKv, RegisterNode, Rules
from raftlog.machines.outcomes import KvCreated
from raftlog.machines.rules import RULES_LATEST
from raftlog.server.compactor import Compactor
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.rights import Rights
from raftlog.server.services import Services
from raftlog.storage.posix import PosixFileSystem
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire.calls import OPEN_KV, READ_KEYS
from raftlog.wire.codec import decode_request, encode_reply
from raftlog.wire.kv_calls import KeysReply, KvReply
from tests.client.answering import Answer, serving, unary
from tests.client.test_doubts import KEYS, STORE
from tests.client.test_pages import ENDLESS_KEYS, keys
from tests.stores import opened_folder

HERE, LIAR, THREE, FOUR = map(NodeId, (1, 2, 3, 4))
ANYWHERE = "127.0.0.1:1"
_READS = 20
"""Enough that a read which finds the leader by luck would fail."""


@asynccontextmanager
async def a_node(
    data: Path, others: Mapping[NodeId, str], founders: Collection[NodeId]
) -> AsyncIterator[tuple[Node, Services]]:
    """Node 1 of a cluster, in which the others listen there."""
    settings = Settings()
    failures: list[BaseException] = []
    node = Node(
        settings=settings,
        folder=opened_folder(PosixFileSystem(data), HERE, tuple(founders)),
        compactor=Compactor(data, settings.storage.compaction_share_max),
        addresses={HERE: ANYWHERE, **others},
        channels=PeerChannels("c", None, 0),
        fail=failures.append,
    )
    meters = Meters(settings.auth, node.counts.quotas, requests_max=1)
    services = Services(node, Rights(settings.auth, asked=False), meters)
    await node.start()
    yield node, services
    await node.stop()
    assert failures == []


async def read_once(services: Services) -> object:
    """What a read of the keys below "k/" comes to."""
    try:
        return await services.keys.read("k/", try_timeout_s=PATIENCE_S)
    except RaftlogError as error:
        return error


async def place(node: Node, others: Mapping[NodeId, str]) -> None:
    """Let the node, which founded the cluster alone, place the store on the others."""
    of_controller = node.multiraft.replicas.of_controller
    await node.applied(of_controller, LogIndex(1))  # it leads
    for each, address in {HERE: ANYWHERE, **others}.items():
        its = RegisterNode(
            node=each, store_uuid=f"store-{each}", address=address, rules=RULES_LATEST
        )
        await node.propose(of_controller, its)
    await node.propose(of_controller, Rules(version=RULES_LATEST))
    outcome = await node.propose(of_controller, CreateKv(voters=tuple(others), timestamp_us=1))
    assert isinstance(outcome, KvCreated), outcome


def read(data: Path, pages: Iterator[KeysReply]) -> object:
    """What a read of the node comes to. The controller places the store on the other node, which
    says that it leads."""

    async def run(liar: str) -> object:
        async with a_node(data, {LIAR: liar}, [HERE]) as (node, services):
            await place(node, {LIAR: liar})
            return await read_once(services)

    with serving({READ_KEYS.name: unary(lambda _: encode_reply(READ_KEYS, next(pages)))}) as liar:
        return asyncio.run(run(liar))


@pytest.mark.slow
@pytest.mark.parametrize("pages", ENDLESS_KEYS)
def test_a_read_ends(pages: str, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())

    def is_found_out() -> bool:
        """A busy machine may not connect at once: then another node is asked, and there is none."""
        folder = next(folders)
        folder.mkdir()
        error = read(folder, ENDLESS_KEYS[pages]())
        assert isinstance(error, MalformedRequest | Unavailable), repr(error)
        return isinstance(error, MalformedRequest)

    wait_for(is_found_out, "an answer of the node that lies", PATIENCE_S)


def test_a_reply_that_is_longer_than_any_page_is_not_taken(tmp_path: Path) -> None:
    longest = keys(*[f"k/{each}" for each in range(200)], value_bytes=60_000)
    assert isinstance(read(tmp_path, repeat(longest)), Unavailable)


@pytest.mark.parametrize("named", [STORE.group, CONTROLLER_GROUP])
def test_what_another_node_says_of_the_store_is_no_place_to_read_it(
    named: GroupId, tmp_path: Path
) -> None:
    """The controller's log, as far as it is applied here, has no store. A node that does not hold
    it could forge grants: as a store that never was, or as a group in which it votes."""
    stores = chain([KvReply(kvs=(replace(STORE, group=named),))], repeat(KvReply(kvs=())))
    asked: list[bytes] = []

    def forged(data: bytes) -> bytes:
        asked.append(data)
        return encode_reply(READ_KEYS, KEYS)

    handlers = {
        OPEN_KV.name: unary(lambda _: encode_reply(OPEN_KV, next(stores))),
        READ_KEYS.name: unary(forged),
    }

    async def run(liar: str) -> None:
        async with a_node(tmp_path, {LIAR: liar}, [HERE, LIAR]) as (_, services):
            assert isinstance(await read_once(services), NotLeader)
            assert services.keys.waits_for_place, "it is read again soon"
            assert await read_once(services) == []
            assert not services.keys.waits_for_place

    with serving(handlers) as liar:
        asyncio.run(run(liar))
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("leader_is_known", [True, False])
@pytest.mark.parametrize("pages", [1, 5])
def test_a_node_without_the_store_reads_all_pages_whichever_voter_it_asks_first(
    pages: int, *, leader_is_known: bool, tmp_path: Path
) -> None:
    """The leader may be one that the controller's log here does not place the store on yet."""
    asked: Counter[NodeId] = Counter()
    addresses: dict[NodeId, str] = {}

    def follower(node: NodeId) -> Answer:
        def answer(_: bytes) -> bytes:
            asked[node] += 1
            raise NotLeader(group=1, node=node, leader=FOUR, address=addresses[FOUR])

        return answer

    def leader(data: bytes) -> bytes:
        asked[FOUR] += 1
        call, _ = decode_request(READ_KEYS, data)
        page = int(call.start.strip("k/\0") or 0) + 1
        reply = keys(f"k/{page}")
        return encode_reply(READ_KEYS, replace(reply, more=page < pages))

    async def run() -> None:
        async with a_node(tmp_path, addresses, [HERE]) as (node, services):
            known = [LIAR, THREE, FOUR] if leader_is_known else [LIAR, THREE]
            await place(node, {each: addresses[each] for each in known})
            for _ in range(_READS):
                found = await read_once(services)
                assert isinstance(found, list), found
                assert [each.key for each in found] == [f"k/{n + 1}" for n in range(pages)]

    with (
        serving({READ_KEYS.name: unary(follower(LIAR))}) as two,
        serving({READ_KEYS.name: unary(follower(THREE))}) as three,
        serving({READ_KEYS.name: unary(leader)}) as four,
    ):
        addresses |= {LIAR: two, THREE: three, FOUR: four}
        asyncio.run(run())
    assert asked[FOUR] == _READS * pages
    assert 0 < asked[LIAR] + asked[THREE] <= _READS, "one for each read, to find the leader"
