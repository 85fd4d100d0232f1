"""Secrets that settings refer to: the setting names where the secret is, and never holds it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import SecretStr

from raftlog.errors import InvalidOption

SECRET_KINDS = ("file", "env")
TOKEN_KINDS = (*SECRET_KINDS, "command")
TOKEN_ADVICE = (
    "Give file:PATH of a readable file that holds only the token, env:NAME of a variable that "
    "does, or command:LINE of a program that prints it."
)
"""How a client's token is found, and what to say if it is not."""


def refuse_no_reference(option: str, reference: str) -> None:
    """Refuse what does not say where a client's token is; "" says that there is none. Raises
    `InvalidOption`, which does not show it: it may be the token itself, by mistake."""
    if not _is_reference(reference, TOKEN_KINDS):
        raise InvalidOption(
            option=option, problem="does not say where a token is", advice=TOKEN_ADVICE
        )


def refuse_bare_secret(option: str, reference: str, form: str) -> None:
    """Refuse what does not say where a node's secret is: it may be the secret itself, and would
    stand in the command lines of all nodes that are started with it. Raises `no_secret`."""
    if not _is_reference(reference, SECRET_KINDS):
        raise no_secret(option, form)


def _is_reference(reference: str, kinds: tuple[str, ...]) -> bool:
    kind, _, where = reference.partition(":")
    return not reference or (kind in kinds and bool(where))


def refuse_bare_token(
    token: str,
    ca_file: str,
    options: tuple[str, str] = ("client.token", "client.tls_ca_file"),
) -> None:
    """Refuse a token that would be sent unencrypted, for lack of the second of the `options`.
    Raises `InvalidOption`."""
    if token and not ca_file:
        raise InvalidOption(
            option=options[0],
            problem=f"is given without {options[1]}",
            advice="A token is sent only over TLS: say who may sign the nodes' certificates.",
        )


def read_secret(option: str, reference: str, form: str = "a text") -> SecretStr:
    """What stands in the file or variable that `file:PATH` or `env:NAME` names, without white space
    around it. Raises `no_secret`."""
    kind, _, name = reference.partition(":")
    text: str | None = None
    if kind == "env":
        text = os.environ.get(name)
    elif kind == "file":
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(name).read_text(encoding="utf-8")
    secret = (text or "").strip()
    if not secret:
        raise no_secret(option, form)
    return SecretStr(secret)


def no_secret(option: str, form: str) -> InvalidOption:
    """The error that an option leads to no secret of this form. It shows nothing of what is there,
    and nothing of the option: that may be the secret itself, by mistake."""
    return InvalidOption(
        option=option,
        problem=f"does not lead to {form}",
        advice=f"Give file:PATH of a readable file that holds only {form}, or env:NAME of a "
        "variable that does.",
    )
