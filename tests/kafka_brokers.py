"""Kafka on this machine, for what compares with it or imports from it: brokers, and the jars of
Spark's connector.

Both are fetched by `scripts/kafka.sh` into `build/kafka`, which no commit contains.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import tenacity

from raftlog.chaos.cluster import free_ports, signals_deferred

FOLDER = Path(__file__).resolve().parents[1] / "build" / "kafka"
FETCH = "scripts/kafka.sh fetches it with Maven"

_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_[\d.]+-(\d+)\.(\d+)\.(\d+)\.jar")
_SERVER = re.compile(r"kafka_[\d.]+-(\d+\.\d+\.\d+)\.jar")
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_START_S = 120.0
_LOOK_INTERVAL_S = 0.1


class NoKafka(Exception):
    """There are no jars that fit; the message says why, and what fetches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """The jars that fit a version of Spark."""

    broker: str
    """Kafka's version."""
    connector: str
    """The version of Spark's connector."""
    spark: str
    """The paths of the connector and what it depends on, as `spark.jars` takes them."""
    class_path: str
    """The broker and what it depends on."""


def find_jars(spark: str, folder: Path = FOLDER) -> Jars:
    """The jars in the folder for this version of Spark. Raises `NoKafka`."""
    broker = _server_version(path.name for path in (folder / "broker").glob("*.jar"))
    connector = sorted((folder / "spark").glob("*.jar"))
    return Jars(
        broker=broker,
        connector=connector_version((path.name for path in connector), spark),
        spark=",".join(map(str, connector)),
        class_path=f"{folder}/broker/*",
    )


def _server_version(names: Iterable[str]) -> str:
    for name in names:
        if found := _SERVER.fullmatch(name):
            return found[1]
    raise NoKafka(f"build/kafka has no broker: {FETCH}")


def connector_version(names: Iterable[str], spark: str) -> str:
    """The version of the connector among the jars of these names.

    It is of Spark's own minor version or, as Maven gets a connector later than PyPI gets PySpark,
    of an earlier one of the same major version. Raises `NoKafka`.
    """
    found = [match.groups() for match in map(_CONNECTOR.fullmatch, names) if match]
    if not found:
        raise NoKafka(f"build/kafka has no Kafka connector of Spark's: {FETCH}")
    versions = [".".join(each) for each in found]
    if len(found) > 1:
        raise NoKafka(f"build/kafka has the connectors {' and '.join(versions)}: {FETCH} again")
    major, minor = (int(each) for each in spark.split(".")[:2])
    its_major, its_minor, _ = map(int, found[0])
    if its_major != major or its_minor > minor:
        raise NoKafka(f"build/kafka has the connector {versions[0]} for Spark {spark}: {FETCH}")
    return versions[0]


@contextmanager
def brokers(jars: Jars, folder: Path, count: int, heap_mb: int) -> Iterator[str]:
    """So many brokers, each a controller as well (KRaft); gives the addresses to bootstrap from.

    All of them take requests when this yields, and none runs when it is left. A topic that is
    written without having been created gets two partitions, on up to three brokers, and
    `acks=all` waits for a majority of these.
    """
    java = [_java(), f"-Xmx{heap_mb}m", "-cp", jars.class_path]
    format_disk = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c"]
    first = free_ports(2 * count)
    addresses = [f"127.0.0.1:{first + number}" for number in range(count)]
    controllers = [f"127.0.0.1:{first + count + number}" for number in range(count)]
    with ExitStack() as running:
        started = []
        for number in range(count):
            home = folder / f"broker-{number + 1}"
            home.mkdir(parents=True)
            settings = home / "server.properties"
            settings.write_text(_settings(number, addresses, controllers, home / "logs"))
            subprocess.run(
                [*format_disk, str(settings)], check=True, capture_output=True, timeout=_START_S
            )
            run = [*java, "kafka.Kafka", str(settings)]
            started.append(_start(running, run, home / "broker.log"))
        for broker, address in zip(started, addresses, strict=True):
            _wait_until_it_listens(broker, address)
        yield ",".join(addresses)


def _settings(number: int, addresses: list[str], controllers: list[str], logs: Path) -> str:
    voters = ",".join(f"{node}@{address}" for node, address in enumerate(controllers, 1))
    replicas = min(3, len(addresses))
    return f"""process.roles=broker,controller
node.id={number + 1}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{addresses[number]},CONTROLLER://{controllers[number]}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions=2
default.replication.factor={replicas}
min.insync.replicas={replicas // 2 + 1}
offsets.topic.replication.factor={replicas}
"""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _start(running: ExitStack, command: list[str], said: Path) -> subprocess.Popen[bytes]:
    """The process of a broker, which ends with the stack."""
    # A signal between the start and the callback would leave the process behind.
    with signals_deferred(), said.open("wb") as log:
        broker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        running.callback(_end, broker)
    return broker


def _end(broker: subprocess.Popen[bytes]) -> None:
    # What it has written is thrown away, so it need not stop in order.
    broker.kill()
    broker.wait(_START_S)


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(ConnectionError),
    stop=tenacity.stop_after_delay(_START_S),
    wait=tenacity.wait_fixed(_LOOK_INTERVAL_S),
    reraise=True,
)
def _wait_until_it_listens(broker: subprocess.Popen[bytes], address: str) -> None:
    assert broker.poll() is None, f"the broker at {address} ended with {broker.returncode}"
    host, _, port = address.partition(":")
    socket.create_connection((host, int(port)), timeout=_START_S).close()
