"""The site's pages that are generated from the code while `make docs` builds it.

This is a hook of mkdocs. Options, settings and verbs are each defined in one place of the code, and
their reference pages are generated from it, so they are never out of date. docs/ERRORS.md is
generated as well (`python -m raftlog.errors`), and committed: messages name it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from raftlog import config
from raftlog.spark.declarations import OPTIONS

_ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages to the site. Called by mkdocs."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/settings.md": settings(),
        "reference/spark-options.md": "\n".join(spark_options()) + "\n",
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
