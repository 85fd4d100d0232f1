"""Runs the command `raftlog` inside the test's process, as its entry point does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from raftlog.cli.main import main


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
    with pytest.raises(SystemExit) as ended:
        main()
    captured = capsys.readouterr()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return Finished(code=code or 0, out=captured.out, err=captured.err)
