"""A query that found its cluster through ZooKeeper goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.chaos.cluster import ProcessCluster
from raftlog.chaos.ensemble import EnsembleProcesses
from raftlog.client.log_client import LogClient
from raftlog.config import ClientSettings
from raftlog.discovery.directory import look_up
from tests.spark.conftest import wait_until


def rows(client: LogClient, topic: str) -> list[int]:
    return sorted(row for batch in client.read(topic) for row in batch.column("a").to_pylist())


def test_a_stream_goes_on_while_the_ensemble_is_down_and_a_new_query_says_what_it_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    with EnsembleProcesses(tmp_path) as ensemble:
        where = f"{ensemble.hosts}/raftlog/spark"
        settings = [f"discovery.zookeeper={where}"]
        with (
            ProcessCluster.start(tmp_path / "data", settings=settings) as cluster,
            cluster.client() as client,
        ):
            found_by = {"raftlog.zookeeper.connect": where, "raftlog.request.timeout.ms": "60000"}
            wait_until(
                lambda: len(look_up(ClientSettings(zookeeper=where), timeout_s=10).nodes) == 3,
                "the nodes are registered",
            )
            for topic in ("came", "went"):
                client.create_topic(topic, "a INT")
            client.append("came", [{"a": number} for number in range(10)])
            source = spark.readStream.format("raftlog").options(**found_by)
            query = (
                source.option("subscribe", "came")
                .option("startingOffsets", "earliest")
                .load()
                .writeStream.format("raftlog")
                .options(**found_by)
                .option("topic", "went")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .start()
            )
            try:
                wait_until(
                    lambda: len(rows(client, "went")) == 10, "the first rows went through", query
                )
                ensemble.kill()
                cluster.kill(client.watermark("went").leader)
                client.append("came", [{"a": number} for number in range(10, 20)])
                wait_until(
                    lambda: len(rows(client, "went")) >= 20, "the others went through", query
                )
            finally:
                query.stop()
            assert rows(client, "went") == list(range(20))
            stranger = {"raftlog.zookeeper.connect": f"{ensemble.hosts}/raftlog/unknown"}
            with pytest.raises(Exception, match=r"ZooKeeper at .* named no node") as refused:
                spark.read.format("raftlog").options(**stranger).option("subscribe", "a").load()
            assert "raftlog.zookeeper.connect" in str(refused.value)
