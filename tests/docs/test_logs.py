"""docs/LOGS.md lists every event that a node logs, with its level and fields, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "LOGS.md"
LEVELS = ("debug", "info", "warning", "error", "critical")
NODES_PACKAGES = ("server", "transport")
"""Of the packages that run in a node these log; the others tell them."""


class Event(NamedTuple):
    name: str
    """The text up to its first colon or semicolon: what follows explains, and may change."""
    levels: frozenset[str]
    fields: frozenset[str]


def head(text: str) -> str:
    return re.split("[:;]", text)[0]


def events_of(tree: ast.Module) -> Iterator[Event]:
    tables = {
        ast.unparse(node.targets[0]): [ast.literal_eval(value) for value in node.value.values]
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        logs = called.startswith("log.") and called.removeprefix("log.") in LEVELS
        if not logs:
            continue
        levels = frozenset((called.removeprefix("log."),))
        fields = frozenset(keyword.arg or "" for keyword in node.keywords) - {"exc_info"}
        match node.args[0]:
            case ast.Constant(value=str(text)):
                texts = [text]
            case ast.BinOp(left=ast.Constant(value=str(text))):
                texts = [text]
            case ast.Subscript(value=table):
                texts = tables[ast.unparse(table)]
            case other:
                raise AssertionError(f"line {node.lineno}: an event {ast.unparse(other)!r}")
        for text in texts:
            yield Event(head(text), levels, fields)


def logged() -> dict[str, Event]:
    found: dict[str, Event] = {}
    for package in NODES_PACKAGES:
        for file in sorted((ROOT / "raftlog" / package).rglob("*.py")):
            for event in events_of(ast.parse(file.read_text(encoding="utf-8"))):
                before = found.get(event.name, event)
                levels, fields = before.levels | event.levels, before.fields | event.fields
                found[event.name] = Event(event.name, levels, fields)
    return found


def listed() -> dict[str, Event]:
    rows = re.findall(
        r"^\| `([^`]+)` \| ([a-z, ]+) \|([^|]*)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {
        name: Event(name, frozenset(levels.split(", ")), frozenset(re.findall(r"`(\w+)`", fields)))
        for name, levels, fields in rows
    }


def test_the_page_lists_what_nodes_log() -> None:
    assert listed() == logged()


def test_no_other_package_of_a_node_logs_by_itself() -> None:
    users = {
        file.relative_to(ROOT / "raftlog").parts[0]
        for file in (ROOT / "raftlog").rglob("*.py")
        if "structlog.get_logger" in file.read_text(encoding="utf-8")
    }
    assert users == set(NODES_PACKAGES)
