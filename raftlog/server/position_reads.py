"""How a node reads the positions of all reader groups, which are keys of the key-value store."""

from __future__ import annotations

from raftlog.core.types import NO_INDEX
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.server.kv_services import KvServices
from raftlog.server.leader_calls import ask_leader
from raftlog.server.node import Node
from raftlog.wire.calls import OPEN_KV, READ_KEYS
from raftlog.wire.kv_calls import KEYS_PER_PAGE_MAX, OpenKv, ReadKeys
from raftlog.wire.reader_positions import KEY_PREFIX


class PositionReads:
    """Reads them linearizably, from whoever leads the store."""

    def __init__(self, node: Node, services: KvServices) -> None:
        self._node = node
        self._services = services

    async def read(self) -> list[KeyValue]:
        """Their keys, as of now or later. Raises a `RaftlogError` where nobody answers."""
        opened = await ask_leader(
            OPEN_KV,
            self._services.open_kv,
            OpenKv(create=False),
            others=self._node.other_addresses(),
            channels=self._node.channels,
        )
        found: list[KeyValue] = []
        for kv in opened.kvs:
            while await self._read_page(kv, found):
                pass
        return found

    async def _read_page(self, kv: KvInfo, found: list[KeyValue]) -> bool:
        """Add the keys that come next. Returns whether there are others."""
        call = ReadKeys(
            group=kv.group,
            strong=True,
            at_least=NO_INDEX,
            exactly=NO_INDEX,
            prefix=KEY_PREFIX,
            start=f"{found[-1].key}\0" if found else "",
            end="",
            limit=KEYS_PER_PAGE_MAX,
        )
        reply = await ask_leader(
            READ_KEYS,
            self._services.read_keys,
            call,
            group=kv.group,
            others=self._node.other_addresses(),
            channels=self._node.channels,
        )
        found += reply.keys
        return reply.more
