"""SECURITY.md says who is trusted with what, and names for each promise the tests that prove it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "SECURITY.md"
SECTIONS = ["Whom raftlog trusts", "Severities", "Promises", "What is not promised", "Reporting"]
_TESTS = re.compile(r"Tests?: ((?:`[^`]+`(?:,\s+)?)+)\.$")
_TEST_FILE = re.compile(r"`(tests/[^`]+)`")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def promises() -> list[str]:
    """The items of the section, each on one line."""
    items = re.split(r"^- ", sections()["Promises"], flags=re.MULTILINE)[1:]
    return [" ".join(item.split()) for item in items]


def holds_tests(name: str) -> bool:
    path = ROOT / name
    is_test = path.name.startswith("test_") and path.suffix == ".py"
    return is_test and path.is_file() and "\ndef test_" in path.read_text(encoding="utf-8")


def test_the_page_has_its_sections_and_the_table_of_who_is_trusted() -> None:
    assert list(sections()) == SECTIONS
    table = [line for line in sections()[SECTIONS[0]].splitlines() if line.startswith("|")]
    assert len(table) > 5
    assert {line.count("|") for line in table} == {4}


def test_each_promise_ends_with_the_tests_that_prove_it() -> None:
    assert len(promises()) > 10
    for promise in promises():
        found = _TESTS.search(promise)
        assert found is not None, promise
        names = _TEST_FILE.findall(found[1])
        assert names, promise
        assert [name for name in names if not holds_tests(name)] == [], promise


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:tests|raftlog|conf|docs)/[^`]+)`", PAGE.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not Path(ROOT, name).exists()] == []
