"""Which jars of Kafka fit a version of Spark, and what is said if none do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka_brokers import NoKafka, connector_version, find_jars

OTHERS = ["kafka-clients-3.9.2.jar", "spark-token-provider-kafka-0-10_2.13-4.2.0.jar"]


def connector(version: str) -> str:
    return f"spark-sql-kafka-0-10_2.13-{version}.jar"


@pytest.mark.parametrize("spark", ["4.2.0", "4.2.1", "4.3.0", "4.10.0", "4.3.0.dev0"])
def test_a_connector_of_this_or_an_earlier_minor_version_fits(spark: str) -> None:
    assert connector_version([*OTHERS, connector("4.2.0")], spark) == "4.2.0"


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ((), "no Kafka connector"),
        (("4.4.0",), "the connector 4.4.0 for Spark 4.3.0"),
        (("3.2.4",), "the connector 3.2.4 for Spark 4.3.0"),
        (("4.2.0", "4.3.0"), "the connectors 4.2.0 and 4.3.0"),
    ],
)
def test_what_does_not_fit_is_told_with_the_script_that_fetches(
    versions: tuple[str, ...], said: str
) -> None:
    with pytest.raises(NoKafka, match=rf"{said}.*scripts/kafka\.sh"):
        connector_version([*OTHERS, *map(connector, versions)], "4.3.0")


def test_the_jars_are_found_with_their_versions(tmp_path: Path) -> None:
    for name in ("broker/kafka_2.13-4.1.1.jar", f"spark/{connector('4.2.0')}", "spark/a-1.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_jars("4.3.0", tmp_path)
    assert (found.broker, found.connector) == ("4.1.1", "4.2.0")
    assert found.spark == f"{tmp_path}/spark/a-1.jar,{tmp_path}/spark/{connector('4.2.0')}"


def test_without_a_broker_there_is_no_kafka(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / connector("4.3.0")).touch()
    with pytest.raises(NoKafka, match="no broker"):
        find_jars("4.3.0", tmp_path)
