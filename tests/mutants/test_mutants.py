"""Mutants are one-line bugs that compile, the same ones each time; explanations name drawn ones."""

from __future__ import annotations

import ast
import difflib
import os
import signal
import subprocess
import sys
from functools import cache

import pytest

from tests.mutants.mutations import PARTS, ROOT, Mutant, draw, mutants_of
from tests.mutants.run import (
    OWN_TESTS,
    PER_PART,
    SEED,
    Outcome,
    change,
    noticed_by,
    stages,
    summary,
)
from tests.mutants.survivors import EQUIVALENT, UNNOTICED

SOURCE = '''
class Log:
    def __init__(self, first: int = 1) -> None:
        self.first = first

    def append(self, index: int, *, durable: bool) -> None:
        """Text stays."""
        assert index > 0, "an assertion stays"
        if index <= self.first and not durable:
            raise ValueError(f"{index + 1}")
        self.first = index + 1
        self.notify(max(index, 7))
'''

EXPECTED = {
    "if index < self.first and not durable:",
    "if not (index <= self.first and not durable):",
    "if index <= self.first or not durable:",
    "if index <= self.first:",
    "if not durable:",
    "if index <= self.first and durable:",
    "pass",
    "self.first = index - 1",
    "self.first = index + 2",
    "self.notify(min(index, 7))",
    "self.notify(max(index, 8))",
}


@cache
def drawn() -> list[Mutant]:
    return draw(SEED, PER_PART)


def test_a_function_s_mutants_are_what_the_rules_say() -> None:
    made = list(mutants_of("log.py", SOURCE, "storage", 1))
    assert {each.after for each in made} == EXPECTED
    assert {each.function for each in made} == {"Log.append"}
    assert len({each.name for each in made}) == len(made)


def test_a_mutant_changes_one_line_and_compiles() -> None:
    for each in mutants_of("log.py", SOURCE, "storage", 1):
        changed = each.apply(SOURCE)
        ast.parse(changed)
        lines = difflib.ndiff(SOURCE.splitlines(), changed.splitlines())
        kept = [line for line in lines if line[0] in "+-"]
        assert [line[2:].strip() for line in kept] == [each.before, each.after]


def test_the_same_seed_names_a_mutant_alike_while_other_lines_move() -> None:
    names = {each.name for each in mutants_of("log.py", SOURCE, "storage", 1)}
    moved = "\n\n" + SOURCE.replace("Text stays", "Another text")
    assert {each.name for each in mutants_of("log.py", moved, "storage", 1)} == names
    assert {each.name for each in mutants_of("log.py", SOURCE, "storage", 2)}.isdisjoint(names)


def test_a_survivor_counts_unless_it_is_equivalent() -> None:
    mutants = list(mutants_of("log.py", SOURCE, "storage", 1))
    outcomes = {each.name: Outcome(each.name, "a test", "own tests", 1.0) for each in mutants}
    assert summary(mutants, outcomes)[1]
    survivor = mutants[0].name
    outcomes[survivor] = Outcome(survivor, "", "", 1.0)
    text, is_enough = summary(mutants, outcomes)
    assert "1 survive" in text
    assert not is_enough


def test_what_noticed_a_mutant_is_the_test_that_failed_and_a_hang_is_told_apart() -> None:
    (own, *_) = stages("core", 1)
    failed = "FAILED tests/core/test_quorum.py::test_all - assert 1 == 2\n1 failed"
    assert noticed_by(own, 0, "3 passed") == ""
    assert noticed_by(own, 1, failed) == "tests/core/test_quorum.py::test_all"
    assert noticed_by(own, 1, f"E  Failed: Timeout (>60.0s)\n{failed}").startswith("hangs: tests/")
    assert noticed_by(own, -9, "") == "exit status -9"


@pytest.mark.slow
def test_at_least_120_mutants_are_drawn_evenly_and_explanations_are_of_drawn_ones() -> None:
    mutants = drawn()
    assert len(mutants) >= 120
    parts = [each.name.partition("-")[0] for each in mutants]
    assert {part: parts.count(part) for part in PARTS} == dict.fromkeys(PARTS, PER_PART)
    assert {change(each) for each in mutants} >= {*EQUIVALENT, *UNNOTICED}
    assert not {*EQUIVALENT} & {*UNNOTICED}
    for folders in OWN_TESTS.values():
        assert all((ROOT / "tests" / folder).is_dir() for folder in folders)


@pytest.mark.slow
def test_the_list_ends_quietly_when_its_reader_has_gone() -> None:
    """As under `| head`."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.mutants.run", "--list"],
        cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (-signal.SIGPIPE, "")
