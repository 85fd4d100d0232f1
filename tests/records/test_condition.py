"""The conditions of `raftlog tail --where`: what is taken, what is refused, and what is wanted."""

from __future__ import annotations

import datetime
import decimal
import math
import zoneinfo
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

from raftlog.errors import InvalidOption
from raftlog.predicates.outcomes import Statistics, outcomes
from raftlog.predicates.predicate import (
    NODES_MAX,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)
from raftlog.records.arrow_types import schema_of
from raftlog.records.condition import Condition, condition_of, parse_condition, sparks_predicate

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("carrier", pa.string()),
        ("delay", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("late", pa.bool_()),
        ("gate", pa.struct([("area", pa.string()), ("number", pa.int32()), ("open", pa.bool_())])),
        ("odd name", pa.int8()),
        ("big", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("clock", pa.time64("ns")),
        ("wait", pa.duration("us")),
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
        "clock": AT.time(),
        "wait": datetime.timedelta(days=-1, milliseconds=500),
    },
    {
        "id": 1,
        "big": 2**53,
        "carrier": "B6",
        "delay": -2.0,
        "at": AT,
        "day": AT.date(),
        "late": False,
        "clock": datetime.time(12, 0, 0, 1),
        "wait": datetime.timedelta(days=2, hours=3),
    },
    {"id": 2, "big": 2**53 + 1, "gate": {"area": "A", "number": 7, "open": True}, "odd name": 5},
]


def wanted(condition: str) -> list[int]:
    return chosen(parse_condition(condition, SCHEMA))


def chosen(condition: Condition) -> list[int]:
    batch = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
    found = batch.filter(condition.expression)
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
        ("carrier not like 'A%'", [1]),
        ("not carrier not like 'A%'", [0]),
        ("delay = 1.1", []),
        ("delay = 1.1f", [0]),
        ("delay > 1.1", [0]),
        ("delay = float('1.1')", [0]),
        ("delay in (-1.1f, -2D)", [1]),
        ("carrier <> 'it''s'", [0, 1]),
        ("CARRIER = 'AA'", [0]),
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
        ("gate.open", [2]),
        ("clock > '12:00:00'", [1]),
        ("clock <= time '12:00:00.000001'", [0, 1]),
        ("wait < '0 00:00:00'", [0]),
        ("wait = '-0 23:59:59.5'", [0]),
        ("wait >= interval '51' hour", [1]),
        ("wait > interval 2 days", [1]),
        ("wait > - interval '86399.5' second", [1]),
        ("wait between interval '-1 00:00:00' day to second and interval '-1' minute", [0]),
        ("`odd name` = 5", [2]),
        ("id = 0 or (id = 1 and not carrier = 'AA')", [0, 1]),
    ],
)
def test_a_condition_wants_these_records(condition: str, ids: list[int]) -> None:
    assert wanted(condition) == ids
    predicate = parse_condition(condition, SCHEMA).predicate
    if "Unknown" not in repr(predicate):  # else it does not say all of the condition
        found = condition_of(predicate, schema_of(SCHEMA), "where")
        assert chosen(found) == ids
        assert sorted(found.columns) == found.columns


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("x > 1", [0, 2]),
        ("x >= 1", [0, 1, 2]),
        ("x < 2", [1]),
        ("x <= 1", [1]),
        ("x = 1", [1]),
        ("x <> 1", [0, 2]),
        ("NOT x > 1", [1]),
        ("x BETWEEN 1 AND 'NaN'", [0, 1, 2]),
        ("x = double('NaN')", [0]),
        ("x IN (1, float('nan'))", [0, 1]),
        ("x <> 'NaN'", [1, 2]),
        ("x < 'NaN'", [1, 2]),
        ("x <= 'NaN'", [0, 1, 2]),
        ("x > 'NaN'", []),
        ("x >= 'NaN'", [0]),
        ("NOT x >= 'NaN'", [1, 2]),
    ],
)
def test_nan_is_equal_to_itself_and_larger_than_any_number(
    kind: pa.DataType, condition: str, places: list[int]
) -> None:
    values = pa.array([math.nan, 1, math.inf, None], kind)
    batch = pa.record_batch({"x": values, "place": pa.array(range(4))})
    found = parse_condition(condition, batch.schema)
    assert batch.filter(found.expression)["place"].to_pylist() == places


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (And(parts=()), [0, 1, 2]),
        (Or(parts=()), []),
        (Constant(value=None), []),
        (Not(part=Constant(value=None)), []),
        (Not(part=In(column="carrier", values=("AA",))), [1]),
        (Compare(column="price", operator="<", value=2), [0]),
        (Compare(column="delay", operator=">", value=1), [0]),
        (Compare(column="day", operator="=", value=20484), [1]),
        (Compare(column="at", operator="<", value=2**62), [1]),
    ],
)
def test_a_predicate_wants_these_records(predicate: Predicate, ids: list[int]) -> None:
    assert chosen(condition_of(predicate, schema_of(SCHEMA), "where")) == ids


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        (5, "is of type int"),
        (Unknown(), "has Unknown(), which no row can be tested with"),
        (Compare(column="id", operator="!=", value=5), "which no row can be tested with"),
        (StartsWith(column="id", prefix="5"), "which no row can be tested with"),
        (In(column="id", values=()), "which no row can be tested with"),
        (Compare(column="nope", operator="=", value=5), "names 'nope', which is no column"),
        (Compare(column=1, operator="=", value=5), "names 1, which is no column"),
        (Compare(column="id", operator="=", value="5"), "compares id (BIGINT) with '5'"),
        (Compare(column="id", operator="=", value=True), "compares id (BIGINT) with True"),
        (Compare(column="delay", operator="=", value=math.nan), "with nan, which is none"),
        (Compare(column="day", operator="=", value=2**40), "which is none"),
        (Compare(column="clock", operator="=", value=5), "compares clock (TIME(9)) with 5"),
        (And(parts=(IsNull(column="id"),) * NODES_MAX), "is too large a predicate"),
        (reduce(lambda part, _: Not(part=part), range(10**4), Unknown()), "is too large"),
    ],
)
def test_what_no_row_can_be_tested_with_is_refused(where: Any, problem: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        condition_of(where, schema_of(SCHEMA), "--where")
    assert refused.value.option == "--where"
    assert problem in refused.value.cause


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
        ("clock = 'noon'", "compares clock (TIME(9)) with 'noon', which is none"),
        ("wait = 'long'", "compares wait (INTERVAL DAY TO SECOND) with 'long', which is none"),
        ("wait = 5", "compares wait (INTERVAL DAY TO SECOND) with '5', which is none"),
        ("wait = interval '1' month", "with \"INTERVAL '1' MONTH\", which is none"),
        ("wait = interval '0.0000001' second", 'SECOND", which is none'),
        ("wait = interval '999999999' day", 'DAY", which is none'),
        ("wait = interval '02:03' hour to minute", 'MINUTE", which is none'),
        ("clock = interval '1' day", "compares clock with \"INTERVAL '1' DAY\", no value"),
        ("at = 'yesterday'", "compares at (TIMESTAMP) with 'yesterday', which is none"),
        ("gate = 'A'", "compares gate (STRUCT<area: STRING, number: INT, open: BOOLEAN>) with 'A'"),
        ("tags = 'A'", "compares tags (ARRAY<STRING>) with 'A'"),
        ("id = null", "compares id with NULL"),
        ("id = delay", "compares id with 'delay', no value"),
        ("carrier = 'A' 'A'", "no value"),
        ("id = 1.5f", "no value"),
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
    assert refused.value.option == "where"
    assert problem in refused.value.cause


def test_a_condition_names_the_columns_that_it_needs_once() -> None:
    needed = parse_condition("delay > 1 or gate.area = 'A' or delay < 0 or gate.number = 1", SCHEMA)
    assert needed.columns == ["delay", "gate"]


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOTHING_KNOWN = And(parts=())


def at_us(text: str) -> int:
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("id > 5", Compare(column="id", operator=">", value=5)),
        ("ID > 5", Compare(column="id", operator=">", value=5)),
        ("5.0 > id", Compare(column="id", operator="<", value=5)),
        ("delay >= 1.5", Compare(column="delay", operator=">=", value=1.5)),
        ("delay < -2", Compare(column="delay", operator="<", value=-2.0)),
        ("carrier = 'AA'", Compare(column="carrier", operator="=", value="AA")),
        ("carrier LIKE 'A%'", StartsWith(column="carrier", prefix="A")),
        ("carrier NOT LIKE 'A%'", Not(part=StartsWith(column="carrier", prefix="A"))),
        ("day < '2026-01-31'", Compare(column="day", operator="<", value=20484)),
        ("day < date '2026-01-31'", Compare(column="day", operator="<", value=20484)),
        ("late", Compare(column="late", operator="=", value=True)),
        ("carrier IS NULL", IsNull(column="carrier")),
        (
            "at >= '2026-03-29 02:30:00'",  # not on any clock: an hour later
            Compare(column="at", operator=">=", value=at_us("2026-03-29T01:30Z")),
        ),
        (
            "at >= timestamp '2026-10-25 02:30:00'",  # twice on the clock: the first time
            Compare(column="at", operator=">=", value=at_us("2026-10-25T00:30Z")),
        ),
        (
            "at = '2026-07-01T00:00+09:00'",
            Compare(column="at", operator="=", value=at_us("2026-06-30T15:00Z")),
        ),
    ],
)
def test_what_spark_is_asked_is_known_of_the_columns(text: str, test: Predicate) -> None:
    assert sparks_predicate(text, SCHEMA, BERLIN) == And(parts=(test,))
    both = sparks_predicate(f"upper(carrier) = 'X' AND ({text} AND now() > at)", SCHEMA, BERLIN)
    assert both == And(parts=(test,))


@pytest.mark.parametrize(
    "text",
    [
        "id = '5'",  # Spark casts the text
        "id > 0.5",
        "id < 9223372036854775808",
        "delay > 0.1",  # no FLOAT; Spark compares doubles
        "delay >= 16777217",
        "price > 1.5",
        "at > date '2026-01-31'",
        "day > timestamp '2026-01-31 00:00:00'",
        "late = 'true'",
        "day = cast('2026-01-31' as string)",
        "carrier LIKE '%A'",
        "carrier LIKE 'A_%'",
        "gate.number = 7",
        "gate.area IS NULL",
        "id < 5 OR upper(carrier) = 'X' AND carrier LIKE 'A%'",
    ],
)
def test_what_spark_may_take_in_another_way_leaves_nothing_out(text: str) -> None:
    """Whatever the values are."""
    found = sparks_predicate(text, SCHEMA, BERLIN)
    for value in (-(2**63), 2**63 - 1, -1e30, 1e30, "", "zz", False, True):
        known = Statistics(record_count=2, null_count=0, minimum=value, maximum=value)
        assert outcomes(found, lambda _, known=known: known).true


@pytest.mark.parametrize(
    "text",
    [
        'carrier = "AA"',
        "carrier = 'it''s'",
        "carrier = 'a\\\\b'",
        "carrier = '${x}'",
        "id > 5 -- AND late",
        "id > 5 /* or */",
        "id > ",
        "id > 5; late",
        "NOT (" * 500 + "id > 5" + ")" * 500,
    ],
)
def test_a_text_that_spark_reads_as_it_is_set_leaves_nothing_out(text: str) -> None:
    assert sparks_predicate(text, SCHEMA, BERLIN) == NOTHING_KNOWN


def test_a_time_of_a_zone_that_python_does_not_know_leaves_nothing_out() -> None:
    test = Compare(column="id", operator=">", value=5)
    assert sparks_predicate("at > '2026-01-31' AND id > 5", SCHEMA, None) == And(
        parts=(Unknown(), test)
    )


def test_a_long_condition_is_known_as_far_as_a_node_judges_it() -> None:
    text = " AND ".join(f"id <> {number}" for number in range(400))
    assert len(sparks_predicate(text, SCHEMA, BERLIN).parts) == NODES_MAX // 2 - 1
    any_of = " OR ".join(f"id = {number}" for number in range(100))
    [either] = sparks_predicate(f"{any_of}", SCHEMA, BERLIN).parts
    assert len(either.parts) == 100
