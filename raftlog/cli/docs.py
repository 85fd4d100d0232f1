"""`raftlog docs`: the pages, configuration files and examples that are installed with raftlog.

The folders `docs` and `conf` of the package hold them (see setup.py).
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated

import typer

from raftlog.cli.output import Format, FormatOption, show_json, show_line, show_table
from raftlog.errors import InvalidOption

_SUFFIXES = (".md", ".py", ".yml", ".toml", ".conf", ".json")
_NEAREST_MAX = 3


def docs(
    context: typer.Context,
    page: Annotated[
        str | None,
        typer.Argument(metavar="[PAGE[#SECTION]]", help="Default: list all.", show_default=False),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Print a page of the documentation, or list all pages, configuration files and examples.

    PAGE is a name of the list. With `#SECTION`, print only the part under one heading: its words in
    lower case, joined by hyphens, as in `raftlog docs OPERATIONS#data-loss`. To start a
    configuration file: `raftlog docs conf/raftlog.toml > raftlog.toml`.
    """
    found = dict(documents())
    if page is None:
        rows = [(name, title(name, text)) for name, text in found.items()]
        if output is Format.JSON:
            show_json([{"page": name, "title": of} for name, of in rows])
        else:
            show_table(("PAGE", "TITLE"), rows)
        return
    name, _, section = page.partition("#")
    name = name.removeprefix("docs/").removesuffix(".md")
    if name not in found:
        raise _unknown("page", name, list(found), "`raftlog docs` lists all pages.")
    text = found[name]
    if section:
        sections = dict(sections_of(text))
        if section not in sections:
            raise _unknown(
                "section", section, list(sections), f"`raftlog docs {shlex.quote(name)}` has all."
            )
        text = sections[section]
    if output is Format.JSON:
        show_json({"page": page, "title": title(name, found[name]), "text": text})
    else:
        for line in text.splitlines():
            show_line(line)


def documents() -> Iterator[tuple[str, str]]:
    """Name and text of every installed document; pages come first, then other files, by path."""
    package = resources.files("raftlog")
    for path, file in sorted(_files("", package / "docs")):
        if path.endswith(".md"):
            yield path.removesuffix(".md"), file.read_text(encoding="utf-8")
    for path, file in sorted([*_files("conf/", package / "conf"), *_files("", package / "docs")]):
        if not path.endswith(".md"):
            yield path, file.read_text(encoding="utf-8")


def _files(prefix: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(f"{prefix}{each.name}/", each)
        elif each.name.endswith(_SUFFIXES):
            yield prefix + each.name, each


def title(name: str, text: str) -> str:
    """The title of a document: its heading, or the first line of its comment or docstring."""
    if name.endswith(".json"):
        return f"Grafana dashboard {json.loads(text)['title']}"
    return text.partition("\n")[0].strip('# "').partition(". ")[0]


def sections_of(text: str) -> Iterator[tuple[str, str]]:
    """The anchor of each heading, as links name it, with the text down to the next heading of its
    level or above."""
    from rich.markdown import Markdown  # takes a tenth of a second

    tokens = Markdown(text).parsed
    headings = [
        (token.tag, token.map[0], tokens[number + 1].content)
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.map
    ]
    lines = text.splitlines(keepends=True)
    for number, (tag, start, heading) in enumerate(headings):
        ends = (line for other, line, _ in headings[number + 1 :] if other <= tag)
        yield anchor(heading), "".join(lines[start : next(ends, len(lines))])


def anchor(heading: str) -> str:
    """What a link to the heading has after its #."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _unknown(what: str, name: str, known: list[str], where: str) -> InvalidOption:
    """The error of a name that is not known, with the nearest ones."""
    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=_NEAREST_MAX)
    nearest = ", ".join(lowered[each] for each in near)
    return InvalidOption(
        option="PAGE",
        problem=f"names the {what} {name!r}, which does not exist",
        advice=(f"Did you mean {nearest}? " if nearest else "") + where,
    )
