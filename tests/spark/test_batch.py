"""Batch reads and writes with a real Spark and a real cluster."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import raftlog.spark
from raftlog.spark.metadata_columns import METADATA_NAMES, check_reserved, without_metadata
from tests.spark.conftest import failure

EVERY_TYPE = [
    "id % 2 = 0 AS yes",
    "CAST(id % 100 AS tinyint) AS i8",
    "CAST(id AS smallint) AS i16",
    "CAST(id AS int) AS i32",
    "id AS i64",
    "CAST(id AS float) / 3 AS f32",
    "CAST(id AS double) / 3 AS f64",
    "CAST(id AS decimal(20, 3)) AS dec",
    "CAST(id AS string) AS text",
    "CAST(CAST(id AS string) AS binary) AS raw",
    "date_add(date'2024-02-28', CAST(id AS int)) AS day",
    "timestamp_micros(1710054000000000 + id * 1000001) AS at",
    "timestamp_ntz'2024-03-10 02:30:00' AS wall",
    "array(id, null) AS several",
    "named_struct('x', id, 'y', array(named_struct('z', CAST(id AS string)))) AS nested",
]


def test_every_type_and_null_comes_back_as_it_was_written(lab):
    """Times around a change of daylight saving time, in a session whose zone has one."""
    rows = lab.spark.range(120).selectExpr(*EVERY_TYPE)
    nulls = rows.select([F.lit(None).cast(f.dataType).alias(f.name) for f in rows.schema])
    data = rows.unionAll(nulls.limit(3))
    lab.write(data)
    found = lab.read()
    assert [(f.name, f.dataType.simpleString()) for f in found.schema] == [
        (f.name, f.dataType.simpleString()) for f in data.schema
    ]
    assert sorted(map(str, found.collect())) == sorted(map(str, data.collect()))


def test_a_map_column_comes_back_as_it_was_written(lab):
    data = lab.spark.range(3).selectExpr("id", "map('k', id, 'n', null) AS m")
    lab.write(data)
    assert sorted(map(tuple, lab.read().collect())) == sorted(map(tuple, data.collect()))


def test_a_projection_is_read_in_its_own_order_with_metadata_columns(lab):
    lab.create()
    lab.append(1, 2)
    lab.append(3)
    found = lab.read(
        schema="_offset bigint, s string, _topic string, _writer string, _epoch bigint"
    )
    assert found.columns == ["_offset", "s", "_topic", "_writer", "_epoch"]
    assert sorted(map(tuple, found.collect())) == [
        (0, "s1", lab.topic, None, None),
        (1, "s2", lab.topic, None, None),
        (2, "s3", lab.topic, None, None),
    ]


def test_metadata_columns_say_who_wrote_what_when(lab):
    data = lab.spark.range(4).selectExpr("id", "'x' AS s")
    lab.write(data, txnAppId="job", txnVersion=7)
    rows = lab.read(includeMetadata="true").orderBy("_offset").collect()
    assert [row._offset for row in rows] == [0, 1, 2, 3]
    assert {(row._topic, row._writer, row._epoch) for row in rows} == {(lab.topic, "job", 7)}
    assert len({row._timestamp for row in rows}) == 1
    assert all(row._term >= 1 for row in rows)


def test_a_read_to_write_copy_strips_the_metadata_columns_however_they_were_carried(lab):
    lab.create()
    lab.append(1, 2, 3)
    copy = f"{lab.topic}-copy"
    read = lab.read(includeMetadata="true")
    read.createOrReplaceTempView("carried")
    carried = [
        lab.spark.sql("SELECT *, _topic AS origin FROM carried WHERE _offset >= 0"),
        read.select("_OFFSET", "_topic", "id", "s", F.col("_topic").alias("origin")),
        read.withColumnRenamed("_topic", "_t").withColumnRenamed("_t", "_topic"),
        read.unionByName(read).distinct(),
        read.join(lab.read().select("id"), "id").repartition(2).orderBy("_offset").cache(),
        read.groupBy("_topic", "id").count(),
    ]
    for data in carried:
        assert not set(without_metadata(data.schema).names) & set(METADATA_NAMES), data
        check_reserved(data.schema, copy)
    lab.write(carried[0], topic=copy)
    lab.write(carried[1], topic=copy)
    found = lab.read(subscribe=copy)
    assert found.columns == ["id", "s", "origin"]
    assert sorted((row.id, row.origin) for row in found.collect()) == [
        (number, lab.topic) for number in (1, 1, 2, 2, 3, 3)
    ]


def test_a_column_of_the_users_own_under_a_reserved_name_is_an_error_before_any_row(lab):
    lab.create()
    lab.append(1)
    read = lab.read(includeMetadata="true")
    mine = [
        (lab.read().withColumn("_topic", F.lit("mine")), "_topic"),
        (lab.read().withColumn("_Topic", F.lit("mine")), "_Topic"),
        (read.withColumn("_offset", F.col("_offset") + 1), "_offset"),
        (read.drop("_topic").withColumnRenamed("_writer", "_topic"), "_topic"),
        (lab.read(schema="id bigint, s string, _term bigint"), "_term"),
    ]
    for data, name in mine:
        with pytest.raises(AnalysisException, match=f"  {name}: the name is reserved"):
            lab.write(data, topic=f"{lab.topic}-mine")
    lab.rows_file("1", 2)
    rows = lab.file_stream().withColumn("_epoch", F.lit(1))
    assert "  _epoch: the name is reserved" in failure(lab.sink(rows).start())
    assert lab.ids() == [1]
    assert f"{lab.topic}-mine" not in [topic.name for topic in lab.client.list_topics()]


def test_names_in_another_case_are_those_of_the_topic_unless_spark_is_case_sensitive(lab):
    lab.create("id bigint, s string")
    shouted = lab.spark.range(2).selectExpr("id AS ID", "'x' AS S")
    lab.write(shouted)
    lab.write(shouted.selectExpr("*", "1 AS n"), mergeSchema="true")
    topic = lab.client.describe_topic(lab.topic)
    assert [field.name for field in topic.schema.fields] == ["id", "s", "n"]
    found = lab.read(schema="S string, _OFFSET bigint, ID bigint").orderBy("_offset")
    assert found.columns == ["S", "_OFFSET", "ID"]
    assert [(row.ID, row._OFFSET) for row in found.collect()] == [(0, 0), (1, 1), (0, 2), (1, 3)]
    with case_sensitive(lab.spark):
        with pytest.raises(
            PySparkException, match=r"ID: id in the topic, and spark\.sql\.caseSens"
        ):
            lab.write(shouted)
        with pytest.raises(
            PySparkException, match=r"ID: id in the topic, and spark\.sql\.caseSens"
        ):
            lab.write(shouted.selectExpr("*", "1 AS more"), mergeSchema="true")
        with pytest.raises(
            PySparkException, match=r"ID: id in the topic, and spark\.sql\.caseSens"
        ):
            lab.read(schema="ID bigint").collect()
        lab.write(lab.spark.range(2, 3).selectExpr("id", "'x' AS s"))
    assert lab.client.describe_topic(lab.topic).schema == topic.schema
    assert len(lab.ids()) == 5


@contextmanager
def case_sensitive(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_offsets_bound_a_read_and_partitions_split_it(lab):
    lab.create()
    lab.append(*range(10))
    bounds = {
        "startingOffsets": f'{{"{lab.topic}": 3}}',
        "endingOffsets": f'{{"{lab.topic}": 8}}',
    }
    found = lab.read(**bounds, minPartitions=3)
    assert found.rdd.getNumPartitions() == 3
    assert sorted(row.id for row in found.collect()) == [3, 4, 5, 6, 7]
    assert lab.read(**bounds, maxRecordsPerPartition=1).rdd.getNumPartitions() == 5
    assert lab.read().rdd.getNumPartitions() == 1


def test_times_bound_a_read(lab):
    lab.create()
    times_us = lab.append_over_time()
    last_ms = max(times_us.values()) // 1000
    before = sorted(number for number, time_us in times_us.items() if time_us < last_ms * 1000)
    after = sorted(times_us.keys() - set(before))
    assert before
    assert [row.id for row in lab.read(endingTimestamp=last_ms).sort("id").collect()] == before
    assert [row.id for row in lab.read(startingTimestamp=last_ms).sort("id").collect()] == after
    assert lab.read(startingTimestamp=0, endingTimestamp=1 << 50).count() == len(times_us)
    late = {"startingTimestamp": 1 << 50}
    with pytest.raises(PySparkException, match=r"no record of .* has this timestamp or a later"):
        lab.read(**late).collect()
    assert lab.read(**late, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_an_empty_range_and_an_empty_topic_read_as_no_rows(lab):
    lab.create()
    assert lab.read().count() == 0
    lab.append(1)
    assert lab.read(startingOffsets=f'{{"{lab.topic}": 1}}').collect() == []
    with pytest.raises(PySparkException, match="above its end 1"):
        lab.read(startingOffsets=f'{{"{lab.topic}": 2}}').collect()


def test_several_topics_are_read_as_one_by_the_names_of_their_columns(lab):
    lab.create()
    lab.append(1)
    other, odd = f"{lab.topic}-b", f"{lab.topic}-c"
    lab.client.create_topic(other, "id bigint, s string")
    lab.client.append(other, [{"id": 2, "s": "x"}])
    lab.client.create_topic(odd, "id int")
    both = lab.read(subscribe=f"{lab.topic}, {other}", includeMetadata="true")
    assert sorted((row._topic, row.id) for row in both.collect()) == [(lab.topic, 1), (other, 2)]
    less = f"{lab.topic}-less"
    lab.client.create_topic(less, "n int, id bigint")
    lab.client.append(less, [{"id": 3, "n": 7}])
    union = lab.read(subscribe=None, subscribePattern=f"{lab.topic}(-less)?")
    assert union.columns == ["id", "s", "n"]
    assert sorted(map(tuple, union.collect())) == [(1, "s1", None), (3, None, 7)]
    assert sorted(map(tuple, union.select("s").collect()), key=str) == [("s1",), (None,)]
    only = lab.read(subscribe=less, schema="id bigint")
    assert only.collect()[0].id == 3
    with pytest.raises(AnalysisException, match=r"matches no topic"):
        lab.read(subscribe=None, subscribePattern=f"{lab.topic}-none")
    with pytest.raises(AnalysisException, match=r"id: bigint in .*, int in "):
        lab.read(subscribe=f"{lab.topic},{odd}")


def test_views_show_the_state_of_the_cluster_as_it_is_when_they_are_read(lab):
    data = lab.spark.range(4).selectExpr("id", "'x' AS s")
    lab.write(data, txnAppId="job", txnVersion=7)
    lab.client.positions.publish(f"{lab.topic}/g", lab.topic, 1, publisher="me")
    lab.client.alter_topic(lab.topic, {"retention_s": 86_400})
    known = lab.client.alter_schema(lab.topic, add="`a b` int")
    [mark] = lab.read(view="watermarks").collect()
    assert (mark.topic, mark.incarnation) == (known.name, known.incarnation)
    assert (mark.log_start_offset, mark.high_water_mark, mark.records) == (0, 4, 4)
    assert mark.bytes == lab.client.read_high_water_mark(known).record_bytes > 0
    assert (mark.replicas, mark.leader in known.voters, mark.commit_index > 0) == (3, True, True)
    [epoch] = lab.read(view="epochs", subscribe=None, subscribePattern=lab.topic).collect()
    assert (epoch.writer, epoch.kind, epoch.last_epoch) == ("job", "named batch", 7)
    assert (epoch.start_offset, epoch.end_offset, epoch.open_epochs) == (0, 4, 0)
    assert abs(epoch.last_activity.timestamp() - time.time()) < 3600
    [topic] = lab.read(view="topics").collect()
    assert (topic.columns, topic.schema_version) == ("id BIGINT, s STRING, `a b` INT", 2)
    assert StructType.fromJson(json.loads(topic.schema_json)) == lab.read().schema
    assert (topic.retention_s, topic.retention_bytes, len(topic.nodes)) == (86_400, None, 3)
    groups = lab.read(
        view="groups", subscribe=None, schema="position bigint, topic string, records_behind bigint"
    )
    marks = lab.read(view="watermarks", subscribe=None).select("topic", "bytes")
    [row] = groups.join(marks, "topic").where(F.col("topic") == lab.topic).collect()
    assert (row.position, row.records_behind, row.bytes) == (1, 3, mark.bytes)


def test_wrong_options_fail_on_the_driver_with_the_nearest_name(lab):
    lab.create()
    rows = lab.spark.range(1).selectExpr("id", "'x' AS s")
    with pytest.raises(AnalysisException, match="Did you mean 'startingOffsets'"):
        lab.read(startingOffset="earliest")
    with pytest.raises(AnalysisException, match="Did you mean 'createTopic'"):
        lab.write(rows, createTopics="true")
    with pytest.raises(AnalysisException, match="'txnAppId' is given without 'txnVersion'"):
        lab.write(rows, txnAppId="job")
    with pytest.raises(AnalysisException, match=r"There is no topic .* Did you mean"):
        lab.read(subscribe=lab.topic + "s")


def test_a_differing_schema_is_explained_field_by_field_and_nothing_is_written(lab):
    lab.create("id bigint, s string, n int")
    rows = lab.spark.range(1).selectExpr("id", "id AS s", "'x' AS other")
    with pytest.raises(AnalysisException) as raised:
        lab.write(rows)
    message = str(raised.value)
    assert "s: string in the topic, bigint in the DataFrame" in message
    assert "n: int in the topic, missing in the DataFrame" in message
    assert "other: string in the DataFrame, missing in the topic" in message
    with pytest.raises(AnalysisException, match=r"did you mean s\?"):
        lab.read(schema="ss string").collect()
    assert lab.ids() == []


def test_overwriting_leaves_only_what_was_written_and_a_rerun_of_it_removes_nothing(lab):
    rows = lab.spark.range(5).selectExpr("id", "'x' AS s")
    lab.write(rows)
    options = {"raftlog.bootstrap.servers": lab.cluster.servers, "topic": lab.topic}
    named = options | {"txnAppId": "job", "txnVersion": "1"}
    rows.where("id > 2").write.format("raftlog").options(**named).mode("overwrite").save()
    assert sorted(lab.ids()) == [3, 4]
    lab.append(5)
    rows.where("id > 2").write.format("raftlog").options(**named).mode("overwrite").save()
    assert sorted(lab.ids()) == [3, 4, 5]
    assert sorted(row.id for row in lab.read().collect()) == [3, 4, 5]
    wrong = rows.selectExpr("*", "'y' AS _x").write.format("raftlog").options(**options)
    with pytest.raises(AnalysisException, match="_x: string in the DataFrame, missing"):
        wrong.mode("overwrite").save()
    rows.where("false").write.format("raftlog").options(**options).mode("overwrite").save()
    assert lab.ids() == []


def test_a_topic_is_made_only_if_it_may_be(lab):
    rows = lab.spark.range(1).selectExpr("id", "'x' AS s")
    with pytest.raises(AnalysisException, match="There is no topic"):
        lab.write(rows, createTopic="false")
    lab.write(rows)
    lab.write(rows, createTopic="false")
    assert lab.ids() == [0, 0]


def test_a_rerun_of_a_named_batch_write_is_a_no_op(lab):
    rows = lab.spark.range(5).selectExpr("id", "'x' AS s")
    lab.write(rows, txnAppId="job", txnVersion=1)
    lab.write(rows, txnAppId="job", txnVersion=1)
    assert sorted(lab.ids()) == [0, 1, 2, 3, 4]
    with pytest.raises(PySparkException, match="5 records and is replayed with 4"):
        lab.write(rows.where("id > 0"), txnAppId="job", txnVersion=1)
    lab.write(rows.where("id > 0"), txnAppId="job", txnVersion=1, onReplayMismatch="keep")
    assert sorted(lab.ids()) == [0, 1, 2, 3, 4]
    lab.write(rows.where("id > 3"), txnAppId="job", txnVersion=2)
    assert sorted(lab.ids()) == [0, 1, 2, 3, 4, 4]


def test_small_topics_share_a_task_and_give_every_record(lab):
    names = [f"{lab.topic}-{number}" for number in range(6)]
    for number, name in enumerate(names):
        lab.client.create_topic(name, "id bigint, s string")
        lab.client.append(name, [{"id": number}, {"id": 100 + number, "s": name}])
    found = lab.read(subscribe=",".join(names))
    assert found.rdd.getNumPartitions() == 1
    assert {(row.id, row.s) for row in found.collect()} == {
        *((number, None) for number in range(6)),
        *((100 + number, name) for number, name in enumerate(names)),
    }
    assert lab.read(subscribe=",".join(names), minPartitions=3).rdd.getNumPartitions() == 6
    assert lab.read(subscribe=",".join(names), maxRecordsPerPartition=4).rdd.getNumPartitions() == 3


def test_a_write_in_one_line_makes_the_topic_and_takes_options(lab):
    rows = lab.spark.range(3).selectExpr("id", "CAST(id AS string) AS s")
    options = {"raftlog.bootstrap.servers": lab.cluster.servers}
    with pytest.raises(AnalysisException, match="topic"):
        raftlog.spark.write(rows, lab.topic, options=options | {"createTopic": False})
    with ThreadPoolExecutor(1) as pool:  # a thread of the user's own has no session
        pool.submit(raftlog.spark.write, rows, lab.topic, options=options).result()
    wider = rows.withColumn("more", rows.id)
    raftlog.spark.write(wider, lab.topic, options=options | {"mergeSchema": True})
    assert sorted(lab.ids()) == [0, 0, 1, 1, 2, 2]


def test_a_write_whose_task_fails_leaves_nothing_visible(lab):
    lab.create()
    rows = lab.spark.range(0, 4, 1, 2).selectExpr(
        "IF(id = 3, CAST(raise_error('broken row') AS bigint), id) AS id", "'x' AS s"
    )
    with pytest.raises(PySparkException, match="broken row"):
        lab.write(rows)
    assert lab.ids() == []


def test_writing_no_rows_is_a_write(lab):
    lab.write(lab.spark.range(0).selectExpr("id", "'x' AS s"), txnAppId="job", txnVersion=0)
    assert lab.ids() == []
    lab.write(lab.spark.range(1).selectExpr("id", "'x' AS s"), txnAppId="job", txnVersion=1)
    assert lab.ids() == [0]
