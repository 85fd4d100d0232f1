"""The examples of docs/CORE.md run, and the page shows their code and output as they are."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

EXAMPLE = ROOT / "docs" / "examples" / "three_members.py"
PAGE = ROOT / "docs" / "CORE.md"
FLAGS = re.MULTILINE | re.DOTALL


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


def run(example: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLE.with_name(example)), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_members_that_rest_send_nothing_and_wake_for_a_write_and_a_death() -> None:
    output = run("quiescence.py")
    rest, write, lost = output.splitlines()
    assert rest.endswith("0 messages in 1000 ticks")
    assert write.endswith("False")
    assert "another leads after" in lost
    assert output in blocks(PAGE, "")


@pytest.mark.slow
def test_every_command_of_the_page_runs_as_printed_and_prints_the_next_block() -> None:
    """The commands name the interpreter that `make test-fast` makes."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n\.venv/bin/python ([^\n]+)\n```\n\n```\n(.*?)^```$", text, FLAGS)
    assert len(found) == len(blocks(PAGE, "sh")) == 4
    for words, printed in found:
        ended = subprocess.run(
            [sys.executable, *words.split()], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ended.stdout == printed


def test_a_log_is_used_without_a_state_machine(tmp_path: Path) -> None:
    """CHECKLIST 78."""
    output = run("log_alone.py", str(tmp_path / "new"))
    assert output.splitlines()[-1] == "3 1 COMMAND another third"
    assert output in blocks(PAGE, "")
    again = [sys.executable, str(EXAMPLE.with_name("log_alone.py")), str(tmp_path / "new")]
    refused = subprocess.run(again, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "holds a log already" in refused.stderr


def test_a_state_machine_is_used_without_a_disk() -> None:
    """CHECKLIST 78."""
    output = run("machine_alone.py")
    assert output.splitlines()[-1] == "the same state: True"
    assert output in blocks(PAGE, "")
