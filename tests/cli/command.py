"""Runs the command `raftlog` inside the test's process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from raftlog.cli.main import command_line
from raftlog.errors import RaftlogError
from raftlog.errors.raftlog_error import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> Finished:
    """Run `raftlog WORDS...` to its end."""
    monkeypatch.setattr("sys.argv", ["raftlog", *words])
    monkeypatch.setattr(RaftlogError, "surface", Surface.COMMAND_LINE)
    with pytest.raises(SystemExit) as ended:
        command_line()(prog_name="raftlog")
    captured = capsys.readouterr()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return Finished(code=code or 0, out=captured.out, err=captured.err)
