"""The simulator is itself tested: each rule is broken once on purpose, and noticed."""

from __future__ import annotations

import pytest

from tests.simulation.planted import BUGS
from tests.simulation.run import Failure, run_seed

SEEDS_MAX = 150

FOUND_AT_ONCE = (
    "acknowledge_before_fsync",
    "vote_not_synced",
    "read_at_the_mark_plus_one",
    "producers_not_deduplicated",
)


def seeds_until_noticed(bug: str, seeds_max: int) -> int | None:
    """How many seeds it took; None: it was not noticed."""
    with BUGS[bug]():
        for seed in range(seeds_max):
            if isinstance(run_seed(seed), Failure):
                return seed + 1
    return None


@pytest.mark.parametrize("bug", FOUND_AT_ONCE)
def test_a_bug_in_plain_sight_is_noticed_by_the_first_seeds(bug: str) -> None:
    assert seeds_until_noticed(bug, 5) is not None


@pytest.mark.simulation
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", sorted(set(BUGS).difference(FOUND_AT_ONCE)))
def test_a_planted_bug_is_noticed_within_a_bounded_number_of_seeds(bug: str) -> None:
    assert seeds_until_noticed(bug, SEEDS_MAX) is not None


def test_without_a_planted_bug_the_same_seeds_pass() -> None:
    with BUGS["read_at_the_mark_plus_one"]():
        assert isinstance(run_seed(0), Failure)
    assert not isinstance(run_seed(0), Failure)
