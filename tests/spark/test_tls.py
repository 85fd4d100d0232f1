"""Spark reads and writes over TLS and says who calls, and what it lacks to do so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from raftlog.auth.token_file import add_token
from raftlog.chaos.cluster import ProcessCluster, free_ports

NODES = 3


def test_a_stream_goes_through_over_tls_under_its_identity(
    spark: SparkSession, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    known = tmp_path / "tokens.json"
    token.write_text(add_token(known, "job", (), None, datetime.now(UTC)))
    with (
        ProcessCluster.start(
            tmp_path / "data",
            port=free_ports(2 * NODES),
            settings=[
                f"tls.peer_port_offset={NODES}",
                "tls.client_certificates=true",
                f"auth.tokens_file={known}",
                "auth.admins=job, client",
            ],
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
            "raftlog.auth.token": f"file:{token}",
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

        stranger = options | {"raftlog.auth.token": "command:echo raftlog_of-nobody"}
        with pytest.raises(Exception, match=r"the token is nobody's.* raftlog\.auth\.token"):
            spark.read.format("raftlog").options(**stranger).option("subscribe", "went").load()
        bare = options | {"raftlog.auth.token": token.read_text()}
        with pytest.raises(Exception, match=r"'raftlog\.auth\.token' does not say where") as told:
            spark.read.format("raftlog").options(**bare).option("subscribe", "went").load()
        assert token.read_text() not in str(told.value)

        options.pop("raftlog.auth.token")
        lacking = {name: value for name, value in options.items() if ".tls." not in name}
        with pytest.raises(Exception, match=r"raftlog\.tls\.ca\.file in Spark"):
            spark.read.format("raftlog").options(**lacking).option("subscribe", "went").load()
        del options["raftlog.tls.key.file"]
        with pytest.raises(Exception, match=r"'raftlog\.tls\.cert\.file' is given without"):
            spark.read.format("raftlog").options(**options).option("subscribe", "went").load()
