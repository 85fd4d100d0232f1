"""`make bench --against`: this tree and a worktree, each with its own processes, in turns."""

from __future__ import annotations

import pytest

from tests.bench.compare import compare
from tests.bench.pieces import Piece
from tests.bench.rounds import run_against
from tests.bench.trees import this_tree, tree_of

WAYS = {"append", "record", "batches"}
PROCESSES = {"client", "leader", "follower"}


@pytest.mark.soak
@pytest.mark.parametrize("closed", [False, True])
def test_a_tree_is_compared_with_a_revision_figure_by_figure(closed: bool) -> None:
    with tree_of("HEAD") as other:
        piece = Piece("log", "smallest_log", in_turns=True)
        sides = run_against("log", piece, this_tree(), other, 1, closed=closed)
    compared = {each.name: each for each in compare(sides.here, sides.there)}
    assert len(sides.here) == len(sides.there) == len(compared)
    assert {"append_p50_ms", "append_p99_ms", "records_per_s", "read_mb_per_s"} <= compared.keys()
    assert {f"{way}_cpu_{process}" for way in WAYS for process in PROCESSES} <= compared.keys()
    for each in compared.values():
        assert each.here > 0, each
        assert each.there > 0, each
        assert each.best <= each.worst
