"""What users may rely on, as recorded in tests/public_api.txt: a change there is a decision.

Python names and signatures, errors with their exit codes, Spark's options, the verbs of the
command line, the keys of the configuration, the calls of a node. To record it again:

    .venv/bin/python -m tests.test_public_api > tests/public_api.txt
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import raftlog
from raftlog import config, errors
from raftlog.cli.main import command_line
from raftlog.core import types as core_types
from raftlog.spark.declarations import OPTIONS
from raftlog.wire.calls import CALLS

RECORD = Path(__file__).with_name("public_api.txt")


def python_names() -> Iterator[str]:
    """`raftlog.__all__`; of classes the public methods with their signatures."""
    for name in raftlog.__all__:
        value = getattr(raftlog, name)
        if inspect.isclass(value):
            yield f"class raftlog.{name}"
            for member, of in sorted(members_of(value).items()):
                if not member.startswith("_") and inspect.isfunction(of):
                    yield f"    {member}{_signature(of)}"
                elif not member.startswith("_") and isinstance(of, property):
                    yield f"    {member} (property)"
        elif inspect.isfunction(value):
            yield f"def raftlog.{name}{_signature(value)}"
        else:
            yield f"raftlog.{name} = {value!r}"


def members_of(value: type[Any]) -> dict[str, Any]:
    """What the class itself has, and a client what its parts have."""
    parts = (each for each in value.__mro__ if each.__module__.startswith("raftlog.client."))
    return {**{name: of for part in parts for name, of in vars(part).items()}, **vars(value)}


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return f"{text} -> {signature.return_annotation}"


def error_names() -> Iterator[str]:
    """Every error of the tree with its exit code, and whether it is retriable."""
    waiting: list[tuple[type[errors.RaftlogError], int]] = [(errors.RaftlogError, 0)]
    while waiting:
        kind, depth = waiting.pop()
        again = ", retriable" if kind.retriable else ""
        yield f"{'    ' * depth}{kind.__name__} exits {int(kind.exit_code)}{again}"
        children = sorted(kind.__subclasses__(), key=lambda child: child.__name__, reverse=True)
        waiting += [(c, depth + 1) for c in children if c.__module__.startswith("raftlog.")]


def spark_options() -> Iterator[str]:
    """Each option, where it may be given, and its default."""
    for option in OPTIONS:
        endpoints = ", ".join(sorted(endpoint.value for endpoint in option.endpoints))
        default = f"client.{option.setting}" if option.setting else option.default
        yield f"{option.name} ({endpoints}) default {default}"


def verbs() -> Iterator[str]:
    """Each verb of the command line with its parameters."""
    waiting: list[tuple[str, Any]] = [("raftlog", command_line())]
    while waiting:
        path, command = waiting.pop(0)
        names = sorted(
            "/".join((*parameter.opts, *parameter.secondary_opts))
            for parameter in command.params
            if "completion" not in parameter.name
        )
        yield f"{path} {' '.join(names)}".rstrip()
        waiting += [
            (f"{path} {name}", child) for name, child in getattr(command, "commands", {}).items()
        ]


def configuration_keys() -> Iterator[str]:
    """Every key, without its default: defaults may be tuned."""
    for name, section in config.SECTIONS.items():
        yield from (f"{name}.{key}" for key in section.model_fields)


def public_api() -> str:
    """All of it as text, one thing a line."""
    chapters = {
        "Python": python_names(),
        "Errors": error_names(),
        "Spark options": spark_options(),
        "Command line": verbs(),
        "Configuration": configuration_keys(),
        "Calls": iter(CALLS),
    }
    return "\n".join(
        line for title, lines in chapters.items() for line in (f"# {title}", *lines, "")
    )


def test_public_names_are_as_recorded() -> None:
    assert public_api().splitlines() == RECORD.read_text(encoding="utf-8").splitlines()


def public_members() -> Iterator[tuple[str, Any]]:
    """Each public class and function, and each public method and property of the classes."""
    for name in raftlog.__all__:
        value = getattr(raftlog, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value
        for member, of in members_of(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (inspect.isfunction(of) or isinstance(of, property)):
                yield f"{name}.{member}", of


def test_every_public_python_name_has_a_docstring() -> None:
    assert [name for name, of in public_members() if not of.__doc__] == []


FUNCTIONS = {name: of for name, of in public_members() if inspect.isfunction(of)}


def test_each_public_function_documents_its_parameters_and_what_it_returns() -> None:
    for name, function in FUNCTIONS.items():
        signature = inspect.signature(function)
        sections = documented(inspect.getdoc(function) or "")
        named = [each for each in signature.parameters if each != "self"]
        assert sections.get("Args", []) == named, name
        gives = {"Returns", "Yields"} & sections.keys()
        assert len(gives) == (signature.return_annotation != "None"), f"{name}: returns, once"


def documented(docstring: str) -> dict[str, list[str]]:
    """The sections of a docstring in Google's style, each with the names that it explains."""
    sections: dict[str, list[str]] = {}
    for head, body in re.findall(
        r"^(Args|Returns|Yields|Raises):\n((?: +.*\n?)+)", docstring, re.M
    ):
        sections[head] = re.findall(r"^    (\w+): \S", body, re.M)
    return sections


def test_what_is_not_documented_is_noticed() -> None:
    text = "What it does.\n\nArgs:\n    one: First.\n        two: Of it.\n\nReturns:\n    All."
    assert documented(text) == {"Args": ["one"], "Returns": []}
    assert documented("Takes `one` and returns it.") == {}


def test_every_type_that_a_public_method_names_can_be_imported_from_raftlog() -> None:
    """Be it an argument, the answer itself, a part of it, or the value of a property."""
    given: set[str] = set()
    for name in raftlog.__all__:
        value = getattr(raftlog, name)
        members = members_of(value).values() if inspect.isclass(value) else [value]
        for of in (each.fget if isinstance(each, property) else each for each in members):
            if inspect.isfunction(of) and not of.__name__.startswith("_"):
                signature = inspect.signature(of)
                given |= _type_names(signature.return_annotation)
                for argument in signature.parameters.values():
                    given |= _names(argument.annotation)
        if dataclasses.is_dataclass(value):
            given = given.union(*(_type_names(field.type) for field in dataclasses.fields(value)))
    assert given - set(raftlog.__all__) == set()


def _type_names(annotation: Any) -> set[str]:
    """The classes of ours that an annotation names; offsets and ids are ints under other names."""
    return _names(annotation) - {*vars(core_types)}


def _names(annotation: Any) -> set[str]:
    words = set(re.findall(r"(?<![.\w])[A-Z]\w+", str(annotation)))
    return words - {"Callable", "Iterator", "Mapping", "Sequence", "None", "Any"}


def test_every_field_of_a_public_value_is_documented() -> None:
    assert [name for name in raftlog.__all__ for name in undocumented(getattr(raftlog, name))] == []


def undocumented(value: Any) -> Iterator[str]:
    """The fields of a dataclass or named tuple that no text follows. Settings give theirs."""
    if not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return
    assert isinstance(value, type)
    (tree,) = ast.parse(inspect.getsource(value)).body
    assert isinstance(tree, ast.ClassDef)
    for line, after in itertools.pairwise([*tree.body, ast.Pass()]):
        if isinstance(line, ast.AnnAssign) and not (
            isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        ):
            yield f"{value.__name__}.{ast.unparse(line.target)}"


def test_importing_only_raftlog_loads_neither_grpc_nor_pyarrow_nor_spark() -> None:
    program = (
        "import sys, raftlog\n"
        "heavy = ('grpc', 'pyarrow', 'pyspark', 'pydantic', 'google', 'typer')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_the_reference_has_every_python_name() -> None:
    reference = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
    shown = set(re.findall(r"^::: raftlog\.(\w+)$", reference.read_text(), re.MULTILINE))
    assert set(raftlog.__all__) - shown == {"__version__"}


if __name__ == "__main__":
    sys.stdout.write(public_api())
