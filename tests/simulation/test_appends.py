"""Rows that many threads append through one real client are in the log once, under all faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from raftlog.client.producer import Producer, Rows
from raftlog.client.retries import Deadline
from raftlog.client.shared_producers import _CHANGES_MAX, SharedProducers, Topic, _key
from raftlog.errors import DeadlineExceeded, ProducerClosed, SchemaMismatch
from raftlog.machines.outcomes import Appended
from raftlog.wire.calls import APPEND
from tests.costs import count
from tests.simulation.appends import AppendSimulation
from tests.simulation.planting import replaced
from tests.simulation.promises import Violation

SEEDS = 3
MANY_SEEDS = 200
SEEDS_MAX = 100

IN_USE = "was interrupted"
"""Why a producer is closed until its call has ended."""


@pytest.mark.slow
def test_rows_that_threads_append_through_one_client_are_there_once() -> None:
    _run(SEEDS)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_rows_that_threads_append_through_one_client_are_there_once_in_many_seeds() -> None:
    counts = _run(MANY_SEEDS)
    assert counts["appends that raised DeadlineExceeded"] > 0
    assert counts["resent appends recognised"] > 0


def _run(seeds: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    count("seeds", seeds)
    for seed in range(seeds):
        counts.update(AppendSimulation(seed).go().counts)
    assert counts["appends that returned"] > 10 * seeds
    assert counts["appends that raised SchemaMismatch"] > seeds
    assert counts["columns renamed"] > seeds
    return counts


@pytest.mark.slow
def test_a_seed_is_one_history_of_threads() -> None:
    count("seeds", 2)
    one, other = AppendSimulation(4), AppendSimulation(4)
    assert one.go().trace == other.go().trace
    assert (one.appended, one.raised) == (other.appended, other.raised)


# ------------------------------------------------------------ bugs


def another_producer_is_judged() -> AbstractContextManager[None]:
    """After an append failed, the client looks at the producer that is there now: perhaps a newer
    one of another thread."""

    def append(self: SharedProducers, topic: Topic, data: Rows) -> Appended:
        deadline = self._connection.deadline(APPEND.name)
        for left in reversed(range(_CHANGES_MAX)):
            try:
                return once(self, topic, data, deadline)
            except SchemaMismatch:
                there = self._producers.get(_key(topic))
                if (
                    not left
                    or there is None
                    or there._ended_by is not None
                    or IN_USE in there._problem
                ):
                    raise
                if not self._has_changed(there.topic, topic, deadline):
                    raise
                self._forget(_key(topic), there)
        raise AssertionError("the last try returns or raises")

    def once(self: SharedProducers, topic: Topic, data: Rows, deadline: Deadline) -> Appended:
        while True:
            producer = self._producers.get(_key(topic)) or self._make(_key(topic), topic, deadline)
            try:
                return producer.append_and_flush(data, deadline.remaining_s())
            except ProducerClosed as error:
                self._forget(_key(topic), producer)
                if deadline.remaining_s() <= 0:
                    raise deadline.error(error) from None

    return replaced(SharedProducers, "append", append)


def a_part_that_was_taken_is_forgotten() -> AbstractContextManager[None]:
    """An append is sent again although its first entries are in the log."""
    return replaced(Producer, "may_have_taken", lambda self, error: False)


def unknown_outcome_sent_again() -> AbstractContextManager[None]:
    """An append whose deadline has passed is sent again by a new producer."""

    def append(self: SharedProducers, topic: Topic, data: Rows) -> Appended:
        try:
            return original(self, topic, data)
        except DeadlineExceeded:
            return original(self, topic, data)

    original = SharedProducers.append
    return replaced(SharedProducers, "append", append)


FIRST_SEEDS = {
    another_producer_is_judged: 61,
    a_part_that_was_taken_is_forgotten: 2,
    unknown_outcome_sent_again: 1,
}
"""Where to begin the hunt for each bug: a seed that notices it."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", FIRST_SEEDS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_the_client_is_noticed(bug: Callable[[], AbstractContextManager]) -> None:
    with bug():
        for seed in range(FIRST_SEEDS[bug], FIRST_SEEDS[bug] + SEEDS_MAX):
            count("seeds")
            try:
                AppendSimulation(seed).go()
            except Violation as found:
                print(f"{bug.__name__}: seed {seed}: {str(found)[:300]}")
                return
    pytest.fail(f"{SEEDS_MAX} seeds did not notice it")
