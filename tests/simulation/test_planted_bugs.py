"""The simulator is itself tested: each rule is broken once on purpose, and noticed.

How soon, and by which checker, is in docs/TESTING.md; `python -m tests.simulation.hunt` makes the
table again.
"""

from __future__ import annotations

import pytest

from raftlog.errors import RaftlogError
from tests.costs import count
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
    "abort_undoes_an_applied_epoch": 9,
    "any_version_taken": 19,
    "base_not_in_the_manifest": 21,
    "base_past_a_live_extent": 12,
    "bytes_counted_in_log_and_history": 6,
    "bytes_of_merged_batches_counted": 14,
    "carried_stage_forgotten": 18,
    "column_id_comes_back": 32,
    "columns_found_by_name": 23,
    "commit_index_unverified": 60,
    "divided_extent_dropped": 7,
    "duplicated_vote_counted_twice": 5,
    "empty_overwrite_keeps_what_was_there": 9,
    "extents_dropped_past_history": 11,
    "file_of_another_generation_opened": 14,
    "id_is_given_again": 15,
    "image_taken_whatever_is_here": 679,
    "install_not_finished": 25,
    "late_read_sent_unchecked": 125,
    "log_dropped_before_the_manifest": 21,
    "new_voters_decide_alone": 9,
    "observer_takes_what_does_not_follow": 84,
    "open_stage_not_carried": 30,
    "overwrite_keeps_the_last_record": 7,
    "overwrite_keeps_what_was_there": 7,
    "overwrite_outside_the_log": 7,
    "parent_gives_what_is_not_committed": 13,
    "plan_not_compared": 40,
    "point_left_out": 16,
    "position_above_the_mark_believed": 17,
    "previous_entry_unverified": 60,
    "received_files_not_checked": 56,
    "records_written_twice": 22,
    "refused_epoch_overwrites": 40,
    "removed_before_it_is_reported": 15,
    "removed_replica_counts_again": 19,
    "rewound_stream_taken_for_a_replay": 112,
    "scrub_of_the_beginning": 359,
    "scrub_tells_what_a_compaction_removed": 25,
    "stage_copied_unchecked": 1334,
    "torn_tail_taken_for_whole": 163,
    "trim_forgotten_by_the_snapshot": 9,
    "two_votes_in_a_term": 11,
    "unread_bytes_counted_to_the_last_batch": 10,
    "unread_records_stay_for_ever": 28,
    "vote_for_any_log": 6,
    "whole_log_acknowledged": 60,
    "writers_keep_the_first_schema": 19,
}
"""Bugs that many seeds do not meet, or late: the hunt begins shortly before one that did."""


@pytest.mark.parametrize("bug", FOUND_AT_ONCE)
def test_a_bug_in_plain_sight_is_noticed_by_the_first_seeds(bug: str) -> None:
    _hunt(bug, 0, 5)


@pytest.mark.simulation
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("bug", sorted(set(BUGS) - set(FOUND_AT_ONCE) - set(SCRIPTS)))
def test_a_planted_bug_is_noticed_within_a_bounded_number_of_seeds(bug: str) -> None:
    _hunt(bug, FIRST_SEEDS.get(bug, 0), SEEDS_MAX)


def _hunt(bug: str, start: int, seeds_max: int) -> None:
    found = hunt(bug, start=start, seeds_max=seeds_max)
    assert found.seeds > 0
    count("seeds", found.seeds)


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
