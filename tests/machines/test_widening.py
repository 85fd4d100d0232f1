"""Which types become which others within structs, arrays and maps."""

from __future__ import annotations

import json

import pytest

from raftlog.machines.limits import TYPE_DEPTH_MAX
from raftlog.machines.widening import widens
from raftlog.records.schema_text import NESTING_MAX, parse_schema
from tests.machines.evolving import POINT, WIDE_POINT, array, map_to, struct


def of(ddl: str) -> str:
    return parse_schema(f"a {ddl}").fields[0].type


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("STRUCT<x: INT, y: INT>", "STRUCT<x: INT>"),
        ("STRUCT<x: INT, y: INT>", "STRUCT<y: INT, x: INT>"),
        ("STRUCT<x: INT>", "STRUCT<z: INT>"),
        ("STRUCT<x: INT>", "STRUCT<y: INT, x: INT>"),
        ("STRUCT<x: INT>", "STRUCT<x: INT, y: INT NOT NULL>"),
        ("STRUCT<x: INT>", "STRUCT<x: INT NOT NULL, y: INT>"),
        ("STRUCT<x: INT NOT NULL>", "STRUCT<x: INT, y: INT>"),
        ("STRUCT<x: BIGINT>", "STRUCT<x: INT, y: INT>"),
        ("STRUCT<x: STRING>", "STRUCT<x: STRING COLLATE UNICODE_CI>"),
        ("STRUCT<x: INT>", "ARRAY<INT>"),
        ("STRUCT<x: INT>", "INT"),
        ("INT", "STRUCT<x: INT>"),
        ("ARRAY<INT>", "ARRAY<STRING>"),
        ("ARRAY<INT>", "MAP<INT, INT>"),
        ("MAP<INT, INT>", "MAP<BIGINT, INT>"),
        ("MAP<STRUCT<x: INT>, INT>", "MAP<STRUCT<x: INT, y: INT>, BIGINT>"),
    ],
)
def test_a_nested_type_that_lacks_a_value_of_another_is_not_wider(before: str, after: str) -> None:
    assert not widens(of(before), of(after))


@pytest.mark.parametrize("place", [array, map_to, lambda kind: struct(a=kind)])
def test_whether_nulls_are_allowed_stays(place: object) -> None:
    before, after = place('"integer"'), place('"long"')  # type: ignore[operator]
    assert widens(before, after)
    assert not widens(before, after, nested=False)
    for key in ("containsNull", "valueContainsNull", "nullable"):
        strict = after.replace(f'"{key}":true', f'"{key}":false', 1)
        assert strict == after or not widens(before, strict)
        loose = before.replace(f'"{key}":true', f'"{key}":false', 1)
        assert loose == before or not widens(loose, after)


@pytest.mark.parametrize(
    "after",
    [
        WIDE_POINT.replace(",", ", "),
        WIDE_POINT + " ",
        WIDE_POINT[:-1],
        struct(x='"long"', y="1"),
        struct(x='"long"', y="null"),
        struct(x='"long"', y="[]"),
        struct(x='"long"', y="1e999"),
        WIDE_POINT.replace('"y"', '"x"'),
        WIDE_POINT.replace("{}", '{"k":1}'),
        '{"fields":[1],"type":"struct"}',
        '{"fields":[{"name":["x"]}],"type":"struct"}',
        '{"fields":{},"type":"struct"}',
        '{"type":"union"}',
        "{" * 60_000,
        "[" * 60_000,
        "",
    ],
)
def test_a_text_that_is_no_type_is_wider_than_none(after: str) -> None:
    assert not widens(POINT, after)
    assert not widens(after, WIDE_POINT)


@pytest.mark.parametrize("inner", ['{"x":1}', "1", "[]", "null"])
def test_what_holds_no_type_is_none(inner: str) -> None:
    """It is never looked into: an entry that has it would stop every node that applies it."""
    for before, after in (
        (array(POINT), array(inner)),
        (map_to(POINT), map_to(inner)),
        (map_to(POINT), map_to(POINT).replace('"keyType":"string"', f'"keyType":{inner}')),
        (struct(a=POINT), struct(a=inner)),
    ):
        assert before != after
        assert not widens(before, after)
        assert not widens(after, before)


def test_types_are_read_to_a_depth_that_is_beyond_what_clients_give() -> None:
    def deep(depth: int, kind: str) -> str:
        for _ in range(depth):
            kind = struct(a=kind)
        return kind

    assert widens(deep(NESTING_MAX, '"byte"'), deep(NESTING_MAX, '"long"'))
    deepest = TYPE_DEPTH_MAX // 3
    assert widens(deep(deepest, '"byte"'), deep(deepest, '"long"'))
    assert not widens(deep(deepest + 1, '"byte"'), deep(deepest + 1, '"long"'))
    name = json.dumps("[{" * TYPE_DEPTH_MAX + '\\"')[1:-1]
    assert widens(struct(**{name: '"byte"'}), struct(**{name: '"long"'}))


@pytest.mark.parametrize("unit", ['"', '"\\', '["', '{"type":', "[" * (TYPE_DEPTH_MAX + 1)])
def test_a_text_that_is_no_type_is_read_in_one_pass(unit: str) -> None:
    """With time that grows with the square of its length, an entry that has it would stop every
    node that applies it."""
    text = "[" + unit * (512 * 1024 // len(unit))
    assert not widens("[]", text)
    assert not widens(text, "[]")
