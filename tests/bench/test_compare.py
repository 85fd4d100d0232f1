"""How two trees are compared: ratios, their spread, and when one is worse."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.bench.compare import Compared, compare
from tests.bench.figures import Figure
from tests.bench.pieces import Piece
from tests.bench.place import CannotRun
from tests.bench.rounds import run_against
from tests.bench.run import main
from tests.bench.systems import Tally, cpu_figures
from tests.bench.trees import Tree, UnknownRevision, this_tree, tree_of


def rounds(name: str, unit: str, *values: float) -> list[Figure]:
    return [Figure(name=name, value=value, unit=unit, about="") for value in values]


def one(here: list[Figure], there: list[Figure]) -> Compared:
    [found] = compare(here, there)
    return found


def test_a_ratio_is_of_the_medians_and_its_spread_of_the_rounds() -> None:
    found = one(rounds("x_ms", "ms", 3.0, 1.0, 2.0), rounds("x_ms", "ms", 2.0, 4.0, 1.0))
    assert (found.here, found.there, found.ratio) == (2.0, 2.0, 1.0)
    assert (found.best, found.worst) == (0.25, 2.0)


def test_above_one_this_tree_is_worse_for_throughput_too() -> None:
    slower = one(rounds("x", "MB/s", 100.0), rounds("x", "MB/s", 150.0))
    assert slower.ratio == 1.5
    dearer = one(rounds("x", "ms/MB", 3.0), rounds("x", "ms/MB", 2.0))
    assert dearer.ratio == 1.5


def test_a_target_says_which_direction_is_better() -> None:
    more = one(
        rounds("crumbs_scan_ratio", "times", 5.0), rounds("crumbs_scan_ratio", "times", 10.0)
    )
    assert more.ratio == 2.0


def test_nothing_over_nothing_is_no_difference() -> None:
    assert one(rounds("x", "calls", 0), rounds("x", "calls", 0)).ratio == 1.0
    assert one(rounds("x", "calls", 1), rounds("x", "calls", 0)).ratio == math.inf


@pytest.mark.parametrize(
    ("here", "worse"),
    [
        ((1.04, 1.05, 1.2), True),
        ((1.04, 1.03, 1.2), False),  # the better end is allowed
        ((2.0, 0.9, 2.0), False),  # a round disagrees
        ((0.5, 0.5, 0.5), False),
    ],
)
def test_a_figure_is_worse_only_if_every_round_says_so(
    here: tuple[float, ...], worse: bool
) -> None:
    there = rounds("x_ms", "ms", 1.0, 1.0, 1.0)
    assert one(rounds("x_ms", "ms", *here), there).is_worse is worse


def test_a_figure_of_only_one_tree_is_left_out() -> None:
    assert compare(rounds("new", "ms", 1.0), rounds("old", "ms", 1.0)) == []


def test_processor_time_is_of_all_processes_and_of_each_follower_on_average() -> None:
    tally = Tally(followers=2)
    done = {"operations": 10, "data_bytes": 1000, "seconds": 1.0, "samples_ns": [1, 2]}
    for _ in range(2):
        tally.add(done, {"client": 0.1, "leader": 0.2, "followers": 0.3})
    figures = cpu_figures("append", tally, tally.operations, "ms/append", 1e3)
    assert {each.name: round(each.value, 6) for each in figures} == {
        "append_cpu": 60.0,
        "append_cpu_client": 10.0,
        "append_cpu_leader": 20.0,
        "append_cpu_follower": 15.0,
    }


def test_an_unknown_revision_is_an_error_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "floor", "--against", "no-such-revision"])
    assert ended.value.code == 2
    assert "no-such-revision" in capsys.readouterr().err


def test_the_gate_needs_something_to_compare_with() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--gate"])
    assert ended.value.code == 2


@pytest.mark.slow
def test_a_worktree_has_the_revisions_files_without_its_tests_and_is_removed() -> None:
    with tree_of("HEAD") as tree:
        assert (tree.root / "raftlog" / "__init__.py").exists()
        assert not (tree.root / "tests").exists()
        assert tree.environment["PYTHONPATH"].startswith(f"{tree.root}:")
    assert not tree.root.parent.exists()


def test_git_says_why_a_revision_is_none() -> None:
    with pytest.raises(UnknownRevision, match="no-such-revision"), tree_of("no-such-revision"):
        pass


@pytest.mark.slow
def test_what_another_tree_lacks_is_named_with_the_piece(tmp_path: Path) -> None:
    (tmp_path / "raftlog").mkdir()
    (tmp_path / "raftlog" / "__init__.py").touch()
    bare = Tree(name="bare", root=tmp_path, commit="0")
    with pytest.raises(CannotRun, match=r"bare: ModuleNotFoundError: .*raftlog\."):
        run_against("floor", Piece("floor", "floor"), bare, this_tree(), 1, closed=False)
