"""The token that a client shows with each call, read again where it may have changed.

It is where the setting `client.token` says, and nowhere else: not in a plan, a command line or a
message.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import time

from pydantic import SecretStr

from raftlog.auth.principals import AUTHORIZATION_METADATA_KEY, BEARER
from raftlog.client.forks import in_each_child
from raftlog.config_secrets import TOKEN_ADVICE, read_secret, refuse_no_reference
from raftlog.errors import InvalidOption

NO_TOKEN = SecretStr("")

_OPTION = "client.token (in Spark the credential's)"
_KEPT_S = {"file": 1.0, "env": 0.0, "command": 60.0}
"""How long what was read counts. A file costs a look, a command a process. No settings: an access
token that has ended is read again at once, when a node refuses it."""
_COMMAND_TIMEOUT_S = 30.0
"""Providers' programs may ask a server first; no setting."""


class Token:
    """A caller's token. Thread-safe."""

    def __init__(self, reference: str) -> None:
        """`reference` says where the token is; "": there is none. Raises `InvalidOption` for a
        reference of no known kind. It is not shown: it may be the token itself, by mistake."""
        self._kind, _, self._where = reference.partition(":")
        self._lock = threading.Lock()
        self._shown = NO_TOKEN
        self._read_at_s = float("-inf")
        in_each_child(self, Token._begin_again)
        refuse_no_reference(_OPTION, reference)

    def _begin_again(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def shown(self) -> SecretStr:
        """What to show with a call. Raises `InvalidOption` if there is no token any more."""
        if not self._kind:
            return NO_TOKEN
        with self._lock:
            if time.monotonic() >= self._read_at_s + _KEPT_S[self._kind]:
                self._read()
            return self._shown

    def changed_since(self, shown: SecretStr) -> bool:
        """Whether the token is another one now than what was shown: ask after a refusal. Raises
        `InvalidOption`."""
        if not self._kind:
            return False
        with self._lock:
            if self._shown == shown:
                self._read()
            return self._shown != shown

    def _read(self) -> None:
        found = self._found()
        text = found.get_secret_value()
        if not text or not text.isascii() or not text.isprintable():
            raise InvalidOption(
                option=_OPTION, problem="does not lead to a token", advice=TOKEN_ADVICE
            )
        self._shown = found
        self._read_at_s = time.monotonic()

    def _found(self) -> SecretStr:
        if self._kind == "command":
            return self._printed()
        return read_secret(_OPTION, f"{self._kind}:{self._where}", "a token")

    def _printed(self) -> SecretStr:
        try:
            words = shlex.split(self._where)
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            problem = f"names a program that gave no token ({type(error).__name__})"
        else:
            if done.returncode == 0:
                return SecretStr(done.stdout.strip())
            problem = f"names a program that ended with {done.returncode} in place of a token"
        raise InvalidOption(
            option=_OPTION,
            problem=problem,
            advice="Run it by hand, and see what it needs. What it prints is never shown.",
        )


def metadata_of(token: SecretStr) -> tuple[tuple[str, str], ...]:
    """What to send with a call that shows the token."""
    text = token.get_secret_value()
    return ((AUTHORIZATION_METADATA_KEY, f"{BEARER} {text}"),) if text else ()
