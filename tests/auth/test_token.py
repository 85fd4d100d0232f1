"""Where a client's token comes from, when it is read again, and that no message has it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from raftlog.client.connect import connect
from raftlog.client.connection import Sent
from raftlog.client.token import Token, metadata_of
from raftlog.config import load
from raftlog.errors import InvalidOption
from raftlog.wire.calls import DESCRIBE_CLUSTER

SECRET = "raftlog_hunter2-very-secret"


def printing(text: str) -> str:
    """A command that prints this."""
    return "command:" + shlex.join([sys.executable, "-c", f"print({text!r})"])


def test_a_token_is_read_from_a_file_a_variable_or_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f" {SECRET}\n")
    monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
    for reference in (f"file:{tmp_path / 'token'}", "env:TOKEN_OF_MINE", printing(SECRET)):
        assert Token(reference).shown() == SecretStr(SECRET)
    assert metadata_of(SecretStr(SECRET)) == (("authorization", f"Bearer {SECRET}"),)
    assert metadata_of(Token("").shown()) == ()


def test_a_token_that_was_read_shows_in_nothing_that_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN_OF_MINE", SECRET)
    for reference in ("env:TOKEN_OF_MINE", printing(SECRET)):
        token = Token(reference)
        found = token.shown()
        sent = Sent(DESCRIBE_CLUSTER, "a:1", None, found, None)
        held = {name: value for name, value in vars(token).items() if name != "_where"}
        assert SECRET not in f"{found} {found!r} {sent} {held}"


def test_a_file_that_is_replaced_is_noticed_at_the_latest_after_a_refusal(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = Token(f"file:{file}")
    before = token.shown()
    assert not token.changed_since(before), "it is the same: to call again is in vain"
    file.write_text("second")
    assert token.changed_since(before)
    assert token.shown() == SecretStr("second")
    assert token.changed_since(before), "another thread's call, which was refused as well"
    assert not token.changed_since(SecretStr("second"))


@pytest.mark.parametrize(
    "reference",
    [SECRET, f"token:{SECRET}", f"file:/nowhere/{SECRET}", f"env:{SECRET}", "file:", "command:"],
)
def test_what_leads_to_no_token_is_refused_and_not_shown(reference: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Token(reference).shown()
    assert SECRET not in f"{refused.value} {refused.value!r} {refused.value.__context__}"
    assert "command:LINE" in str(refused.value) or "env:NAME" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"/nowhere/{SECRET}", "gave no token"),
        (f"sh -c 'echo {SECRET} >&2; exit 3'", "ended with 3"),
        ("true", "does not lead to a token"),
        (f"printf '{SECRET}\\nmore'", "does not lead to a token"),
        ("'", "gave no token"),
    ],
)
def test_a_program_without_a_token_is_an_error_that_shows_nothing_of_it(
    line: str, problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem) as refused:
        Token(f"command:{line}").shown()
    assert SECRET not in str(refused.value)


def test_a_program_is_run_without_a_shell(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert Token(f"command:echo a;touch {made}").shown() == SecretStr(f"a;touch {made}")
    assert not made.exists()


def test_a_token_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", "env:HOME")
    with pytest.raises(InvalidOption, match=r"client\.tls_ca_file"):
        connect(settings=load().client)


def test_a_forked_child_shows_the_token_too(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = Token(f"file:{file}")
    with token._lock:  # as if another thread of the parent were reading
        child = os.fork()
        if child == 0:
            os._exit(0 if token.shown() == SecretStr("first") else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
