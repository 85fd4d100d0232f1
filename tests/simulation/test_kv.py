"""Histories of the key-value store are linearizable, and the judge of that is tested itself."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from raftlog.errors import RaftlogError
from raftlog.machines.kv import KvMachine, Result, _Last
from raftlog.multiraft.local_replica import LocalReplica
from tests.costs import count
from tests.simulation.kv import KvSimulation
from tests.simulation.linearizable import (
    Operation,
    Step,
    conflicted,
    deleted_nothing,
    is_linearizable,
    read,
    written,
)
from tests.simulation.planting import replaced
from tests.simulation.run import FAILURES

SEEDS = 15


def operation(called: int, answered: int, step: Step) -> Operation:
    return Operation(called, answered, step, "")


# ------------------------------------------------------------ the judge

LINEARIZABLE: dict[str, list[Operation]] = {
    "nothing happened": [],
    "one after another": [
        operation(1, 2, written(5, 0, -1)),
        operation(3, 4, read(5)),
        operation(5, 6, written(0, 5, 5)),
        operation(7, 8, read(0)),
        operation(9, 10, deleted_nothing(0)),
    ],
    "a read beside a write sees what was before": [
        operation(1, 6, written(5, 0, -1)),
        operation(2, 3, read(0)),
        operation(4, 5, read(5)),
    ],
    "the later answer took effect first": [
        operation(1, 8, written(9, 7, -1)),
        operation(2, 7, written(7, 0, -1)),
        operation(9, 10, read(9)),
    ],
    "a conflict beside the write that it met": [
        operation(1, 4, written(5, 0, 0)),
        operation(2, 3, conflicted(5, 0)),
    ],
}

NOT_LINEARIZABLE: dict[str, list[Operation]] = {
    "a stale read": [
        operation(1, 2, written(5, 0, -1)),
        operation(3, 4, read(0)),
    ],
    "a read that goes back": [
        operation(1, 8, written(5, 0, -1)),
        operation(2, 3, read(5)),
        operation(4, 5, read(0)),
    ],
    "a lost write": [
        operation(1, 2, written(5, 0, -1)),
        operation(3, 4, written(7, 0, -1)),
    ],
    "a write that was done twice": [
        operation(1, 2, written(5, 0, -1)),
        operation(3, 4, read(6)),
    ],
    "two writes that expect the same version": [
        operation(1, 6, written(5, 0, 0)),
        operation(2, 5, written(7, 0, 0)),
    ],
    "a read of the future": [
        operation(1, 2, read(5)),
        operation(3, 4, written(5, 0, -1)),
    ],
    "a conflict with what was not there": [operation(1, 2, conflicted(5, 0))],
    "a conflict with what was expected": [
        operation(1, 2, written(5, 0, 0)),
        operation(3, 4, conflicted(5, 5)),
    ],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_history_that_is_linearizable_is_taken_for_it(name: str) -> None:
    assert is_linearizable(LINEARIZABLE[name])


@pytest.mark.parametrize("name", NOT_LINEARIZABLE)
def test_a_history_that_is_not_linearizable_is_found(name: str) -> None:
    assert not is_linearizable(NOT_LINEARIZABLE[name])


@pytest.mark.parametrize("seed", range(30))
def test_the_judge_agrees_with_a_search_of_all_orders(seed: int) -> None:
    """Small random histories: some have an order, most have none."""
    chance = random.Random(seed)
    verdicts = Counter(_agrees(chance) for _ in range(30))
    assert sum(verdicts.values()) == 30


def _agrees(chance: random.Random) -> bool:
    moments = iter(chance.sample(range(100), 8))
    operations = []
    for version in (1, 2, 3, 4):
        called, answered = sorted((next(moments), next(moments)))
        step = chance.choice(
            [
                read(chance.randrange(3)),
                written(version, chance.randrange(3), -1),
                conflicted(chance.randrange(3), 0),
            ]
        )
        operations.append(operation(called, answered, step))
    verdict = is_linearizable(operations)
    assert verdict == _has_order(operations, 0)
    return verdict


def _has_order(operations: list[Operation], state: int) -> bool:
    """Any operation that began before all others ended may be the first."""
    if not operations:
        return True
    first_answer = min(each.answered for each in operations)
    for each in operations:
        after = each.step(state)
        others = [other for other in operations if other is not each]
        if each.called < first_answer and after is not None and _has_order(others, after):
            return True
    return False


# ------------------------------------------------------------ the store


@pytest.mark.simulation
def test_histories_over_all_faults_are_linearizable() -> None:
    counts: Counter[str] = Counter()
    count("seeds", SEEDS)
    for seed in range(SEEDS):
        counts.update(KvSimulation(seed).go().counts)
    assert counts["operations on keys"] > 20 * SEEDS
    assert counts["two-step reads"] > SEEDS
    assert counts["reads answered under a lease"] > SEEDS
    assert counts["past states told"] > 0


# ------------------------------------------------------------ bugs


def leader_asks_nobody() -> AbstractContextManager[None]:
    """A leader answers strong reads without a round: a deposed one as well."""

    def read_barrier(self: LocalReplica, reply: Callable[[None], None], now_us: None) -> None:
        if self.raft.role.value != "leader":
            original(self, reply, now_us)
        else:
            reply(None)

    original = LocalReplica.read_barrier
    return replaced(LocalReplica, "read_barrier", read_barrier)


def resends_are_done_again() -> AbstractContextManager[None]:
    """The machine forgets what it was asked to do last."""

    def judge(self: KvMachine, index: int, command: object) -> _Last:
        last = original(self, index, command)
        return last._replace(sequence=last.sequence - 1)

    original = KvMachine._judge
    return replaced(KvMachine, "_judge", judge)


def sessions_missing_from_the_snapshot() -> AbstractContextManager[None]:
    """A machine that was made from a snapshot knows no session's last write."""

    def restore(info: object, state: object, limits: object = None) -> KvMachine:
        machine = original(info, state, limits)
        for session, last in machine._sessions.items():
            machine._sessions[session] = last._replace(sequence=0, result=Result.DONE)
        return machine

    original = KvMachine.restore
    return replaced(KvMachine, "restore", staticmethod(restore))


def versions_are_not_compared() -> AbstractContextManager[None]:
    """Every write is done, whatever version it expects."""

    def judge(self: KvMachine, index: int, command: object) -> _Last:
        return original(self, index, dataclasses.replace(command, expected=-1))

    original = KvMachine._judge
    return replaced(KvMachine, "_judge", judge)


FIRST_SEEDS = {
    leader_asks_nobody: 5,
    resends_are_done_again: 2,
    sessions_missing_from_the_snapshot: 3,
    versions_are_not_compared: 1,
}
"""Where to begin the hunt for each bug: a seed that notices it."""


@pytest.mark.simulation
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("bug", FIRST_SEEDS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_the_store_is_noticed(bug: Callable[[], object]) -> None:
    with bug():
        for seed in range(FIRST_SEEDS[bug], FIRST_SEEDS[bug] + 200):
            count("seeds")
            try:
                KvSimulation(seed).go()
            except (*FAILURES, RaftlogError) as found:
                print(f"{bug.__name__}: seed {seed}: {str(found)[:300]}")
                return
    pytest.fail("200 seeds did not notice it")
