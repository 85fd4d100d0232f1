"""The verbs, their help, and their exit codes when something is wrong."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from raftlog.chaos.cluster import PATIENCE_S
from raftlog.cli import cluster_folder
from raftlog.errors import ExitCode
from raftlog.storage.posix import PosixFileSystem
from tests import stores
from tests.cli.command import Finished, run

Command = Callable[..., Finished]

VERBS = [
    "up", "serve", "down", "status", "produce", "tail", "watermark", "lag", "doctor",
    "topic create", "topic list", "topic describe", "topic trim", "topic config", "topic delete",
    "writers list", "writers remove", "groups reset", "groups forget",
]  # fmt: skip


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return lambda *words: run(monkeypatch, capsys, *map(str, words))


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def recorded_alone(folder: Path, port: int) -> cluster_folder.ClusterFolder:
    """A cluster of one node."""
    cluster = stores.recorded(folder, {1: f"127.0.0.1:{port}"})
    stores.made(PosixFileSystem(cluster.data(1)), 1, (1,))
    return cluster


def recorded(folder: Path) -> cluster_folder.ClusterFolder:
    addresses = {node: f"127.0.0.1:{port}" for node, port in ((1, 7001), (2, 7002), (3, 7003))}
    return stores.recorded(folder, addresses)


def refused(finished: Finished, code: ExitCode, *parts: str) -> None:
    """Assert that it ended with the code, cause and remedy on standard error, and no traceback."""
    assert finished.code == code, finished
    assert "Traceback" not in finished.err
    assert finished.out == ""
    cause, remedy = finished.err.rstrip().splitlines()[-2:]
    assert cause.startswith("error: ")
    assert remedy.startswith("  ")
    for part in parts:
        assert part in finished.err


def test_an_error_tells_people_its_name_and_programs_all_of_it(command: Command) -> None:
    """And the words are the same."""
    words = ("--servers", "there:1,here", "topic", "list")
    told = command(*words)
    assert told.code == ExitCode.USAGE
    assert told.err.startswith("error: InvalidOption: Option 'client.bootstrap_servers' holds")
    for form in ("-ojson", "--output=json"):
        finished = command(*words, form)
        assert (finished.code, finished.out) == (ExitCode.USAGE, "")
        error = json.loads(finished.err)
        said = f"error: {error['error']}: {error['message']}\n  {error['remedy']}\n"
        assert said == told.err
        assert error["option"] == "client.bootstrap_servers"
        assert (error["retriable"], error["exit_code"]) == (False, ExitCode.USAGE)
        assert "'here'" in error["values"]["problem"]


def test_a_folder_that_cannot_be_used_is_an_error_for_programs_too(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    finished = command("up", "-o", "json", "--data", str(tmp_path / "file"))
    assert finished.code == ExitCode.USAGE
    assert json.loads(finished.err)["error"] == "PathUnusable"


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(command: Command, verb: str) -> None:
    finished = command(*verb.split(), "--help")
    assert finished.code == ExitCode.OK
    assert f"raftlog {verb}" in finished.out
    assert finished.err == ""


def test_root_help_lists_every_verb_and_the_exit_codes(command: Command) -> None:
    out = command("--help").out
    for verb in VERBS:
        assert verb.split()[0] in out
    for code in ExitCode:
        assert f"{int(code)} " in out


def test_version_is_the_packages_own(command: Command) -> None:
    import raftlog

    assert command("--version").out == f"raftlog {raftlog.__version__}\n"


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", {"COMP_WORDS": "raftlog to", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "raftlog to"}),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "raftlog to", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
    ids=["bash", "zsh", "fish"],
)
@pytest.mark.slow
def test_the_usual_shells_complete_a_verb(shell: str, line: dict[str, str]) -> None:
    """As each shell asks for what may stand in place of `to`."""
    environment = {**os.environ, "_RAFTLOG_COMPLETE": f"complete_{shell}", **line}
    command = [sys.executable, "-m", "raftlog"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "topic" in ended.stdout
    assert "status" not in ended.stdout


@pytest.mark.slow
def test_python_m_raftlog_is_the_command_and_loads_no_grpc() -> None:
    program = (
        "import os, runpy, sys; sys.argv = ['raftlog', '--version']\n"
        "class Last:\n"
        "    def __del__(self, write=os.write): write(2, b'the interpreter is torn down')\n"
        "last = Last()\n"
        "try: runpy.run_module('raftlog', run_name='__main__')\n"
        "except SystemExit: print([m for m in ('grpc', 'pyarrow') if m in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[1:] == ["[]"]
    assert ended.stderr == "", "threads of grpc may abort a process that does this"


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize("words", [("bogus",), ("status", "--bogus"), ("serve",), ("tail",)])
def test_wrong_usage_exits_2(command: Command, words: tuple[str, ...]) -> None:
    assert command(*words).code == ExitCode.USAGE


def test_unknown_key_is_an_error_of_every_source(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(command("--set", "raft.tik=1", "status"), ExitCode.USAGE, "raft.tick_interval_s")
    file = tmp_path / "raftlog.toml"
    file.write_text("[client]\nreqest_timeout_s = 1\n", encoding="utf-8")
    refused(command("--config", file, "status"), ExitCode.USAGE, "client.request_timeout_s")
    monkeypatch.setenv("RAFTLOG_CLIENT__REQEST_TIMEOUT_S", "1")
    refused(command("status"), ExitCode.USAGE, "RAFTLOG_CLIENT__REQUEST_TIMEOUT_S")


def test_missing_configuration_is_an_error(command: Command, tmp_path: Path) -> None:
    refused(command("--config", tmp_path / "nowhere.toml", "status"), ExitCode.USAGE, "nowhere")


def test_servers_that_are_no_addresses_are_an_error(command: Command) -> None:
    refused(command("--servers", "here", "topic", "list"), ExitCode.USAGE, "'here'", "host:port")


# ---------------------------------------------------------------- no cluster


@pytest.mark.slow
@pytest.mark.parametrize("words", [("status",), ("topic", "list"), ("watermark",), ("tail", "t")])
def test_no_cluster_is_unavailable_within_the_deadline(
    command: Command, words: tuple[str, ...]
) -> None:
    with socket.socket() as unreachable:
        unreachable.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        server = f"127.0.0.1:{unreachable.getsockname()[1]}"
        finished = command(
            "--servers", server, "--set", "client.request_timeout_s=0.3",
            "--set", "client.try_timeout_s=0.3", *words,
        )  # fmt: skip
    refused(finished, ExitCode.UNAVAILABLE, server)
    assert "failed to connect" not in finished.err


@pytest.fixture
def unreachable() -> Iterator[str]:
    """Addresses where nothing listens: bound and not listening, so refused at once."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        yield ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other))


@pytest.mark.slow
@pytest.mark.parametrize("words", [("status",), ("topic", "list"), ("watermark",), ("tail", "t")])
def test_where_nothing_listens_a_verb_ends_long_before_its_deadline(
    command: Command, unreachable: str, words: tuple[str, ...]
) -> None:
    """The addresses are wrong or nothing was started, so waiting does not help."""
    settings = ("client.refused_timeout_s=0.3", f"client.request_timeout_s={PATIENCE_S}")
    finished = command(*(f"--set={each}" for each in settings), *words, "--servers", unreachable)
    assert "was not done within" not in finished.err, "its deadline ended it"
    refused(
        finished,
        ExitCode.UNAVAILABLE,
        *unreachable.split(","),
        "nothing listens there",
        "raftlog up",
    )


@pytest.fixture
def web_server() -> Iterator[str]:
    """A port of another program."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def other_grpc() -> Iterator[str]:
    """Another program's grpc service."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.slow
def test_a_port_where_something_else_listens_is_told_from_a_slow_cluster(
    command: Command, web_server: str, other_grpc: str
) -> None:
    settings = (
        "--set=client.refused_timeout_s=0.3",
        f"--set=client.request_timeout_s={PATIENCE_S}",
    )
    finished = command(*settings, "topic", "list", "--servers", web_server)
    refused(finished, ExitCode.UNAVAILABLE, web_server, "what listens there is no raftlog node")
    finished = command(*settings, "topic", "list", "--servers", other_grpc)
    refused(finished, ExitCode.USAGE, other_grpc, "nothing knows this call", "--servers")


@pytest.mark.parametrize(
    "verb", ["status", "tail t", "watermark", "produce t -", "topic list", "topic describe t",
             "topic delete t", "topic create t --schema a\tint"],
)  # fmt: skip
def test_servers_given_after_the_verb_override_those_given_before_it(
    command: Command, verb: str
) -> None:
    words = [word.replace("\t", " ") for word in verb.split(" ")]
    finished = command("--servers", "127.0.0.1:1", *words, "--servers", "there")
    refused(finished, ExitCode.USAGE, "'there'", "host:port")


# ---------------------------------------------------------------- up, serve, down


def test_up_refuses_a_busy_port_and_leaves_nothing_behind(
    command: Command, tmp_path: Path, busy_port: int
) -> None:
    data = tmp_path / "new"
    finished = command("up", "--data", data, "--port", busy_port, "--nodes", 1)
    refused(finished, ExitCode.NODE_REFUSED, f"127.0.0.1:{busy_port}", "--port")
    assert not data.exists()


def test_up_refuses_a_folder_with_other_files_and_touches_none(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("precious", encoding="utf-8")
    refused(command("up", "--data", tmp_path), ExitCode.NODE_REFUSED, "cluster.toml")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_up_refuses_another_number_of_nodes_than_recorded(command: Command, tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    finished = command("up", "--data", tmp_path / "c", "--nodes", 5)
    refused(finished, ExitCode.USAGE, "--nodes", "5", "3")


def test_up_refuses_another_port_than_recorded(command: Command, tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    finished = command("up", "--data", tmp_path / "c", "--port", 7401)
    refused(finished, ExitCode.USAGE, "--port", "7401", "7001")


def test_up_refuses_ports_beyond_the_last(command: Command, tmp_path: Path) -> None:
    refused(command("up", "--data", tmp_path / "c", "--port", 65534), ExitCode.USAGE, "65534")


@pytest.mark.slow
def test_up_and_serve_refuse_a_node_that_runs(command: Command, tmp_path: Path) -> None:
    cluster = recorded(tmp_path / "c")
    with stores.holder(cluster.pid_file(2)) as child:
        for words in (("up",), ("serve", "--node", 2)):
            refused(command(*words, "--data", cluster.folder), ExitCode.NODE_REFUSED, "node-2")
        child.kill()


@pytest.mark.slow
@pytest.mark.parametrize("founded", [False, True])
def test_of_two_ups_in_one_folder_the_second_is_refused(
    command: Command, tmp_path: Path, free_port: int, founded: bool
) -> None:
    """Each would give the new cluster an id of its own, and nodes of one would refuse the other."""
    data = tmp_path / "c"
    data.mkdir()
    with stores.holder(data / "up.pid") as child:
        if founded:
            recorded_alone(data, free_port)
        finished = command("up", "--data", data, "--port", free_port, "--nodes", 1)
        refused(finished, ExitCode.NODE_REFUSED, f"{data} is in use by process {child.pid}")
        child.kill()
    assert cluster_folder.exists(data) == founded
    assert not (data / "log").exists()


@pytest.mark.parametrize("verb", ["serve --node 1", "down"])
def test_a_folder_without_a_cluster_is_an_error(
    command: Command, tmp_path: Path, verb: str
) -> None:
    refused(command(*verb.split(), "--data", tmp_path), ExitCode.USAGE, "raftlog up")


def test_serve_refuses_a_node_that_the_cluster_does_not_have(
    command: Command, tmp_path: Path
) -> None:
    recorded(tmp_path / "c")
    finished = command("serve", "--node", 9, "--data", tmp_path / "c")
    refused(finished, ExitCode.USAGE, "9", "1, 2, 3")


def test_serve_says_that_a_node_was_removed(command: Command, tmp_path: Path) -> None:
    """Its data stays in the folder, and the cluster's file names it no more."""
    cluster = recorded(tmp_path / "c")
    cluster.data(3).mkdir()
    cluster_folder.forget(cluster.folder, 3)
    for words in ([], ["--join"]):
        finished = command("serve", "--node", 3, "--data", cluster.folder, *words)
        refused(finished, ExitCode.NODE_REFUSED, "Node 3 was removed", "raftlog cluster add")


def test_a_node_does_not_join_a_cluster_with_tls_without_its_certificate(
    command: Command, tmp_path: Path
) -> None:
    cluster = recorded(tmp_path / "c")
    trusted = f"--set=client.tls_ca_file={tmp_path / 'ca.pem'}"
    finished = command(trusted, "serve", "--node", 3, "--data", cluster.folder, "--join")
    made = "raftlog certs --data DIR --node 3=HOST"
    refused(finished, ExitCode.USAGE, "tls.cert_file", made, str(cluster.tls))


@pytest.mark.slow
def test_serve_on_a_busy_port_names_the_file_that_says_where_it_listens(
    tmp_path: Path, busy_port: int
) -> None:
    recorded_alone(tmp_path / "c", busy_port)
    ended = subprocess.run(
        [sys.executable, "-m", "raftlog", "serve", "--node", "1", "--data", tmp_path / "c"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == ExitCode.NODE_REFUSED
    assert f"127.0.0.1:{busy_port} is in use" in ended.stderr
    assert "[nodes] in cluster.toml" in ended.stderr
    assert "--port" not in ended.stderr


@pytest.mark.slow
def test_serve_refuses_to_run_without_assertions(tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    ended = subprocess.run(
        [sys.executable, "-O", "-m", "raftlog", "serve", "--node", "1", "--data", tmp_path / "c"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == ExitCode.USAGE
    assert "assertions" in ended.stderr


def test_serve_refuses_to_listen_off_loopback_unless_told(command: Command, tmp_path: Path) -> None:
    cluster = stores.recorded(tmp_path / "c", {1: "192.0.2.7:7401"})
    finished = command("serve", "--node", 1, "--data", cluster.folder)
    refused(finished, ExitCode.USAGE, "--insecure", "192.0.2.7")


def test_down_with_nothing_running_succeeds(command: Command, tmp_path: Path) -> None:
    recorded(tmp_path / "c")
    finished = command("down", "--data", tmp_path / "c", "-o", "json")
    assert (finished.code, finished.out) == (ExitCode.OK, '{"stopped": []}\n')


@pytest.mark.parametrize("verb", ["up --nodes 1 --port", "serve --node 1", "down", "chaos"])
@pytest.mark.parametrize("place", ["file", "file/below", "/dev/null/x", "/proc/x"])
def test_a_place_that_cannot_be_a_folder_is_named_with_the_reason(
    command: Command, tmp_path: Path, free_port: int, verb: str, place: str
) -> None:
    (tmp_path / "file").touch()
    words = [*verb.split(), *([free_port] if verb.startswith("up") else [])]
    refused(command(*words, "--data", tmp_path / place), ExitCode.USAGE, place, "--data")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("spoiled", "verb"),
    [("log", "up"), ("node-1", "serve --node 1")],
)
def test_a_file_in_the_place_of_a_clusters_folder_is_named(
    command: Command, tmp_path: Path, free_port: int, spoiled: str, verb: str
) -> None:
    cluster = stores.recorded(tmp_path / "c", {1: f"127.0.0.1:{free_port}"})
    (cluster.folder / spoiled).touch()
    finished = command(*verb.split(), "--data", cluster.folder)
    path = cluster.folder / spoiled
    refused(finished, ExitCode.USAGE, f"{path} cannot be used: there is a file", "--data")


@pytest.mark.parametrize("verb", ["up", "serve --node 1", "down"])
def test_a_folder_in_the_place_of_a_pid_file_is_named(
    command: Command, tmp_path: Path, free_port: int, verb: str
) -> None:
    cluster = recorded_alone(tmp_path / "c", free_port)
    cluster.pid_file(1).mkdir()
    finished = command(*verb.split(), "--data", cluster.folder)
    path = cluster.pid_file(1)
    refused(finished, ExitCode.USAGE, f"{path} cannot be used: there is a folder", "--data")


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("words", [(), ("--schema", "a int", "--schema-file", "x")])
def test_topic_create_wants_exactly_one_schema(command: Command, words: tuple[str, ...]) -> None:
    refused(command("topic", "create", "t", *words), ExitCode.USAGE, "--schema-file")


def test_topic_create_refuses_a_schema_it_cannot_read(command: Command) -> None:
    refused(command("topic", "create", "t", "--schema", "id bigintt"), ExitCode.USAGE, "schema")


def test_a_schema_of_any_length_is_refused_in_a_few_lines(command: Command) -> None:
    finished = command("topic", "create", "t", "--schema", "x" * 100_000 + " foo")
    refused(finished, ExitCode.USAGE, "schema", "xxx....")
    assert len(finished.err) < 1_500


def test_tail_begins_at_a_start_or_before_the_end_not_both(command: Command) -> None:
    refused(command("tail", "t", "--start", "5", "-n", "3"), ExitCode.USAGE, "-n", "--start")


def test_produce_asks_for_a_format_that_the_name_does_not_tell(command: Command) -> None:
    refused(command("produce", "t", "rows.xlsx"), ExitCode.USAGE, "--format", "parquet")
