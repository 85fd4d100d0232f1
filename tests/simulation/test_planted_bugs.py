"""The simulator is itself tested: each rule is broken once on purpose, and noticed.

How soon, and by which checker, is in docs/TESTING.md; `python -m tests.simulation.hunt` makes the
table again.
"""

from __future__ import annotations

import pytest

from raftlog.errors import RaftlogError
from tests.simulation.hunt import hunt
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

FIRST_SEEDS = {
    "alteration_of_an_older_version_applied": 12,
    "any_version_taken": 9,
    "column_id_comes_back": 92,
    "columns_found_by_name": 13,
    "commit_index_unverified": 48,
    "damage_taken_for_healed": 120,
    "former_columns_forgotten": 5,
    "history_of_the_latest_version": 6,
    "id_is_given_again": 48,
    "image_taken_whatever_is_here": 224,
    "install_not_finished": 45,
    "later_column_read_as_zero": 6,
    "observer_takes_what_does_not_follow": 160,
    "old_term_committed_by_counting": 11,
    "older_manifest_taken": 46,
    "plan_not_compared": 150,
    "point_left_out": 15,
    "position_above_the_mark_believed": 60,
    "position_of_another_incarnation_counts": 4,
    "positions_not_read_again": 4,
    "previous_entry_unverified": 48,
    "received_files_not_checked": 318,
    "refused_epoch_overwrites": 215,
    "removed_before_it_is_reported": 20,
    "removed_replica_counts_again": 60,
    "scrub_of_the_beginning": 195,
    "stage_copied_unchecked": 120,
    "state_hash_starts_again": 45,
    "torn_tail_taken_for_whole": 226,
    "trim_by_one_clock": 18,
    "unknown_positions_taken_for_read": 4,
    "unread_bytes_counted_to_the_last_batch": 4,
    "unread_records_go_one_too_soon": 4,
    "unread_records_stay_for_ever": 30,
    "whole_log_acknowledged": 48,
    "writers_keep_the_first_schema": 9,
}
"""Bugs that many seeds do not meet, or late: the hunt begins shortly before one that did."""


@pytest.mark.parametrize("bug", FOUND_AT_ONCE)
def test_a_bug_in_plain_sight_is_noticed_by_the_first_seeds(bug: str) -> None:
    assert hunt(bug, start=0, seeds_max=5).seeds > 0


@pytest.mark.simulation
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("bug", sorted(set(BUGS) - set(FOUND_AT_ONCE) - set(SCRIPTS)))
def test_a_planted_bug_is_noticed_within_a_bounded_number_of_seeds(bug: str) -> None:
    assert hunt(bug, start=FIRST_SEEDS.get(bug, 0), seeds_max=SEEDS_MAX).seeds > 0


@pytest.mark.slow
@pytest.mark.parametrize("bug", sorted(SCRIPTS))
def test_a_bug_that_chance_meets_too_seldom_is_noticed_by_its_script(bug: str) -> None:
    SCRIPTS[bug]()
    with BUGS[bug](), pytest.raises((AssertionError, RaftlogError)):
        SCRIPTS[bug]()


@pytest.mark.slow
def test_without_a_planted_bug_the_same_seeds_pass() -> None:
    with BUGS["read_at_the_mark_plus_one"]():
        assert isinstance(run_seed(0, keep=False), Failure)
    assert not isinstance(run_seed(0), Failure)
