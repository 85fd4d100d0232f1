"""`raftlog scrub` on real processes: damage at rest is named, counted and healed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b85encode
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient, NodeView
from raftlog.errors import ExitCode


def raftlog(cluster: ProcessCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raftlog", "--servers", cluster.servers, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def scrubbed(cluster: ProcessCluster, *words: str) -> dict[tuple[str, int], dict[str, Any]]:
    """What `raftlog scrub -o json` tells, by topic and node."""
    ended = raftlog(cluster, "scrub", *words, "-o", "json")
    assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
    shown = json.loads(ended.stdout)
    assert shown["nodes_without_answer"] == {}
    return {(row["topic"], row["node"]): row for row in shown["replicas"]}


def test_a_scrub_names_node_and_file_of_a_damaged_body_and_it_is_healed(tmp_path: Path) -> None:
    text = b85encode(os.urandom(100_000)).decode()
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topic = client.create_topic("bad", "text string")
        client.create_topic("good", "number bigint")
        client.append("bad", [{"text": text}])
        client.append("good", [{"number": 1}])
        for name in ("bad", "good"):
            cluster.wait_caught_up(client, name)
        sound = scrubbed(cluster)
        assert sound.keys() == {
            (name, node) for name in ("bad", "good", "(controller)") for node in (1, 2, 3)
        }
        assert all(row["found"] == 0 and row["scrub"] == "" for row in sound.values())
        assert all(row["read_bytes"] > 100_000 for (name, _), row in sound.items() if name == "bad")
        assert all(row["scrubbed_us"] > 0 for row in sound.values())

        segment = cluster.data / "node-2" / "groups" / str(topic.group) / "00000000000000000001.log"
        data = segment.read_bytes()
        place = data.index(text[1000:1100].encode())
        with segment.open("r+b") as file:
            file.seek(place)
            file.write(b"!")
        identity = cluster.data / "node-3" / "identity"
        identity.write_bytes(identity.read_bytes()[:-1])

        rows = scrubbed(cluster, "bad")
        assert {node for name, node in rows if name == "bad"} == {1, 2, 3}
        assert rows["bad", 2]["found"] == rows["bad", 2]["healed"] == 1
        assert segment.name in rows["bad", 2]["latest"]
        assert segment.read_bytes()[: len(data.rstrip(b"\0"))] == data.rstrip(b"\0")
        assert rows["bad", 1]["found"] == rows["bad", 3]["found"] == 0

        ended = raftlog(cluster, "scrub")
        assert ended.returncode == ExitCode.OK
        assert f"(controller), node 3: {identity}" in ended.stderr
        assert identity.read_bytes().endswith(b"\n"), "written again from the other copy"
        shown = json.loads(raftlog(cluster, "status", "-o", "json").stdout)
        assert [(row["topic"], row["node"]) for row in shown["damaged_replicas"]] == [
            ("bad", 2),
            ("the controller", 3),
        ]
        (batch,) = client.read("bad")
        assert pa.Table.from_batches([batch]).to_pylist() == [{"text": text}]


def test_damage_that_a_start_passes_over_is_counted(tmp_path: Path) -> None:
    with ProcessCluster.start(tmp_path / "data") as cluster, cluster.client() as client:
        topic = client.create_topic("t", "number bigint")
        client.append("t", [{"number": 1}])
        cluster.wait_caught_up(client, "t")
        cluster.kill(3)
        folder = cluster.data / "node-3"
        copies = [folder / "groups" / str(topic.group) / "manifest", folder / "identity"]
        for copy in copies:
            copy.write_bytes(copy.read_bytes()[:-1])
        cluster.serve(3)
        cluster.wait_caught_up(client, "t")
        assert cluster.logs[3].read_text().count("a damaged file was passed over") == 2
        shown = json.loads(raftlog(cluster, "status", "-o", "json").stdout)
        rows = {row["topic"]: row for row in shown["damaged_replicas"]}
        for name, copy in zip(("t", "the controller"), copies, strict=True):
            row = rows[name]
            assert (row["node"], row["found"], row["healed"], row["not_healable"]) == (3, 1, 1, 0)
            assert str(copy) in row["latest"]
        assert len(rows) == 2


@pytest.mark.slow
def test_a_node_scrubs_by_itself_and_remembers_when(tmp_path: Path) -> None:
    settings = ["storage.scrub_period_s=3"]
    with (
        ProcessCluster.start(tmp_path / "data", nodes=1, settings=settings) as cluster,
        cluster.client() as client,
    ):
        client.create_topic("t", "number bigint")
        client.append("t", [{"number": 1}])

        def last(client: LogClient) -> dict[str, int]:
            ((_, _, view),) = client.views()
            assert isinstance(view, NodeView)
            return {each.topic: each.scrubbed_us for each in view.groups}

        wait_for(lambda: all(last(client).values()), "a scrub of each replica", PATIENCE_S)
        times = last(client)
        assert times.keys() == {"", "t"}
        wait_for(
            lambda: min(last(client).values()) > max(times.values()), "another one", PATIENCE_S
        )
