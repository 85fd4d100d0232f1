"""An entry of a newer version stops the node at once, before the entry, with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raftlog.core.types import CONTROLLER_GROUP, NodeId, Payload
from raftlog.errors import ExitCode, LogFromNewerVersion, NodeRefused
from raftlog.image.group_manifest import info_from_manifest
from raftlog.machines.commands import Append, BatchSummary, CreateTopic, Rules
from raftlog.machines.rules import RULES_LATEST
from raftlog.machines.topic import TopicMachine
from raftlog.records.arrow_types import schema_of
from raftlog.storage.posix import PosixFileSystem
from raftlog.wire import raftlog_pb2 as pb
from raftlog.wire.codec import encode_command
from tests.compaction.topic_scene import encoded
from tests.golden.one_node import OneNode

NEWER = {
    "a command of the unknown kind 1000": b"\x01" + bytes([0xC2, 0x3E, 0x00]),
    "a command begins with 02": b"\x02" + pb.Command().SerializeToString(),
    f"rules version {RULES_LATEST + 1}": encode_command(Rules(version=RULES_LATEST + 1), None),
}


@pytest.mark.parametrize("found", NEWER)
@pytest.mark.parametrize("in_topic", [True, False])
def test_nothing_is_applied_from_an_unknown_entry_on(
    found: str, in_topic: bool, tmp_path: Path
) -> None:
    node = OneNode(PosixFileSystem(tmp_path))
    create = CreateTopic(
        name="t",
        incarnation="1" * 32,
        schema=schema_of("a bigint"),
        voters=(NodeId(1),),
        if_not_exists=False,
        timestamp_us=1,
    )
    topic = node.write(CONTROLLER_GROUP, create).topic
    batch = encoded(0, 6)
    summary = BatchSummary(
        record_count=6, schema_version=1, body_bytes=len(batch.body), crc=batch.crc
    )
    append = Append(producer="p", sequence=0, timestamp_us=1, batch=summary)
    assert node.write(topic.group, append, (batch.header, batch.body)).end == 6
    group = topic.group if in_topic else CONTROLLER_GROUP
    local = node.multiraft.replicas.get(group)
    assert local is not None
    index = local.replica.applied_index + 1
    state = local.machine.fingerprint()
    node.multiraft.propose(local, Payload(NEWER[found], b""), lambda _: None)
    node.multiraft.propose(
        local, Payload(encode_command(Rules(version=RULES_LATEST), None), b""), lambda _: None
    )
    with pytest.raises(LogFromNewerVersion) as caught:
        node.settle()
    error = caught.value
    assert isinstance(error, NodeRefused)
    assert error.exit_code is ExitCode.NODE_REFUSED
    assert (error.group, error.index) == (group, index)
    assert found in error.found
    assert local.replica.applied_index == index - 1
    assert local.machine.fingerprint() == state
    # Groups that were dirty and writes in flight go no further, and the files close whole.
    node.multiraft.mark_dirty(CONTROLLER_GROUP)
    node.run_pending()
    assert local.replica.applied_index == index - 1
    node.close()


def test_a_topic_of_newer_rules_is_not_opened() -> None:
    table = {
        "name": "t",
        "incarnation": "1" * 32,
        "group": 7,
        "voters": [1],
        "created_us": 0,
        "rules": RULES_LATEST + 1,
        "schema": {"version": 1, "fields": []},
    }
    with pytest.raises(LogFromNewerVersion) as caught:
        TopicMachine(info_from_manifest(json.dumps(table), table["group"]))
    assert (caught.value.group, caught.value.index) == (7, 0)
