"""docs/ERRORS.md, made from the tree: what each error means, its cause, its remedy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from raftlog import errors
from raftlog.errors.raftlog_error import RaftlogError, Surface

_HEAD = """\
# Errors

Every error of raftlog, with what it means, why it comes and what to do. Python raises them as
`raftlog.errors.NAME`. The command line prints `error: NAME: cause` with the remedy on the next
line, and exits with the error's code. In Spark look for `ERROR raftlog.spark: NAME` or
`raftlog.errors` ([Spark](SPARK.md#errors-and-warnings)). After a *retriable* one the same request
may succeed later: the client sends it again by itself until the request's deadline. Words in braces
stand for the error's values. A remedy is the one in Python; where the command line or Spark says
another, it follows.

`raftlog doctor CHECKPOINT` says which of them a Spark query would meet
([Operations](OPERATIONS.md#a-spark-query-ends-with-an-error)).

<!-- Generated: .venv/bin/python -m raftlog.errors > docs/ERRORS.md -->
"""

_BRANCH = re.compile(r"^[| ]*[|`]-- (\w+)(?: {2,}(\S.*))?$", re.MULTILINE)
"""A line of the tree in the docstring of `raftlog.errors`: a name, and a few words on it."""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for kind in kinds() for line in _section(kind))])


def kinds() -> Iterator[type[RaftlogError]]:
    """Every error of the tree, each followed by those below it, by name."""
    waiting: list[type[RaftlogError]] = [RaftlogError]
    while waiting:
        kind = waiting.pop()
        yield kind
        children = sorted(kind.__subclasses__(), key=lambda child: child.__name__, reverse=True)
        waiting += [child for child in children if child.__module__.startswith("raftlog.")]


def anchor(kind: type[RaftlogError]) -> str:
    """Where `raftlog docs` says more of an error."""
    return f"ERRORS#{kind.__name__.lower()}"


def meaning_of(kind: type[RaftlogError]) -> str:
    """What the error means, as its class says or the tree; "" if neither does."""
    told = vars(kind).get("__doc__") or ""
    if told and not told.startswith(f"{kind.__name__}("):  # what dataclasses write themselves
        return _one_line(told.partition("\n\n")[0])
    words = dict(_BRANCH.findall(errors.__doc__ or "")).get(kind.__name__, "")
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _section(kind: type[RaftlogError]) -> Iterator[str]:
    yield f"## {kind.__name__}"
    yield ""
    parent = kind.__mro__[1]
    facts = [] if parent is Exception else [f"A kind of [{parent.__name__}](#{_name(parent)})."]
    again = ", retriable" if kind.retriable else ""
    facts.append(f"Exit code {int(kind.exit_code)}{again}.")
    meaning = meaning_of(kind)
    yield " ".join([meaning, *facts] if meaning else facts)
    yield ""
    for title, text in _texts(kind):
        yield f"- **{title}:** {text}"
    if _texts(kind):
        yield ""


def _name(kind: type[RaftlogError]) -> str:
    return kind.__name__.lower()


def _texts(kind: type[RaftlogError]) -> list[tuple[str, str]]:
    """Cause and remedy if each value is its own name in braces; none for a base of others."""
    if not hasattr(kind, "cause_text") and kind.cause is RaftlogError.cause:
        return []
    error = kind(**{value.name: f"{{{value.name}}}" for value in dataclasses.fields(kind)})
    texts = [("Cause", _one_line(error.cause)), ("Remedy", _one_line(error.remedy))]
    for error.surface in (Surface.COMMAND_LINE, Surface.SPARK):
        remedy = _one_line(error.remedy)
        if remedy != texts[1][1]:
            texts.append((f"Remedy{error.surface.value}", remedy))
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())
