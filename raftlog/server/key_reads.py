"""How a node reads keys of the key-value store, such as grants and positions of reader groups."""

from __future__ import annotations

from raftlog.auth.principals import node_caller
from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX
from raftlog.errors import NotLeader
from raftlog.machines.group_info import KvInfo
from raftlog.machines.kv_commands import KeyValue
from raftlog.server.calling import calling
from raftlog.server.kv_services import KvServices
from raftlog.server.leader_calls import TRY_TIMEOUT_S, LeaderCalls
from raftlog.server.node import Node
from raftlog.wire.calls import OPEN_KV, READ_KEYS
from raftlog.wire.kv_calls import KEYS_PER_PAGE_MAX, KeyPages, KvReply, OpenKv, ReadKeys


class KeyReads:
    """Reads them linearizably, from the store's leader."""

    def __init__(self, node: Node, services: KvServices) -> None:
        self._node = node
        self._services = services
        self.has_store = False
        """Whether a read has found that the cluster has a store; it never loses it again."""
        self.waits_for_place = False
        """Whether the last read found a store, and the controller's log, as far as it was applied
        here, did not say yet which nodes hold it."""

    async def read(self, prefix: str, *, try_timeout_s: float = TRY_TIMEOUT_S) -> list[KeyValue]:
        """The keys that begin so, as of now or later. Raises a `RaftlogError` where no node answers
        as it must; each node is given `try_timeout_s` to do it."""
        with calling(node_caller(self._node.node)):
            return await self._read(prefix, try_timeout_s)

    async def _read(self, prefix: str, try_timeout_s: float) -> list[KeyValue]:
        store = self._node.multiraft.replicas.controller.kv
        self.waits_for_place = False
        if store is None:
            # Another node, which may lie, only says whether there is a store, for this read. Which
            # group that is, and which nodes hold it, only the files and the controller's log here
            # say: the liar may vote in another group, such as the controller's.
            opened = await self._ask_for_store(try_timeout_s)
            store = opened.kvs[0] if opened.kvs else None
            self.waits_for_place = store is not None
        if store is None:
            return []
        self.has_store = True
        if not isinstance(self._node.multiraft.replicas.info_of(store.group), KvInfo):
            raise NotLeader(group=store.group, node=self._node.node)
        found: list[KeyValue] = []
        pages = KeyPages()
        leader = LeaderCalls(self._node.may_lead(store.group), self._node.channels)
        while await self._read_page(leader, store, prefix, found, pages, try_timeout_s):
            pass
        return found

    async def _ask_for_store(self, try_timeout_s: float) -> KvReply:
        leader = LeaderCalls(self._node.may_lead(CONTROLLER_GROUP), self._node.channels)
        return await leader.ask(
            OPEN_KV, self._services.open_kv, OpenKv(create=False), try_timeout_s=try_timeout_s
        )

    async def _read_page(
        self,
        leader: LeaderCalls,
        kv: KvInfo,
        prefix: str,
        found: list[KeyValue],
        pages: KeyPages,
        try_timeout_s: float,
    ) -> bool:
        """Add the keys that come next. Returns whether there are others."""
        call = ReadKeys(
            group=kv.group,
            strong=True,
            at_least=NO_INDEX,
            exactly=NO_INDEX,
            prefix=prefix,
            start=f"{found[-1].key}\0" if found else "",
            end="",
            limit=KEYS_PER_PAGE_MAX,
        )
        reply = await leader.ask(
            READ_KEYS, self._services.read_keys, call, try_timeout_s=try_timeout_s
        )
        pages.check(call, reply)
        found += reply.keys
        return reply.more
