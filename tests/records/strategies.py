"""Hypothesis strategies for topic schemas and record batches of every type, nulls and nesting."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from raftlog.machines.schema import RESERVED_NAMES, Schema
from raftlog.records.arrow_types import arrow_schema
from raftlog.records.schema_text import make_schema
from raftlog.records.spark_types import JsonType

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_NAIVE = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": _integers(8),
    "short": _integers(16),
    "integer": _integers(32),
    "long": _integers(64),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.builds(lambda at: at.replace(tzinfo=datetime.UTC), _NAIVE),
    "timestamp_ntz": _NAIVE,
    "string": st.text(st.characters(codec="utf-8"), max_size=80),
    "binary": st.binary(max_size=80),
    "variant": st.fixed_dictionaries({"value": st.binary(), "metadata": st.binary()}),
    "string collate UNICODE_CI": st.text(st.characters(codec="utf-8"), max_size=80),
    **{
        f"time({digits})": st.integers(0, 10**digits * 86_400 - 1).map(
            lambda number, unit_ns=10 ** (9 - digits): number * unit_ns
        )
        for digits in (0, 6, 9)
    },
    **dict.fromkeys(("interval hour", "interval day to second"), _integers(64)),
}

_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")
)


def _nested(below: st.SearchStrategy[JsonType]) -> st.SearchStrategy[JsonType]:
    field = st.fixed_dictionaries(
        {"name": _NAMES, "type": below, "nullable": st.booleans(), "metadata": st.just({})}
    )
    fields = st.lists(field, min_size=1, max_size=3, unique_by=lambda field: field["name"])
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("struct"), "fields": fields}),
        st.fixed_dictionaries(
            {"type": st.just("array"), "elementType": below, "containsNull": st.booleans()}
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("map"),
                "keyType": st.sampled_from(["string", "long", "date"]),
                "valueType": below,
                "valueContainsNull": st.booleans(),
            }
        ),
    )


TYPES = st.recursive(st.one_of(st.sampled_from(list(_PLAIN)), _DECIMALS), _nested, max_leaves=4)
"""Canonical Spark types of every kind."""

SCHEMAS: st.SearchStrategy[Schema] = st.lists(
    st.tuples(_NAMES.filter(lambda name: name not in RESERVED_NAMES), TYPES, st.booleans()),
    min_size=1,
    max_size=4,
    unique_by=lambda f: f[0],
).map(make_schema)


def values_of(kind: JsonType, nullable: bool) -> st.SearchStrategy[Any]:
    """Python values as `pa.array` takes them for a canonical type."""
    values = _values(kind)
    return st.one_of(st.none(), values) if nullable else values


def _values(kind: JsonType) -> st.SearchStrategy[Any]:
    if isinstance(kind, str):
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain
        precision, scale = (int(part) for part in kind[len("decimal(") : -1].split(","))
        limit = 10**precision - 1
        return st.integers(-limit, limit).map(lambda n: Decimal(f"{n}E-{scale}"))
    if kind["type"] == "array":
        return st.lists(values_of(kind["elementType"], kind["containsNull"]), max_size=3)
    if kind["type"] == "map":
        item = values_of(kind["valueType"], kind["valueContainsNull"])
        return st.lists(st.tuples(_values(kind["keyType"]), item), max_size=3)
    return st.fixed_dictionaries(
        {field["name"]: values_of(field["type"], field["nullable"]) for field in kind["fields"]}
    )


@st.composite
def batches(draw: st.DrawFn, rows_min: int = 1) -> tuple[Schema, pa.RecordBatch]:
    """A schema and a batch of it that is sometimes a slice of a larger one."""
    schema = draw(SCHEMAS)
    return schema, draw(batches_of(schema, rows_min))


@st.composite
def batches_of(draw: st.DrawFn, schema: Schema, rows_min: int = 1) -> pa.RecordBatch:
    """A batch of the schema that is sometimes a slice of a larger one."""
    count = draw(st.integers(rows_min, 12))
    columns = []
    for field, arrow in zip(schema.fields, arrow_schema(schema), strict=True):
        values = values_of(json.loads(field.type), field.nullable)
        column = draw(st.lists(values, min_size=count, max_size=count))
        columns.append(pa.array(column, arrow.type))
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
    start = draw(st.integers(0, count - rows_min))
    return batch.slice(start)
