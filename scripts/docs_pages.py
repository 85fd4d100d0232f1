"""The site's pages that are generated from the code while `make docs` builds it.

This is a hook of mkdocs. Options, settings, verbs and errors are each defined in one place of the
code, and their reference pages are generated from it, so they are never out of date.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from raftlog import config, errors
from raftlog.spark.declarations import OPTIONS

_ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages to the site. Called by mkdocs."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/settings.md": settings(),
        "reference/spark-options.md": "\n".join(spark_options()) + "\n",
        "reference/errors.md": "\n".join(error_tree()) + "\n",
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def command_line() -> str:
    """Every verb with its arguments and options, from the command line's own help."""
    command = [sys.executable, "-m", "typer", "raftlog.cli.main", "utils", "docs"]
    made = subprocess.run(
        [*command, "--name", "raftlog", "--title", "Command line"],
        cwd=_ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return made.stdout


def settings() -> str:
    """Every key with its unit, default and reason: the sample file."""
    return (
        "# Settings\n\n"
        "Every key with its unit, its default and its reason. The file is `conf/raftlog.toml`; a\n"
        "key that is left out has the value shown here.\n\n"
        f"```toml\n{config.sample()}```\n"
    )


def spark_options() -> Iterator[str]:
    """The table of all options of the source and the sink."""
    yield "# Options of the Spark source and sink"
    yield ""
    yield "Names are not case-sensitive. An unknown name fails on the driver."
    yield ""
    yield "| option | where | what |"
    yield "|---|---|---|"
    for option in OPTIONS:
        endpoints = ", ".join(sorted(endpoint.value for endpoint in option.endpoints))
        default = "" if "Default: " in option.doc or option.default is None else option.default
        ending = f" Default: {default}." if default else ""
        yield f"| `{option.name}` | {endpoints} | {option.doc}{ending} |"


def error_tree() -> Iterator[str]:
    """Every error with its exit code, its cause and its remedy."""
    yield "# Errors"
    yield ""
    yield "Every error names its cause and a remedy. After a retriable one the same request may be"
    yield "sent again; the client does so until the request's deadline. Words in braces stand"
    yield "for the error's values."
    kinds: list[type[errors.RaftlogError]] = [errors.RaftlogError]
    while kinds:
        kind = kinds.pop()
        children = sorted(kind.__subclasses__(), key=lambda child: child.__name__, reverse=True)
        kinds += [child for child in children if child.__module__.startswith("raftlog.")]
        yield ""
        yield f"### {kind.__name__}"
        yield ""
        parent = kind.__mro__[1].__name__
        article = "An" if parent[0] in "AEIOU" else "A"
        again = "; retriable" if kind.retriable else ""
        yield f"{article} `{parent}`; a verb exits with {int(kind.exit_code)}{again}."
        for text in _cause_and_remedy(kind):
            yield ""
            yield textwrap.indent(text.strip(), "    ")


def _cause_and_remedy(kind: type[errors.RaftlogError]) -> tuple[str, ...]:
    """As the error prints them if each value is its own name; empty for a base of others."""
    if not hasattr(kind, "cause_text") and kind.cause is errors.RaftlogError.cause:
        return ()
    error = kind(**{value.name: f"{{{value.name}}}" for value in dataclasses.fields(kind)})
    return error.cause, error.remedy
