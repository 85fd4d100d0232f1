"""What `raftlog.spark.read` makes of a condition, without a cluster and without a JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from raftlog.predicates.predicate import And, Compare
from raftlog.spark.frames import _named, _predicate
from raftlog.wire.codec import predicate_of_text

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("text", StringType()),
        StructField("folded", StringType("UNICODE_CI")),
        StructField("list", ArrayType(LongType())),
    ]
)
NAMES = ["id", "paid", "odd name", "a`b", "user", "größe"]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("id = 1", ["id"]),
        ("PAID > 1", ["paid"]),
        ("`odd name` IS NULL AND id = 1", ["id", "odd name"]),
        ("`a``b` = 1", ["a`b"]),
        ("user = 'me'", ["user"]),
        ("text = 'paid'", ["paid"]),
        ("GRÖSSE > 1 OR größe > 1", ["größe"]),
        ("true", []),
    ],
)
def test_a_condition_brings_every_column_that_it_may_name(where: str, named: list[str]) -> None:
    assert _named(NAMES, where) == named


def session(**settings: str) -> SimpleNamespace:
    """What is asked of a session: its settings."""
    given = {"spark.sql.session.timeZone": "UTC"} | settings
    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda key, default=None: given.get(key, default))
    )


def test_columns_that_spark_orders_in_its_own_way_leave_nothing_out() -> None:
    where = "id > 1 AND text = 'a' AND folded = 'a' AND list IS NULL"
    assert predicate_of_text(_predicate(session(), where, SCHEMA)).parts == (
        Compare(column="id", operator=">", value=1),
        Compare(column="text", operator="=", value="a"),
    )
    legacy = {"spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true"}
    assert predicate_of_text(_predicate(session(**legacy), where, SCHEMA)) == And(parts=())
    alone = predicate_of_text(_predicate(session(**{"spark.sql.session.timeZone": "GMT+8"}), where,
                                         SCHEMA))  # fmt: skip
    assert len(alone.parts) == 2
