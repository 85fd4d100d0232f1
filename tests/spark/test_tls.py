"""Spark reads and writes over TLS, and says what it lacks where it does not trust the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.chaos.cluster import ProcessCluster, free_ports

NODES = 3


def test_a_stream_goes_through_over_tls(spark: SparkSession, tmp_path: Path) -> None:
    with (
        ProcessCluster.start(
            tmp_path / "data",
            port=free_ports(2 * NODES),
            settings=[f"tls.peer_port_offset={NODES}", "tls.client_certificates=true"],
            tls=True,
        ) as cluster,
        cluster.client() as client,
    ):
        for topic in ("came", "went"):
            client.create_topic(topic, "a INT")
        client.append("came", [{"a": number} for number in range(10)])
        tls = cluster.data / "tls"
        options = {
            "raftlog.bootstrap.servers": cluster.servers,
            "raftlog.tls.ca.file": str(tls / "ca.pem"),
            "raftlog.tls.cert.file": str(tls / "client.pem"),
            "raftlog.tls.key.file": str(tls / "client.key"),
        }
        query = (
            spark.readStream.format("raftlog")
            .options(**options)
            .option("subscribe", "came")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("raftlog")
            .options(**options)
            .option("topic", "went")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        batch = spark.read.format("raftlog").options(**options).option("subscribe", "went").load()
        assert sorted(row.a for row in batch.collect()) == list(range(10))

        lacking = {name: value for name, value in options.items() if ".tls." not in name}
        with pytest.raises(Exception, match=r"raftlog\.tls\.ca\.file in Spark"):
            spark.read.format("raftlog").options(**lacking).option("subscribe", "went").load()
        del options["raftlog.tls.key.file"]
        with pytest.raises(Exception, match=r"'raftlog\.tls\.cert\.file' is given without"):
            spark.read.format("raftlog").options(**options).option("subscribe", "went").load()
