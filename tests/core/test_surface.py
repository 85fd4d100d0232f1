"""The tests of the core use what docs/CORE.md names, so what they show can be had by any driver."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.core.raft import Raft

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(Path(__file__).parent.glob("*.py"))
PAGE = (ROOT / "docs" / "CORE.md").read_text(encoding="utf-8")

NAMED_TUPLES = frozenset(("_replace", "_asdict", "_fields"))
"""What begins with an underscore in Python's own named tuples, and is public."""


def _named() -> set[str]:
    """The first cells of the tables of calls and of attributes: what they name on `Raft`."""
    names = set()
    for title in ("What it takes", "What you can look at"):
        section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
        for first in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
            names |= set(re.findall(r"`([a-z][\w.]*)[^`]*`", first))
    return names


def _used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where something of an object that is called `raft` is used, and what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_called(node.value, "raft"):
            if node.attr != "log":
                yield node.lineno, node.attr
        elif isinstance(node, ast.Attribute) and _is_called(node.value, "log"):
            assert isinstance(node.value, ast.Name | ast.Attribute)
            if isinstance(node.value, ast.Attribute) and _is_called(node.value.value, "raft"):
                yield node.lineno, f"log.{node.attr}"


def _is_called(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == name) or (
        isinstance(node, ast.Name) and node.id == name
    )


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}


def test_the_tests_of_the_core_use_its_documented_surface(trees: dict[str, ast.Module]) -> None:
    named = _named()
    assert [
        f"{file}, line {line}: {name}"
        for file, tree in trees.items()
        for line, name in _used(tree)
        if name not in named
    ] == []


def test_the_tests_of_the_core_look_into_nothing_private(trees: dict[str, ast.Module]) -> None:
    private = [
        f"{file}, line {node.lineno}: {ast.unparse(node)}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in NAMED_TUPLES
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert private == []


def test_the_page_names_what_there_is_and_every_call() -> None:
    """Nothing that is gone, and no public method is left out."""
    named = {name for name in _named() if "." not in name}
    here = {name for name in dir(Raft) if not name.startswith("_")}
    assert named <= here
    defined = {name for name in vars(Raft) if not name.startswith("_")} - {"parts"}
    assert defined <= named
