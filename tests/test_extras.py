"""The line that adds an extra names the place from which raftlog was installed."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from raftlog.extras import pip_line

WHEEL = "raftlog-9.8.7-py3-none-any.whl"
SOMEWHERE = "file:///path/to/raftlog-VERSION-py3-none-any.whl"


def recorded(monkeypatch: pytest.MonkeyPatch, folder: Path, direct_url: object) -> None:
    """Let the installed raftlog be one of which pip recorded this; None: nothing."""
    info = folder / "raftlog-9.8.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: raftlog\nVersion: 9.8.7\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(json.dumps(direct_url))
    monkeypatch.syspath_prepend(folder)
    assert metadata.version("raftlog") == "9.8.7"


def test_a_wheel_is_named_where_it_still_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = tmp_path / "with a space" / WHEEL
    wheel.parent.mkdir()
    wheel.touch()
    recorded(monkeypatch, tmp_path, {"url": wheel.as_uri(), "archive_info": {}})
    assert pip_line("server") == f'pip install "raftlog[server] @ {wheel.as_uri()}"'
    wheel.unlink()
    assert pip_line("server") == f'pip install "raftlog[server] @ {SOMEWHERE}"'


@pytest.mark.parametrize(("editable", "flag"), [(True, "-e "), (False, "")])
def test_a_folder_is_installed_as_before(
    editable: bool, flag: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    direct_url = {"url": tmp_path.as_uri(), "dir_info": {"editable": editable}}
    recorded(monkeypatch, tmp_path, direct_url)
    assert pip_line("tracing") == f'pip install {flag}"{tmp_path}[tracing]"'


def test_a_commit_of_a_repository_is_named_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vcs = {"vcs": "git", "commit_id": "0a1b"}
    recorded(monkeypatch, tmp_path, {"url": "https://example.org/raftlog.git", "vcs_info": vcs})
    wanted = "raftlog[all] @ git+https://example.org/raftlog.git@0a1b"
    assert pip_line("all") == f'pip install "{wanted}"'


def test_without_a_record_the_place_is_left_to_the_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded(monkeypatch, tmp_path, None)
    assert pip_line("server") == f'pip install "raftlog[server] @ {SOMEWHERE}"'


def test_without_an_installation_the_place_is_left_to_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where Spark sends raftlog to its executors in a zip."""
    monkeypatch.setattr("sys.path", [])
    assert pip_line("server") == f'pip install "raftlog[server] @ {SOMEWHERE}"'
