"""Filters and columns that reach the source, with a real Spark: rows are those of Spark's own
filter, and what no row matches is not read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo
from pyspark.sql.types import LongType, StructField, StructType

import raftlog.spark
from raftlog.errors import InvalidOption
from raftlog.spark.declarations import Endpoint
from raftlog.spark.options import source_options
from raftlog.spark.reader import RaftlogFilteringReader
from tests.costs import seed_of_the_day
from tests.spark.conftest import finish

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@contextmanager
def pushdown(lab) -> Iterator[None]:
    lab.spark.conf.set(PUSHDOWN, "true")
    try:
        yield
    finally:
        lab.spark.conf.unset(PUSHDOWN)


@pytest.fixture
def own_thread() -> Iterator[ThreadPoolExecutor]:
    """A thread that Spark has not been used in."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def fill(lab, batches: int = 4, rows: int = 5) -> None:
    """Batches of rows with rising ids, of more bytes than are read as a gap."""
    lab.create("id bigint, s string, pad binary")
    for number in range(batches):
        ids = range(number * rows, (number + 1) * rows)
        rows_of = [{"id": id, "s": f"s{id:02}", "pad": os.urandom(20_000)} for id in ids]
        lab.client.append(lab.topic, rows_of)


def matching(frame, keys, tests) -> dict[str, list[str]]:
    """The keys of the rows for which Spark finds each test true, in one job."""
    flags = [F.expr(test).alias(f"test {number}") for number, test in enumerate(tests)]
    rows = frame.select(*keys, *flags).collect()
    return {
        test: sorted(str(Row(**{key: row[key] for key in keys})) for row in rows if row[at])
        for at, test in enumerate(tests, len(keys))
    }


def key_rows(frame, keys) -> list[str]:
    return sorted(map(str, frame.select(*keys).collect()))


def read_rows(frame) -> int:
    """How many rows the scan of a DataFrame gives, before Spark's filter."""
    frame.collect()
    return scanned_rows(frame)


def scanned_rows(frame) -> int:
    """The same of a DataFrame that was collected."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().apply(0)
    return plan.metrics().apply("numOutputRows").value()


def options(lab, **more):
    return {"raftlog.bootstrap.servers": lab.cluster.servers, **more}


def test_a_batch_read_with_pushed_filters_reads_only_what_may_match(lab):
    fill(lab)
    frame = lab.read(includeMetadata="true")
    tests = {
        "id = 7": 5,
        "id BETWEEN 3 AND 6": 10,
        "id IN (1, 19)": 10,
        "s >= 's15'": 5,
        "s LIKE 's0%'": 10,
        "id < 0": 0,
        "id IS NULL": 0,
        "_offset >= 18": 2,
        "_offset = 3 AND id = 3": 5,
        "_topic = 'another'": 0,
        "_epoch IS NOT NULL": 0,
        "_timestamp < timestamp'2020-01-01'": 0,
        "_timestamp > timestamp'2020-01-01' AND id = 1": 5,
        "id % 2 = 0": 20,
    }
    expected = matching(frame, frame.columns, tests)
    # What is left of a batch by the offsets is read without the rest of it.
    wanted = tests | {"_offset = 3 AND id = 3": 1}
    for test in tests:
        with pushdown(lab):
            found = lab.read(includeMetadata="true").where(test)
            assert sorted(map(str, found.collect())) == expected[test], test
            assert scanned_rows(found) == wanted[test], test


def test_the_reader_says_what_was_skipped(lab, caplog):
    """No JVM takes part: the test does what Spark's planning does."""
    fill(lab)
    given = source_options(options(lab, subscribe=lab.topic), Endpoint.BATCH_SOURCE)
    schema = StructType([StructField("id", LongType())])
    reader = RaftlogFilteringReader(given, schema)
    filters = [EqualTo(("id",), 7)]
    assert reader.pushFilters(filters) == filters, "Spark evaluates them again"
    [task] = reader.partitions()
    assert repr(task) == f"{lab.topic}[5, 10)"
    assert [batch.num_rows for batch in reader.read(task)] == [5]
    assert f"Filters skip 15 of 20 records of {lab.topic}" in caplog.text


def test_a_date_that_reaches_python_as_another_day_leaves_nothing_out(lab):
    """Of literals in the days that the Gregorian calendar left out, Spark makes others."""
    lab.create("day date")
    for day in ("1582-10-04", "1582-10-10", "1582-10-15", "1970-01-01"):
        lab.write(lab.spark.sql(f"SELECT date'{day}' AS day"))
    tests = ("day = '1582-10-10'", "day > '1582-10-09'", "day = '1970-01-01'")
    with pushdown(lab):
        assert [lab.read().where(test).count() for test in tests] == [1, 3, 1]


TESTS = [
    "yes",
    "NOT yes",
    "i8 < 5",
    "5 > i8",
    "i16 = 7",
    "i32 >= 35L",
    "i32 <> 3",
    "i64 BETWEEN 10 AND 12",
    "i64 NOT IN (3, 4, null)",
    "i64 IN (3, 77)",
    "i64 <=> 8",
    "i64 <=> null",
    "f32 > 1.5",
    "f32 = CAST('NaN' AS float)",
    "f64 >= CAST('NaN' AS double)",
    "f64 <= 2",
    "f64 = 0",
    "dec > 30.5",
    "dec IS NULL",
    "text < '2'",
    "text LIKE '1%'",
    "text NOT LIKE '1%'",
    "text LIKE '%1'",
    "raw >= X'33'",
    "day < '2024-03-10'",
    "day = date'2024-03-01'",
    "at >= '2024-03-10 03:00:10'",
    "at < timestamp'2024-03-10 03:00:10'",
    "wall > timestamp_ntz'2024-03-10 02:30:10'",
    "wall <= '2024-03-10 02:30:10'",
    "later = 3",
    "later IS NULL",
    "NOT (later > 3 OR i64 < 10)",
    "wide > 10",
    "wide <= 4000000000 AND i8 IS NOT NULL",
    "at < now() AND i64 < 5",
    "i64 < 3 OR (text = '39' AND NOT yes)",
    "coalesce(i64, -1) < 3",
    "nested.x = 4",
    # Columns that only the second version has.
    "gone < '25'",
    "gone IS NULL",
    "new = 5",
    "new = 35",
]
DRAWN = 12
"""The number of these that the short version tries."""

COLUMNS = [
    "id % 2 = 0 AS yes",
    "CAST(id % 100 AS tinyint) AS i8",
    "CAST(id AS smallint) AS i16",
    "CAST(id AS int) AS i32",
    "id AS i64",
    "CAST(if(id = 3, 'NaN', id / 10) AS float) AS f32",
    "CAST(if(id = 13, 'NaN', id / 10) AS double) AS f64",
    "CAST(id AS decimal(20, 3)) AS dec",
    "CAST(id AS string) AS text",
    "CAST(CAST(id AS string) AS binary) AS raw",
    "date_add(date'2024-02-28', CAST(id AS int)) AS day",
    "timestamp_micros(1710054000000000 + id * 1000001) AS at",
    "timestamp_ntz'2024-03-10 02:30:00' + make_dt_interval(0, 0, 0, id) AS wall",
    "named_struct('x', id) AS nested",
    "CAST(id AS int) AS wide",
    "id AS gone",
    "id AS old",
]


def test_some_filters_give_the_rows_of_sparks_own(lab):
    """Others each day. Replay: FILTERS_SEED=<seed>."""
    seed = seed_of_the_day("FILTERS_SEED")
    drawn = Random(seed).sample(TESTS, DRAWN)
    print(f"seed {seed}: {', '.join(drawn)}")
    filters_give_the_rows_of_sparks_own(lab, drawn)


@pytest.mark.soak
def test_every_filter_gives_the_rows_of_sparks_own(lab):
    filters_give_the_rows_of_sparks_own(lab, TESTS)


def filters_give_the_rows_of_sparks_own(lab, tests: list[str]) -> None:
    """Over batches of two versions of the schema, in a zone with daylight saving time."""
    rows = lab.spark.range(40).selectExpr(*COLUMNS)
    nulls = rows.select(
        [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema]
    )
    for start in (0, 10):
        lab.write(rows.where(f"i64 >= {start} AND i64 < {start + 10}").coalesce(1))
    lab.write(nulls.limit(2))
    lab.client.alter_schema(
        lab.topic, add="later int", types="wide bigint", rename={"old": "new"}, drop=["gone"]
    )
    lab.client.alter_schema(lab.topic, add="gone string")
    after = rows.drop("gone", "old", "wide").selectExpr(
        "*", "i64 + 4000000000 AS wide", "i64 AS new", "CAST(i64 % 7 AS int) AS later",
        "CAST(i64 AS string) AS gone",
    )  # fmt: skip
    for start in (20, 30):
        lab.write(after.where(f"i64 >= {start} AND i64 < {start + 10}").coalesce(1))
    everything = lab.read()  # not cached: Spark's cache denies that NaN equals NaN
    assert everything.count() == 42
    keys = ["i64", "text", "later"]
    with pushdown(lab):
        pushed = {test: key_rows(lab.read().where(test), keys) for test in tests}
    expected = matching(everything, keys, tests)
    for test in tests:
        assert pushed[test] == expected[test], test
        helped = raftlog.spark.read(
            lab.spark, lab.topic, columns=keys, where=test, options=options(lab)
        )
        assert key_rows(helped, keys) == expected[test], test


def test_the_helper_reads_the_columns_in_their_order_and_only_what_may_match(lab):
    fill(lab)
    frame = raftlog.spark.read(
        lab.spark, lab.topic, columns=["s", "_offset"], where="id > 17", options=options(lab)
    )
    assert frame.columns == ["s", "_offset"]
    assert read_rows(frame) == 5
    assert sorted(map(tuple, frame.collect())) == [("s18", 18), ("s19", 19)]
    assert raftlog.spark.read(lab.spark, lab.topic, options=options(lab)).columns == [
        "id", "s", "pad"
    ]  # fmt: skip
    copy = f"{lab.topic}-copy"
    lab.write(frame, topic=copy)
    assert lab.read(subscribe=copy).columns == ["s"]


def test_the_helper_says_which_columns_there_are(lab):
    lab.create()
    with pytest.raises(InvalidOption, match="names 'ids'"):
        raftlog.spark.read(lab.spark, lab.topic, columns=["ids"], options=options(lab))
    with pytest.raises(InvalidOption, match="is 's'"):
        raftlog.spark.read(lab.spark, lab.topic, columns="s", options=options(lab))
    with pytest.raises(AnalysisException, match="ids"):
        raftlog.spark.read(lab.spark, lab.topic, where="ids = 3", options=options(lab))
    with pytest.raises(InvalidOption, match="'view' is given to a read of a topic's records"):
        raftlog.spark.read(lab.spark, lab.topic, options=options(lab, view="epochs"))


def test_the_helpers_leave_out_an_option_that_is_none(lab):
    lab.create()
    raftlog.spark.write(
        lab.spark.range(2).selectExpr("id", "'' AS s"),
        lab.topic,
        options=options(lab, txnAppId=None),
    )
    read = raftlog.spark.read(lab.spark, lab.topic, options=options(lab, endingOffsets=None))
    assert read.count() == 2


def test_a_stream_reads_only_what_may_match_and_what_comes_later(lab):
    fill(lab)
    stream = raftlog.spark.read_stream(
        lab.spark, lab.topic, columns=["s"], where="id >= 18 OR s = 's02'",
        options=options(lab, startingOffsets="earliest"),
    )  # fmt: skip
    found: list[str] = []
    read: list[int] = []

    def note(batch, number):
        found.extend(sorted(row.s for row in batch.collect()))

    query = lab.each(stream, note)
    finish(query)
    read = [progress["sources"][0]["numInputRows"] for progress in query.recentProgress]
    assert found == ["s02", "s18", "s19"]
    assert sum(read) == 10
    lab.client.append(lab.topic, [{"id": 1, "s": "x", "pad": b""}])
    lab.client.append(lab.topic, [{"id": 20, "s": "y", "pad": b""}])
    finish(lab.each(stream, note))
    assert found == ["s02", "s18", "s19", "y"]


def test_a_stream_batch_none_of_whose_records_match_is_empty(lab):
    fill(lab)
    stream = raftlog.spark.read_stream(
        lab.spark, lab.topic, where="id < 0", options=options(lab, startingOffsets="earliest")
    )
    found: list[int] = []
    finish(lab.collect(stream, found))
    assert found == []


def test_after_the_helper_a_thread_of_the_users_own_can_write(lab, own_thread):
    """In such a thread Spark finds Python sources to read, but not to write. If it ever does,
    docs/SPARK.md says something that is not so any more."""
    lab.create()
    lab.append(1, 2)

    def write():
        lab.write(lab.spark.range(3, 4).selectExpr("id", "'s3' AS s"))

    def helped():
        frame = raftlog.spark.read(
            lab.spark, lab.topic, columns=["s"], where="id = 2", options=options(lab)
        )
        return [row.s for row in frame.collect()]

    with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
        own_thread.submit(write).result()
    assert own_thread.submit(helped).result() == ["s2"]
    own_thread.submit(write).result()
    assert lab.ids() == [1, 2, 3]


def test_topics_read_as_one_are_pruned_each_by_its_own_columns(lab):
    fill(lab, batches=2)
    other = f"{lab.topic}-other"
    lab.client.create_topic(other, "s string, id bigint, more int")
    lab.client.append(other, [{"s": "o", "id": 3, "more": 1}])
    names = f"{lab.topic},{other}"

    def ids(where):
        frame = raftlog.spark.read(lab.spark, names, columns=["id"], where=where,
                                   options=options(lab))  # fmt: skip
        return sorted(row.id for row in frame.collect())

    assert ids("more = 1") == [3]
    assert ids("id = 3") == [3, 3]
    assert ids("more IS NULL AND id > 8") == [9]
    assert ids(f"_topic = '{other}'") == [3]


def test_a_predicate_by_hand_must_test_columns_that_are_read(lab):
    from raftlog.predicates.predicate import IsNull
    from raftlog.wire.codec import predicate_text

    lab.create()
    lab.append(1)
    frame = lab.read(schema="s string", raftlog__predicate=predicate_text(IsNull(column="id")))
    with pytest.raises(Exception, match="tests id, which the query does not read"):
        frame.collect()


def test_a_temporary_view_of_a_topic_is_read_in_sql_with_its_filters(lab):
    fill(lab, batches=2)
    given = f"'raftlog.bootstrap.servers' '{lab.cluster.servers}', subscribe '{lab.topic}'"
    lab.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING raftlog OPTIONS ({given})")
    with pushdown(lab):
        found = lab.spark.sql("SELECT id FROM seen WHERE id > 7")
        assert sorted(row.id for row in found.collect()) == [8, 9]
        assert read_rows(lab.spark.sql("SELECT id FROM seen WHERE id > 7")) == 5
