"""What `raftlog chaos` refuses before it starts anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import ExitCode
from tests.cli.command import run

Refusal = Callable[..., dict[str, Any]]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Run `raftlog WORDS...`, and give the error object with which it ends."""

    def refused(*words: str) -> dict[str, Any]:
        ended = run(monkeypatch, capsys, *words, "-o", "json")
        assert ended.code == ExitCode.USAGE
        error: dict[str, Any] = json.loads(ended.err.splitlines()[-1])
        assert error["error"] == "InvalidOption"
        return error

    return refused


def test_an_unknown_class_of_faults_is_refused_with_those_that_there_are(
    refusal: Refusal, tmp_path: Path
) -> None:
    error = refusal("chaos", "--faults=kill,meteor", f"--data={tmp_path}")
    assert error["option"] == "--faults"
    assert "meteor" in error["message"]
    assert "failing-sync" in error["remedy"]


def test_a_folder_that_holds_anything_is_refused_and_left_alone(
    refusal: Refusal, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("precious")
    error = refusal("chaos", f"--data={tmp_path}")
    assert error["option"] == "--data"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_settings_file_that_would_not_reach_the_nodes_is_refused(
    refusal: Refusal, tmp_path: Path
) -> None:
    file = tmp_path / "raftlog.toml"
    file.write_text("[raft]\nelection_timeout_min_s = 2\n")
    error = refusal(f"--config={file}", "chaos", f"--data={tmp_path / 'data'}")
    assert error["option"] == "--config"
