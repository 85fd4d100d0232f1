"""The command line against a real node: what a user does in the first ten minutes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raftlog import connect
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.cli.cluster_folder import open_folder
from raftlog.config import ServerSettings
from raftlog.errors import ExitCode
from raftlog.server.ports import connections_max
from tests.cluster.waiting import wait_serving

DDL = "id bigint not null, text string, day date, at timestamp"
ROWS = [
    {"id": 1, "text": "hä", "day": "2013-01-02", "at": "2013-01-01T05:00:00+00:00"},
    {"id": 2, "text": None, "day": None, "at": None},
]


@pytest.fixture(scope="module")
def cluster(lone: ProcessCluster) -> ProcessCluster:
    return lone


def raftlog(*words: str, servers: str = "", text: str = "") -> subprocess.CompletedProcess[str]:
    """A node that runs is given all the time to answer."""
    command = [sys.executable, "-m", "raftlog", f"--set=client.view_timeout_s={PATIENCE_S:g}"]
    command += ["--servers", servers] if servers else []
    return subprocess.run(
        [*command, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def answer(cluster: ProcessCluster, *words: str, text: str = "") -> Any:
    """What a verb that succeeds prints with -o json: one document, or one per line."""
    ended = raftlog(*words, "-o", "json", servers=cluster.servers, text=text)
    assert ended.returncode == ExitCode.OK, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return lines if words[0] == "tail" else lines[0]


def test_topic_from_creation_to_deletion(cluster: ProcessCluster) -> None:
    created = answer(cluster, "topic", "create", "life", "--schema", DDL)
    assert created["schema"] == "id BIGINT NOT NULL, text STRING, day DATE, at TIMESTAMP"
    sizes = {"log_start_offset": 0, "high_water_mark": 0, "staged_bytes": 0, "dead_bytes": 0}
    described = answer(cluster, "topic", "describe", "life")
    replicas = described.pop("replicas")
    assert described == created | sizes | {"records_held": 0, "held_for": None}
    assert [replica["node"] for replica in replicas] == [1]
    assert replicas[0]["log_bytes"] > 0
    assert replicas[0]["snapshot_index"] == replicas[0]["history_end"] == 0
    assert {**created, "records": 0} in answer(cluster, "topic", "list")
    again = raftlog("topic", "create", "life", "--schema", DDL, servers=cluster.servers)
    assert again.returncode == ExitCode.ALREADY_EXISTS
    assert answer(cluster, "topic", "create", "life", "--schema", DDL, "--if-not-exists") == created
    unasked = raftlog("topic", "delete", "life", servers=cluster.servers, text="n\n")
    assert unasked.returncode == ExitCode.FAILED
    unheard = raftlog("topic", "delete", "life", servers=cluster.servers, text="")
    assert unheard.returncode == ExitCode.USAGE
    assert "Add --yes" in unheard.stderr
    assert answer(cluster, "topic", "delete", "life", "--yes") == created
    gone = raftlog("topic", "describe", "life", servers=cluster.servers)
    assert gone.returncode == ExitCode.NOT_FOUND
    assert "raftlog topic create life" in gone.stderr
    assert "cluster that has it: --servers." in gone.stderr
    assert "subscribe" not in gone.stderr


def test_rows_produced_are_tailed_as_they_were(cluster: ProcessCluster) -> None:
    answer(cluster, "topic", "create", "rows", "--schema", DDL)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    assert answer(cluster, "produce", "rows", text=lines)["end"] == 2
    tailed = answer(cluster, "tail", "rows", "--no-follow")
    assert tailed == [{"_offset": offset} | row for offset, row in enumerate(ROWS)]
    # What tail wrote, with its metadata column, can be produced again unchanged.
    copied = "".join(json.dumps(row) + "\n" for row in tailed)
    assert answer(cluster, "produce", "rows", text=copied)["end"] == 4
    last = answer(cluster, "tail", "rows", "--no-follow", "-n", "1", "--columns", "_offset,id")
    assert last == [{"_offset": 3, "id": 2}]
    assert answer(cluster, "tail", "rows", "--no-follow", "--start", "earliest")[:2] == tailed


def test_produce_creates_a_topic_for_its_file_once(cluster: ProcessCluster) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    refused = raftlog("produce", "made", servers=cluster.servers, text=lines)
    assert refused.returncode == ExitCode.NOT_FOUND
    refused = raftlog("produce", "made", "--replicas", "1", servers=cluster.servers, text=lines)
    assert refused.returncode == ExitCode.USAGE
    words = ("produce", "made", "--create", "--retention-s", "7d")
    assert answer(cluster, *words, text=lines)["end"] == 2
    made = answer(cluster, "topic", "describe", "made")
    assert made["schema"] == "id BIGINT, text STRING, day DATE, at TIMESTAMP"
    assert made["settings"]["retention_s"] == 7 * 86_400
    again = raftlog(*words[:-1], "1d", servers=cluster.servers, text=lines)
    assert again.returncode == ExitCode.OK
    assert "its settings are as before" in again.stderr
    assert answer(cluster, "topic", "describe", "made")["settings"] == made["settings"]
    assert [row["id"] for row in answer(cluster, "tail", "made", "--no-follow")] == [1, 2, 1, 2]


def test_a_row_that_does_not_fit_is_refused_and_the_topic_stays_as_it_was(
    cluster: ProcessCluster,
) -> None:
    answer(cluster, "topic", "create", "strict", "--schema", DDL)
    for line in ('{"id": null}', '{"idd": 1}', '{"id": "x"}'):
        ended = raftlog("produce", "strict", servers=cluster.servers, text=line + "\n")
        assert ended.returncode == ExitCode.USAGE, line
        assert "Traceback" not in ended.stderr
    assert answer(cluster, "watermark", "strict")[0]["high_water_mark"] == 0


def typing_into(cluster: ProcessCluster, topic: str) -> subprocess.Popen[str]:
    """A `raftlog produce` that waits for lines."""
    return subprocess.Popen(
        [sys.executable, "-m", "raftlog", "--servers", cluster.servers, "produce", topic],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_line_that_is_typed_into_produce_arrives_before_the_next_one(
    cluster: ProcessCluster,
) -> None:
    answer(cluster, "topic", "create", "typed", "--schema", "id bigint")
    producer = typing_into(cluster, "typed")
    assert producer.stdin is not None
    with connect(cluster.servers) as client:
        for number in (1, 2):
            producer.stdin.write(f'{{"id": {number}}}\n')
            producer.stdin.flush()
            wait_for(
                lambda end=number: client.read_high_water_mark("typed").high_water_mark == end,
                "the line to be in the topic",
                PATIENCE_S,
            )
    _, said = producer.communicate(timeout=PATIENCE_S)
    assert producer.returncode == ExitCode.OK
    assert "2 records appended to typed" in said


def test_a_produce_that_began_before_its_topic_was_widened_says_so(
    cluster: ProcessCluster,
) -> None:
    answer(cluster, "topic", "create", "widened", "--schema", "id int")
    producer = typing_into(cluster, "widened")
    assert producer.stdin is not None
    with connect(cluster.servers) as client:
        producer.stdin.write('{"id": 1}\n')
        producer.stdin.flush()
        wait_for(
            lambda: client.read_high_water_mark("widened").high_water_mark == 1,
            "the line to be in the topic",
            PATIENCE_S,
        )
        client.alter_schema("widened", types="id bigint")
        _, said = producer.communicate('{"id": 1099511627776}\n', timeout=PATIENCE_S)
        assert producer.returncode == ExitCode.USAGE
        assert "altered meanwhile: the file may be right as it is" in said
        assert client.read_high_water_mark("widened").high_water_mark == 1


def test_a_failed_produce_names_the_row_that_is_too_large(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    """Those behind it are written."""
    answer(cluster, "topic", "create", "large", "--schema", "id bigint, text string")
    sizes = [10] * 600 + [9_500_000] + [2_000] * 3_000
    texts = [os.urandom(size // 2).hex() for size in sizes]
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(len(sizes)), "text": texts}), file)
    ended = raftlog("produce", "large", str(file), servers=cluster.servers)
    assert ended.returncode == ExitCode.USAGE, ended.stderr
    assert "server.entry_bytes_max" in ended.stderr
    assert "sequence" not in ended.stderr
    assert "Row 600 of the producer" in ended.stderr
    assert f"the first {len(sizes)} records of the file are in large, but 1 too" in ended.stderr
    (mark,) = answer(cluster, "watermark", "large")
    assert mark["high_water_mark"] == len(sizes) - 1


def test_a_file_with_a_bad_row_is_continued_as_the_error_says(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    answer(cluster, "topic", "create", "partly", "--schema", "id bigint not null, text string")
    rows = [f"{number},{'x' * 1000}" for number in range(6_000)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["id,text", *rows[:-1], "bad,", rows[-1]]), encoding="utf-8")
    ended = raftlog("produce", "partly", str(file), servers=cluster.servers)
    assert ended.returncode == ExitCode.USAGE
    assert "line 6001: column 'id' (BIGINT): invalid value 'bad'" in ended.stderr
    told = re.search(r"^the first (\d+) records of the file are in partly", ended.stderr)
    assert told is not None, ended.stderr
    count = int(told[1])
    assert 0 < count < len(rows)
    file.write_text("\n".join(["id,text", *rows[count:]]), encoding="utf-8")
    assert answer(cluster, "produce", "partly", str(file))["end"] == len(rows)


def test_a_produce_that_fails_says_how_many_rows_are_in(single: ProcessCluster) -> None:
    """The node is killed while rows still come: what it had acknowledged is counted."""
    answer(single, "topic", "create", "cut", "--schema", "id bigint, text string")
    rows = [json.dumps({"id": id_, "text": os.urandom(4_000).hex()}) for id_ in range(3_000)]
    with subprocess.Popen(
        [
            sys.executable, "-m", "raftlog", "--servers", single.servers,
            "--set", "client.request_timeout_s=20", "produce", "cut",
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as producing:  # fmt: skip
        assert producing.stdin is not None
        producing.stdin.write("\n".join(rows[:2_000]) + "\n")
        producing.stdin.flush()
        with single.client() as client:
            wait_for(lambda: client.watermark("cut").high_water_mark > 0, "a first row", PATIENCE_S)
            single.kill(1)
        _, said = producing.communicate("\n".join(rows[2_000:]) + "\n", timeout=PATIENCE_S)
    assert producing.returncode == ExitCode.UNAVAILABLE, said
    told = re.search(r"^(\d+) of the (\d+) records read so far are confirmed", said, re.M)
    assert told is not None, said
    known, read = map(int, told.groups())
    assert read <= len(rows)
    single.serve(1)
    wait_serving(single)
    with single.client() as client:
        batches = client.read("cut", columns=["id"])
        held = [id_ for batch in batches for id_ in batch.column("id").to_pylist()]
    assert held == list(range(len(held)))
    assert 0 < known <= len(held) < len(rows)


def test_a_start_beyond_the_end_is_refused_unless_the_topic_is_followed(
    cluster: ProcessCluster,
) -> None:
    answer(cluster, "topic", "create", "short", "--schema", "id bigint")
    assert answer(cluster, "tail", "short", "--start", "0", "--no-follow") == []
    ended = raftlog("tail", "short", "--start", "1", "--no-follow", servers=cluster.servers)
    assert ended.returncode == ExitCode.USAGE
    assert "short ends at offset 0" in ended.stderr


def test_tail_begins_at_an_age_or_a_time(cluster: ProcessCluster) -> None:
    answer(cluster, "topic", "create", "timed", "--schema", "id bigint")
    with cluster.client() as client:
        for number in range(2):
            client.append("timed", [{"id": number}])
        [stamps] = (
            batch.column(0) for batch in client.read("timed", columns=["_timestamp"], start=1)
        )
    second_s = stamps.cast("int64")[0].as_py() / 1e6
    for since, ids in (("1h", [0, 1]), (f"@{second_s:.6f}", [1]), (f"@{second_s + 60:.6f}", [])):
        tailed = answer(cluster, "tail", "timed", "--no-follow", "--since", since)
        assert [row["id"] for row in tailed] == ids, since
    both = raftlog("tail", "timed", "--since", "1h", "-n", "1", servers=cluster.servers)
    assert both.returncode == ExitCode.USAGE
    assert "each of them says where to begin" in both.stderr


@pytest.mark.usefixtures("signals_heard")
def test_tail_follows_and_ends_without_an_error_on_ctrl_c(cluster: ProcessCluster) -> None:
    answer(cluster, "topic", "create", "live", "--schema", DDL)
    follower = subprocess.Popen(
        [
            sys.executable, "-m", "raftlog", "--servers", cluster.servers,
            "tail", "live", "--follow", "-o", "json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert follower.stdout is not None
    for number in (1, 2):
        answer(cluster, "produce", "live", text=f'{{"id": {number}}}\n')
        assert json.loads(follower.stdout.readline())["id"] == number
    follower.send_signal(signal.SIGINT)
    _, said = follower.communicate(timeout=PATIENCE_S)
    assert (follower.returncode, said) == (130, "")


@pytest.mark.usefixtures("signals_heard")
def test_tail_says_for_whom_it_waits_when_the_only_replica_is_down(shared: ProcessCluster) -> None:
    created = answer(
        shared, "topic", "create", "single", "--schema", "id bigint", "--replicas", "1"
    )
    (holder,) = created["voters"]
    answer(shared, "produce", "single", text='{"id": 1}\n')
    follower = subprocess.Popen(
        [
            sys.executable, "-m", "raftlog", "--servers", shared.servers,
            "tail", "single", "--follow",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
    )  # fmt: skip
    assert follower.stdout is not None
    assert follower.stderr is not None
    assert "_offset" in follower.stdout.readline()  # it follows
    shared.kill(holder)
    lines = iter(follower.stderr.readline, "")

    def names_it() -> str:
        """A slow machine may give it other reasons to wait before."""
        return next(line for line in lines if shared.address(holder) in line)

    with ThreadPoolExecutor(1) as thread:
        said = thread.submit(names_it).result(PATIENCE_S)
    follower.send_signal(signal.SIGINT)
    try:
        follower.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        follower.send_signal(signal.SIGABRT)
        pytest.fail(f"it still runs after SIGINT:\n{follower.communicate(timeout=PATIENCE_S)[1]}")
    shared.serve(holder)
    assert said.startswith("no answer for ")


def test_watermark_and_status_tell_marks_and_leaders(cluster: ProcessCluster) -> None:
    answer(cluster, "topic", "create", "marks", "--schema", "id bigint")
    answer(cluster, "produce", "marks", text='{"id": 1}\n{"id": 2}\n')
    (mark,) = answer(cluster, "watermark", "marks")
    assert (mark["log_start_offset"], mark["high_water_mark"], mark["leader"]) == (0, 2, 1)
    assert mark["commit_index"] == mark["last_index"]
    assert [replica["lag_records"] for replica in mark["replicas"]] == [0]
    status = answer(cluster, "status")
    assert status["controller_leader"] == 1
    assert [node["problem"] for node in status["nodes"]] == [""]


def test_status_tells_leases_and_a_node_that_was_added_and_never_started(tmp_path: Path) -> None:
    settings = ("raft.leader_lease=true",)
    with ProcessCluster.start(tmp_path / "data", nodes=1, settings=settings) as running:
        with running.client() as client:
            assert client.members.add(2, "127.0.0.1:1")
        told = raftlog("status", "-o", "json", servers=running.servers)
    assert told.returncode == ExitCode.OK, "the node that runs is all that ever ran"
    there, added = json.loads(told.stdout)["nodes"]
    assert (there["never_started"], added["never_started"]) == (False, True)
    assert there["lease_s"] > 0


def test_up_says_what_died_serve_brings_it_back_and_down_stops_it(tmp_path: Path) -> None:
    """One node killed with -9: its records are there when it comes back."""
    with ProcessCluster.start(tmp_path / "data", nodes=1) as running:
        answer(running, "topic", "create", "kept", "--schema", "id bigint")
        answer(running, "produce", "kept", text='{"id": 7}\n')
        running.kill(1)
        running.serve(1)
        wait_serving(running)
        assert answer(running, "tail", "kept", "--no-follow", "--columns", "id") == [{"id": 7}]
        assert open_folder(running.data).running() == {1: running.pids[1]}
        ended = raftlog("down", "--data", str(running.data), "-o", "json")
        assert json.loads(ended.stdout) == {"stopped": [1]}
        assert open_folder(running.data).running() == {}


def test_up_stops_all_nodes_on_ctrl_c_and_starts_them_again_with_their_data(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    incarnations = []
    for _ in range(2):
        with ProcessCluster.start(data, nodes=1) as running:
            created = answer(
                running, "topic", "create", "t", "--schema", "id bigint", "--if-not-exists"
            )
            incarnations.append(created["incarnation"])
            os.kill(running.pids[1], 0)
        assert open_folder(data).running() == {}
    assert incarnations[0] == incarnations[1]


def test_a_node_takes_all_the_open_files_that_it_may_have(tmp_path: Path) -> None:
    """Each topic keeps one open: with the usual 1024 a node would end at its thousandth topic."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Below what a node needs for many topics, above what this process has open itself.
    few = len(list(Path("/proc/self/fd").iterdir())) + 256
    assert few < before[1], "the hard limit leaves nothing to raise"
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        with ProcessCluster.start(tmp_path / "data", nodes=1) as running:
            limits = Path(f"/proc/{running.pids[1]}/limits").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) == before[1]


def test_connections_leave_half_of_the_open_files_to_the_log() -> None:
    """A log that cannot open its next file ends the node, and a stranger can connect."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        assert connections_max(ServerSettings()) == few // 4, "at each of two ports"
        assert connections_max(ServerSettings(connections_max=16)) == 16
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_top_shows_rates_until_it_is_ended(shared: ProcessCluster, name: str) -> None:
    with shared.client() as client:
        client.create_topic(name, "id bigint")
        words = ["--servers", shared.servers, "top", "--interval", "0.2", "-o", "json"]
        with subprocess.Popen(
            [sys.executable, "-m", "raftlog", *words], stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            rates = []
            while not any(rates):
                client.append(name, [{"id": 1}])
                topics = json.loads(running.stdout.readline())
                (row,) = [each for each in topics if each["topic"] == name]
                rates.append(row["records_per_s"])
            assert row["replicas"] == 3
            running.terminate()
