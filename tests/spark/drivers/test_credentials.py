"""The setups of docs/SPARK.md for a credential: each process uses its own definition, no other's.

A definition names a program that notes whose it is, and then prints the token.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from raftlog.auth.rights import Right, topic_named
from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from tests.cluster.closed import client_by, made, started
from tests.spark.conftest import Ended, need_streams, run_program

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "spark" / "credential.py"
SPARK_HOME = Path(pyspark.__path__[0])
KEYS = {"": "token", "_SERVERS": "servers", "_CA": "ca"}
ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A closed cluster over TLS with the topics of the example, and what proves its caller."""

    folder: Path
    servers: str
    ca: Path
    token: Path

    def definition(self, name: str, whose: str, *, ca: str = "", token: str = "") -> dict[str, str]:
        """The variables that define the credential, where its use is noted as `NAME of WHOSE`."""
        used, read = shlex.quote(str(self._used)), shlex.quote(token or str(self.token))
        line = shlex.quote(f"echo {name} of {whose} >> {used}; cat {read}")
        values = (f"command:sh -c {line}", self.servers, ca or str(self.ca))
        return {
            f"RAFTLOG_CREDENTIAL_{name.upper()}{end}": value
            for end, value in zip(KEYS, values, strict=True)
        }

    def used(self) -> set[str]:
        """Which definitions gave a token."""
        return set(self._used.read_text().splitlines())

    @property
    def _used(self) -> Path:
        return self.folder / "used"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    need_streams()
    known, token = tmp_path / "tokens.json", tmp_path / "token"
    token.write_text(made(known, "job"))
    with started(tmp_path, known) as cluster:
        with client_by(cluster, f"file:{tmp_path / 'operator'}") as operator:
            for topic in ("clicks", "copied-clicks"):
                operator.create_topic(topic, "ad bigint")
                operator.acl.grant("token:job", [Right.READ, Right.WRITE], topic_named(topic))
            operator.append("clicks", [{"ad": ad} for ad in range(ROWS)])
        ca = cluster.data / "tls" / "ca.pem"
        yield Scene(folder=tmp_path, servers=cluster.servers, ca=ca, token=token)


@contextmanager
def spark_class(log: Path, *words: str, **variables: str) -> Iterator[None]:
    """One of Spark's daemons in a JVM of its own, which is ended after the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *words],
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | variables,
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()


@contextmanager
def standalone(folder: Path, **of_worker: str) -> Iterator[str]:
    """A master and a worker, which alone has these variables; gives the master's URL."""
    deploy, log = "org.apache.spark.deploy", folder / "master.log"
    no_rest = {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
    at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")

    def url() -> str:
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        return found[1] if found else ""

    with spark_class(log, f"{deploy}.master.Master", *at, **no_rest):
        wait_for(lambda: bool(url()), "the master", PATIENCE_S)
        sizes = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "executors"))
        worker = (f"{deploy}.worker.Worker", *sizes, "--webui-port", "0", url())
        with spark_class(folder / "worker.log", *worker, **of_worker):
            yield url()


@contextmanager
def connect_server(folder: Path, **variables: str) -> Iterator[str]:
    """A Spark Connect server, started by Spark's own script; gives its address."""
    # By its name, clients send their token unencrypted to this host alone.
    remote, pid_file = f"sc://localhost:{free_ports(1)}", folder / "pids"
    places = {"SPARK_LOG_DIR": str(folder / "logs"), "SPARK_PID_DIR": str(pid_file)}
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    own |= {"PYSPARK_PYTHON": sys.executable}
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": remote.rpartition(":")[2],
    }
    defaults = ("--properties-file", str(ROOT / "conf" / "spark-defaults.conf"))
    script = str(SPARK_HOME / "sbin" / "start-connect-server.sh")
    try:
        subprocess.run(
            [script, *defaults, *flags(settings)],
            env=os.environ | own | places | variables,
            cwd=folder,
            check=True,
            timeout=PATIENCE_S,
        )
        [log] = (folder / "logs").iterdir()
        begun = "Spark Connect server started"
        wait_for(lambda: begun in log.read_text(), "the server", PATIENCE_S)
        yield remote
    finally:
        for file in pid_file.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


def flags(settings: dict[str, str]) -> list[str]:
    """The settings as `--conf KEY=VALUE`."""
    return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


def outcomes(ended: Ended) -> dict[str, str]:
    """What became of each credential: rows, or why it was rejected."""
    lines = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    return {line[1]: line[2] for line in lines if line and line[0] in ("COPIED", "REJECTED")}


@pytest.mark.soak
def test_executors_of_a_standalone_cluster_have_definitions_of_their_own(scene: Scene) -> None:
    """From the worker's environment, from the job's settings, or from a file that is sent along;
    and never from the driver."""
    names = ("started", "sent", "filed", "driven", "lacking")
    of_driver: dict[str, str] = {}
    for name in names[:4]:
        of_driver |= scene.definition(name, "driver")
    of_worker: dict[str, str] = {}
    for name in ("started", "sent", "lacking"):
        of_worker |= scene.definition(name, "worker")
    filed = scene.definition("filed", "file", ca="ca.pem", token="token").values()
    toml = scene.folder / "executors.toml"
    lines = (f'{key} = "{value}"\n' for key, value in zip(KEYS.values(), filed, strict=True))
    toml.write_text("[credentials.filed]\n" + "".join(lines))
    of_job = scene.definition("sent", "job") | {"RAFTLOG_CONFIG": toml.name}
    conf = flags({f"spark.executorEnv.{variable}": value for variable, value in of_job.items()})
    with standalone(scene.folder, **of_worker) as master:
        done = run_program(
            *("--master", master, "--conf", "spark.executor.memory=512m", *conf),
            *("--files", f"{toml},{scene.ca},{scene.token}"),
            str(ROOT / "tests" / "spark" / "credential_run.py"),
            *(str(EXAMPLE), str(scene.folder), *names),
            program=str(SPARK_HOME / "bin" / "spark-submit"),
            cwd=scene.folder,
            **of_driver,
        )
    found = outcomes(done)
    assert {name: found[name] for name in names[:3]} == {
        "started": str(ROWS),
        "sent": str(2 * ROWS),
        "filed": str(3 * ROWS),
    }
    assert "'credentials.driven' is not defined here" in found["driven"], "of a task"
    assert "'credentials.lacking' is not defined here" in found["lacking"], "of the driver"
    assert scene.used() == {
        *(f"{name} of driver" for name in names[:4]),
        "started of worker",
        "sent of job",
        "filed of file",
    }


@pytest.mark.soak
def test_a_connect_client_only_names_what_the_server_defines(scene: Scene) -> None:
    key = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "of-the-server"}
    of_server = scene.definition("prod", "server")
    with connect_server(scene.folder, **key, **of_server) as remote:
        done = run_program(
            str(ROOT / "tests" / "spark" / "credential_run.py"),
            *(str(EXAMPLE), str(scene.folder), "prod", "own"),
            cwd=scene.folder,
            SPARK_REMOTE=remote,
            **key,
            **scene.definition("own", "client"),
        )
    found = outcomes(done)
    assert found["prod"] == str(ROWS)
    assert "'credentials.own' is not defined here" in found["own"]
    assert scene.used() == {"prod of server"}
