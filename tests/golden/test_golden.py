"""What version 1 writes is what the golden data folder holds: it opens, and is written again alike.

A test that fails has found a change of what nodes write. If the change is meant, give it a stamp
and record the folder again (`tests/golden/record.py`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from raftlog.core.types import FORMAT_STAMP
from raftlog.errors import FormatUnsupported
from raftlog.machines.commands import Append
from raftlog.machines.outcomes import Appended
from raftlog.storage.checked_file import TEXT, read_copies, write_copies
from raftlog.storage.posix import PosixFileSystem
from tests.golden import record
from tests.golden.one_node import OneNode

EXPECTED: dict[str, Any] = json.loads((record.HERE / "expected.json").read_text())
LAST = {group: expected["last"] for group, expected in EXPECTED["groups"].items()}


@pytest.fixture
def data(tmp_path: Path) -> PosixFileSystem:
    shutil.unpack_archive(record.HERE / "data.zip", tmp_path)
    return PosixFileSystem(tmp_path)


def test_the_folder_is_of_the_format_that_nodes_write() -> None:
    assert EXPECTED["format"] == FORMAT_STAMP


def test_the_folder_opens_with_the_states_and_records_that_were_written(
    data: PosixFileSystem,
) -> None:
    node = OneNode(data)
    found = record.found(node, LAST)
    node.close()
    assert found == EXPECTED["groups"]


def test_the_same_commands_are_written_to_the_same_bytes_again(tmp_path: Path) -> None:
    node = OneNode(PosixFileSystem(tmp_path))
    record.Script(node).go()
    found = record.found(node, record.last_entries(node))
    node.close()
    assert found == EXPECTED["groups"]


def test_the_folder_has_one_of_each_kind() -> None:
    groups = EXPECTED["groups"].values()
    assert any(each["stages"] for each in groups)
    assert any(each["membership"][1] for each in groups), "a joint configuration"
    assert any(each["snapshots"] and each["records"] for each in groups)


def test_the_folder_is_written_on_and_opens_again(data: PosixFileSystem) -> None:
    node = OneNode(data)
    script = record.Script(node)
    topics = node.multiraft.replicas.controller.topics()
    group = next(topic.group for topic in topics if topic.name == "flights")
    script.group = group
    before = node.local(group).topic_machine.high_water_mark
    summary, carried = script.batch(5)
    append = Append(producer="after", sequence=0, timestamp_us=script.tick(), batch=summary)
    assert node.write(group, append, carried) == Appended(
        start=before, end=before + 5, repeated=False
    )
    states = {each.group: each.machine.fingerprint() for each in node.multiraft.replicas.values()}
    node.close()
    again = OneNode(data)
    assert {
        each.group: each.machine.fingerprint() for each in again.multiraft.replicas.values()
    } == states
    again.close()


def test_a_folder_of_another_format_is_not_opened(data: PosixFileSystem) -> None:
    copies = ("identity", "identity.2")
    text = read_copies(data, copies, TEXT).contents[0]
    write_copies(data, copies, TEXT, [text.replace(FORMAT_STAMP.encode(), b"0-earlier")])
    with pytest.raises(FormatUnsupported, match="0-earlier"):
        OneNode(data)


def test_a_format_that_is_recorded_is_not_recorded_again() -> None:
    before = (record.HERE / "data.zip").read_bytes()
    with pytest.raises(SystemExit, match="another FORMAT_STAMP"):
        record.main()
    assert (record.HERE / "data.zip").read_bytes() == before
