"""Which types need later rules, because earlier programs do not know them."""

from __future__ import annotations

import json

import pytest

from raftlog.machines.schema import Schema, later_type
from raftlog.records.schema_text import parse_json, parse_schema
from raftlog.records.spark_types import COLLATED, INTERVALS, PRIMITIVES, TIMES

LATER = {"variant", *TIMES, *INTERVALS}


def _types(schema: Schema) -> list[str]:
    return [field.type for field in schema.fields]


@pytest.mark.parametrize("name", [*PRIMITIVES, "decimal(38,18)", "string collate UNICODE_CI"])
@pytest.mark.parametrize("place", ["a {}", "a array<{}>", "a map<{}, int>", "a struct<b: {}>"])
def test_a_type_is_found_wherever_it_stands(name: str, place: str) -> None:
    if name == "variant" and "map" in place:
        place = "a map<int, {}>"  # Spark has none as a key
    ddl = place.format(PRIMITIVES.get(name, name))
    is_later = name in LATER or name.startswith(COLLATED)
    assert later_type(_types(parse_schema(f"first int, {ddl}"))) == (name if is_later else None)


def test_a_name_of_a_column_is_no_type() -> None:
    for name in ("variant", 'a","type":"variant', '"type":"time(6)"', '\\"type":"variant'):
        inner = {"type": "struct", "fields": [{"name": name, "type": "long"}]}
        text = json.dumps({"type": "struct", "fields": [{"name": "a", "type": inner}]})
        assert later_type(_types(parse_json(text))) is None
