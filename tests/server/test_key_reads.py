"""A node that reads keys from another one, which lies."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.config import Settings
from raftlog.core.types import NodeId
from raftlog.errors import MalformedRequest, RaftlogError, Unavailable
from raftlog.server.compactor import Compactor
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.rights import Rights
from raftlog.server.services import Services
from raftlog.storage.posix import PosixFileSystem
from raftlog.transport.peer_channels import PeerChannels
from raftlog.wire.calls import OPEN_KV, READ_KEYS
from raftlog.wire.codec import encode_reply
from raftlog.wire.kv_calls import KeysReply, KvReply
from tests.client.answering import serving, unary
from tests.client.test_doubts import KEYS, STORE
from tests.client.test_pages import ENDLESS_KEYS, keys
from tests.stores import opened_folder

HERE, LIAR = NodeId(1), NodeId(2)


@asynccontextmanager
async def a_node(data: Path, liar: str) -> AsyncIterator[Services]:
    """Node 1 of two, which hears of no leader. The other listens at `liar`."""
    settings = Settings()
    failures: list[BaseException] = []
    node = Node(
        settings=settings,
        folder=opened_folder(PosixFileSystem(data), HERE, (HERE, LIAR)),
        compactor=Compactor(data, settings.storage.compaction_share_max),
        addresses={HERE: "127.0.0.1:1", LIAR: liar},
        channels=PeerChannels("c", None, 0),
        boot_id="b",
        fail=failures.append,
    )
    meters = Meters(settings.auth, node.counts.quotas, requests_max=1)
    services = Services(node, Rights(settings.auth, asked=False), meters)
    await node.start()
    yield services
    await node.stop()
    assert failures == []


def read(
    data: Path, pages: Iterator[KeysReply], stores: Iterator[KvReply], reads: int = 1
) -> list[object]:
    """What the node's reads of the keys below "k/" come to. The other node says that it leads."""
    handlers = {
        OPEN_KV.name: unary(lambda _: encode_reply(OPEN_KV, next(stores))),
        READ_KEYS.name: unary(lambda _: encode_reply(READ_KEYS, next(pages))),
    }

    async def run(liar: str) -> list[object]:
        found: list[object] = []
        async with a_node(data, liar) as services:
            for _ in range(reads):
                try:
                    found.append(await services.keys.read("k/", try_timeout_s=PATIENCE_S))
                except RaftlogError as error:
                    found.append(error)
        return found

    with serving(handlers) as liar:
        return asyncio.run(run(liar))


A_STORE = KvReply(kvs=(STORE,))


@pytest.mark.parametrize("pages", ENDLESS_KEYS)
def test_a_read_ends(pages: str, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())

    def is_found_out() -> bool:
        """A busy machine may not connect at once: then another node is asked, and there is none."""
        folder = next(folders)
        folder.mkdir()
        (error,) = read(folder, ENDLESS_KEYS[pages](), repeat(A_STORE))
        assert isinstance(error, MalformedRequest | Unavailable), repr(error)
        return isinstance(error, MalformedRequest)

    wait_for(is_found_out, "an answer of the node that lies", PATIENCE_S)


def test_a_reply_that_is_longer_than_any_page_is_not_taken(tmp_path: Path) -> None:
    longest = keys(*[f"k/{each}" for each in range(200)], value_bytes=60_000)
    (error,) = read(tmp_path, repeat(longest), repeat(A_STORE))
    assert isinstance(error, Unavailable)


def test_what_another_node_says_of_the_store_counts_for_one_read(tmp_path: Path) -> None:
    """It could name a store that never was, which the node would ask for until its restart."""
    stores = chain([A_STORE], repeat(KvReply(kvs=())))
    assert read(tmp_path, iter([KEYS]), stores, reads=2) == [[], []]
