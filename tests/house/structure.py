"""Size of the product, the modules of its first level, their imports, and its constructors."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tests.test_layering import KNOWN, imports_of

Edge = tuple[str, str]

Trees = Mapping[str, ast.Module]
"""Modules by their dotted names."""


class Constructor(NamedTuple):
    """A class, by its dotted name, and the parameters of its constructor that are callables."""

    name: str
    callables: list[str]


@functools.cache
def product() -> Trees:
    """Every module of the product, except generated code."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in KNOWN.items()}


def size() -> tuple[int, int]:
    """Files and lines of the product."""
    texts = [path.read_text(encoding="utf-8") for path in KNOWN.values()]
    return len(texts), sum(text.count("\n") for text in texts)


def top_of(module: str) -> str:
    """The package or module of the first level that holds a module."""
    parts = module.split(".")
    return parts[1] if parts[0] == "raftlog" and len(parts) > 1 else parts[0]


def first_level() -> list[str]:
    """All of them, by name. `raftlog` is the package's own file."""
    return sorted({top_of(name) for name in KNOWN})


def module_edges() -> set[Edge]:
    """Which module imports which one; also inside functions and under TYPE_CHECKING."""
    known = frozenset(KNOWN)
    return {
        (name, item.target)
        for name, tree in product().items()
        for item in imports_of(tree, known)
        if item.target in known and item.target != name
    }


def first_level_edges() -> set[Edge]:
    """Which part of the first level imports which other one."""
    found = {(top_of(source), top_of(target)) for source, target in module_edges()}
    return {(source, target) for source, target in found if source != target}


def cycles(edges: Collection[Edge]) -> list[list[str]]:
    """The groups of nodes of which each one leads to every other, by name."""
    after: dict[str, set[str]] = {}
    for source, target in edges:
        after.setdefault(source, set()).add(target)
    reached = {node: _reached(node, after) for node in after}
    groups = {
        frozenset(other for other in reached[node] if node in reached.get(other, ()))
        for node in after
    }
    return sorted(sorted(group) for group in groups if group)


def _reached(start: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def constructors(trees: Trees) -> Iterator[Constructor]:
    """Every class of these modules."""
    aliases = {alias for tree in trees.values() for alias in callable_aliases(tree)}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found = [name for name, of in _parameters(node) if is_callable(of, aliases)]
                yield Constructor(f"{module}.{node.name}", found)


def callable_aliases(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives to types of callables."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_callable(node.value, ()):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))


def is_callable(annotation: ast.expr | None, aliases: Collection[str]) -> bool:
    """Whether a value of that type may be a callable itself; a list of callables is none."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Callable")):
            return True
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return is_callable(inner, aliases)
        case ast.BinOp(left=left, right=right):
            return is_callable(left, aliases) or is_callable(right, aliases)
        case ast.Name(id=name):
            return name == "Callable" or name in aliases
        case _:
            return False


def _parameters(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and types of what the class is made from."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            given = member.args
            for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                yield each.arg, each.annotation
            return
    made = " ".join(ast.unparse(each) for each in (*node.decorator_list, *node.bases))
    if not re.search(r"\b(dataclass|NamedTuple)\b", made):
        return
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and "init=False" not in ast.unparse(member):
            yield ast.unparse(member.target), member.annotation
