"""The conditions of `raftlog tail --where`: what is taken, what is refused, and what is wanted."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from raftlog.errors import InvalidOption
from raftlog.records.condition import parse_condition

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("carrier", pa.string()),
        ("delay", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("late", pa.bool_()),
        ("gate", pa.struct([("area", pa.string()), ("number", pa.int32())])),
        ("odd name", pa.int8()),
        ("big", pa.int64()),
        ("tags", pa.list_(pa.string())),
    ]
)
AT = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
ROWS = [
    {
        "id": 0,
        "big": -(2**63),
        "carrier": "AA",
        "delay": 1.1,
        "price": decimal.Decimal("1.50"),
        "late": True,
    },
    {
        "id": 1,
        "big": 2**53,
        "carrier": "B6",
        "delay": -2.0,
        "at": AT,
        "day": AT.date(),
        "late": False,
    },
    {"id": 2, "big": 2**53 + 1, "gate": {"area": "A", "number": 7}, "odd name": 5},
]


def wanted(condition: str) -> list[int]:
    batch = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
    found = batch.filter(parse_condition(condition, SCHEMA).expression)
    return [int(each) for each in found.column("id").to_numpy()]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id = 1", [1]),
        ("id == 1", [1]),
        ("id <> 1", [0, 2]),
        ("1 < id", [2]),
        ("1 >= id", [0, 1]),
        ("id > 0.5", [1, 2]),
        ("id >= -0.5", [0, 1, 2]),
        ("id in (1, 1.5)", [1]),
        ("9007199254740992.5 > big", [0, 1]),
        ("big > 9007199254740992.5", [2]),
        ("big > 1e999999999", []),
        ("`odd name` < 4.999999999999999999999999999999999999999999", []),
        ("`odd name` > -300", [2]),
        ("id < 99999999999999999999", [0, 1, 2]),
        ("id = '2'", [2]),
        ("id in (0, (2))", [0, 2]),
        ("id not in (0, 2)", [1]),
        ("id between 1 and 2", [1, 2]),
        ("carrier = 'AA'", [0]),
        ("carrier != 'AA'", [1]),
        ("carrier is null", [2]),
        ("carrier is not null", [0, 1]),
        ("carrier like 'A%'", [0]),
        ("delay = 1.1", [0]),
        ("delay < -1", [1]),
        ("price = 1.5", [0]),
        ("price > 1.505", []),
        ("at = '2026-01-31T13:00+01:00'", [1]),
        ("at > timestamp '2026-01-31 11:59:59'", [1]),
        ("day >= date '2026-01-31'", [1]),
        ("late", [0]),
        ("not late", [1]),
        ("late = false", [1]),
        ("gate.area = 'A' and gate.number > 6", [2]),
        ("`odd name` = 5", [2]),
        ("id = 0 or (id = 1 and not carrier = 'AA')", [0, 1]),
    ],
)
def test_a_condition_wants_these_records(condition: str, ids: list[int]) -> None:
    assert wanted(condition) == ids


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("", "is '', which is not one condition"),
        ("id =", "which is no condition"),
        ("(0{:", "which is no condition"),
        ("id = 1; id = 2", "which is not one condition"),
        ("(" * 10_000, "is nested too deep"),
        ("nope = 1", "names 'nope', which is no column"),
        ("gate.nope = 1", "'nope' is no part of a struct there"),
        ("id", "has id without a comparison"),
        ("id = 'x'", "compares id (BIGINT) with 'x', which is none"),
        ("carrier = 1", "compares carrier (STRING) with '1', which is none"),
        ("day = '2026-13-01'", "compares day (DATE) with '2026-13-01', which is none"),
        ("at = 'yesterday'", "compares at (TIMESTAMP) with 'yesterday', which is none"),
        ("gate = 'A'", "compares gate (STRUCT<area: STRING, number: INT>) with 'A'"),
        ("tags = 'A'", "compares tags (ARRAY<STRING>) with 'A'"),
        ("id = null", "compares id with NULL"),
        ("id = delay", "compares id with 'delay', no value"),
        ("id = abs(1)", "no value"),
        ("abs(id) = 1", "has 'ABS(id)' where a column should be"),
        ("id like '1%'", "has LIKE for id"),
        ("id in (select 1)", "which is none of its parts"),
        ("__import__('os').system('true') = 1", "where a column should be"),
    ],
)
def test_what_is_no_comparison_of_a_column_with_a_value_is_refused(
    condition: str, problem: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse_condition(condition, SCHEMA)
    assert refused.value.option == "--where"
    assert problem in refused.value.cause


def test_a_condition_names_the_columns_that_it_needs_once() -> None:
    needed = parse_condition("delay > 1 or gate.area = 'A' or delay < 0 or gate.number = 1", SCHEMA)
    assert needed.columns == ["delay", "gate"]
