"""Spark reads and writes over TLS and says who calls, and what it lacks to do so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession

from raftlog.auth.token_file import add_token
from raftlog.chaos.cluster import ProcessCluster
from tests.spark.conftest import JobCredential, example


def test_a_stream_goes_through_over_tls_under_its_identity(
    spark: SparkSession, connect: str, job_credential: JobCredential, tmp_path: Path
) -> None:
    """Driver, planners, tasks and a Connect server find what proves it in their environment."""
    job_credential.release()
    known = tmp_path / "tokens.json"
    job_credential.token.write_text(add_token(known, "job", (), None, datetime.now(UTC)))
    with (
        ProcessCluster.start(
            job_credential.folder / "data",
            port=job_credential.port,
            nodes=job_credential.nodes,
            settings=[
                f"tls.peer_port_offset={job_credential.nodes}",
                "tls.client_certificates=true",
                f"auth.tokens_file={known}",
                "auth.admins=token:job, cert:client",
            ],
            tls=True,
        ) as cluster,
        cluster.client() as client,
    ):
        for topic in ("clicks", "copied-clicks"):
            client.create_topic(topic, "ad bigint")
        client.append("clicks", [{"ad": number} for number in range(10)])
        options = {"raftlog.auth.credential": "job"}
        copy = example("credential").run
        assert copy(spark, options, str(tmp_path / "classic")) == 10
        remote = RemoteSession.builder.remote(connect).create()
        client.delete_topic("copied-clicks")  # which knows the first query, of the same name
        client.create_topic("copied-clicks", "ad bigint")
        assert copy(remote, options, str(tmp_path / "connect")) == 10
        with pytest.raises(Exception, match=r"'credentials\.other' is not defined here"):
            copy(remote, {"raftlog.auth.credential": "other"}, str(tmp_path / "other"))
        remote.stop()

        def read(**more: str) -> DataFrame:
            given = {**options, "subscribe": "copied-clicks"}
            given |= {key.replace("_", "."): value for key, value in more.items()}
            return spark.read.format("raftlog").options(**given).load()

        assert {row.ad for row in read().collect()} == set(range(10))
        spark.sql(
            "CREATE TEMPORARY VIEW of_job USING raftlog"
            " OPTIONS ('raftlog.auth.credential' 'job', subscribe 'copied-clicks')"
        )
        assert spark.sql("SELECT count(*) FROM of_job").first()[0] == 10
        with pytest.raises(Exception, match=r"the token is not known"):
            read(raftlog_auth_credential="stranger")
        with pytest.raises(Exception, match=r"'credentials\.other' is not defined here"):
            read(raftlog_auth_credential="other")
        with pytest.raises(Exception, match=r"is not what credential 'job' is for"):
            read(raftlog_bootstrap_servers="127.0.0.1:1")
        owned = tmp_path / "owned"
        for option in ("raftlog.auth.token", "raftlog.tls.key.file"):
            with pytest.raises(Exception, match=r"Name a credential") as rejected:
                spark.sql(
                    f"CREATE TEMPORARY VIEW evil USING raftlog OPTIONS ('{option}'"
                    f" 'command:touch {owned}', subscribe 'copied-clicks')"
                )
            assert str(owned) not in str(rejected.value)
        assert not owned.exists()
        with pytest.raises(Exception, match=r"raftlog\.tls\.ca\.file in Spark"):
            read(raftlog_auth_credential="", raftlog_bootstrap_servers=cluster.servers)
