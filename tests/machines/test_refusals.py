"""Every refusal becomes the error of its name, with exactly the values that the error needs."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

import raftlog.machines
from raftlog import errors

_ROOM = Path(raftlog.machines.__file__).parent


def refusals() -> list[tuple[str, str, frozenset[str]]]:
    """(where, code, value names) of each `refused(...)` in the machines' sources."""
    found = []
    for path in sorted(_ROOM.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if called and node.func.id == "refused":
                assert isinstance(node.args[0], ast.Constant), "codes are written out"
                names = frozenset(keyword.arg or "" for keyword in node.keywords)
                found.append((f"{path.name}:{node.lineno}", node.args[0].value, names))
    return found


@pytest.mark.parametrize(("where", "code", "names"), refusals())
def test_refusal_builds_its_error(where: str, code: str, names: frozenset[str]) -> None:
    kind = getattr(errors, code)
    assert issubclass(kind, errors.RaftlogError)
    known = {field.name: field for field in dataclasses.fields(kind)}
    assert names <= set(known), f"{where}: {code} does not know {names - set(known)}"
    needed = {name for name, field in known.items() if field.default is dataclasses.MISSING}
    assert needed <= names, f"{where}: {code} also needs {needed - names}"
    values = {name: 1 if known[name].type in (int, "int") else "x" for name in names}
    error = kind(**values)
    assert str(error)
    again = errors.from_wire(*error.to_wire())
    assert type(again) is kind
    assert again.to_wire() == error.to_wire()


def test_all_refusals_of_the_machines_were_found() -> None:
    assert {code for _, code, _ in refusals()} == {
        "AddressTaken", "CheckpointReset", "CheckpointRewound", "EpochContentMismatch",
        "EpochIncomplete", "EpochReferencesMismatch", "EpochTooOld", "GroupUnknown",
        "IdentityRefused", "InvalidOption",
        "InvalidTopicName", "MalformedRequest", "NodeExists", "NodeInUse", "NodeRemoved",
        "NodeUnknown", "ObserverRefused", "PlacementOutdated", "PlacementUnderWay",
        "RunFenced", "SchemaChanged", "SequenceGap", "StoreCopied",
        "SequencePassed", "SequenceReused", "StageGap", "TooFewNodes", "TooMany", "UnknownSession",
        "VersionConflict",
        "TooManyWriters", "TopicExists", "TopicNotFound", "TopicRecreated",
        "UnknownProducer", "UnknownSchemaVersion", "UnknownWriter", "VersionReused",
        "WriterForgotten", "WriterOfAnother",
    }  # fmt: skip
