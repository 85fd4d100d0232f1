"""docs/CHECKLIST.md has all 79 rows, and every test that it and docs/TESTING.md name exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "CHECKLIST.md").read_text(encoding="utf-8")
ROWS = [
    (int(number), shown)
    for number, shown in re.findall(r"^\| (\d+) \| .* \| ([^|]*) \|$", TEXT, re.MULTILINE)
]


def test_every_mechanism_has_its_row() -> None:
    assert [number for number, _ in ROWS] == list(range(1, 80))


def test_nothing_is_put_off() -> None:
    """`next` would be a row whose mechanism is not built."""
    assert re.findall(r"\bnext\b", TEXT, re.IGNORECASE) == []


def test_every_row_names_tests_and_each_exists() -> None:
    missing = []
    for number, shown in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`", shown)
        if not named:
            missing.append((number, shown))
        for file, function in named:
            path = ROOT / file
            if not path.exists() or (function and function not in _functions(path)):
                missing.append((number, f"{file}::{function}"))
    assert missing == []


def test_every_row_names_a_test_that_make_test_runs() -> None:
    """And not only a benchmark or a long version that `make soak` runs."""
    idle = []
    for number, shown in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`", shown)
        if not any(_runs_in_make_test(ROOT / file, function) for file, function in named):
            idle.append(number)
    assert idle == []


def test_a_long_version_or_a_benchmark_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("@pytest.mark.soak\ndef test_long(): ...\ndef test_short(): ...\n")
    assert not _runs_in_make_test(file, "test_long")
    whole = tmp_path / "test_whole.py"
    whole.write_text("pytestmark = pytest.mark.soak\ndef test_short(): ...\n")
    assert not _runs_in_make_test(whole, "test_short")
    assert _runs_in_make_test(file, "test_short")
    assert _runs_in_make_test(file, "")
    assert not _runs_in_make_test(ROOT / "tests" / "bench" / "observers.py", "")


def test_every_test_that_guards_a_dangerous_rule_exists() -> None:
    text = (ROOT / "docs" / "TESTING.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### Rules that have cost other systems data")
    table, _, _ = section.partition("###")
    missing, file, count = [], "", 0
    for named, function in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", table):
        file, count = named or file, count + 1
        if function not in _functions(ROOT / file):
            missing.append(f"{file}::{function}")
    assert missing == []
    assert count > 20


def _runs_in_make_test(path: Path, function: str) -> bool:
    if path.suffix == ".txt":
        return True  # a dialogue
    return any(not is_long for name, is_long in _tests(path) if function in ("", name))


@cache
def _tests(path: Path) -> list[tuple[str, bool]]:
    """The tests of a file, and which of them are long versions."""
    text = path.read_text(encoding="utf-8")
    all_long = re.search(r"^pytestmark = .*mark\.soak\b", text, re.MULTILINE) is not None
    return [
        (
            node.name,
            all_long or any(ast.unparse(each)[-9:] == "mark.soak" for each in node.decorator_list),
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _functions(path: Path) -> set[str]:
    return set(re.findall(r"^ *def (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
