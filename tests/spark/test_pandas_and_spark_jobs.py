"""Jobs of the first weeks with pandas and Spark, from the rows that go in to what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Thread

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import raftlog.spark
from raftlog.chaos.cluster import PATIENCE_S
from tests.spark.conftest import Lab, finish, need_streams

# ---------------------------------------------------------------- pandas alone


def test_a_frame_of_common_types_comes_back_with_every_value(lab: Lab) -> None:
    big = 2**53 + 1  # no double has this value
    frame = pd.DataFrame(
        {
            "count": pd.array([big, None], dtype="Int64"),
            "kind": pd.Categorical(["b", None], categories=["z", "b"]),
            "at": pd.to_datetime(["2024-10-27 02:30+02:00", None]).tz_convert("Europe/Vienna"),
            "day": [date(1500, 1, 1), None],
            "price": [Decimal("22.10"), None],
            "ok": pd.array([True, None], dtype="boolean"),
            "ratio": [np.inf, np.nan],
            "tags": [["x", None], None],
            "by": [{"n": big, "s": "x"}, None],
        }
    )
    lab.client.create_topic(lab.topic, frame)
    lab.client.append(lab.topic, frame)
    first, last = lab.client.read(lab.topic).to_table().to_pylist()
    assert first == {
        "count": big, "kind": "b", "at": datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
        "day": date(1500, 1, 1), "price": Decimal("22.10"), "ok": True, "ratio": np.inf,
        "tags": ["x", None], "by": {"n": big, "s": "x"},
    }  # fmt: skip
    assert set(last.values()) == {None}
    found = lab.client.read(lab.topic).to_pandas(types_mapper=pd.ArrowDtype)
    assert (found["count"][0], found["by"][0]["n"]) == (big, big)
    again = lab.client.append(lab.topic, found)
    assert lab.client.read(lab.topic, again.start).to_table().to_pylist() == [first, last]


def test_the_result_of_a_groupby_keeps_its_keys_and_adds_up_with_later_ones(lab: Lab) -> None:
    orders = pd.DataFrame(
        {"user": list("aabb"), "day": [1, 2, 1, 1], "price": [1.0, 2.0, 4.0, 8.0]}
    )
    for part in (orders[:3], orders[3:]):
        sums = part.groupby(["user", "day"]).agg(total=("price", "sum"))
        lab.client.create_topic(lab.topic, sums, if_not_exists=True)
        lab.client.append(lab.topic, sums)
    found = lab.client.read(lab.topic).to_pandas()
    assert found.columns.to_list() == ["user", "day", "total"]
    pd.testing.assert_series_equal(
        found.groupby(["user", "day"]).total.sum(),
        orders.groupby(["user", "day"]).price.sum(),
        check_names=False,
    )


def test_a_parquet_file_goes_through_a_topic_into_another_one(lab: Lab) -> None:
    hours = pd.date_range("2024-01-01", periods=9, freq="h", tz="Europe/Vienna", name="at")
    frame = pd.DataFrame({"kind": pd.Categorical([*"xyz"] * 3), "x": np.arange(9) / 4}, hours)
    frame.to_parquet(lab.folder / "in.parquet")
    taken = pd.read_parquet(lab.folder / "in.parquet")
    lab.client.create_topic(lab.topic, taken)
    lab.client.append(lab.topic, taken)
    lab.client.read(lab.topic).to_pandas().set_index("at").to_parquet(lab.folder / "out.parquet")
    pd.testing.assert_frame_equal(
        pd.read_parquet(lab.folder / "out.parquet").tz_convert("Europe/Vienna"),
        frame.astype({"kind": object}),
        check_index_type=False,
        check_freq=False,
    )


def test_a_condition_leaves_the_rows_of_pandas_own_mask(lab: Lab) -> None:
    at = pd.date_range("2024-03-30", periods=24, freq="6h", tz="Europe/Vienna")
    frame = pd.DataFrame(
        {
            "id": range(24),
            "delay": pd.array([None if n % 5 == 0 else n for n in range(24)], dtype="Int32"),
            "at": at,
            "day": at.date,
            "price": [Decimal(n) / 4 for n in range(24)],
            "x": np.where(np.arange(24) % 7 == 0, np.nan, np.arange(24)),
        }
    )
    lab.client.create_topic(lab.topic, frame)
    lab.client.append(lab.topic, frame)
    for where, mask in {
        "delay <> 7": (frame.delay != 7).fillna(False),
        "delay is null or x is null": frame.delay.isna() | frame.x.isna(),
        f"at >= '{at[9]}'": frame["at"] >= at[9],
        "at < '2024-03-31T03:00+02:00'": frame["at"] < at[5] - pd.Timedelta("3h"),
        "day between '2024-03-31' and '2024-04-01'": frame.day.isin(sorted(set(at.date))[1:3]),
        "price >= 2.25 and not x > 15": (frame.price >= Decimal("2.25")) & (frame.x <= 15),
    }.items():
        found = lab.client.read(lab.topic, columns=["id"], where=where).to_pandas()
        assert found.id.to_list() == frame.id[mask].to_list(), where


def test_small_frames_that_a_loop_appends_are_followed_and_found_by_time(lab: Lab) -> None:
    lab.create("id bigint, s string, x double")
    lab.client.append(lab.topic, pd.DataFrame({"id": [1, 2], "s": ["a", np.nan]}))
    following = lab.client.follow(
        lab.topic, 0, columns=["id"], where="id <> 2", idle_timeout_s=PATIENCE_S
    )
    frames = [pd.DataFrame({"id": [n], "x": [n / 2]}) for n in (3, 4)]
    frames.insert(1, pd.DataFrame({"id": [], "s": []}))
    thread = Thread(target=lambda: [lab.client.append(lab.topic, frame) for frame in frames])
    thread.start()
    seen: list[int] = []
    for batch in following:
        seen += batch.to_pandas().id.to_list()
        if seen[-1] == 4:
            following.close()
    thread.join()
    assert seen == [1, 3, 4]
    times = lab.client.read(lab.topic, columns=["id", "_timestamp"]).to_pandas()
    third = times._timestamp[2]
    later = times.id[times._timestamp >= third].to_list()
    assert later[-2:] == [3, 4]
    found = lab.client.read(lab.topic, lab.client.find_offset(lab.topic, third)).to_pandas()
    assert found.id.to_list() == later
    assert lab.client.read(lab.topic, where=f"_timestamp >= '{third}'").to_pandas().equals(found)
    pd.testing.assert_frame_equal(
        lab.client.read(lab.topic).to_pandas(),
        pd.DataFrame({"id": [1, 2, 3, 4], "s": ["a", *[None] * 3], "x": [None, None, 1.5, 2.0]}),
    )


def test_columns_change_under_the_frames_of_a_topic(lab: Lab) -> None:
    frame = pd.DataFrame({"id": np.array([1, 2], "int32"), "old": ["x", "y"]})
    lab.client.create_topic(lab.topic, frame)
    lab.client.append(lab.topic, frame)
    more = pd.DataFrame({"gate": ["g"], "by": [{"a": 1}]})
    lab.client.alter_schema(lab.topic, add=more, types="id bigint", rename={"old": "new"})
    lab.client.append(lab.topic, more.assign(id=2**40))
    lab.client.append(lab.topic, frame.rename(columns={"old": "new"}))
    found = lab.client.read(lab.topic, where="by.a = 1 or new = 'y'").to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype()}.get
    )
    assert found.id.to_list() == [2, 2**40, 2]
    assert found.gate.to_list() == [None, "g", None]
    assert pd.json_normalize(found["by"].dropna().to_list()).a.to_list() == [1]


# ---------------------------------------------------------------- pandas and Spark


def test_a_frame_of_spark_s_goes_through_a_topic_and_pandas_functions(lab: Lab) -> None:
    frame = pd.DataFrame(
        {"k": [*"aab"], "n": pd.array([1, None, 3], dtype="Int64"), "l": [[1], [], None]}
    )
    log = {"raftlog.bootstrap.servers": lab.cluster.servers}
    raftlog.spark.write(lab.spark.createDataFrame(frame), lab.topic, options=log)
    lab.client.append(lab.topic, pd.DataFrame({"k": ["z"]}))

    def filled(parts: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for part in parts:
            yield part.assign(n=part.n.fillna(0).astype("int64"))[["k", "n"]]

    read = raftlog.spark.read(lab.spark, lab.topic, where="k <> 'b'", options=log)
    assert read.groupBy("k").count().toPandas()["count"].sum() == 3
    written = f"{lab.topic}-filled"
    lab.write(read.mapInPandas(filled, "k string, n bigint"), topic=written)
    found = lab.client.read(written).to_pandas()
    assert found.groupby("k").n.sum().to_dict() == {"a": 1, "z": 0}


def test_partial_sums_of_each_batch_add_up_over_a_restart_with_other_limits(lab: Lab) -> None:
    lab.create()
    sums = f"{lab.topic}-sums"

    def add(batch: DataFrame, number: int) -> None:
        partial = batch.groupBy((F.col("id") % 3).alias("k")).agg(F.sum("id").alias("n"))
        named = {"txnAppId": sums, "txnVersion": number, "checkpointLocation": lab.checkpoint}
        lab.write(partial, topic=sums, **named)

    lab.append(*range(20))
    finish(lab.each(lab.read_stream(startingOffsets="earliest"), add))
    lab.append(*range(20, 30))
    finish(lab.each(lab.read_stream(maxOffsetsPerTrigger=6), add))
    found = lab.client.read(sums, columns=["k", "n", "_epoch"]).to_pandas()
    assert set(found._epoch) == {0, 1, 2}
    assert found.groupby("k").n.sum().to_dict() == {k: sum(range(k, 30, 3)) for k in range(3)}


def test_windows_are_nested_columns_that_a_condition_reads_into(lab: Lab) -> None:
    source = f"{lab.topic}-source"
    lab.client.create_topic(source, "at timestamp, v bigint")

    def run(*minutes: float) -> None:
        at = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(minutes, unit="min")
        lab.client.append(source, pd.DataFrame({"at": at, "v": range(len(minutes))}))
        rows = lab.read_stream(subscribe=source, startingOffsets="earliest")
        windows = rows.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"))
        finish(lab.sink(windows.agg(F.sum("v").alias("v"))).start())

    run(0.2, 0.8, 1.2, 10)
    run(0.5, 30)  # the first of these comes too late
    later = "window.start >= '2024-01-01T00:01:00Z'"
    assert sorted(lab.client.read(lab.topic).to_pandas().v) == [1, 2, 3]
    assert sorted(lab.client.read(lab.topic, where=later).to_pandas().v) == [2, 3]


def test_a_stream_is_joined_with_the_newest_row_of_each_key(lab: Lab) -> None:
    lab.create("id bigint, user string")
    lab.client.append(lab.topic, [{"id": n, "user": f"u{n % 2}"} for n in range(4)])
    names, joined = f"{lab.topic}-names", f"{lab.topic}-joined"
    lab.client.create_topic(names, "user string, name string")
    lab.client.append(
        names, pd.DataFrame({"user": ["u0", "u1", "u0"], "name": ["Ann", "Bob", "Anna"]})
    )
    newest = lab.read(subscribe=names, includeMetadata="true").groupBy("user")
    newest = newest.agg(F.max_by("name", "_offset").alias("name"))
    stream = lab.read_stream(startingOffsets="earliest", includeMetadata="true")
    finish(lab.sink(stream.join(newest, "user", "left"), topic=joined).start())
    found = lab.client.read(joined).to_pandas()
    assert sorted(found.columns) == ["id", "name", "user"]
    assert found.set_index("id").name.to_dict() == {0: "Anna", 1: "Bob", 2: "Anna", 3: "Bob"}


def test_a_query_goes_on_with_a_filter_and_another_column_after_a_restart(lab: Lab) -> None:
    need_streams()
    source = f"{lab.topic}-source"
    lab.write(lab.spark.range(4), topic=source)
    options = {"raftlog.bootstrap.servers": lab.cluster.servers, "startingOffsets": "earliest"}

    def run(where: str | None = None) -> None:
        rows = raftlog.spark.read_stream(lab.spark, source, where=where, options=options)
        finish(lab.sink(rows, mergeSchema="true").start())

    run()
    lab.write(
        lab.spark.range(4, 8).selectExpr("id", "'new' AS tag"), topic=source, mergeSchema=True
    )
    run("id % 2 = 0")
    found = lab.client.read(lab.topic).to_pandas().sort_values("id")
    assert found.id.to_list() == [0, 1, 2, 3, 4, 6]
    assert found.tag.to_list() == [None] * 4 + ["new"] * 2


def test_changes_by_key_are_merged_into_a_topic_of_what_holds_now(lab: Lab) -> None:
    changes = f"{lab.topic}-changes"
    lab.client.create_topic(changes, "id int, name string, version int")

    def merge(*rows: tuple[int, str | None, int]) -> dict[int, str]:
        columns = ["id", "name", "version"]
        changed = [dict(zip(columns, row, strict=True)) for row in rows]
        start = lab.client.append(changes, changed).start
        given = lab.read(subscribe=changes, startingOffsets=f'{{"{changes}": {start}}}')
        if start:
            given = given.unionByName(lab.read())
        newest = given.groupBy("id").agg(
            F.max_by(F.struct("name", "version"), "version").alias("s")
        )
        newest = newest.select("id", "s.*").where("name IS NOT NULL")
        writer = newest.write.format("raftlog").option("topic", lab.topic).mode("overwrite")
        writer.option("raftlog.bootstrap.servers", lab.cluster.servers).save()
        return lab.client.read(lab.topic).to_pandas().set_index("id").name.to_dict()

    assert merge((1, "a", 1), (2, "b", 1), (1, "c", 2)) == {1: "c", 2: "b"}
    assert merge((2, None, 2), (3, "d", 1), (1, "late", 0)) == {1: "c", 3: "d"}


def test_lines_of_json_become_nested_columns_as_they_come(lab: Lab) -> None:
    lab.create("value string")
    lines = ('{"a": 1, "b": {"c": [1, 2]}}', "broken", None)
    lab.client.append(lab.topic, [{"value": line} for line in lines])
    parsed = F.from_json("value", "a bigint, b struct<c: array<int>>").alias("j")
    stream = lab.read_stream(startingOffsets="earliest").select(parsed, "value")
    finish(lab.sink(stream, topic=f"{lab.topic}-parsed").start())
    found = lab.read(subscribe=f"{lab.topic}-parsed").where("j.a = 1")
    assert [row.c for row in found.select(F.explode("j.b.c").alias("c")).collect()] == [1, 2]
    held = lab.client.read(f"{lab.topic}-parsed", where="j.a is null").to_table().to_pylist()
    assert held == [
        {"j": {"a": None, "b": None}, "value": "broken"},
        {"j": None, "value": None},
    ]
