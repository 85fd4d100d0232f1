"""Mutants are one-line bugs that compile, the same ones each time, and as many of each part."""

from __future__ import annotations

import ast
import difflib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutations import PARTS, ROOT, Mutant, draw, mutants_of
from tests.mutants.run import (
    OTHER_TESTS,
    OWN_TESTS,
    RANDOM,
    REQUIRED,
    SEED,
    Outcome,
    Stage,
    change,
    noticed_by,
    part_of,
    run_stage,
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


SMALL_PARTS = {"storage": ("log.py",), "core": ("core",), "cli": ("cli",)}


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """A tree of three parts; the last has the most."""
    (tmp_path / "core").mkdir()
    (tmp_path / "cli/deeper").mkdir(parents=True)
    for file in ("log.py", "core/raft.py", "cli/main.py", "cli/deeper/other.py"):
        (tmp_path / file).write_text(SOURCE)
    (tmp_path / "cli/deeper/text.md").write_text("no program")
    return tmp_path


def test_the_same_seed_draws_the_same_and_another_seed_others(small_tree: Path) -> None:
    def drawn(seed: int) -> list[Mutant]:
        return draw(seed, 6, parts=SMALL_PARTS, root=small_tree)

    assert drawn(1) == drawn(1)
    changes = [{(each.file, each.line, each.after) for each in drawn(seed)} for seed in range(9)]
    assert any(each != changes[0] for each in changes)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(6, (2, 2, 2)), (7, (3, 2, 2)), (8, (3, 3, 2)), (2, (1, 1, 0)), (0, (0, 0, 0))],
)
def test_as_many_are_drawn_of_each_part_however_much_there_is_of_it(
    count: int, expected: tuple[int, int, int], small_tree: Path
) -> None:
    mutants = draw(1, count, parts=SMALL_PARTS, root=small_tree)
    drawn = Counter(map(part_of, mutants))
    assert tuple(drawn[part] for part in SMALL_PARTS) == expected


def test_a_line_is_drawn_once_and_more_of_one_seed_begin_with_the_fewer(small_tree: Path) -> None:
    every = draw(1, 1_000, parts=SMALL_PARTS, root=small_tree)
    assert len({(each.file, each.line) for each in every}) == len(every) > 8
    assert set(draw(1, 6, parts=SMALL_PARTS, root=small_tree)) < set(every)


def made_of(part: str) -> list[Mutant]:
    return list(mutants_of("log.py", SOURCE, part, 1))


def test_a_survivor_counts_unless_it_is_equivalent(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = made_of("storage")
    outcomes = {each.name: Outcome(each.name, "a test", "own tests", 1.0) for each in mutants}
    assert summary(mutants, outcomes)[1]
    survivor = mutants[0]
    outcomes[survivor.name] = Outcome(survivor.name, "", "", 1.0)
    text, is_enough = summary(mutants, outcomes)
    assert f"| storage | {len(mutants)} | {len(mutants) - 1} | 0 | 0 | 1 |" in text
    assert not is_enough
    monkeypatch.setitem(EQUIVALENT, change(survivor), "nothing sees the difference")
    text, is_enough = summary(mutants, outcomes)
    assert f"| storage | {len(mutants)} | {len(mutants) - 1} | 0 | 1 | 0 |" in text
    assert is_enough


def test_only_the_required_parts_decide_whether_enough_is_noticed() -> None:
    required, reported = made_of("storage"), made_of("cli")
    outcomes = {each.name: Outcome(each.name, "a test", "own tests", 1.0) for each in required}
    outcomes |= {each.name: Outcome(each.name, "", "", 1.0) for each in reported}
    text, is_enough = summary([*required, *reported], outcomes)
    assert f"| cli | {len(reported)} | 0 | 0 | 0 | {len(reported)} |" in text
    assert is_enough
    assert summary(reported, outcomes)[1], "nothing was examined that is required"


def test_the_cheapest_tests_come_first_and_a_reported_part_has_only_its_own() -> None:
    for part in PARTS:
        names = [stage.name for stage in stages(part, 1)]
        more = ["other tests", "seeds"] if part in REQUIRED else []
        assert names == ["own tests", *more]


def test_every_part_and_every_folder_of_tests_is_there() -> None:
    assert PARTS.keys() == OWN_TESTS.keys() > set(REQUIRED)
    assert all((ROOT / place).exists() for places in PARTS.values() for place in places)
    for folders in (*OWN_TESTS.values(), OTHER_TESTS):
        assert all((ROOT / "tests" / folder).is_dir() for folder in folders)


def test_what_noticed_a_mutant_is_the_test_that_failed_and_a_hang_is_told_apart() -> None:
    (own, *_) = stages("core", 1)
    failed = "FAILED tests/core/test_quorum.py::test_all - assert 1 == 2\n1 failed"
    assert noticed_by(own, 0, "3 passed") == ""
    assert noticed_by(own, 1, failed) == "tests/core/test_quorum.py::test_all"
    assert noticed_by(own, 1, f"E  Failed: Timeout (>60.0s)\n{failed}").startswith("hangs: tests/")
    assert noticed_by(own, -9, "") == "exit status -9"


@pytest.mark.slow
def test_a_test_that_hangs_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    name = f"test_{'that_has_a_long_name_' * 9}"
    (tmp_path / "test_endless.py").write_text(f"def {name}():\n    while True: pass\n")
    (own, *_) = stages("core", 1)
    command = [*own.command[: own.command.index("-m", 3)], "-o", "timeout=1", "test_endless.py"]
    found = run_stage(Stage("own tests", command), tmp_path, time.monotonic() + 60)
    assert found == f"hangs: test_endless.py::{name}"
    assert run_stage(Stage("own tests", command), tmp_path, 0.0) == "hangs: own tests"


@pytest.mark.slow
def test_the_own_tests_of_a_part_are_found_without_the_plugins_that_a_mutant_does_without() -> None:
    command = [*stages("replica", 0)[0].command, "--collect-only"]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout


@pytest.mark.slow
def test_what_is_drawn_by_default_is_of_all_parts_alike() -> None:
    drawn = Counter(map(part_of, draw(SEED, RANDOM)))
    assert drawn == dict.fromkeys(PARTS, RANDOM // len(PARTS))
    assert RANDOM // len(PARTS) >= 20


def test_every_survivor_that_is_explained_can_still_be_made() -> None:
    assert not EQUIVALENT.keys() & UNNOTICED.keys()
    for explained in (*EQUIVALENT, *UNNOTICED):
        source = (ROOT / explained.file).read_text(encoding="utf-8")
        assert explained in set(map(change, mutants_of(explained.file, source, "core", SEED)))


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
