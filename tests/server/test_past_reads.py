"""Reads of the key-value store at an index that its machine does not keep, and far back in what it
keeps: whose turn it is, and what they count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from raftlog.auth.principals import Caller
from raftlog.auth.rights import Right, keys_under
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config import AuthSettings
from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex
from raftlog.errors import Forbidden, NotLeader, RaftlogError
from raftlog.image.past_state import PastStateRead
from raftlog.machines import kv
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION
from raftlog.server.calling import calling
from raftlog.server.fair_scans import PERIOD_WORK_MAX
from raftlog.server.meters import Meters
from raftlog.server.node import Node
from raftlog.server.rights import Rights
from raftlog.server.services import Services
from raftlog.wire import kv_calls
from tests.server.test_rights import key_value
from tests.server.test_scans import CALLS, Iterations, empty_disk, led, served

ADA = Caller(principal="token:ada")
EVE = Caller(principal="token:eve")
BOB = Caller(principal="token:bob")
"""Ada and Eve may read keys, and Bob has no right."""
CHANGES = 4
WRITES = 40


class Store:
    """The key-value store of one node that authenticates its callers."""

    def __init__(self, services: Services, group: GroupId) -> None:
        self.services = services
        self._group = group
        self.first = self.last = LogIndex(0)
        """The first and the last write."""

    @classmethod
    async def began(cls, node: Node, writes: int) -> Store:
        rights = Rights(AuthSettings(admins="token:root"), asked=True)

        async def grants() -> list[kv.KeyValue]:
            return [key_value(each.principal, keys_under("key"), Right.READ) for each in (ADA, EVE)]

        await rights.look(grants, has_store=True)
        meters = Meters(AuthSettings(), node.counts.quotas, requests_max=CALLS)
        services = Services(node, rights, meters)
        with calling(Caller(principal="token:root")):
            await led(node, CONTROLLER_GROUP)
            [created] = (await services.kv.open_kv(kv_calls.OpenKv(create=True))).kvs
            await led(node, created.group)
            store = cls(services, created.group)
            await store.write(writes)
        return store

    async def write(self, number: int) -> None:
        opening = kv_calls.OpenSessionCall(group=self._group, ends="")
        session = (await self.services.kv.open_session(opening)).session
        for sequence in range(1, number + 1):
            put = kv_calls.PutKeyCall(
                group=self._group, session=session, sequence=sequence, key="key",
                value=b"%d" % sequence, expected=ANY_VERSION,
            )  # fmt: skip
            self.last = (await self.services.kv.put_key(put)).version
            self.first = self.first or self.last

    async def read(self, who: Caller, index: int, prefix: str = "key") -> bytes:
        call = kv_calls.ReadKeys(
            group=self._group, strong=False, at_least=LogIndex(0), exactly=LogIndex(index),
            prefix=prefix, start="", end="", limit=1,
        )  # fmt: skip
        with calling(who):
            reply = await self.services.kv.read_keys(call)
        return b"".join(each.value for each in reply.keys)

    def then(self, index: int) -> bytes:
        return b"%d" % (index - self.first + 1)


def run(work: Callable[[Store], Awaitable[None]], writes: int = WRITES) -> None:
    async def begun(node: Node, _: Services) -> None:
        await work(await Store.began(node, writes))

    asyncio.run(served(empty_disk(), begun))


@pytest.fixture
def few_changes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "CHANGES_KEPT", CHANGES)


@pytest.mark.usefixtures("few_changes_are_kept")
def test_past_states_are_made_for_callers_in_turn_and_none_is_rejected() -> None:
    async def work(store: Store) -> None:
        answered: list[Caller] = []

        async def ask(who: Caller, index: int) -> None:
            assert await store.read(who, index) == store.then(index)
            answered.append(who)

        of_eve = [ask(EVE, store.first + number) for number in (20, 5, 18, 3, 16)]
        await asyncio.gather(*of_eve, ask(ADA, store.first + 10))
        assert answered.index(ADA) <= 1, "after the one of Eve's that was being made"

    run(work)


@pytest.mark.usefixtures("few_changes_are_kept")
def test_no_past_state_is_made_for_a_caller_without_any_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Iterations()
    monkeypatch.setattr(PastStateRead, "run", made.noting(PastStateRead.run))

    async def work(store: Store) -> None:
        assert await store.read(BOB, store.last, "raftlog/") == b""
        with pytest.raises(Forbidden, match="any right"):
            await store.read(BOB, store.first, "raftlog/")
        assert not made.counts
        assert await store.read(EVE, store.first) == store.then(store.first)
        assert made.counts.total() == 1

    run(work)


@pytest.mark.usefixtures("few_changes_are_kept")
def test_a_past_state_takes_of_its_callers_share(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(store: Store) -> None:
        scans, spent = store.services.scans, list[int]()
        spend = scans.spend

        def noting(work: int) -> None:
            spent.append(work)
            spend(work)

        monkeypatch.setattr(scans, "spend", noting)
        await store.read(EVE, store.last)
        now = sum(spent)
        await store.read(EVE, store.first)
        assert sum(spent) - now > now + PERIOD_WORK_MAX // 2

    run(work)


@pytest.mark.usefixtures("few_changes_are_kept")
def test_the_state_of_a_call_that_is_given_up_is_made_no_further_and_the_next_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on = threading.Event()
    ended: list[RaftlogError | None] = []
    run_read = PastStateRead.run

    def waiting(read: PastStateRead) -> None:
        assert goes_on.wait(PATIENCE_S)
        run_read(read)
        ended.append(read.error)

    monkeypatch.setattr(PastStateRead, "run", waiting)

    async def work(store: Store) -> None:
        given_up = asyncio.create_task(store.read(EVE, store.first + 1))
        while not store.services.kv._making.locked():
            await asyncio.sleep(0)
        waits = asyncio.create_task(store.read(ADA, store.first + 2))
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        goes_on.set()
        assert await waits == store.then(store.first + 2)
        assert [type(each) for each in ended] == [NotLeader, type(None)]

    run(work)


@pytest.mark.slow
def test_reads_far_back_in_what_is_kept_share_out_loop_iterations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undone = Iterations()
    monkeypatch.setattr(KvMachine, "_undone", undone.noting(KvMachine._undone))
    writes = 2 * PERIOD_WORK_MAX

    async def work(store: Store) -> None:
        old = store.first
        answers = await undone.all(*(store.read(EVE, old) for _ in range(CALLS)))
        assert answers == [b"1"] * CALLS

    run(work, writes)
    assert undone.counts.total() == CALLS
    assert max(undone.counts.values()) <= 4
