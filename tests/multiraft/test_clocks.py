"""What time a majority of the voters' clocks confirm."""

from __future__ import annotations

import pytest

from raftlog.core.membership import Membership
from raftlog.core.types import NodeId
from raftlog.multiraft.clocks import ClockSteps, VoterClocks

VOTERS = Membership((NodeId(1), NodeId(2), NodeId(3)))
YEAR = 365 * 86_400 * 1_000_000
NOON = 1_700_000_000_000_000


class Times:
    """Effects of which only the clocks are asked."""

    def __init__(self) -> None:
        self.passed_us = 0
        self.wall_us = NOON

    def monotonic_us(self) -> int:
        return self.passed_us

    def clock_us(self) -> int:
        return self.wall_us + self.passed_us


def node_1(times: Times) -> VoterClocks:
    return VoterClocks(NodeId(1), times)  # type: ignore[arg-type]


def test_one_clock_a_year_ahead_confirms_nothing_whosever_it_is() -> None:
    times = Times()
    clocks = node_1(times)
    clocks.heard(NodeId(2), NOON - 5)
    clocks.heard(NodeId(3), NOON + YEAR)
    assert clocks.confirmed_us(VOTERS) == NOON
    times.wall_us += YEAR
    clocks.heard(NodeId(3), NOON - 7)
    assert clocks.confirmed_us(VOTERS) == NOON - 5


def test_clocks_run_on_between_heartbeats() -> None:
    times = Times()
    clocks = node_1(times)
    clocks.heard(NodeId(2), NOON - 5)
    times.passed_us += 1_000_000
    assert clocks.confirmed_us(VOTERS) == NOON - 5 + 1_000_000
    times.wall_us += YEAR
    assert clocks.confirmed_us(VOTERS) == NOON - 5 + 1_000_000, "this node's clock has jumped"


def test_without_the_clocks_of_a_majority_no_time_is_confirmed() -> None:
    clocks = node_1(Times())
    assert clocks.confirmed_us(VOTERS) is None
    clocks.heard(NodeId(2), 0)
    assert clocks.confirmed_us(VOTERS) is None, "its clock is not told"
    assert clocks.confirmed_us(Membership((NodeId(1),))) == NOON


def test_where_no_time_is_confirmed_the_earliest_known_clock_counts() -> None:
    """A change of members is under way to one that is down; this node's clock is a year ahead."""
    times = Times()
    times.wall_us += YEAR
    clocks = node_1(times)
    assert clocks.earliest_us(VOTERS) == NOON + YEAR, "it knows no other"
    clocks.heard(NodeId(2), NOON - 5)
    times.passed_us += 1_000
    joint = Membership((NodeId(1), NodeId(3)), outgoing=VOTERS.voters)
    assert clocks.confirmed_us(joint) is None
    assert clocks.earliest_us(joint) == NOON - 5 + 1_000


def test_a_clock_counts_only_where_its_node_votes() -> None:
    """An observer, or a node that was removed, could hold the time of all groups back."""
    clocks = node_1(Times())
    clocks.heard(NodeId(2), NOON - 5)
    clocks.heard(NodeId(4), NOON - YEAR)
    joint = Membership((NodeId(1), NodeId(3)), outgoing=VOTERS.voters)
    assert clocks.confirmed_us(joint) is None
    assert clocks.earliest_us(joint) == NOON - 5


def test_half_of_an_even_number_of_voters_is_no_majority() -> None:
    voters = Membership((*VOTERS.voters, NodeId(4)))
    clocks = node_1(Times())
    clocks.heard(NodeId(2), NOON + YEAR)
    clocks.heard(NodeId(3), NOON + YEAR)
    clocks.heard(NodeId(4), NOON - 3)
    assert clocks.confirmed_us(voters) == NOON


def test_what_is_no_time_is_not_believed() -> None:
    """The earliest clock counts where too few are known."""
    times = Times()
    clocks = node_1(times)
    for clock_us in (-(2**63), -1, 2**63 - 1):
        clocks.heard(NodeId(2), clock_us)
    assert clocks.earliest_us(VOTERS) == NOON
    assert clocks.confirmed_us(VOTERS) is None


HOUR = 3_600 * 1_000_000


def stepped(*noted: tuple[int, int]) -> ClockSteps:
    """Each after so many hours, by how many hours the time is wrong."""
    steps = ClockSteps()
    for hour, wrong in noted:
        steps.note(NOON + (hour + wrong) * HOUR, hour * HOUR)
    return steps


@pytest.mark.parametrize(
    ("noted", "within"),
    [
        ([], [0, 0, 0]),
        ([(0, -9)], [0, 0, 0]),
        ([(0, 0), (8, 0)], [0, 0, 0]),
        ([(5, -9), (8, 0)], [0, 9, 9]),
        ([(0, -9), (5, -9), (6, 0), (8, 0)], [0, 9, 9]),
        ([(0, -9), (5, -4), (8, 0)], [0, 4, 9]),
        ([(0, -4), (5, -9), (8, 0)], [0, 9, 9]),
        ([(0, 9), (8, 0)], [0, 0, 0]),
        ([(0, -9), (7, 3), (8, 0)], [0, 0, 9]),
    ],
)
def test_what_was_stamped_before_the_time_was_set_forward_is_no_older(
    noted: list[tuple[int, int]], within: list[int]
) -> None:
    steps = stepped(*noted)
    assert [steps.within_us(hours * HOUR) // HOUR for hours in (2, 3, 8)] == within


def test_a_clock_that_drifts_is_not_set() -> None:
    steps = ClockSteps()
    for hour in range(100):
        steps.note(NOON + hour * (HOUR + 500_000), hour * HOUR)
    assert steps.within_us(100 * HOUR) == 0


def test_steps_without_end_are_bounded_and_make_nothing_older() -> None:
    steps = stepped(*[(hour, hour) for hour in range(1_000)])
    assert len(steps._steps) <= 8
    assert steps.within_us(500 * HOUR) == 999 * HOUR
    assert steps.within_us(HOUR) == HOUR
