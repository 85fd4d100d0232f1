"""Options only name who a query is; what proves it goes to the servers that it is for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem
from pyspark.serializers import CPickleSerializer

from raftlog.certificates import make_certificates
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.errors import InvalidOption, NodeUnreachable
from raftlog.spark.checkpoint_files import Unread, ask, opened
from raftlog.spark.connection import check_reachable, client
from raftlog.spark.declarations import FOUND, Endpoint
from raftlog.spark.option_values import client_settings
from raftlog.spark.options import ConnectionOptions, sink_options, source_options

SERVERS, EVIL = "node-1:7401,node-2:7401", "evil:7401"
NAMED = {"raftlog.auth.credential": "prod"}
DEFINED = {"": "command:print-token", "_SERVERS": SERVERS, "_CA": "/etc/ca.pem"}
ENSEMBLE = "zk-1:2181/raftlog"


def connection(**more: str) -> ConnectionOptions:
    given = {"subscribe": "t", **{key.replace("_", "."): value for key, value in more.items()}}
    return source_options(given, Endpoint.STREAM_SOURCE).subscription.connection


def define(monkeypatch: pytest.MonkeyPatch, definition: dict[str, str], name: str = "PROD") -> None:
    for end, value in definition.items():
        monkeypatch.setenv(f"RAFTLOG_CREDENTIAL_{name}{end}", value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("raftlog.auth.token", "command:touch /tmp/owned"),
        ("raftlog.auth.token", "file:/etc/shadow"),
        ("RAFTLOG.auth.Token", "raftlog_a-secret"),
        ("raftlog.tls.cert.file", "/home/other/cert.pem"),
        ("raftlog.tls.key.file", "/home/other/key.pem"),
    ],
)
@pytest.mark.parametrize("endpoint", list(Endpoint))
def test_no_option_says_where_a_secret_is(option: str, value: str, endpoint: Endpoint) -> None:
    """Who may write SQL sets options: of a view, of a table."""
    given = {"subscribe": "t"} if "read" in endpoint.value else {"topic": "t"}
    parse = source_options if "read" in endpoint.value else sink_options
    with pytest.raises(InvalidOption, match=r"raftlog\.auth\.credential") as rejected:
        parse({**given, option: value}, endpoint)
    assert value not in str(rejected.value)


def test_a_credential_leads_to_its_own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, DEFINED)
    found = connection(**NAMED)
    assert (found.bootstrap_servers, found.zookeeper, found.credential) == (SERVERS, "", "prod")
    assert "print-token" not in repr(found), "it stands in plans, and goes to executors"
    same = {"raftlog.bootstrap.servers": SERVERS, "raftlog.tls.ca.file": "/etc/ca.pem"}
    assert connection(**NAMED, **same) == found


def test_a_credential_may_be_for_an_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, {"": "env:TOKEN", "_ZOOKEEPER": ENSEMBLE, "_CA": "/etc/ca.pem"})
    assert connection(**NAMED).zookeeper == ENSEMBLE


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener, f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.slow
def test_a_task_connects_by_the_definition_of_its_own_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_certificates(tmp_path, cluster_id="c", hosts={1: "127.0.0.1"}, days=1)
    with listening() as (of_driver, for_driver), listening() as (of_executor, for_executor):
        driver = {"": "env:OF_DRIVER", "_SERVERS": for_driver, "_CA": "/driver/ca.pem"}
        define(monkeypatch, driver)
        sent = CPickleSerializer().dumps(connection(**NAMED, raftlog_request_timeout_ms="500"))
        assert b"OF_DRIVER" not in sent
        assert b"/driver/ca.pem" not in sent

        for end in driver:
            monkeypatch.delenv(f"RAFTLOG_CREDENTIAL_PROD{end}")
        options = CPickleSerializer().loads(sent)
        with pytest.raises(InvalidOption, match=r"executorEnv\.RAFTLOG_CREDENTIAL_PROD"):
            check_reachable(options)

        own = {"": "env:OF_EXECUTOR", "_SERVERS": for_executor, "_CA": str(tmp_path / "ca.pem")}
        define(monkeypatch, own)
        with pytest.raises(InvalidOption, match=r"in Spark the credential's.* does not lead"):
            check_reachable(options)

        monkeypatch.setenv("OF_EXECUTOR", "raftlog_a-secret")
        with pytest.raises(NodeUnreachable):
            check_reachable(options)
        of_executor.accept()[0].close()
        with pytest.raises(BlockingIOError):
            of_driver.accept()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("raftlog.bootstrap.servers", EVIL),
        ("raftlog.zookeeper.connect", "evil:2181"),
        ("raftlog.tls.ca.file", "/tmp/evil.pem"),
        ("raftlog.tls.ca.file", ""),
    ],
)
def test_options_lead_a_credential_to_no_other_servers(
    monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    define(monkeypatch, DEFINED)
    with pytest.raises(InvalidOption, match="is not what credential 'prod' is for"):
        connection(**NAMED, **{option: value})
    for end in DEFINED:
        monkeypatch.delenv(f"RAFTLOG_CREDENTIAL_PROD{end}")
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", "env:TOKEN")
    monkeypatch.setenv("RAFTLOG_CLIENT__BOOTSTRAP_SERVERS", SERVERS)
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", "/etc/ca.pem")
    assert connection().token == "env:TOKEN"
    with pytest.raises(InvalidOption, match=r"is not what client\.token is for"):
        connection(**{option: value})


def test_nodes_that_an_option_says_were_found_get_no_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processes hand them on by an option, which a view may have as well."""
    found = {FOUND: EVIL}
    define(monkeypatch, {"": "env:TOKEN", "_ZOOKEEPER": ENSEMBLE, "_CA": "/etc/ca.pem"})
    assert connection(**NAMED, **found).bootstrap_servers == ""
    monkeypatch.setenv("RAFTLOG_CLIENT__ZOOKEEPER", ENSEMBLE)
    assert connection(**found).bootstrap_servers == EVIL, "there is nothing to be had"
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", "env:TOKEN")
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", "/etc/ca.pem")
    assert connection(**found).bootstrap_servers == ""
    with pytest.raises(InvalidOption, match=r"is not what client\.token is for"):
        connection(**{"raftlog.bootstrap.servers": client_settings().bootstrap_servers})


@pytest.mark.parametrize(
    "variable",
    [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
        "OTEL_PYTHON_EXPORTER_OTLP_GRPC_CREDENTIAL_PROVIDER",
        "OTEL_PYTHON_EXPORTER_OTLP_GRPC_TRACES_CREDENTIAL_PROVIDER",
        "OTEL_EXPORTER_OTLP_TRACES_OF_A_LATER_VERSION",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_SERVICE_NAME",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS",
    ],
)
def test_what_a_process_tells_its_collector_goes_to_no_other(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    define(monkeypatch, DEFINED)
    monkeypatch.setenv(variable, "api-key=secret")
    elsewhere = connection(**NAMED, **{"raftlog.tracing.endpoint": "http://evil:4317"})
    with pytest.raises(InvalidOption, match=variable) as rejected:
        client(elsewhere)
    assert "secret" not in str(rejected.value)


def test_variables_that_prove_nothing_leave_the_collector_to_an_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_certificates(tmp_path, cluster_id="c", hosts={1: "127.0.0.1"}, days=1)
    define(monkeypatch, {**DEFINED, "_CA": str(tmp_path / "ca.pem")})
    for variable, value in {"TIMEOUT": "1", "TRACES_COMPRESSION": "gzip"}.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{variable}", value)
    elsewhere = connection(**NAMED, **{"raftlog.tracing.endpoint": "http://127.0.0.1:4317"})
    client(elsewhere).close()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "gs", "gcs", "hdfs"])
def test_a_checkpoints_uri_leads_to_no_other_endpoint(scheme: str) -> None:
    with pytest.raises(ValueError, match="has a query"):
        opened(f"{scheme}://bucket/a?endpoint_override=evil:80&scheme=http")


@pytest.mark.parametrize(
    "location",
    [
        "abfs://account@evil:10000/container/a",
        "abfss://container@account.evil/a",
        "fsspec+http://evil/a",
        "hf://datasets/evil/a",
        "viewfs://evil/a",
        "http://evil/a",
        "mock:///a",
    ],
)
def test_a_checkpoint_is_read_only_where_the_documents_say(location: str) -> None:
    """The host in it would get the process's token, or be asked for any URL."""
    with pytest.raises(ValueError, match="only local paths"):
        opened(location)
    found = ask(location, lambda files, folder: "read", PATIENCE_S)
    assert isinstance(found, Unread)
    assert "only local paths" in found.problem


def test_whatever_a_storage_raises_is_an_answer(tmp_path: Path) -> None:
    def deep(files: FileSystem, folder: str) -> object:
        return json.loads(files.open_input_file(f"{folder}/metadata").read())

    (tmp_path / "metadata").write_text("[" * 100_000)
    found = ask(str(tmp_path), deep, PATIENCE_S)
    assert isinstance(found, Unread)
    assert found.problem.startswith("RecursionError")


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ({}, "is not defined here"),
        ({"_SERVERS": SERVERS, "_CA": "/etc/ca.pem"}, "is not defined here"),
        ({"": "env:TOKEN", "_CA": "/etc/ca.pem"}, "names no servers"),
        ({**DEFINED, "_ZOOKEEPER": ENSEMBLE}, "names both servers and ZooKeeper"),
        ({"": "env:TOKEN", "_SERVERS": SERVERS}, "names no CA"),
        ({**DEFINED, "": "raftlog_a-secret"}, "does not say where a token is"),
        ({**DEFINED, "_CERT": "/etc/cert.pem"}, "is given without"),
    ],
)
def test_a_definition_that_lacks_something_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, definition: dict[str, str], problem: str
) -> None:
    define(monkeypatch, definition)
    with pytest.raises(InvalidOption, match=problem) as rejected:
        connection(**NAMED)
    assert "a-secret" not in str(rejected.value)


@pytest.mark.parametrize("name", ["", "Prod", "a" * 33, "../x", "prod_servers", "1"])
def test_a_credential_has_a_plain_name(name: str) -> None:
    if name:
        with pytest.raises(InvalidOption, match="no name of a credential"):
            connection(**{"raftlog.auth.credential": name})
    else:
        assert connection(**{"raftlog.auth.credential": name}).credential == ""


def test_the_file_defines_credentials_and_the_environment_overrides_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "raftlog.toml"
    file.write_text(
        f'[credentials.prod]\ntoken = "env:TOKEN"\nservers = "{SERVERS}"\nca = "/etc/ca.pem"\n'
    )
    monkeypatch.setenv("RAFTLOG_CONFIG", str(file))
    assert connection(**NAMED).bootstrap_servers == SERVERS
    monkeypatch.setenv("RAFTLOG_CREDENTIAL_PROD_SERVERS", "other:7401")
    assert connection(**NAMED).bootstrap_servers == "other:7401"
    file.write_text("[credentials.prod]\ntoken = 1\n")
    with pytest.raises(InvalidOption, match="is no definition"):
        connection(**NAMED)
    file.write_text('[credentials]\nprod = "env:TOKEN"\n')
    with pytest.raises(InvalidOption, match="is no definition"):
        connection(**NAMED)
