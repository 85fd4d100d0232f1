"""What `raftlog chaos` refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from raftlog.cli.main import app
from raftlog.errors import InvalidOption


def refusal(*words: str) -> InvalidOption:
    error = CliRunner().invoke(app, list(words)).exception
    assert isinstance(error, InvalidOption)
    return error


def test_an_unknown_class_of_faults_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    error = refusal("chaos", "--faults=kill,meteor", f"--data={tmp_path}")
    assert error.option == "--faults"
    assert "meteor" in error.cause
    assert "failing-sync" in error.remedy


def test_a_folder_that_holds_anything_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    error = refusal("chaos", f"--data={tmp_path}")
    assert error.option == "--data"
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_settings_file_that_would_not_reach_the_nodes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "raftlog.toml"
    file.write_text("[raft]\nelection_timeout_min_s = 2\n")
    error = refusal(f"--config={file}", "chaos", f"--data={tmp_path / 'data'}")
    assert error.option == "--config"
