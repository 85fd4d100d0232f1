"""One-line bugs made from the syntax tree of a module: which there are, and which of them a seed
draws.

A mutation changes one place of one line, and the result compiles. Assertions, annotations, texts of
errors, `__repr__` and what a constructor assigns are left alone. A mutant's name follows from the
seed, its file, its function and the line before and after, so the same ones are drawn while the
code around them changes.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

PARTS = {
    "core": ("raftlog/core",),
    "machines": ("raftlog/machines",),
    "storage": ("raftlog/storage",),
    "image": ("raftlog/image",),
    "replica": ("raftlog/replica.py", "raftlog/comparison.py", "raftlog/state_hash.py"),
    "multiraft": ("raftlog/multiraft",),
    "client": ("raftlog/client",),
    "server": ("raftlog/server",),
    "connector": ("connector",),
    "cli": ("raftlog/cli",),
}
"""What is mutated: as many mutants of each part."""

SWAPS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
LEFT_ALONE = (ast.Assert, ast.Raise, ast.JoinedStr, ast.match_case, ast.Lambda)
"""Nothing inside of these is mutated; a `raise` is dropped as a whole, a case's body is mutated."""


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """A one-line bug; `start` and `end` are bytes of line `line` (from 1) that become `text`."""

    name: str
    file: str
    line: int
    function: str
    before: str
    after: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """The module with the bug in it."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        changed = line[: self.start] + self.text.encode() + line[self.end :]
        lines[self.line - 1] = changed.decode()
        return "".join(lines)


class Edit(NamedTuple):
    """`[start, end)` of a line, in bytes, becomes `text`."""

    line: int
    start: int
    end: int
    text: str


def draw(
    seed: int,
    count: int,
    *,
    parts: Mapping[str, tuple[str, ...]] = PARTS,
    root: Path = ROOT,
) -> list[Mutant]:
    """The seed's `count` mutants, as many of each part and at most one for a line; the same every
    time. Where they do not divide, the first parts have one more."""
    share, left = divmod(count, len(parts))
    drawn: list[Mutant] = []
    for number, (part, places) in enumerate(parts.items()):
        by_line: dict[tuple[str, int], Mutant] = {}
        sources = {file: (root / file).read_text("utf-8") for file in _files(root, places)}
        for file, source in sources.items():
            for mutant in mutants_of(file, source, part, seed):
                place = (mutant.file, mutant.line)
                by_line[place] = min(mutant, by_line.get(place, mutant))
        compiling = (each for each in sorted(by_line.values()) if _compiles(each, sources))
        drawn += itertools.islice(compiling, share + (number < left))
    return drawn


def _files(root: Path, places: tuple[str, ...]) -> list[str]:
    found = []
    for place in places:
        path = root / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [str(path.relative_to(root)) for path in found]


def mutants_of(file: str, source: str, part: str, seed: int) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the text."""
    lines = source.splitlines()
    seen = set()
    for function, edit in _edits(source):
        line = lines[edit.line - 1].encode()
        after = (line[: edit.start] + edit.text.encode() + line[edit.end :]).decode().strip()
        before = line.decode().strip()
        key = f"{seed} {file} {function} {before} {after}"
        if after == before or key in seen:
            continue
        seen.add(key)
        name = f"{part}-{hashlib.blake2b(key.encode(), digest_size=4).hexdigest()}"
        yield Mutant(name, file, edit.line, function, before, after, *edit[1:])


def _compiles(mutant: Mutant, sources: Mapping[str, str]) -> bool:
    try:
        ast.parse(mutant.apply(sources[mutant.file]))
    except SyntaxError:
        return False
    return True


def _edits(source: str) -> Iterator[tuple[str, Edit]]:
    """Each function's name and what may be changed in it."""
    yield from _of_scope(ast.parse(source), (), source.encode().split(b"\n"))


def _of_scope(
    node: ast.AST, names: tuple[str, ...], lines: list[bytes]
) -> Iterator[tuple[str, Edit]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _of_scope(child, (*names, child.name), lines)
        elif isinstance(child, _FUNCTIONS) and child.name not in ("__repr__", "__str__"):
            name = ".".join((*names, child.name))
            for statement in child.body:
                if not (child.name == "__init__" and isinstance(statement, ast.Assign)):
                    yield from ((name, edit) for edit in _of_node(statement, lines))


def _of_node(node: ast.AST, lines: list[bytes]) -> Iterator[Edit]:
    """The edits of a node and of everything in it."""
    if isinstance(node, ast.stmt):
        yield from _statement_dropped(node, lines)
    if isinstance(node, ast.match_case):
        for statement in node.body:
            yield from _of_node(statement, lines)
    if isinstance(node, LEFT_ALONE):
        return
    if isinstance(node, ast.expr) and node.lineno == node.end_lineno:
        yield from _expression_changed(node, lines)
    if isinstance(node, ast.If | ast.While) and node.test.lineno == node.test.end_lineno:
        yield from _condition_negated(node.test, lines)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _of_node(child, lines)


def _statement_dropped(node: ast.stmt, lines: list[bytes]) -> Iterator[Edit]:
    """A call for its effect, a change of something that outlives the function, a leap or a
    refusal."""
    droppable = isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Delete) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )
    if isinstance(node, ast.Assign):
        droppable = all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets)
    if isinstance(node, ast.Return):
        droppable = node.value is None
    if droppable and node.lineno == node.end_lineno:
        yield Edit(node.lineno, node.col_offset, node.end_col_offset or 0, "pass")


def _condition_negated(test: ast.expr, lines: list[bytes]) -> Iterator[Edit]:
    start, end = test.col_offset, test.end_col_offset or 0
    text = lines[test.lineno - 1][start:end].decode()
    yield Edit(test.lineno, start, end, f"not ({text})")


def _expression_changed(node: ast.expr, lines: list[bytes]) -> Iterator[Edit]:
    line = lines[node.lineno - 1]
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from _between(left, right, line, *SWAPS[type(operator)])
        case ast.BoolOp(op=operator, values=[left, *_, right]):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            yield from _between(left, node.values[1], line, *words)
            yield Edit(node.lineno, left.end_col_offset or 0, node.end_col_offset or 0, "")
            yield Edit(node.lineno, node.col_offset, right.col_offset, "")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield Edit(node.lineno, node.col_offset, operand.col_offset, "")
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            if _is_number(left) or _is_number(right):
                signs = ("+", "-") if isinstance(operator, ast.Add) else ("-", "+")
                yield from _between(left, right, line, *signs)
        case ast.Constant(value=bool() as value):
            yield Edit(node.lineno, node.col_offset, node.end_col_offset or 0, str(not value))
        case ast.Constant(value=int() as number):
            yield Edit(node.lineno, node.col_offset, node.end_col_offset or 0, str(number + 1))
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            other = "max" if name == "min" else "min"
            yield Edit(node.lineno, node.col_offset, node.func.end_col_offset or 0, other)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _between(left: ast.expr, right: ast.expr, line: bytes, old: str, new: str) -> Iterator[Edit]:
    """The operator between two operands becomes another one; parentheses may stand beside it."""
    start = left.end_col_offset or 0
    text = line[start : right.col_offset].decode()
    at = text.find(old)
    if left.end_lineno == right.lineno and at >= 0:
        begin = start + len(text[:at].encode())
        yield Edit(right.lineno, begin, begin + len(old.encode()), new)
