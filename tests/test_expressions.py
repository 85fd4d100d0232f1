"""Every regular expression of the product takes time that grows with the text, whatever is in it.

The list is found in the sources. `make soak` gives each expression texts that are made of its own
parts, which is what makes it go back most, and compares the processor time of a text with that of
half of it. Expressions of pydantic (`pattern=`) and Arrow run in engines that never go back.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import Any, AnyStr, NamedTuple

import pytest

from raftlog.cli.text_blocks import BLOCK_BYTES
from raftlog.wire.codec_texts import _LIMITS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"raftlog": "raftlog", "connector": "raftlog.spark"}
METHODS = frozenset("match fullmatch search sub split findall finditer".split())
OF_USERS = {("raftlog.spark.topics", "pattern"), ("raftlog.spark.topics", "self.pattern")}
"""What a user gives as `subscribePattern`, which their own process applies to names of topics."""

LONGEST = {str: max(_LIMITS.values()), bytes: BLOCK_BYTES}
"""The longest text of a message, and the longest piece of a file that is read at once."""
RATIO_MAX = 3.5
"""2 is linear, 4 quadratic."""
_SHORT = 256
"""From here on texts are doubled: what is quadratic is found before it takes minutes."""
_WORST = 4
_MEASURED_S = 0.002
_REPEATED = 5


class Expression(NamedTuple):
    """An expression, and how it is applied."""

    module: str
    line: int
    pattern: re.Pattern[Any]
    method: str

    def __str__(self) -> str:
        return f"{self.module}-{self.line}-{self.method}"

    def apply(self, text: AnyStr) -> None:
        match self.method:
            case "sub":
                self.pattern.sub(text[:0], text)
            case "finditer":
                assert sum(1 for _ in self.pattern.finditer(text)) >= 0
            case method:
                getattr(self.pattern, method)(text)


def expressions() -> Iterator[Expression]:
    """Those of the product's sources. Raises `KeyError` or `ValueError` for one that a function
    makes: make it when the module is loaded, so that it is found."""
    for folder, package in SOURCES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_symlink() and "import re\n" in (source := path.read_text("utf-8")):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                module = ".".join((package, *parts)).removesuffix(".__init__")
                yield from _expressions_of(module, ast.parse(source))


def _expressions_of(module: str, tree: ast.Module) -> Iterator[Expression]:
    names = vars(importlib.import_module(module))
    given = {part: node for node in ast.walk(tree) for part in ast.iter_child_nodes(node)}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re.")):
            continue
        name = ast.unparse(call.func).removeprefix("re.")
        source = ast.unparse(call.args[0])
        if (module, source) in OF_USERS or name not in METHODS | {"compile"}:
            continue
        flags = (each for each in call.args[1:] if ast.unparse(each).startswith("re."))
        pattern = re.compile(
            _value(call.args[0], names), sum(_value(each, names) for each in flags)
        )
        methods = _methods(tree, _name_of(given[call])) or {"search"}
        for method in sorted(methods if name == "compile" else {name}):
            yield Expression(module, call.lineno, pattern, method)


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    """What the expression of Python says, in a module with these names."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=ast.Name(id="re"), attr=flag):
            return getattr(re, flag)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, names) + _value(right, names)
        case ast.JoinedStr(values=parts):
            return "".join(map(partial(_value, names=names), parts))
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _value(value, names)
    raise ValueError(f"{ast.unparse(node)} is not known when the module is loaded")


def _name_of(node: ast.AST) -> str:
    """The name that is given to what stands there, as a variable or an argument."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.keyword(arg=str(name)):
            return name
    return ""


def _methods(tree: ast.Module, name: str) -> set[str]:
    """What is asked of the variable or attribute of this name."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in METHODS
        and getattr(node.value, "id", getattr(node.value, "attr", None)) == name
    }


EXPRESSIONS = list(expressions())


def test_the_expressions_are_found() -> None:
    found = {each.module for each in EXPRESSIONS}
    assert {"raftlog.redaction", "raftlog.machines.widening", "raftlog.spark.writer"} <= found
    assert len(EXPRESSIONS) > 40


def test_no_model_uses_an_engine_that_goes_back() -> None:
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            assert "regex_engine" not in path.read_text("utf-8"), path


# ---------------------------------------------------------------- texts


def words_of(pattern: re.Pattern[Any]) -> list[str]:
    """The literals of an expression, and characters in and beside its classes."""
    found: dict[str, None] = {}
    _add_words(_parser.parse(pattern.pattern, pattern.flags), found)
    return [word for word in found if word]


def _add_words(items: Any, found: dict[str, None]) -> None:
    literal = ""
    for kind, value in items:
        if str(kind) == "LITERAL":
            literal += chr(value)
            continue
        found[literal] = None
        literal = ""
        match str(kind):
            case "IN":
                found.update(dict.fromkeys(_of_class(value)))
            case "NOT_LITERAL" | "ANY":
                found["a"] = None
            case "BRANCH":
                for branch in value[1]:
                    _add_words(branch, found)
            case "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                _add_words(value[-1], found)
            case "ATOMIC_GROUP":
                _add_words(value, found)
            case "ASSERT" | "ASSERT_NOT":
                _add_words(value[1], found)
    found[literal] = None


def _of_class(members: Any) -> Iterator[str]:
    for kind, value in members:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "RANGE":
                yield chr(value[0])
            case "CATEGORY":
                yield from ("a", "0") if "WORD" in str(value) else ("0", " ")
            case "NEGATE":
                yield "a"


def texts_of(expression: Expression) -> Iterator[tuple[str, str, str]]:
    """A beginning, what is repeated, and an end, of all texts that are tried."""
    words = words_of(expression.pattern)
    repeated = [*words, *map("".join, itertools.permutations(words, 2))]
    return itertools.product(["", *words], repeated, ["", "\0"])


def made(expression: Expression, text: tuple[str, str, str], length: int) -> Any:
    begin, repeated, end = text
    count = max(1, (length - len(begin) - len(end)) // len(repeated))
    found = begin + repeated * count + end
    return found.encode("latin-1") if isinstance(expression.pattern.pattern, bytes) else found


def seconds(expression: Expression, text: Any, *, measured_s: float) -> float:
    """The least processor time of one application, of several measurements."""
    found: list[float] = []
    begin = time.process_time()
    while len(found) < 2 or (len(found) < _REPEATED and time.process_time() < begin + 0.5):
        done, start = 0, time.process_time()
        while time.process_time() < start + measured_s or not done:
            expression.apply(text)
            done += 1
        found.append((time.process_time() - start) / done)
    return min(found)


def ratio(expression: Expression, half: Any, whole: Any) -> float:
    return seconds(expression, whole, measured_s=_MEASURED_S) / seconds(
        expression, half, measured_s=_MEASURED_S
    )


@pytest.mark.soak
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_twice_the_text_takes_about_twice_the_time(expression: Expression) -> None:
    def cost(text: tuple[str, str, str]) -> float:
        return seconds(expression, made(expression, text, _SHORT), measured_s=0)

    worst = sorted(texts_of(expression), key=cost)[-_WORST:]
    longest = LONGEST[type(expression.pattern.pattern)]
    for text in worst:
        length = _SHORT
        while length < longest:
            half, whole = (made(expression, text, each) for each in (length, 2 * length))
            found = min(ratio(expression, half, whole) for _ in range(2))
            assert found < RATIO_MAX, f"{text} of {2 * length} takes {found:.1f} times the half"
            length *= 2
