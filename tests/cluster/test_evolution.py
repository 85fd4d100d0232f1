"""A topic's columns change on a real node: by the client and by the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster
from raftlog.client.log_client import LogClient
from raftlog.errors import ExitCode, InvalidOption, SchemaChanged, SchemaMismatch
from tests.cluster.waiting import wait_serving


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """One node, which takes a snapshot every few entries."""
    folder = tmp_path_factory.mktemp("evolution") / "data"
    settings = ("storage.snapshot_entries=100",)
    with ProcessCluster.start(folder, nodes=1, settings=settings) as running:
        yield running


def rows(client: LogClient, topic: str, columns: list[str] | None = None) -> list[dict]:
    return pa.Table.from_batches(client.read(topic, columns=columns)).to_pylist()


def test_records_of_three_versions_are_read_with_the_last_columns(cluster: ProcessCluster) -> None:
    with cluster.client() as client:
        first = client.create_topic("flights", "id bigint not null, delay int")
        running = client.producer(first)
        client.append("flights", [{"id": 1, "delay": 5}])
        second = client.alter_schema("flights", add="gate string")
        late = {"id": 2, "delay": 6, "gate": "A1"}
        with pytest.raises(SchemaMismatch, match="make a new producer"):
            running.append([late])
        with pytest.raises(SchemaMismatch) as unfit:
            client.append("flights", [late | {"delay": "x"}])
        assert "producer" not in unfit.value.remedy
        client.append("flights", [late])
        third = client.alter_schema(second, types="delay bigint", rename={"gate": "stand"})
        assert third.schema.version == 3
        client.append(third, [{"id": 3, "delay": 2**40, "stand": "B2"}])
        running.append_and_flush([{"id": 4, "delay": 7}])
        expected = [
            {"id": 1, "delay": 5, "stand": None},
            {"id": 2, "delay": 6, "stand": "A1"},
            {"id": 3, "delay": 2**40, "stand": "B2"},
            {"id": 4, "delay": 7, "stand": None},
        ]
        assert rows(client, "flights") == expected
        planned = pa.Table.from_batches(client.read(second, 0, 2, columns=["gate", "_offset"]))
        assert planned.to_pylist() == [
            {"gate": None, "_offset": 0}, {"gate": "A1", "_offset": 1},
        ]  # fmt: skip
        with pytest.raises(SchemaMismatch, match="delay"):
            list(client.read(first, 2, 3))
        for _ in range(120):
            running.append_and_flush([{"id": 5, "delay": 8}])
        more = [{"id": 5, "delay": 8, "stand": None}] * 120
        assert rows(client, "flights") == expected + more
    cluster.kill(1)
    cluster.serve(1)
    wait_serving(cluster)
    with cluster.client() as client:
        assert rows(client, "flights") == expected + more
        assert client.describe_topic("flights").schema == third.schema


def test_of_two_who_alter_one_topic_the_later_one_learns_it(cluster: ProcessCluster) -> None:
    with cluster.client() as client:
        seen = client.create_topic("raced", "id bigint")
        altered = client.alter_schema(seen, add="gate string")
        assert client.alter_schema(seen, add="gate string") == altered
        with pytest.raises(
            InvalidOption, match="'alter_schema' adds column 'gate', which the topic"
        ):
            client.alter_schema(altered, add="gate string")
        with pytest.raises(SchemaChanged):
            client.alter_schema(seen, add="stand string")


def test_the_command_line_alters_columns_and_says_why_it_does_not(cluster: ProcessCluster) -> None:
    def alter(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "raftlog", "--servers", cluster.servers, "topic", "alter"]
        return subprocess.run(
            [*command, "spoken", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    with cluster.client() as client:
        client.create_topic("spoken", "id bigint, note string")
        done = alter("--add", "gate string", "--rename", "id=number", "--drop", "note", "--yes")
        assert done.returncode == ExitCode.OK, done.stderr
        assert "version 2: number BIGINT, gate STRING" in done.stdout
        assert "Restart them before such values are written" in done.stderr
        more = alter("--add", "a int, b int", "--add", "c float", "--add", "d int")
        assert "number BIGINT, gate STRING, a INT, b INT, c FLOAT, d INT" in more.stdout
        more = alter("--type", "a bigint", "--type", "b bigint, c double", "--type", "d bigint")
        assert "a BIGINT, b BIGINT, c DOUBLE, d BIGINT" in more.stdout
        assert more.stderr == "", "nothing was added"
        narrow = alter("--type", "number int")
        assert "number: BIGINT in the topic, INT asked for" in narrow.stderr
        assert "write a new topic" in narrow.stderr
        assert client.describe_topic("spoken").schema.version == 4


# ---------------------------------------------------------------- writers that know an older schema


def test_an_append_by_name_means_the_columns_that_have_these_names_now(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client, cluster.client() as other:
        client.create_topic("swapped", "a int, b int")
        client.append("swapped", [{"a": 0, "b": 0}])
        other.alter_schema("swapped", rename={"a": "t", "b": "a", "t": "b"})
        client.append("swapped", [{"a": 1, "b": 2}])
        other.alter_schema("swapped", rename={"b": "c", "a": "b"})
        with pytest.raises(SchemaMismatch, match=r"extra: *a"):
            client.append("swapped", [{"a": 3, "b": 4}])
        client.append("swapped", [{"b": 5, "c": 6}])
        expected = [{"c": 0, "b": 0}, {"c": 2, "b": 1}, {"c": 6, "b": 5}]
        assert rows(client, "swapped", ["c", "b"]) == expected


def test_an_append_learns_a_new_column_while_another_thread_appends(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client, cluster.client() as other:
        client.create_topic("busy", "a int")
        client.append("busy", [{"a": 1}])
        other.alter_schema("busy", add="b int")
        with client._shared_producers._producers["busy"]._turn():  # as that thread would have it
            client.append("busy", [{"a": 2, "b": 3}])
        assert rows(client, "busy") == [{"a": 1, "b": None}, {"a": 2, "b": 3}]


def test_a_kept_producer_is_refused_once_a_column_has_another_name(cluster: ProcessCluster) -> None:
    with cluster.client() as client:
        running = client.producer(client.create_topic("renamed", "a int, b int"))
        running.append_and_flush([{"a": 0, "b": 0}])
        client.alter_schema("renamed", rename={"b": "bb"})
        with pytest.raises(SchemaMismatch, match="renamed: b is bb now"):
            running.append_and_flush([{"a": 1, "b": 1}])
        assert rows(client, "renamed") == [{"a": 0, "bb": 0}]


def test_doubles_are_not_rounded_by_who_knows_a_float(cluster: ProcessCluster) -> None:
    with cluster.client() as client, cluster.client() as other:
        first = client.create_topic("rounded", "f float, at array<float>")
        running = client.producer(first)
        client.append("rounded", [{"f": 1.5, "at": [0.5]}])
        other.alter_schema("rounded", types="f double, at array<double>")
        client.append("rounded", [{"f": 0.1, "at": [0.1, None]}])
        with pytest.raises(SchemaMismatch, match=r"wider: *f has a double"):
            running.append_and_flush([{"f": 0.1, "at": []}])
        assert rows(client, "rounded")[1] == {"f": 0.1, "at": [0.1, None]}
        assert next(iter(client.read(first, 0, 1))).to_pylist() == [{"f": 1.5, "at": [0.5]}]
        with pytest.raises(SchemaMismatch, match='f: "float", and later records have "double"'):
            list(client.read(first, 1, 2))


def test_an_append_by_name_goes_on_after_a_drop_and_in_a_topic_that_was_created_again(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client, cluster.client() as other:
        client.create_topic("again", "a int, b int")
        client.append("again", [{"a": 1, "b": 1}])
        other.alter_schema("again", drop=["b"])
        client.append("again", [{"a": 2}])
        assert rows(client, "again") == [{"a": 1}, {"a": 2}]
        other.delete_topic("again")
        other.create_topic("again", "a bigint, c string")
        client.append("again", [{"a": 2**40, "c": "x"}])
        assert rows(client, "again") == [{"a": 2**40, "c": "x"}]
