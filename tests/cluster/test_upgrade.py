"""Real nodes on the data of another version: an older one's is served, a newer one's refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raftlog import LogClient, TopicInfo, connect
from raftlog.chaos.cluster import free_ports, wait_for
from raftlog.cli.cluster_folder import ClusterFolder, record
from raftlog.core.types import CONTROLLER_GROUP, Payload
from raftlog.errors import ExitCode, LogFromNewerVersion, RulesTooOld
from raftlog.machines.commands import AlterSchema
from raftlog.machines.evolution import ADD, SET_TYPE, ColumnChange
from raftlog.machines.rules import RULES_LATEST, RULES_WITH_PLANES
from raftlog.machines.schema import RULES_WITH_TYPES, Schema
from raftlog.records.arrow_types import schema_of
from raftlog.storage.posix import PosixFileSystem
from raftlog.wire.calls import ALTER_SCHEMA, CREATE_TOPIC, CreateTopicCall
from tests.recorded.make import CLUSTER_ID, OneNode

RECORDED = Path(__file__).parents[1] / "recorded" / "rules-1"
DEADLINE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterFolder:
    """One node, whose data the first release wrote."""
    made = ClusterFolder(
        folder=tmp_path / "cluster",
        cluster_id=CLUSTER_ID,
        addresses={1: f"127.0.0.1:{free_ports(1)}"},
        founders=(1,),
    )
    record(made)
    shutil.unpack_archive(RECORDED / "data.zip", made.data(1))
    return made


OLDER = (
    "import raftlog.machines.rules as r, raftlog.machines.schema as s; r.RULES_LATEST = {}; {}; "
    "from raftlog.cli.main import main; main()"
)
BLIND = "s.later_type = lambda types: None"
"""An older program looks into no type."""
"""The program as if it were an earlier one, as far as that depends on the rules that it knows."""


@contextmanager
def served(
    cluster: ClusterFolder, rules: int = RULES_LATEST, change: str = "pass"
) -> Iterator[subprocess.Popen[str]]:
    words = ["serve", "--node", "1", "--data", str(cluster.folder)]
    program = ["-m", "raftlog"] if rules == RULES_LATEST else ["-c", OLDER.format(rules, change)]
    command = [sys.executable, *program, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(cluster: ClusterFolder, *words: str) -> Any:
    """What a verb prints with -o json; None while it fails."""
    ended = subprocess.run(
        [sys.executable, "-m", "raftlog", "--servers", cluster.addresses[1], *words, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return json.loads(ended.stdout) if ended.returncode == ExitCode.OK else None


def wait_for_rules(cluster: ClusterFolder, version: int) -> Any:
    """The status with which the cluster applies these rules."""
    status: list[Any] = []

    def is_there() -> bool:
        status[:] = [told(cluster, "status")]
        return status[0] is not None and status[0]["rules"] == version

    wait_for(is_there, f"rules {version}", DEADLINE_S)
    return status[0]


def test_the_data_of_the_first_release_is_served_and_upgraded(cluster: ClusterFolder) -> None:
    expected = json.loads((RECORDED / "expected.json").read_text())["groups"]
    with served(cluster):
        assert wait_for_rules(cluster, RULES_LATEST)["behind_rules"] == []
        for group in expected.values():
            if "topic" in group:
                (mark,) = told(cluster, "watermark", group["topic"])
                assert mark["high_water_mark"] == group["commands"][-1]["mark"]


def test_types_that_an_older_program_lacks_wait_for_the_upgrade(cluster: ClusterFolder) -> None:
    """By the client, because an older leader takes them; by a newer leader, whoever asks."""
    before = RULES_WITH_TYPES - 1
    schema = schema_of("at time, s string")
    wider = schema_of("at struct<x: bigint>").fields[0].type
    with served(cluster, before), connect(cluster.addresses[1]) as client:
        wait_for_rules(cluster, before)
        topic = client.create_topic("plain", "id bigint, at struct<x: int>")
        for call, request, what in (
            (CREATE_TOPIC, _creation(schema), "The type time"),
            (ALTER_SCHEMA, _change(topic, ADD, "d", '"interval day"'), "The type interval day"),
            (ALTER_SCHEMA, _change(topic, SET_TYPE, "at", wider), "A change within a struct"),
        ):
            with pytest.raises(RulesTooOld, match=what) as caught:
                _call(client, call, request)
            assert (caught.value.rules, caught.value.needed) == (before, RULES_WITH_TYPES)
    with served(cluster, before, BLIND), connect(cluster.addresses[1]) as client:
        wait_for_rules(cluster, before)
        for ask in (
            lambda: client.create_topic("typed", schema),
            lambda: client.alter_schema(topic, add="d interval day"),
            lambda: client.alter_schema(topic, types="at struct<x: bigint>"),
        ):
            with pytest.raises(RulesTooOld):
                ask()
    with served(cluster):
        wait_for_rules(cluster, RULES_LATEST)
        with connect(cluster.addresses[1]) as client:
            altered = client.alter_schema(topic, types="at struct<x: bigint>", add="d interval day")
            types = [field.type for field in altered.schema.fields]
            assert types == ['"long"', wider, '"interval day"']
            assert client.create_topic("typed", schema).schema == schema


def test_only_topics_that_all_nodes_can_read_in_byte_planes_are_written_so(
    cluster: ClusterFolder,
) -> None:
    """A topic from before the upgrade keeps its form, which takes several times the room here."""
    rows = pa.table({"id": pa.array(range(20_000), pa.int64())})
    before = RULES_WITH_PLANES - 1
    with served(cluster, before), connect(cluster.addresses[1]) as client:
        wait_for_rules(cluster, before)
        client.create_topic("former", "id bigint")
    with served(cluster):
        wait_for_rules(cluster, RULES_LATEST)
        with connect(cluster.addresses[1]) as client:
            client.create_topic("new", "id bigint")
            for topic in ("former", "new"):
                client.append(topic, rows)
                assert pa.Table.from_batches(client.read(topic, columns=["id"])) == rows
        former, new = (
            told(cluster, "watermark", topic)[0]["replicas"][0]["log_bytes"]
            for topic in ("former", "new")
        )
        assert former > 5 * new


def _call(client: LogClient, call: Any, request: Any) -> None:
    """As a client would that leaves all checks to the leader."""
    client._connection.call_leader(CONTROLLER_GROUP, call, request)


def _creation(schema: Schema) -> CreateTopicCall:
    return CreateTopicCall(
        name="typed", incarnation="9" * 32, schema=schema, if_not_exists=False, replicas=0
    )


def _change(topic: TopicInfo, action: str, name: str, kind: str) -> AlterSchema:
    change = ColumnChange(action=action, name=name, type=kind)
    return AlterSchema(name=topic.name, incarnation=topic.incarnation, version=1, changes=(change,))


def test_a_node_stops_before_an_entry_of_a_newer_version(cluster: ClusterFolder) -> None:
    node = OneNode(PosixFileSystem(cluster.data(1)))
    controller = node.multiraft.replicas.get(CONTROLLER_GROUP)
    assert controller is not None
    index = controller.replica.applied_index + 1
    node.multiraft.propose(controller, Payload(b"\x02 of tomorrow", b""), lambda _: None)
    with pytest.raises(LogFromNewerVersion):
        node.settle()
    node.close()
    with served(cluster) as process:
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == ExitCode.NODE_REFUSED
    assert f"Entry {index} of group 0 comes from a newer version" in said
    assert "Install a version on this node" in said
    assert "Traceback" not in said
