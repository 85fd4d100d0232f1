"""When tokens were last used survives restarts, is shared by nodes of one folder, and costs a call
nothing where the file cannot be written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from raftlog.auth import token_uses
from raftlog.auth.token_file import TokenFile, add_token, read_tokens, remove_tokens
from raftlog.auth.token_uses import TokenUses, latest, read_uses, uses_file
from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.errors import ExitCode
from tests.cli.command import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def fail(problem: str) -> None:
    raise AssertionError(problem)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_uses, "_WRITE_AGAIN_S", 0.0)


def wait_used(file: Path, *ids: str) -> None:
    """Wait until exactly these tokens have a use."""
    wait_for(lambda: set(read_uses(uses_file(file))) == set(ids), f"uses of {ids}", PATIENCE_S)


def test_the_hour_of_a_tokens_last_use_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    used = add_token(file, "etl", (), None, NOW)
    add_token(file, "idle", (), None, NOW)
    first, idle = (each.id for each in read_tokens(file))
    before = datetime.now(UTC)
    nodes = [TokenFile(file, fail, on_uses_lost=fail) for _ in range(2)]
    assert nodes[0].caller(used) is not None
    assert nodes[0].caller("raftlog_stranger") is None
    wait_used(file, first)
    (at,) = read_uses(uses_file(file)).values()
    assert before - timedelta(hours=1) < at <= datetime.now(UTC)
    assert (at.minute, at.second, at.microsecond) == (0, 0, 0)

    other = add_token(file, "other", (), None, NOW)
    restarted = TokenFile(file, fail, on_uses_lost=fail)
    assert restarted.caller(other) is not None
    wait_used(file, first, read_tokens(file)[-1].id)
    assert idle not in read_uses(uses_file(file))


@pytest.mark.slow
def test_the_use_of_a_token_that_was_removed_goes_with_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = [add_token(file, name, (), None, NOW) for name in ("etl", "ada")]
    known = TokenFile(file, fail, on_uses_lost=fail)
    assert all(known.caller(each) for each in tokens)
    ids = [each.id for each in read_tokens(file)]
    wait_used(file, *ids)
    remove_tokens(file, "etl")
    wait_for(lambda: known.caller(tokens[0]) is None, "the change to be seen", PATIENCE_S)
    wait_used(file, ids[1])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"used": {"a": 1e999}}', "\0", '{"used": "x"}'])
def test_a_damaged_file_of_uses_is_replaced(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.json.used"
    file.write_text(text)
    assert read_uses(file) == {}
    TokenUses(file, ["a"], fail).note("a")
    wait_for(lambda: list(read_uses(file)) == ["a"], "the file", PATIENCE_S)


def test_a_file_that_cannot_be_written_is_reported_once_and_stops_no_call(tmp_path: Path) -> None:
    said: list[str] = []
    uses = TokenUses(tmp_path / "gone" / "tokens.json.used", "ab", said.append)
    uses.note("a")
    wait_for(lambda: len(said) == 1, "the problem", PATIENCE_S)
    uses._write()
    uses.note("b")
    assert len(said) == 1
    assert "No such file" in said[0]


def test_a_use_in_the_same_hour_starts_no_write(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json.used"
    uses = TokenUses(file, ["a"], fail)
    uses.note("a")
    wait_for(file.exists, "the file", PATIENCE_S)
    file.unlink()
    for _ in range(1000):
        uses.note("a")
    assert not uses._writer_waits
    assert not file.exists()


def test_the_latest_use_of_all_nodes_counts() -> None:
    early, late = NOW, NOW + timedelta(hours=1)
    assert latest([{"a": early, "b": late}, {}, {"a": late, "b": early}]) == {"a": late, "b": late}


def test_the_list_of_tokens_has_the_uses_of_all_nodes_whose_files_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.json"
    for name in ("etl", "ada", "idle"):
        add_token(file, name, (), None, NOW)
    etl, ada, idle = (each.id for each in read_tokens(file))
    copy = tmp_path / "node-2.used"
    for where, uses in (
        (uses_file(file), {etl: "2026-01-02T03:00:00Z", "removed": "2026-01-02T03:00:00Z"}),
        (copy, {etl: "2026-01-02T05:00:00Z", ada: "2026-01-01T00:00:00Z"}),
    ):
        where.write_text(json.dumps({"version": 1, "used": uses}))
    words = ("tokens", "list", "--file", str(file))
    shown = run(monkeypatch, capsys, *words)
    assert "LAST USED" in shown.out
    assert "2026-01-02 03:00 UTC" in shown.out
    shown = run(monkeypatch, capsys, *words, "--used", str(copy), "-o", "json")
    assert {each["id"]: each["used"] for each in json.loads(shown.out)} == {
        etl: "2026-01-02T05:00Z",
        ada: "2026-01-01T00:00Z",
        idle: None,
    }
    missing = run(monkeypatch, capsys, *words, "--used", str(tmp_path / "none"))
    assert missing.code == ExitCode.USAGE
    assert "--used" in missing.err
