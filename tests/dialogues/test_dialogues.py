"""Conversations of a few members, written down: each shows what its first line says.

After an intended change `python -m tests.dialogues.rewrite` writes the answers again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialogues import rewrite
from tests.dialogues.stage import INDENT, SCRIPTS, play

SCRIPT = """\
# A group of one elects itself.

group 1
campaign 1
settle
    an answer that nobody gave
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_members_say_and_do_what_is_written(name: str) -> None:
    script = SCRIPTS[name].read_text(encoding="utf-8")
    assert play(script).splitlines() == script.splitlines()


def test_each_dialogue_says_first_what_it_shows_and_has_answers() -> None:
    for name, path in SCRIPTS.items():
        first, blank, group, *rest = path.read_text(encoding="utf-8").splitlines()
        assert first.startswith("# "), name
        assert first.endswith("."), name
        assert (blank, group.split()[0]) == ("", "group"), name
        assert any(line.startswith(INDENT) for line in rest), name


def test_an_answer_that_differs_is_noticed_and_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.txt"
    path.write_text(SCRIPT, encoding="utf-8")
    monkeypatch.setitem(SCRIPTS, "one", path)
    rewrite.main(["one"])
    written = path.read_text(encoding="utf-8")
    assert "nobody gave" not in written
    assert "    1 leads term 1\n" in written
    assert play(written) == written


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("dance 1", "no such command"),
        ("deliver 1>1", "nothing like this is in flight"),
        ("lose-log 1", "while nobody uses it"),
        ("progress 1", "it does not lead"),
    ],
)
def test_a_command_that_means_nothing_fails_with_its_line(command: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem) as failed:
        play(f"# A script with a mistake.\n\ngroup 1\n{command}\n")
    assert failed.value.__notes__ == [f"in line 4: {command}"]
