"""Secrets that settings refer to: the setting names where the secret is, and never holds it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from raftlog.errors import InvalidOption


def read_secret(option: str, reference: str, form: str = "a text") -> str:
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
    return secret


def no_secret(option: str, form: str) -> InvalidOption:
    """The error that an option leads to no secret of this form. It shows nothing of what is there,
    and nothing of the option: that may be the secret itself, by mistake."""
    return InvalidOption(
        option=option,
        problem=f"does not lead to {form}",
        advice=f"Give file:PATH of a readable file that holds only {form}, or env:NAME of a "
        "variable that does.",
    )
