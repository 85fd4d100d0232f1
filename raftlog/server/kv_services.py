"""The calls of the key-value store, one method a call."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from raftlog.auth import grant_keys, quota_keys
from raftlog.comparison import Trust
from raftlog.core.types import GroupId, LogIndex, NodeId
from raftlog.errors import (
    GroupUnknown,
    IndexOverflow,
    IndexUnderflow,
    NotLeader,
    RaftlogError,
    ReplicaDiverged,
    StateDisputed,
    StoredValueInvalid,
)
from raftlog.image.past_state import SHARE
from raftlog.machines.commands import CreateKv
from raftlog.machines.group_info import KvInfo, label_of
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import (
    SESSION_CHARACTERS,
    DeleteKey,
    KeyChange,
    KeyValue,
    KeyWrite,
    OpenSession,
    PutKey,
)
from raftlog.machines.outcomes import KeyWritten, KvCreated, SessionOpened
from raftlog.machines.validity import problem_of_key_write
from raftlog.multiraft.local_replica import LocalReplica
from raftlog.server.allowed import Allowed
from raftlog.server.calling import caller, identity, principal
from raftlog.server.fair_scans import (
    PERIOD_S,
    PERIOD_WORK_MAX,
    WORK_PER_WAKE,
    WORK_S,
    FairScans,
)
from raftlog.server.group_services import problem_of_seconds
from raftlog.server.node import Node
from raftlog.server.placing import PlacingServices
from raftlog.server.refused import accepted, check_sense
from raftlog.server.rights import grants_of
from raftlog.wire import kv_calls as calls
from raftlog.wire import reader_positions
from raftlog.wire.reserved_keys import QUERIES_PREFIX, WRITTEN_PREFIX, QueryNote, WrittenNote

_ENTRIES_UNTOLD_MAX = 1_000
"""A watcher is told at least so often how far it has come, so that it can go on from there long
after the last change of its keys."""

_WORK_PER_PAGE = 100
_WORK_PER_KEY = 5
"""What it takes to find the keys of a page, and to judge a key or a change, as `FairScans` counts
work."""

_CHANGES_PER_WORK = 16
"""Changes whose keys are compared with a prefix."""

_UNDONE_PER_WORK = 6
"""Changes that are undone, to tell what was before them."""

_WORK_PER_PERIOD_OF_REPLAY = int(SHARE * PERIOD_S / WORK_S)
"""What the thread that makes a past state takes of a processor in one period."""

_CHANGES_PER_PIECE = PERIOD_WORK_MAX // _WORK_PER_KEY
"""Changes that are judged before others get the loop."""

OWN_VALUES: dict[str, Callable[[str, bytes], object]] = {
    grant_keys.KEY_PREFIX: grant_keys.decode,
    quota_keys.KEY_PREFIX: quota_keys.decode,
    reader_positions.KEY_PREFIX: reader_positions.decode,
    QUERIES_PREFIX: QueryNote.decode,
    WRITTEN_PREFIX: WrittenNote.decode,
}
"""How the values of raftlog's own keys are read, by what the keys begin with."""


def check_own_value(key: str, value: bytes) -> None:
    """Refuse what no reader of the key could read. Raises `StoredValueInvalid`."""
    for prefix, decode in OWN_VALUES.items():
        if key.startswith(prefix):
            try:
                decode(key, value)
            except StoredValueInvalid as error:
                error.call = "write"
                raise


class KvServices:
    """Every method may raise any `RaftlogError`."""

    def __init__(
        self, node: Node, placing: PlacingServices, allowed: Allowed, scans: FairScans
    ) -> None:
        self._node = node
        self._allowed = allowed
        self._granting = asyncio.Lock()
        """One change of the grants is judged and done before the next one is judged."""
        self._scans = scans
        self._placing = placing
        self._multiraft = node.multiraft
        self._past = node.multiraft.images.past
        self._making = asyncio.Lock()
        """One past state is made at a time: held until it is made or given up."""
        self._replicas = node.multiraft.replicas

    async def open_kv(self, call: calls.OpenKv) -> calls.KvReply:
        """The key-value store; its group exists from the entry on that creates it."""
        of_controller = self._replicas.of_controller
        controller = self._replicas.controller
        if call.any_node and controller.kv is not None:
            return calls.KvReply(kvs=(controller.kv,))
        await self._node.read_barrier(of_controller)
        found = controller.kv
        if found is None and call.create:

            def command_on(voters: tuple[NodeId, ...]) -> CreateKv:
                return CreateKv(voters=voters, timestamp_us=self._node.now_us(of_controller))

            made = await self._placing.make_group("The key-value store", 0, command_on)
            found = accepted(KvCreated, made).kv
        return calls.KvReply(kvs=() if found is None else (found,))

    # ------------------------------------------------------------ writing

    async def open_session(self, call: calls.OpenSessionCall) -> SessionOpened:
        """A new session of writes, with an id that cannot be guessed."""
        command = OpenSession(
            session=secrets.token_hex(SESSION_CHARACTERS // 2), owner=principal(), ends=call.ends
        )
        return accepted(SessionOpened, await self._node.propose(self._here(call.group), command))

    async def put_key(self, call: calls.PutKeyCall) -> calls.WriteReply:
        """Write a value; answered once it is durable on a majority and applied here."""
        command = PutKey(
            session=call.session,
            owner=principal(),
            sequence=call.sequence,
            key=call.key,
            value=call.value,
            expected=call.expected,
            share=self._allowed.share_of(caller()),
        )
        local = self._here(call.group)
        self._node.check_leads(local)
        self._multiraft.admission.check_takes_more(local)
        return await self._write(local, command)

    async def delete_key(self, call: calls.DeleteKeyCall) -> calls.WriteReply:
        """Remove a key; answered as a put is."""
        command = DeleteKey(
            session=call.session,
            owner=principal(),
            sequence=call.sequence,
            key=call.key,
            expected=call.expected,
        )
        return await self._write(self._here(call.group), command)

    async def _write(self, local: LocalReplica, command: KeyWrite) -> calls.WriteReply:
        check_sense(type(command).__name__, problem_of_key_write(command))
        if isinstance(command, PutKey):
            check_own_value(command.key, command.value)
        if command.key.startswith(quota_keys.KEY_PREFIX):
            self._allowed.rights.check_asked("quota", "limits callers")
        if not command.key.startswith(grant_keys.KEY_PREFIX):
            return await self._written(local, command)
        async with self._granting:
            await self._scans.begin()
            await self._node.read_barrier(local)
            self._check_grant(local, command)
            return await self._written(local, command)

    def _check_grant(self, local: LocalReplica, command: KeyWrite) -> None:
        """Reject a change by a caller who may not make it. The state here is the latest. Raises
        `StoredValueInvalid`, `Forbidden`, `Unauthenticated`."""
        index = local.replica.applied_index
        keys = list(local.kv_machine.pairs(grant_keys.KEY_PREFIX, "", "", index))
        self._scans.spend(_WORK_PER_KEY * len(keys))
        _, resource = grant_keys.names_of(command.key)
        self._allowed.rights.check_change(identity().look_up(), grants_of(keys), resource)

    async def _written(self, local: LocalReplica, command: KeyWrite) -> calls.WriteReply:
        written = accepted(KeyWritten, await self._node.propose(local, command))
        return calls.WriteReply(
            version=written.version,
            previous=written.previous,
            index=local.replica.applied_index,
        )

    # ------------------------------------------------------------ reading

    async def read_keys(self, call: calls.ReadKeys) -> calls.KeysReply:
        """Keys in order: linearizable, as of what is applied here, or as of one index."""
        check_sense("ReadKeys", _problem_of_read(call))
        local = self._here(call.group)
        if call.strong:
            await self._node.read_barrier(local)
        _check_agreed(local)
        await self._reached(local, LogIndex(max(call.at_least, call.exactly)))
        index = call.exactly or local.replica.applied_index
        return await self._visible(local, call, index)

    async def _visible(
        self, local: LocalReplica, call: calls.ReadKeys, index: LogIndex
    ) -> calls.KeysReply:
        """The first keys that the caller may see, and whether there are others that it may see:
        what is hidden shows in neither."""
        start, byte_count = call.start, 0
        limit = min(call.limit, calls.KEYS_PER_PAGE_MAX)
        found: list[KeyValue] = []
        while True:
            await self._scans.begin()
            machine = await self._machine_that_knows(local, index)
            page, more = _page(machine, call, start, index)
            undone = machine.changes_since(index) // _UNDONE_PER_WORK
            self._scans.spend(_WORK_PER_PAGE + _WORK_PER_KEY * len(page) + undone)
            who = caller()
            shows_owners = self._allowed.may_all(who)
            for pair in page:
                if not self._allowed.sees_key(who, pair):
                    continue
                if len(found) == limit or byte_count >= calls.KEY_BYTES_PER_PAGE_MAX:
                    return calls.KeysReply(index=index, keys=tuple(found), more=True)
                found.append(pair if shows_owners else pair._replace(owner=""))
                byte_count += len(pair.key) + len(pair.value)
            if not more:
                return calls.KeysReply(index=index, keys=tuple(found), more=False)
            start = f"{page[-1].key}\0"

    async def watch_keys(
        self, call: calls.WatchKeys
    ) -> AsyncIterator[tuple[calls.KeyChanges, bytes]]:
        """The changes after an index, as they come."""
        check_sense("WatchKeys", problem_of_seconds(call.seconds))
        local = self._here(call.group)
        await self._reached(local, call.after)
        end_s = asyncio.get_running_loop().time() + call.seconds
        told = seen = call.after
        while True:
            await self._scans.begin()
            self._replicas.check_here(local)
            _check_agreed(local)
            _check_known(local, seen)
            passed = local.kv_machine.changes_since(seen)
            self._scans.spend(WORK_PER_WAKE + passed // _CHANGES_PER_WORK)
            found = local.kv_machine.changes(seen, call.prefix)
            # A replica that took an image may have to apply again what was told.
            seen = max(seen, local.replica.applied_index)
            changes = await self._seen_changes(found)
            if changes or seen - told >= _ENTRIES_UNTOLD_MAX:
                told = seen
                for piece in _pieces(changes, seen):
                    yield piece, b""
            try:
                async with asyncio.timeout_at(end_s):
                    await self._node.applied(local, LogIndex(seen + 1))
            except TimeoutError:
                break
        if seen > told:
            yield calls.KeyChanges(index=seen, changes=()), b""

    async def _seen_changes(self, found: Sequence[KeyChange]) -> tuple[KeyChange, ...]:
        """Those that the caller may see: an answer would show that there are others."""
        seen: list[KeyChange] = []
        for first in range(0, len(found), _CHANGES_PER_PIECE):
            await self._scans.begin()
            who, piece = caller(), found[first : first + _CHANGES_PER_PIECE]
            seen += (each for each in piece if self._allowed.sees_key(who, each))
            self._scans.spend(_WORK_PER_KEY * len(piece))
        return tuple(seen)

    # ------------------------------------------------------------ parts

    def _here(self, group: GroupId) -> LocalReplica:
        """The replica of the key-value store here. Raises `NotLeader` where there is none (yet),
        and `GroupUnknown` for any other group, whether it exists or not: these calls are judged by
        keys, so the caller may have no right on its topic."""
        store = self._replicas.controller.kv
        if store is not None and store.group != group:
            raise GroupUnknown(group=group)
        if not isinstance(self._replicas.info_of(group), KvInfo):
            raise NotLeader(group=group, node=self._node.node)
        local = self._node.group_here(group)
        if not local.serves_reads:
            raise self._node.not_leading(local)
        return local

    async def _reached(self, local: LocalReplica, index: LogIndex) -> None:
        """Wait briefly until the replica has applied the entry; then `IndexOverflow`."""
        try:
            async with asyncio.timeout(self._node.settings.server.not_yet_wait_max_s):
                await self._node.applied(local, index)
        except TimeoutError:
            latest = local.replica.applied_index
            raise IndexOverflow(requested=index, latest=latest) from None

    async def _machine_that_knows(self, local: LocalReplica, index: LogIndex) -> KvMachine:
        """The replica's machine, or one that is made again from snapshot and log, for callers in
        turn: one of each waits for the others."""
        known = self._known(local, index)
        if known is not None:
            return known
        self._allowed.require_any(caller())
        async with self._scans.one_at_a_time():
            await self._making.acquire()
            try:
                known = self._known(local, index)
            except RaftlogError:
                self._making.release()
                raise
            if known is None:
                return await self._make(local, index)
            self._making.release()
            return known

    def _known(self, local: LocalReplica, index: LogIndex) -> KvMachine | None:
        self._replicas.check_here(local)
        if local.kv_machine.knows(index):
            return local.kv_machine
        return self._past.known(local, index)

    async def _make(self, local: LocalReplica, index: LogIndex) -> KvMachine:
        """Make the past state, which takes of the caller's share as long as it lasts."""
        loop = asyncio.get_running_loop()
        made: asyncio.Future[KvMachine | RaftlogError] = loop.create_future()

        def done(found: KvMachine | RaftlogError) -> None:
            self._making.release()
            made.set_result(found)

        try:
            self._past.make(local, index, done)
        except RaftlogError:
            self._making.release()
            raise
        try:
            while not made.done():
                self._scans.spend(_WORK_PER_PERIOD_OF_REPLAY)
                await asyncio.wait([made], timeout=PERIOD_S)
        except asyncio.CancelledError:
            if not made.done():
                self._past.stop()
            raise
        machine = made.result()
        if isinstance(machine, RaftlogError):
            raise machine
        return machine


def _page(
    machine: KvMachine, call: calls.ReadKeys, start: str, index: LogIndex
) -> tuple[list[KeyValue], bool]:
    """The keys of a read from `start` on, one more than a reply may have, and whether there are
    others."""
    found: list[KeyValue] = []
    byte_count = 0
    for pair in machine.pairs(call.prefix, start, call.end, index):
        if len(found) > calls.KEYS_PER_PAGE_MAX or byte_count >= calls.KEY_BYTES_PER_PAGE_MAX:
            return found, True
        found.append(pair)
        byte_count += len(pair.key) + len(pair.value)
    return found, False


def _problem_of_read(call: calls.ReadKeys) -> str | None:
    """What is wrong with the numbers of a read, or None."""
    if call.limit < 1:
        return f"limit is {call.limit}"
    for name, index in (("exactly", call.exactly), ("at_least", call.at_least)):
        if index < 0:
            return f"{name} is {index}"
    return None


def _check_known(local: LocalReplica, index: LogIndex) -> None:
    machine = local.kv_machine
    if not machine.knows(index):
        raise IndexUnderflow(requested=index, earliest=machine.changes_after)


def _check_agreed(local: LocalReplica) -> None:
    """Raises `ReplicaDiverged` or `StateDisputed` where the replica's state is in doubt."""
    name, replica = label_of(local.info), local.replica
    match replica.states.trust:
        case Trust.DIVERGED:
            raise ReplicaDiverged(topic=name, node=replica.node, what="state")
        case Trust.DISPUTED:
            raise StateDisputed(topic=name, agreed=0)


def _pieces(changes: tuple[KeyChange, ...], index: LogIndex) -> Iterator[calls.KeyChanges]:
    """The changes up to entry `index` in replies of bounded size. An entry changes one key."""
    piece: list[KeyChange] = []
    byte_count = 0
    for change in changes:
        piece.append(change)
        byte_count += len(change.key) + len(change.value)
        if len(piece) >= calls.KEYS_PER_PAGE_MAX or byte_count >= calls.KEY_BYTES_PER_PAGE_MAX:
            yield calls.KeyChanges(index=change.index, changes=tuple(piece))
            piece, byte_count = [], 0
    yield calls.KeyChanges(index=index, changes=tuple(piece))
