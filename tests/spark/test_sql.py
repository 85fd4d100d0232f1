"""Tables of Spark's catalog and temporary views over a topic, and reads in a user's own threads."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

import raftlog.spark
from raftlog.chaos.cluster import PATIENCE_S


@pytest.fixture(scope="module")
def topic(client) -> str:
    made = client.create_topic(f"sql-{uuid.uuid4().hex}", "id bigint, word string")
    client.append(made, [{"id": number, "word": f"word {number}"} for number in range(10)])
    return made.name


@pytest.fixture
def options(topic, cluster) -> str:
    return f"OPTIONS (subscribe '{topic}', `raftlog.bootstrap.servers` '{cluster.servers}')"


@pytest.fixture
def table(spark, options):
    name = f"t_{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {name} USING raftlog {options}")
    yield name
    spark.sql(f"DROP TABLE {name}")


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def refusal(statement) -> str:
    with pytest.raises(AnalysisException) as raised:
        statement()
    return str(raised.value)


def test_a_temporary_view_is_a_topic_for_sql(spark, options):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW words USING raftlog {options}")
    assert ids(spark.sql("SELECT id FROM words WHERE word > 'word 4'")) == [5, 6, 7, 8, 9]
    spark.catalog.dropTempView("words")


def test_a_table_remembers_its_options_for_batches_and_streams(spark, table, topic, tmp_path):
    assert ids(spark.table(table)) == list(range(10))
    wanted = f"""SELECT * FROM {table} WITH (startingOffsets '{{"{topic}": 7}}')"""
    assert ids(spark.sql(wanted)) == [7, 8, 9]
    stream = spark.readStream.option("startingOffsets", "earliest").table(table)
    written = stream.writeStream.format("parquet").option("path", f"{tmp_path}/rows")
    written = written.option("checkpointLocation", f"{tmp_path}/checkpoint")
    written.trigger(availableNow=True).start().awaitTermination()
    assert ids(spark.read.parquet(f"{tmp_path}/rows")) == list(range(10))


def test_a_view_keeps_the_plan_of_its_first_action_and_a_table_is_planned_again(
    spark, client, cluster
):
    topic = client.create_topic(f"sql-{uuid.uuid4().hex}", "id bigint").name
    options = f"OPTIONS (subscribe '{topic}', `raftlog.bootstrap.servers` '{cluster.servers}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW held USING raftlog {options}")
    spark.sql(f"CREATE TABLE asked USING raftlog {options}")
    found = []
    for number in range(2):
        client.append(topic, [{"id": number}])
        found.append((ids(spark.table("held")), ids(spark.table("asked"))))
    assert found == [([0], [0]), ([0], [0, 1])]
    spark.sql("DROP TABLE asked")
    spark.catalog.dropTempView("held")


def test_an_insert_into_a_table_is_refused_wherever_its_rows_come_from(
    spark, table, options, client, topic
):
    spark.sql(f"CREATE TABLE {table}_other USING raftlog {options}")
    before = client.read_high_water_mark(topic).high_water_mark
    for rows in ("VALUES (1, 'a')", f"SELECT * FROM {table}"):
        text = refusal(lambda rows=rows: spark.sql(f"INSERT INTO {table}_other {rows}"))
        assert "Spark does not pass on a table's options with INSERT" in text
    assert client.read_high_water_mark(topic).high_water_mark == before
    spark.sql(f"DROP TABLE {table}_other")


def test_a_table_whose_options_no_read_would_take_is_not_created(spark, options):
    wrong = options.replace("(", "(startingOffset 'earliest', ", 1)
    assert "Did you mean 'startingOffsets'?" in refusal(
        lambda: spark.sql(f"CREATE TABLE wrong USING raftlog {wrong}")
    )
    wrong = options.replace("(", "(maxOffsetsPerTrigger 'many', ", 1)
    assert "is 'many'" in refusal(lambda: spark.sql(f"CREATE TABLE wrong USING raftlog {wrong}"))
    assert not spark.catalog.tableExists("wrong")


def test_a_column_that_only_sparks_catalog_has_is_an_error_of_the_next_read(spark, table):
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (more int)")
    assert "more: asked for, not in the topic" in refusal(lambda: spark.table(table).collect())


def test_rows_that_were_read_from_a_table_are_written_where_the_options_say(
    spark, table, client, cluster
):
    name = f"copy-{uuid.uuid4().hex}"
    writing = spark.table(table).write.format("raftlog").mode("append")
    writing.option("raftlog.bootstrap.servers", cluster.servers).option("topic", name).save()
    assert client.read_high_water_mark(name).high_water_mark == 10


def test_a_session_that_runs_keeps_its_settings_and_its_time_zone(spark):
    zone, records, own = (
        "spark.sql.session.timeZone",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "77",
    )
    here = spark.conf.get(zone)
    try:
        spark.conf.set(records, own)
        raftlog.spark.configure(spark)
        assert (spark.conf.get(zone), spark.conf.get(records)) == (here, own)
        assert raftlog.spark.configure(type(spark).Builder())._options == {}
        spark.conf.unset(records)
        spark.conf.unset(zone)
        raftlog.spark.configure(spark)
        assert records in spark.conf.getAll
        assert zone not in spark.conf.getAll
    finally:
        spark.conf.unset(records)
        spark.conf.set(zone, here)


def test_a_thread_of_the_users_own_finds_the_format(spark, topic, client, cluster):
    name = f"threads-{uuid.uuid4().hex}"

    def copy() -> list[int]:
        rows = spark.read.format("raftlog").option("subscribe", topic)
        rows = rows.option("raftlog.bootstrap.servers", cluster.servers).load()
        raftlog.spark.activate(spark)
        writing = rows.write.format("raftlog").mode("append").option("topic", name)
        writing.option("raftlog.bootstrap.servers", cluster.servers).save()
        return ids(rows)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(copy).result(PATIENCE_S) == list(range(10))
    assert client.read_high_water_mark(name).high_water_mark == 10
