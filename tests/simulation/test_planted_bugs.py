"""The simulator is itself tested: each rule is broken once on purpose, and noticed.

How soon, and by which checker, is in docs/TESTING.md; `python -m tests.simulation.hunt` makes the
table again.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from raftlog.errors import RaftlogError
from tests.costs import count, seed_of_the_day
from tests.simulation.hunt import first_seeds, hunt
from tests.simulation.planted import BUGS
from tests.simulation.run import Failure, run_seed
from tests.simulation.scripted import SCRIPTS

SEEDS_MAX = 200

FOUND_AT_ONCE = (
    "acknowledge_before_fsync",
    "vote_not_synced",
    "read_at_the_mark_plus_one",
    "term_and_vote_written_apart",
)
HUNTED = sorted(set(BUGS) - set(FOUND_AT_ONCE) - set(SCRIPTS))


@pytest.mark.parametrize("bug", FOUND_AT_ONCE)
def test_a_bug_in_plain_sight_is_noticed_soon(bug: str) -> None:
    _hunt(bug, 5)


@pytest.mark.simulation
@pytest.mark.timeout(1_200)
def test_some_planted_bugs_are_noticed_within_a_bounded_number_of_seeds() -> None:
    """Others every day; all of them in the long version. Replay: PLANTED_SEED=<seed>."""
    for bug in drawn(HUNTED):
        _hunt(bug, SEEDS_MAX)


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("bug", HUNTED)
def test_a_planted_bug_is_noticed_within_a_bounded_number_of_seeds(bug: str) -> None:
    _hunt(bug, SEEDS_MAX)


def drawn(bugs: Sequence[str]) -> list[str]:
    seed = seed_of_the_day("PLANTED_SEED")
    found = Random(seed).sample(bugs, len(bugs) // 3)
    print(f"seed {seed}: {', '.join(found)}")
    return found


def _hunt(bug: str, seeds_max: int) -> None:
    found = hunt(bug, start=first_seeds().get(bug, 0), seeds_max=seeds_max)
    assert found.seeds > 0
    count("seeds", found.seeds)


@pytest.mark.slow
def test_some_bugs_that_chance_meets_too_seldom_are_noticed_by_their_scripts() -> None:
    """Others every day; all of them in the long version. Replay: PLANTED_SEED=<seed>."""
    for bug in drawn(sorted(SCRIPTS)):
        _notice(bug)


@pytest.mark.soak
@pytest.mark.parametrize("bug", sorted(SCRIPTS))
def test_a_bug_that_chance_meets_too_seldom_is_noticed_by_its_script(bug: str) -> None:
    _notice(bug)


def _notice(bug: str) -> None:
    SCRIPTS[bug]()
    with BUGS[bug](), pytest.raises((AssertionError, RaftlogError)):
        SCRIPTS[bug]()


@pytest.mark.slow
def test_without_a_planted_bug_the_same_seeds_pass() -> None:
    with BUGS["read_at_the_mark_plus_one"]():
        assert isinstance(run_seed(0, keep=False), Failure)
    assert not isinstance(run_seed(0), Failure)
