"""What is shown: values as JSON that programs can read, rows aligned under one header."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli.output import (
    confirm,
    make_table,
    open_standard_streams,
    plain,
    say,
    show_json,
    show_line,
    show_table,
)
from raftlog.cli.tail import TextLines
from raftlog.errors import ExitCode, InvalidOption, OutputUnwritable


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    at: datetime.date


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("1.20"), "1.20"),
        (b"text", "text"),
        (b"\xff", "base64:/w=="),
        (datetime.date(2013, 1, 2), "2013-01-02"),
        (datetime.datetime(2013, 1, 2, tzinfo=datetime.UTC), "2013-01-02T00:00:00+00:00"),
        (datetime.time(1, 2, 3, 4), "01:02:03.000004"),
        (datetime.timedelta(days=1, hours=2, microseconds=7), "1 02:00:00.000007"),
        (datetime.timedelta(seconds=-1), "-0 00:00:01"),
        ({"a": [1, (2, b"x")]}, {"a": [1, [2, "x"]]}),
        (Point(x=1, at=datetime.date(2013, 1, 2)), {"x": 1, "at": "2013-01-02"}),
    ],
)
def test_values_are_shown_in_jsons_own_types(value: object, shown: object) -> None:
    assert plain(value) == shown
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == shown


def test_json_is_one_line_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"text": "zwei\nZeilen"})
    assert capsys.readouterr().out == '{"text": "zwei\\nZeilen"}\n'


@pytest.mark.slow
@pytest.mark.parametrize("words", [["docs", "KAFKA"], ["--help"], ["--version"]])
def test_output_that_cannot_be_written_ends_a_verb_with_one_error(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "raftlog", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == ExitCode.FAILED
    said, remedy = ended.stderr.splitlines()
    assert said.endswith("Standard output cannot be written: No space left on device.")
    assert remedy.startswith("  ")


def test_closed_standard_streams_lose_messages_and_fail_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    open_standard_streams()
    say("a message")
    with pytest.raises(OutputUnwritable, match="it is closed"):
        show_json(1)
    sys.stdout.flush()


def test_every_text_can_be_written_whatever_the_locale_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    value = {"ä": "\udc80"}
    for encoding in ("ascii", "utf-8"):
        with (tmp_path / encoding).open("w", encoding=encoding) as file:
            monkeypatch.setattr("sys.stdout", file)
            open_standard_streams()
            show_json(value)
            show_table(["ä"], [["\udc80"]])
        text = (tmp_path / encoding).read_text(encoding).splitlines()
        assert json.loads(text[0]) == value
        assert text[2] == "\\udc80"


def test_tail_writes_one_head_and_keeps_columns_aligned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = TextLines()
    lines.show(["id", "text"], [{"id": 1, "text": "a"}, {"id": 22, "text": None}])
    lines.show(["id", "text"], [{"id": 333, "text": "a\tb\n"}])
    assert capsys.readouterr().out.splitlines() == [
        "id  text",
        "1   a",
        "22  null",
        "333  a\\tb\\n",
    ]


def test_a_long_cell_does_not_widen_the_rows_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TextLines()
    lines.show(["text"], [{"text": 100_000 * "x"}, {"text": [1] * 100_000}])
    shown = capsys.readouterr().out.splitlines()
    assert [each.split("...")[1].strip() for each in shown[1:]] == [
        "(100000 characters)",
        "(300000 characters)",
    ]
    assert max(map(len, shown)) < 5_000


HOSTILE = "a\x1b]0;t\x07\n\x9b2J\u202eb"
"""It sets a terminal's title, begins a line, clears the screen, and turns the text around."""


def test_no_name_and_no_value_reaches_the_terminal_as_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(HOSTILE)
    show_line(HOSTILE, HOSTILE)
    show_json({HOSTILE: HOSTILE})
    show_table([HOSTILE], [[HOSTILE]])
    TextLines().show([HOSTILE], [{HOSTILE: HOSTILE}])
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert len(lines) == 6
    assert all(line.replace("\t", "").isprintable() for line in (*lines, printed.err[:-1]))
    assert json.loads(lines[1]) == {HOSTILE: HOSTILE}


def test_bytes_are_escaped_for_a_terminal_and_whole_in_a_file(tmp_path: Path) -> None:
    value = HOSTILE.encode() + b"\xff"
    shown = "import sys; from raftlog.cli.output import show_bytes; "
    shown += "show_bytes(sys.stdin.buffer.read())"
    command = [sys.executable, "-c", shown]
    assert subprocess.run(command, input=value, stdout=subprocess.PIPE, check=True).stdout == value
    terminal, other = pty.openpty()
    subprocess.run(command, input=value, stdout=other, check=True)
    assert os.read(terminal, 1024) == b"a\\x1b]0;t\\x07\r\n\\x9b2J\\u202eb\\xff\r\n"
    os.close(terminal)
    os.close(other)


def test_a_cell_of_a_table_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(["KEY", "VALUE"], [["a\nb", "\x1b[31mred"]])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["KEY", "VALUE"], ["a\\nb", "\\x1b[31mred"]]


def test_a_table_has_a_row_for_each_row() -> None:
    assert make_table(["A", "B"], [[1, "x"], [None, ""]]).row_count == 2


@pytest.mark.parametrize("text", ["y\n", "yes", "Y"])
def test_a_yes_on_standard_input_is_an_answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    confirm("Remove all?")


@pytest.mark.parametrize("stdin", [io.StringIO(""), None], ids=["empty", "closed"])
def test_where_nobody_can_answer_the_question_names_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stdin: io.StringIO | None
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(InvalidOption, match="Add --yes") as caught:
        confirm("Remove all?")
    assert caught.value.exit_code == ExitCode.USAGE
    assert capsys.readouterr().err.endswith("\n"), "the error has a line of its own"


def test_a_no_changes_nothing_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(typer.Exit) as ended:
        confirm("Remove all?")
    assert ended.value.exit_code == ExitCode.FAILED
    written = capsys.readouterr()
    assert "Nothing was changed" in written.err
    assert written.out == "", "which may be JSON"
