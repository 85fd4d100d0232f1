"""The example of docs/CORE.md runs, and the page shows its code and its output as they are."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.docs.pages import ROOT, blocks

EXAMPLE = ROOT / "docs" / "examples" / "three_members.py"
PAGE = ROOT / "docs" / "CORE.md"


@pytest.fixture(scope="module")
def output() -> str:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return ended.stdout


def test_every_member_applies_every_write_once_and_in_order(output: str) -> None:
    leads, gone, *applied = output.splitlines()
    first_leader = leads.removeprefix("member ")[0]
    assert gone.startswith(f"member {first_leader} is gone; member ")
    assert not gone.endswith(leads.split()[-1]), "another term"
    assert sorted(applied) == [f"member {member}: first, second" for member in (1, 2, 3)]


def test_the_page_shows_the_example_s_output(output: str) -> None:
    assert output in blocks(PAGE, "")


def test_the_page_shows_the_example_s_driver() -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    shown = blocks(PAGE, "python")
    assert shown
    for block in shown:
        assert textwrap.indent(block, "    ") in code, "docs/CORE.md shows another driver"
