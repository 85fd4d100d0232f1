"""The file of tokens: made, told apart, given up, and refused where it is none."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from raftlog import changing_files
from raftlog.auth.principals import Caller
from raftlog.auth.token_file import TokenFile, add_token, read_tokens, remove_tokens
from raftlog.changing_files import lock_file
from raftlog.config import load
from raftlog.errors import ExitCode, InvalidOption
from tests.cli.command import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fail(problem: str) -> None:
    raise AssertionError(problem)


def test_a_token_is_known_and_its_file_does_not_have_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = add_token(file, "etl", ("writers",), None, NOW)
    other = add_token(file, "ada", (), datetime.now(UTC) + timedelta(hours=1), NOW)
    ended = add_token(file, "bob", (), NOW, NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(each in file.read_text() for each in (token, other, ended))
    assert set(tmp_path.iterdir()) == {file, lock_file(file)}, "no draft is left"
    assert stat.S_IMODE(lock_file(file).stat().st_mode) == 0o600
    known = TokenFile(file, fail)
    assert known.caller(token) == Caller(
        principal="token:etl", groups=frozenset({"group:token:writers"})
    )
    assert known.caller(other) == Caller(principal="token:ada")
    assert known.caller(ended) is None
    assert known.caller(token[:-1]) is None
    assert known.caller("") is None


def test_all_tokens_of_an_identity_are_given_up_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    for name in ("etl", "ada", "etl"):
        add_token(file, name, (), None, NOW)
    assert remove_tokens(file, "etl") == 2
    assert [each.identity for each in read_tokens(file)] == ["ada"]
    assert remove_tokens(file, "etl") == 0


def test_an_flock_that_a_reader_can_hold_stops_no_change(tmp_path: Path) -> None:
    """Of the folder and the file, which other users may be able to read."""
    file = tmp_path / "tokens.json"
    add_token(file, "etl", (), None, NOW)
    for path in (tmp_path, file):
        held = os.open(path, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)  # until the file is closed
        assert remove_tokens(file, "etl") == 1
        add_token(file, "etl", (), None, NOW)
        os.close(held)


def test_a_lock_that_is_kept_ends_a_change_with_an_error_that_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.json"
    monkeypatch.setattr(changing_files, "_LOCK_PATIENCE_S", 0.05)
    remove = ("tokens", "remove", "etl", "--file", str(file))
    with changing_files.only_writer(file):
        refused = run(monkeypatch, capsys, *remove)
    assert refused.code == ExitCode.USAGE
    assert f"fuser {lock_file(file)}" in refused.err
    lock_file(file).unlink()
    lock_file(file).symlink_to(tmp_path / "precious")
    assert "symbolic link" in run(monkeypatch, capsys, *remove).err
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2}', '{"tokens": [{"identity": "a"}]}', '{"token": []}', "\0"],
)
def test_what_is_no_file_of_tokens_is_refused_and_never_replaced(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(InvalidOption, match="no file of tokens"):
        TokenFile(file, fail)
    with pytest.raises(InvalidOption, match="no file of tokens"):
        add_token(file, "etl", (), None, NOW)
    assert file.read_text() == text


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="raftlog tokens add"):
        TokenFile(tmp_path / "nowhere", fail)


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_an_identity_has_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match="1 to 200 characters"):
        add_token(tmp_path / "tokens.json", name, (), None, NOW)
    assert not list(tmp_path.iterdir())


def test_the_files_form_is_as_documented(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "etl", ("writers",), None, NOW)
    [kept] = json.loads(file.read_text())["tokens"]
    assert {**kept, "sha256": None} == {
        "identity": "etl",
        "groups": ["writers"],
        "sha256": None,
        "made": "2026-01-01T00:00:00Z",
        "ends": None,
    }


def test_settings_of_an_issuer_go_together() -> None:
    flags = [
        "auth.oidc_issuer=https://login.example.com",
        "auth.oidc_alias=corp",
        "auth.oidc_audience=raftlog",
    ]
    with pytest.raises(InvalidOption, match=r"without auth\.oidc_jwks"):
        load(flags=flags)
    with pytest.raises(InvalidOption, match="neither an https address nor file:PATH"):
        load(flags=[*flags, "auth.oidc_jwks=http://login.example.com/keys"])
    load(flags=[*flags, "auth.oidc_jwks=file:/etc/keys.json"])


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\udcff"])
def test_names_can_be_printed(tmp_path: Path, name: str) -> None:
    for identity, groups in ((name, ()), ("etl", (name,))):
        with pytest.raises(InvalidOption, match="cannot be printed"):
            add_token(tmp_path / "tokens.json", identity, groups, None, NOW)
    add_token(tmp_path / "tokens.json", "Ada \u00c9. Lovelace", ("the writers",), None, NOW)


@pytest.mark.parametrize("name", ["token:etl", "group:token:writers", "node:1"])
def test_a_name_has_no_type(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match="a principal with its type"):
        add_token(tmp_path / "tokens.json", name, (), None, NOW)
    assert not (tmp_path / "tokens.json").exists()


def test_who_adds_tokens_at_the_same_time_loses_none(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: add_token(file, f"name-{n}", (), None, NOW), range(40)))
    known = TokenFile(file, fail)
    assert all(known.caller(token) for token in made)


def test_an_end_without_a_time_zone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "etl", (), NOW, NOW)
    file.write_text(file.read_text().replace("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"))
    with pytest.raises(InvalidOption, match="timezone"):
        read_tokens(file)


def test_one_of_an_identitys_tokens_is_given_up_by_its_id(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = [add_token(file, name, (), None, NOW) for name in ("etl", "etl", "ada")]
    first, _, other = read_tokens(file)
    assert remove_tokens(file, "etl", other.id) == 0, "of another identity"
    assert remove_tokens(file, "etl", first.id) == 1
    known = TokenFile(file, fail)
    assert [known.caller(token) is not None for token in tokens] == [False, True, True]


def test_a_file_that_is_deleted_takes_all_tokens_away_and_a_damaged_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.changing_files._LOOK_AGAIN_S", 0.0)
    file, problems = tmp_path / "tokens.json", list[str]()
    token = add_token(file, "etl", (), None, NOW)
    content = file.read_bytes()
    known = TokenFile(file, problems.append)
    file.write_bytes(content[:-20])
    assert known.caller(token) is not None
    assert "no file of tokens" in problems.pop()
    file.unlink()
    assert known.caller(token) is None
    assert "was deleted" in problems.pop()
    file.write_bytes(content)
    assert known.caller(token) is not None
    assert problems == []
