"""A simulation with clients of the key-value store, and a judge of what they were told."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from raftlog.core.types import CONTROLLER_GROUP, GroupId, LogIndex
from raftlog.errors import IndexOverflow, IndexUnderflow, NotLeader, RaftlogError
from raftlog.machines import kv
from raftlog.machines.commands import Command, CreateKv
from raftlog.machines.kv import KvMachine
from raftlog.machines.kv_commands import ANY_VERSION, DeleteKey, KeyValue, OpenSession, PutKey
from raftlog.machines.outcomes import KeyWritten, KvCreated, Refused, SessionOpened
from tests.simulation.cluster import Result, Simulation
from tests.simulation.linearizable import (
    Operation,
    Step,
    conflicted,
    deleted_nothing,
    is_linearizable,
    read,
    written,
)
from tests.simulation.node import Failed, Reply, SimulatedNode
from tests.simulation.planting import replaced
from tests.simulation.promises import Promise, Violation
from tests.simulation.simulator import Simulator
from tests.simulation.swarm import draw
from tests.simulation.tasks import Ask, Task

CLIENTS = 4
KEYS = ("a", "b")
CHANGES_KEPT = 6
"""So few that a look back at what was told before often needs a snapshot and the log."""

CHAOS_EVENTS_MAX = 3_000
"""In every seed: a history of few operations shows little."""


class KvHistory:
    """What clients of the store were told."""

    def __init__(self) -> None:
        self.operations: dict[str, list[Operation]] = defaultdict(list)
        self.states: dict[tuple[int, str], KeyValue | None] = {}
        """What was read at an index, by index and key: the same wherever it was asked."""
        self._values: dict[int, bytes] = {}
        self._moment = 0

    def now(self) -> int:
        """Another moment: they are in the order in which they were asked for."""
        self._moment += 1
        return self._moment

    def did(self, key: str, called: int, step: Step, text: str) -> None:
        """An operation was answered just now."""
        self.operations[key].append(Operation(called, self.now(), step, text))

    def wrote(self, version: int, value: bytes) -> None:
        """A put made this version. No two put the same value."""
        if self._values.setdefault(version, value) != value:
            raise Violation(Promise.LINEARIZABLE_MARKS, f"version {version} has two values")

    def found(self, pair: KeyValue | None) -> None:
        """A read found this."""
        if pair is not None:
            self.wrote(pair.version, pair.value)

    def found_at(self, index: int, key: str, pair: KeyValue | None) -> None:
        """A read of the state after entry `index`."""
        self.found(pair)
        if self.states.setdefault((index, key), pair) != pair:
            raise Violation(
                Promise.STATE_MACHINE_SAFETY,
                f"{key} at {index} is {pair} and {self.states[index, key]}",
            )

    def check(self) -> None:
        """Raises `Violation` unless the strong operations on each key are linearizable."""
        for key, operations in self.operations.items():
            if not is_linearizable(operations):
                lines = "\n".join(f"{o.called}-{o.answered}: {o.text}" for o in operations)
                raise Violation(
                    Promise.LINEARIZABLE_MARKS, f"the history of key {key!r} is not:\n{lines}"
                )


class KvSimulation(Simulation):
    """Topics as always, and the key-value store beside them."""

    def __init__(self, seed: int) -> None:
        settings = draw(Simulator(seed).random("swarm"))
        super().__init__(seed, replace(settings, chaos_events_max=CHAOS_EVENTS_MAX, pace=1))
        self.kv: GroupId | None = None
        self.history = KvHistory()

    def groups(self) -> list[GroupId]:
        return [*super().groups(), *([self.kv] if self.kv is not None else [])]

    def go(self) -> Result:
        self.clients.spawn("kv", self._use_kv())
        with replaced(kv, "CHANGES_KEPT", CHANGES_KEPT):
            result = super().go()
        self.history.check()
        return result

    def _use_kv(self) -> Task:
        """Create the store, then let its clients begin."""
        clients = self.clients
        created = yield from clients.write(
            CONTROLLER_GROUP,
            lambda now_us: CreateKv(voters=tuple(sorted(self.nodes)), timestamp_us=now_us),
        )
        assert isinstance(created, KvCreated), created
        self.kv = created.kv.group
        for number in range(CLIENTS):
            clients.spawn(f"kv client {number}", self._client(number, created.kv.group))

    def _client(self, number: int, group: GroupId) -> Task:
        clients, random = self.clients, self.clients.random
        opening = OpenSession(session=f"{number:032x}", owner=f"client {number}", ends="")
        opened = yield from clients.write(group, lambda _: opening)
        assert isinstance(opened, SessionOpened)
        sequence, last = 0, 0
        while not clients.stopping:
            key = random.choice(KEYS)
            if random.random() < 0.5:
                sequence += 1
                expected = random.choice([ANY_VERSION, ANY_VERSION, 0, last])
                yield from self._write(group, number, opened.session, sequence, key, expected)
            elif random.random() < 0.6:
                called = self.history.now()
                pair = yield from clients.ask_leader(group, self._strong(group, key))
                last = pair[0].version if pair else 0
                self.history.found(pair[0] if pair else None)
                self.history.did(key, called, read(last), f"{number} reads {last}")
            elif random.random() < 0.7:
                yield from self._two_steps(group, number, key)
            else:
                yield from self._look_back(group, key)
            clients.simulator.counts["operations on keys"] += 1
            yield clients.think()

    def _write(
        self,
        group: GroupId,
        number: int,
        session: str,
        sequence: int,
        key: str,
        expected: int,
    ) -> Task:
        history = self.history
        value = f"{number}-{sequence}".encode()
        deletes = self.clients.random.random() < 0.2
        given: dict[str, Any] = {
            "session": session, "owner": f"client {number}", "sequence": sequence, "key": key,
            "expected": expected,
        }  # fmt: skip
        command: Command = DeleteKey(**given) if deletes else PutKey(**given, value=value)
        called = history.now()
        outcome = yield from self.clients.write(group, lambda _: command)
        what = f"{number} {'deletes' if deletes else 'puts'} if {expected}"
        if isinstance(outcome, KeyWritten):
            if not deletes:
                history.wrote(outcome.version, value)
            step = written(outcome.version, outcome.previous, expected)
            if deletes and not outcome.previous:
                step = deleted_nothing(expected)
            history.did(key, called, step, f"{what}: {outcome.previous} to {outcome.version}")
            return
        assert isinstance(outcome, Refused)
        if outcome.code != "VersionConflict":
            raise Violation(Promise.EXPECTED_OUTCOMES, f"{command} had the outcome {outcome}")
        found = int(dict(outcome.values)["found"])
        history.did(key, called, conflicted(found, expected), f"{what}: it is {found}")

    def _two_steps(self, group: GroupId, number: int, key: str) -> Task:
        """Ask the leader how far the log is applied, and any node for the state there."""
        called = self.history.now()
        index = yield from self.clients.ask_leader(group, self._applied(group))
        for _ in range(3):
            node = self.clients.random.choice(list(self.nodes))
            found = yield Ask(node, lambda at, reply: reply(state_at(at, group, key, index)))
            if not isinstance(found, Failed):
                pair = found[0] if found else None
                version = pair.version if pair is not None else 0
                self.history.found_at(index, key, pair)
                self.history.did(key, called, read(version), f"{number} reads {version} at {index}")
                self.clients.simulator.counts["two-step reads"] += 1
                return

    def _look_back(self, group: GroupId, key: str) -> Task:
        """Ask any node for the state at an index that somebody was told of before."""
        random, told = self.clients.random, sorted({index for index, _ in self.history.states})
        if not told:
            return
        index = random.choice(told)
        node = random.choice(list(self.nodes))

        def action(at: SimulatedNode, reply: Reply) -> None:
            found = state_at(at, group, key, index)
            if isinstance(found, Failed):
                self._make_again(at, group, key, index, reply)
            else:
                reply(found)

        found = yield Ask(node, action)
        if not isinstance(found, Failed):
            self.history.found_at(index, key, found[0] if found else None)

    def _make_again(
        self, node: SimulatedNode, group: GroupId, key: str, index: int, reply: Reply
    ) -> None:
        """The same from the node's nearest snapshot and its log."""
        local, counts = node.local(group), self.clients.simulator.counts
        if local is None or local.replica.applied_index < index or local.replica.diverged:
            reply(Failed(written=False))
            return

        def done(made: KvMachine | RaftlogError) -> None:
            if isinstance(made, RaftlogError):
                reply(Failed(written=False))
                return
            counts["past states told"] += 1
            reply(list(made.pairs("", key, key + "\0", LogIndex(index))))

        past = node._running_multiraft.images.past
        known = past.known(local, LogIndex(index))
        if known is not None:
            done(known)
            return
        if past._making is not None:
            reply(Failed(written=False))
            return
        try:
            past.make(local, LogIndex(index), done)
        except (IndexUnderflow, IndexOverflow, NotLeader):
            reply(Failed(written=False))

    def _strong(self, group: GroupId, key: str) -> Any:
        return self._confirmed(group, lambda local: values_of(local, key, None))

    def _applied(self, group: GroupId) -> Any:
        return self._confirmed(group, lambda local: local.replica.applied_index)

    def _confirmed(self, group: GroupId, answer_of: Any) -> Any:
        """What a leader answers once a read round has confirmed it."""

        def action(node: SimulatedNode, reply: Reply) -> None:
            def confirmed(answer: Any) -> None:
                local = node.local(group)
                if answer is not None or local is None:
                    reply(answer or Failed(written=False))
                else:
                    reply(answer_of(local))

            node.read_barrier(group, confirmed)

        return action


def state_at(node: SimulatedNode, group: GroupId, key: str, index: int) -> Any:
    """The key after entry `index`, as a list of one or none; Failed where it cannot be told."""
    local = node.local(group)
    if local is None or local.replica.applied_index < index or local.replica.diverged:
        return Failed(written=False)
    if not local.kv_machine.knows(LogIndex(index)):
        return Failed(written=False)
    return values_of(local, key, index)


def values_of(local: Any, key: str, index: int | None) -> list[KeyValue]:
    """The key's value there, or now, as a list of one or none."""
    at = local.replica.applied_index if index is None else index
    return list(local.kv_machine.pairs("", key, key + "\0", at))
