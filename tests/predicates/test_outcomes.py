"""Judging a predicate by statistics never denies what some record has.

Each example is a batch that is encoded as a client encodes it, and a predicate. The predicate is
evaluated for each record by SQL's rules, written here a second time and in another way.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.predicates.intervals import interval
from raftlog.predicates.outcomes import ANY, Outcomes, Statistics, outcomes
from raftlog.predicates.predicate import (
    OPERATORS,
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
    bound_to,
    columns_of,
    depth,
    node_count,
)
from raftlog.records.arrow_types import schema_of
from raftlog.records.batch_codec import encode_batch
from raftlog.wire.batch import BatchHeader

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.one_of(st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))),
    "real": (
        pa.float64(),
        st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan]),
    ),
    "single": (pa.float32(), st.sampled_from([-1.5, -0.0, 0.0, 0.5, math.inf, math.nan])),
    "truth": (pa.bool_(), st.booleans()),
    "text": (
        pa.string(),
        st.one_of(
            st.sampled_from(["", "a", "ab", "abc", "b", "é", "\U0001f600", "\uffff", "a" * 70]),
            st.text("ab\uffff\U0001f600", max_size=3),
        ),
    ),
    "raw": (pa.binary(), st.sampled_from([b"", b"\0", b"a", b"a\xff", b"\xff", b"a" * 70])),
    "day": (pa.date32(), st.integers(-3, 3)),
    "at": (pa.timestamp("us", tz="UTC"), st.integers(-3, 3)),
}
"""Columns, with values few enough that predicates meet them."""

SCHEMA = schema_of(pa.schema([(name, kind) for name, (kind, _) in KINDS.items()]))
IDS = {field.name: field.id for field in SCHEMA.fields}
Row = dict[str, Any]


def literals(name: str) -> st.SearchStrategy[Any]:
    return KINDS[name][1].filter(lambda value: value == value)


@st.composite
def column_tests(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from([*KINDS]))
    what = draw(st.sampled_from(["compare", "compare", "in", "null", "starts"]))
    if what == "null":
        return IsNull(column=name)
    if what == "starts":
        return StartsWith(column="text", prefix=draw(st.sampled_from(["", "a", "ab", "\uffff"])))
    if what == "in":
        values = draw(st.lists(literals(name), min_size=1, max_size=3))
        return In(column=name, values=tuple(sorted(values)))
    return Compare(
        column=name, operator=draw(st.sampled_from(OPERATORS)), value=draw(literals(name))
    )


PREDICATES = st.recursive(
    st.one_of(column_tests(), st.builds(Constant, value=st.sampled_from([True, False, None]))),
    lambda parts: st.one_of(
        st.builds(Not, part=parts),
        st.builds(And, parts=st.lists(parts, max_size=3).map(tuple)),
        st.builds(Or, parts=st.lists(parts, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()}),
    min_size=1,
    max_size=4,
)


def header_of(rows: list[Row]) -> BatchHeader:
    columns = [
        pa.array([row[name] for row in rows], pa.int32() if name == "day" else None).cast(kind)
        if name in ("day",)
        else pa.array([row[name] for row in rows], kind)
        for name, (kind, _) in KINDS.items()
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema([
        pa.field(name, kind) for name, (kind, _) in KINDS.items()
    ]))  # fmt: skip
    return encode_batch(batch, SCHEMA, "none").header


def judged(predicate: Predicate, header: BatchHeader) -> Outcomes:
    by_id = {chunk.field_id: chunk for chunk in header.columns}

    def statistics(column: int | str) -> Statistics:
        assert isinstance(column, int), "bound to field ids"
        chunk = by_id[column]
        return Statistics(
            record_count=header.record_count,
            null_count=chunk.null_count,
            minimum=chunk.minimum,
            maximum=chunk.maximum,
        )

    return outcomes(bound_to(predicate, dict(IDS)), statistics)


def truth(predicate: Predicate, row: Row) -> bool | None:
    """What Spark comes to: three values, NaN above every number and equal to itself."""
    match predicate:
        case IsNull(column=column):
            return row[str(column)] is None
        case Constant(value=value):
            return value
        case Not(part=part):
            found = truth(part, row)
            return None if found is None else not found
        case And(parts=parts):
            found_all = [truth(part, row) for part in parts]
            return False if False in found_all else None if None in found_all else True
        case Or(parts=parts):
            found_all = [truth(part, row) for part in parts]
            return True if True in found_all else None if None in found_all else False
        case Compare() | In() | StartsWith():
            value = row[str(predicate.column)]
            return None if value is None else _test(predicate, value)
        case Unknown():
            raise AssertionError("not made here")


def _test(predicate: Compare | In | StartsWith, value: Any) -> bool:
    match predicate:
        case StartsWith(prefix=prefix):
            return str(value).encode().startswith(prefix.encode())
        case In(values=values):
            return any(_key(value) == _key(each) for each in values)
        case Compare(operator=operator, value=other):
            mine, its = _key(value), _key(other)
            return {
                "=": mine == its,
                "<": mine < its,
                "<=": mine <= its,
                ">": mine > its,
                ">=": mine >= its,
            }[operator]


def _key(value: Any) -> Any:
    """By which Spark orders: text by its UTF-8 bytes, NaN at the end."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


@pytest.mark.slow
@settings(max_examples=400)
@given(PREDICATES, ROWS)
@example(Compare(column="text", operator="<", value="\U0001f600"), [
    dict.fromkeys(KINDS) | {"text": "\uffff"}
])  # fmt: skip
@example(Compare(column="real", operator=">", value=1.0), [
    dict.fromkeys(KINDS) | {"real": 1.0}, dict.fromkeys(KINDS) | {"real": math.nan}
])  # fmt: skip
def test_statistics_never_deny_a_truth_value_that_a_record_has(predicate, rows):
    found = judged(predicate, header_of(rows))
    has = [truth(predicate, row) for row in rows]
    assert found.true or True not in has, (predicate, found)
    assert found.false or False not in has, (predicate, found)
    assert found.null or None not in has, (predicate, found)


@settings(max_examples=200)
@given(
    st.sampled_from(["whole", "day", "at"]).flatmap(
        lambda name: st.builds(
            Compare, column=st.just(name), operator=st.sampled_from(OPERATORS), value=literals(name)
        )
    ),
    ROWS,
)
def test_a_comparison_with_whole_numbers_denies_all_that_bounds_can(predicate, rows):
    """No looser than the bounds: else nothing would ever be skipped."""
    values = [row[predicate.column] for row in rows if row[predicate.column] is not None]
    found = judged(predicate, header_of(rows))
    between = {*values} | {
        value for value in range(-3, 4) if values and min(values) < value < max(values)
    }
    assert found.true == any(_test(predicate, value) for value in between)
    assert found.false == any(not _test(predicate, value) for value in between)


@st.composite
def single_tests(draw: st.DrawFn) -> tuple[Predicate, list[Row]]:
    """A test of a column, and a few rows with nothing but that column, among few values."""
    predicate = draw(column_tests())
    name = str(*columns_of(predicate))
    kept = draw(st.lists(KINDS[name][1], min_size=1, max_size=2))
    met = predicate.values if isinstance(predicate, In) else ()
    met = (predicate.value,) if isinstance(predicate, Compare) else met
    values = draw(st.lists(st.sampled_from([None, *kept, *met]), min_size=1, max_size=3))
    return predicate, [dict.fromkeys(KINDS) | {name: value} for value in values]


@pytest.mark.slow
@settings(max_examples=800)
@given(single_tests())
def test_statistics_never_deny_what_a_single_test_comes_to(tested):
    predicate, rows = tested
    for each in (predicate, Not(part=predicate)):
        found = judged(each, header_of(rows))
        has = [truth(each, row) for row in rows]
        assert found.true or True not in has, (each, found)
        assert found.false or False not in has, (each, found)
        assert found.null or None not in has, (each, found)


def test_a_float_is_never_known_to_equal_another():
    """Spark takes 0.0 and -0.0 for equal, but not in a long list."""
    zero = Statistics(record_count=1, null_count=0, minimum=-0.0, maximum=-0.0)
    for test in (
        Compare(column="x", operator="=", value=0.0),
        In(column="x", values=(0.0,)),
    ):
        assert outcomes(test, lambda _: zero) == Outcomes(true=True, false=True, null=False)


@pytest.mark.slow
@settings(max_examples=300)
@given(PREDICATES, ROWS)
def test_an_interval_holds_the_column_of_every_record_that_matches(predicate, rows):
    lies = interval(predicate, "whole")
    for row in rows:
        if truth(predicate, row) is True and row["whole"] is not None:
            assert not lies.empty
            assert lies.low is None or lies.low <= row["whole"]
            assert lies.high is None or row["whole"] <= lies.high


@pytest.mark.parametrize(
    ("predicate", "low", "high"),
    [
        (Compare(column="whole", operator="<", value=5), None, 4),
        (Not(part=Compare(column="whole", operator="<", value=5)), 5, None),
        (In(column="whole", values=(3, 9)), 3, 9),
        (
            And(parts=(
                Compare(column="whole", operator=">=", value=2),
                Compare(column="whole", operator="<=", value=7),
                Compare(column="text", operator="=", value="a"),
            )),
            2,
            7,
        ),
        (
            Or(parts=(
                Compare(column="whole", operator="=", value=2),
                And(parts=(Compare(column="whole", operator=">", value=7), Constant(value=False))),
            )),
            2,
            2,
        ),
        (Unknown(), None, None),
    ],
)  # fmt: skip
def test_an_interval_is_as_narrow_as_the_predicate_says(predicate, low, high):
    found = interval(predicate, "whole")
    assert (found.low, found.high) == (low, high)


def test_a_column_that_is_not_there_is_null_in_every_record():
    tests_of_it = And(parts=(
        Compare(column="later", operator="=", value=1),
        Not(part=In(column="later", values=(1,))),
        StartsWith(column="later", prefix="a"),
    ))  # fmt: skip
    found = outcomes(bound_to(tests_of_it, {}), lambda _: None)
    assert found == Outcomes(true=False, false=False, null=True)
    is_null = outcomes(bound_to(IsNull(column="later"), {}), lambda _: None)
    assert is_null == Outcomes(true=True, false=False, null=False)


def test_what_is_not_known_may_be_anything():
    test = Compare(column="x", operator="=", value=1)
    assert outcomes(test, lambda _: None) == ANY
    assert outcomes(Unknown(), lambda _: None) == ANY
    of_another_type = Statistics(record_count=1, null_count=0, minimum="2", maximum="3")
    assert outcomes(test, lambda _: of_another_type).true


def test_the_size_of_a_predicate_counts_every_part():
    both = And(parts=(IsNull(column="a"), Not(part=In(column="b", values=tuple(range(50))))))
    assert (node_count(both), depth(both)) == (14, 3)
    assert columns_of(both) == {"a", "b"}


def test_dates_and_timestamps_are_compared_as_they_are_stored():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    micros = int(at.timestamp() * 1_000_000)
    rows = [dict.fromkeys(KINDS) | {"at": micros, "day": 20454}]
    header = header_of(rows)
    assert judged(Compare(column="at", operator="=", value=micros), header).true
    assert not judged(Compare(column="at", operator=">", value=micros), header).true
    assert not judged(Compare(column="day", operator="<", value=20454), header).true
