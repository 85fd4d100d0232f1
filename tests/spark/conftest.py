"""A real cluster and a real Spark for all tests of this folder, both started once."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tenacity
from pyspark.errors import PySparkRuntimeError, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import raftlog
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports
from raftlog.errors import SparkTooOld
from raftlog.spark.spark_version import check_can_stream
from raftlog.wire.calls import NodeView
from tests.cluster.kept import Kept
from tests.cluster.waiting import leader_of
from tests.spark import worker_python
from tests.spark.calls import CountedSource
from tests.spark.faults import Faults, FaultySource

Ended = subprocess.CompletedProcess[str]

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "spark"

PROGRAM_S = 6 * PATIENCE_S
"""How long a whole program may run that starts a JVM."""
LOOK_INTERVAL_S = 0.05
TASK_TRIES = 2
"""How often Spark tries a task before it gives up the batch."""


def wait_until(holds: Callable[[], bool], what: str, *queries: StreamingQuery) -> None:
    """Return when the condition holds; fail with `what` after the deadline, or once one of these
    queries, which the condition needs, has ended."""
    deadline_s = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not holds():
        ended = [str(query.exception()) for query in queries if not query.isActive]
        assert not ended, f"{what}: a query has ended: {ended}"
        if time.monotonic() >= deadline_s:
            doing = [(query.status, query.lastProgress) for query in queries]
            raise AssertionError(f"{what}: not within {PATIENCE_S:g} s: {doing}")
        pause.wait(LOOK_INTERVAL_S)


def run_program(*words: str, cwd: Path, program: str = sys.executable, **variables: str) -> Ended:
    """Run a program, Python unless another is named, with these arguments in a process of its own,
    and see it end well. Its Spark runs tasks on this Python and listens on loopback; `variables`
    are set besides."""
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        [program, *words],
        env=os.environ | own | variables,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-20_000:]
    return ended


@pytest.fixture(scope="module")
def cluster(_kept_three: Kept) -> Iterator[ProcessCluster]:
    """Three nodes, some of which a test kills and brings back."""
    yield _kept_three.whole()
    _kept_three.rest()


@pytest.fixture(scope="module")
def lone(_kept_one: Kept) -> Iterator[ProcessCluster]:
    """Another cluster, of one node."""
    yield _kept_one.whole()
    _kept_one.rest()


@pytest.fixture(scope="module")
def client(cluster: ProcessCluster) -> Iterator[raftlog.LogClient]:
    with cluster.client() as opened:
        yield opened


@tenacity.retry(
    retry=tenacity.retry_if_exception(
        lambda error: (
            isinstance(error, PySparkRuntimeError) and error.getCondition() == "JAVA_GATEWAY_EXITED"
        )
    ),
    stop=tenacity.stop_after_attempt(5),
    reraise=True,
)
def started(builder: SparkSession.Builder) -> SparkSession:
    """The builder's session, from a process in which grpc may be at work.

    PySpark forks this process and runs Python in the child before it starts the JVM there. With
    calls under way, grpc aborted 2 of 100 such children (113 of 4933), so one launch may fail.
    """
    return builder.getOrCreate()


class JobCredential(NamedTuple):
    """Credentials that the session's processes have: `job`, and `stranger`, whose token is
    nobody's. A cluster may be started for them."""

    folder: Path
    """Where the cluster is to be, and the job's token."""
    port: int
    held: list[socket.socket]
    """What keeps other clusters from its ports."""
    nodes: int = 3

    def release(self) -> None:
        """Let the cluster have its ports."""
        while self.held:
            self.held.pop().close()

    @property
    def token(self) -> Path:
        return self.folder / "token"

    def variables(self) -> dict[str, str]:
        tls = self.folder / "data" / "tls"
        servers = ",".join(f"127.0.0.1:{self.port + node}" for node in range(self.nodes))
        defined = {"_SERVERS": servers, "_CA": str(tls / "ca.pem")}
        shown = {"_CERT": str(tls / "client.pem"), "_KEY": str(tls / "client.key")}
        tokens = {"JOB": f"file:{self.token}", "STRANGER": "command:echo raftlog_of-nobody"}
        return {
            f"RAFTLOG_CREDENTIAL_{name}{end}": value
            for name, token in tokens.items()
            for end, value in {"": token, **defined, **shown}.items()
        }


@pytest.fixture(scope="session")
def job_credential(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCredential]:
    ports = 2 * JobCredential._field_defaults["nodes"]
    port = free_ports(ports)
    held = []
    for each in range(port, port + ports):
        held.append(socket.socket())
        held[-1].bind(("127.0.0.1", each))
    found = JobCredential(tmp_path_factory.mktemp("credential"), port, held)
    yield found
    found.release()


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, job_credential: JobCredential
) -> Iterator[SparkSession]:
    """A small session in a zone that is not UTC, so that a wrong zone shows."""
    os.environ |= job_credential.variables()
    os.environ |= worker_python.variables()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master(f"local[2,{TASK_TRIES}]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
    )
    session = started(builder)
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(FaultySource)
    session.dataSource.register(CountedSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(spark: SparkSession) -> str:
    """The address of a Connect server in the session's JVM."""
    pytest.importorskip("grpc_status", reason="Connect's parts: pip install raftlog[connect]")
    context: Any = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.port", "0")
    jvm: Any = spark.sparkContext._jvm
    services = jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")
    service.start(context)
    return f"sc://127.0.0.1:{service.localPort()}"


def example(name: str) -> Any:
    """The module of one of `EXAMPLES`."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def need_streams() -> None:
    """Skip the test on a Spark that cannot read a topic as a stream."""
    try:
        check_can_stream()
    except SparkTooOld as error:
        pytest.skip(error.cause)


class RowFiles:
    """A folder of files for a file stream, which reads them in the order of their creation."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._file_time_s = time.time() - 100_000

    def add(self, name: str, *ids: int) -> None:
        """Add a file that appears at once and whole: rows (id, "s<id>")."""
        lines = [json.dumps({"id": number, "s": f"s{number}"}) for number in ids]
        unfinished = self._folder.with_name(f"{name}.unfinished")
        unfinished.write_text("\n".join(lines))
        # Spark orders files by their time in milliseconds, and files of one time in any order.
        self._file_time_s += 1
        os.utime(unfinished, (self._file_time_s, self._file_time_s))
        unfinished.rename(self._folder / name)


class Lab:
    """What most tests do: write and read one topic, feed a file stream, run a query to its end."""

    def __init__(
        self, spark: SparkSession, cluster: ProcessCluster, client: raftlog.LogClient, folder: Path
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.client = client
        self.folder = folder
        self.topic = f"t-{folder.name}"
        self.files = folder / "files"
        self.checkpoint = folder / "checkpoint"
        self.faults = Faults(folder / "faults")
        self._row_files = RowFiles(self.files)

    def create(self, schema: str = "id bigint, s string") -> None:
        self.client.create_topic(self.topic, schema)

    def delete(self) -> None:
        """Delete the topic, and wait until every node has heard of it: until then its leader may
        accept writes, which are deleted with it."""
        group = self.client.delete_topic(self.topic).group
        wait_until(lambda: not self._is_held(group), "every node drops the topic")

    def _is_held(self, group: int) -> bool:
        replies = [reply for _, _, reply in self.client.views()]
        return not all(
            isinstance(reply, NodeView) and group not in [view.group for view in reply.groups]
            for reply in replies
        )

    def append(self, *ids: int) -> None:
        """Rows (id, "s<id>") from outside Spark."""
        with self.client.producer(self.topic) as producer:
            producer.append([{"id": number, "s": f"s{number}"} for number in ids])

    def append_over_time(self) -> dict[int, int]:
        """Rows with the ids 1, 2, ... and their timestamps in microseconds; the last is of a later
        millisecond than the first."""
        times_us: dict[int, int] = {}

        def over_time() -> bool:
            self.append(len(times_us) + 1)
            for batch in self.client.read(self.topic, columns=["id", "_timestamp"]):
                stamps = batch.column("_timestamp").cast("int64").to_pylist()
                times_us.update(zip(batch.column("id").to_pylist(), stamps, strict=True))
            return max(times_us.values()) // 1000 > min(times_us.values()) // 1000

        wait_until(over_time, "rows of two milliseconds")
        return times_us

    def ids(self) -> list[int]:
        """What the topic holds, in offset order."""
        return [
            number
            for batch in self.client.read(self.topic, columns=["id"])
            for number in batch.column("id").to_pylist()
        ]

    def leader(self) -> int:
        """The node that leads the topic now."""
        return leader_of(self.client, self.topic)

    @contextmanager
    def leader_killed(self) -> Iterator[None]:
        """Kill the topic's leader, and bring it back at the end."""
        leader = self.leader()
        self.cluster.kill(leader)
        try:
            yield
        finally:
            self.cluster.serve(leader)

    def rows_file(self, name: str, *ids: int) -> None:
        """One file of the file stream, and so one micro-batch: rows (id, "s<id>")."""
        self._row_files.add(name, *ids)

    def file_stream(self) -> DataFrame:
        """The files as a stream, one for each micro-batch, in the order of their creation."""
        reader = self.spark.readStream.schema("id bigint, s string")
        return reader.option("maxFilesPerTrigger", 1).json(str(self.files))

    def read(self, **given: object) -> DataFrame:
        """A batch read of the topic; `schema` is `.schema(...)`, the rest are options."""
        return self._load(self.spark.read, given)

    def read_stream(self, **given: object) -> DataFrame:
        need_streams()
        return self._load(self.spark.readStream, given)

    def _load(self, reader: Any, given: dict[str, object]) -> DataFrame:
        options = self._options({"subscribe": self.topic} | given)
        schema = options.pop("schema", None)
        reader = reader if schema is None else reader.schema(schema)
        return reader.format("raftlog").options(**options).load()

    def write(self, data: DataFrame, **given: object) -> None:
        options = self._options({"topic": self.topic} | given)
        data.write.format("raftlog").options(**options).mode("append").save()

    def faulty_sink(self, data: DataFrame, **given: object) -> DataStreamWriter:
        """Like `sink`, with the moments of `faults`."""
        options = {"faults": str(self.faults.folder)} | given
        return self.sink(data, name=FaultySource.name(), **options)

    def sink(self, data: DataFrame, *, name: str = "raftlog", **given: object) -> DataStreamWriter:
        """A stream into the topic that ends when everything that was there is written."""
        options = self._options({"topic": self.topic} | given)
        writer = data.writeStream.format(name).options(**options).queryName(self.topic)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

    def collect(self, data: DataFrame, into: list[int], **trigger: bool) -> StreamingQuery:
        """A stream that appends each batch's ids, sorted, to `into`; not awaited."""

        def append_ids(batch: DataFrame, number: int) -> None:
            into.extend(sorted(row.id for row in batch.select("id").collect()))

        return self.each(data, append_ids, **trigger)

    def each(
        self, data: DataFrame, do: Callable[[DataFrame, int], None], **trigger: bool
    ) -> StreamingQuery:
        writer = data.writeStream.foreachBatch(do)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def forget_batch(self, number: int) -> None:
        """As if the driver had died after the sink was done and before Spark recorded that."""
        assert (self.checkpoint / "commits" / str(number)).exists()
        (self.checkpoint / "commits" / str(number)).unlink()
        (self.checkpoint / "commits" / f".{number}.crc").unlink()

    def _options(self, given: dict[str, object]) -> dict[str, Any]:
        """The options; None takes one away."""
        options = {"raftlog.bootstrap.servers": self.cluster.servers} | given
        return {
            name.replace("__", "."): value for name, value in options.items() if value is not None
        }


def finish(query: StreamingQuery) -> None:
    """Await the query's end, which must come by itself."""
    assert query.awaitTermination(int(PATIENCE_S)), "the query did not come to an end"


def failure(query: StreamingQuery) -> str:
    """Await the query's failure; return its message."""
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(int(PATIENCE_S))
    return str(raised.value)


@pytest.fixture
def lab(
    spark: SparkSession, cluster: ProcessCluster, client: raftlog.LogClient, tmp_path: Path
) -> Iterator[Lab]:
    """A lab with a topic name of its own; ends the queries that its test left running."""
    yield Lab(spark, cluster, client, tmp_path)
    for query in spark.streams.active:
        query.stop()
