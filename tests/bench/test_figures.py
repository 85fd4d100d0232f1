"""How figures compare with their targets, and what is read of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from raftlog.chaos.cluster import PATIENCE_S
from tests.bench.figures import TARGETS, Figure, Level, Target, level_of
from tests.bench.pieces import LONG_PIECES, PIECES, Piece
from tests.bench.processes import (
    MemoryWatch,
    cpu_s,
    memory_bytes,
    spent_s,
    thread_times_ns,
    tree_cpu_s,
)
from tests.bench.rows import rows
from tests.bench.run import markdown

AT_MOST = Target(first_landing=2.0, aim=1.0, lower_is_better=True)
AT_LEAST = Target(first_landing=100, aim=200, lower_is_better=False)


@pytest.mark.parametrize(
    ("target", "value", "level"),
    [
        (AT_MOST, 1.0, Level.AIM),
        (AT_MOST, 1.1, Level.FIRST_LANDING),
        (AT_MOST, 2.1, Level.SHORT),
        (AT_LEAST, 200, Level.AIM),
        (AT_LEAST, 199, Level.FIRST_LANDING),
        (AT_LEAST, 99, Level.SHORT),
    ],
)
def test_a_figure_reaches_the_best_level_it_can(target: Target, value: float, level: Level) -> None:
    assert target.level(value) is level


def test_every_target_has_an_aim_no_easier_than_its_first_landing() -> None:
    for name, target in TARGETS.items():
        assert (target.first_landing, target.aim) != (None, None), name
        if target.first_landing is not None and target.aim is not None:
            better = target.aim < target.first_landing
            assert better is target.lower_is_better, name


def test_a_figure_without_a_target_has_no_level() -> None:
    figure = Figure(name="echo_p50_ms", value=1.0, unit="ms", about="")
    assert level_of(figure) is Level.NO_TARGET


def test_the_table_for_the_document_has_a_row_for_each_figure_with_its_level() -> None:
    figure = Figure(name="append_p50_ms", value=1.25, unit="ms", about="", detail={"max_ms": 9})
    origin, *_, row = markdown([figure], "--only log", "abc123").splitlines()
    assert origin == '`make bench ARGS="--only log"` at abc123'
    assert row == "| append_p50_ms | 1.25 ms | 1.5 | 0.72 | first landing | max_ms 9 |"


def test_the_long_list_has_every_piece_of_the_short_one() -> None:
    assert PIECES.keys() < LONG_PIECES.keys()


def test_memory_that_came_and_went_is_seen_as_the_highest() -> None:
    before = memory_bytes(os.getpid())
    with MemoryWatch([os.getpid()]) as watch:
        held = b"x" * (64 << 20)
        watch.look()
        del held
    assert watch.most("RssAnon") >= before["RssAnon"] + (60 << 20)


def worked_s(least_s: float) -> float:
    """Work until this process has spent at least so much processor time; how much it was."""
    before_s, deadline_s = time.process_time(), time.monotonic() + PATIENCE_S
    while time.process_time() < before_s + least_s:
        assert time.monotonic() < deadline_s, "the processor time of this process stands still"
        sum(range(10_000))
    return time.process_time() - before_s


def test_cpu_time_is_what_the_process_has_spent() -> None:
    before_s = cpu_s(os.getpid())
    spent = worked_s(0.1)
    assert cpu_s(os.getpid()) - before_s == pytest.approx(spent, abs=0.03), "steps of 10 ms"


@pytest.mark.slow
def test_the_time_of_a_tree_has_that_of_children_which_have_ended() -> None:
    before_s = tree_cpu_s(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert tree_cpu_s(os.getpid()) >= before_s + 0.05


def test_thread_times_are_what_all_threads_have_spent() -> None:
    before, worked, waits = thread_times_ns(os.getpid()), threading.Event(), threading.Event()

    def work() -> None:
        sum(range(2_000_000))
        worked.set()
        waits.wait(PATIENCE_S)

    worker = threading.Thread(target=work)
    spent_before_s = time.process_time()
    worker.start()
    try:
        assert worked.wait(PATIENCE_S)
        after = thread_times_ns(os.getpid())
        spent = time.process_time() - spent_before_s
    finally:
        waits.set()
        worker.join()
    assert worker.native_id is not None
    assert after[worker.native_id] > 0
    assert spent_s(before, after) == pytest.approx(spent, abs=0.01)


def test_time_between_two_looks_counts_new_threads_whole_and_no_ended_ones() -> None:
    assert spent_s({1: 5_000_000, 2: 7_000_000}, {1: 9_000_000, 3: 1_000_000}) == 0.005


@pytest.mark.parametrize("piece", LONG_PIECES.values(), ids=LONG_PIECES.keys())
def test_every_piece_names_a_function_that_exists(piece: Piece) -> None:
    assert callable(piece.load())


@pytest.mark.slow
def test_rows_are_numbered_without_a_gap() -> None:
    first, second = rows(0, 1500), rows(1500, 10)
    assert first["id"].to_pylist() + second["id"].to_pylist() == list(range(1510))
    assert first["name"][1001].as_py() == "customer-1"
    assert first.schema == second.schema
