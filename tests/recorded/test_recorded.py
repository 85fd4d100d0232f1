"""What earlier versions recorded has the same outcomes on replay, command by command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from raftlog.core.types import CONTROLLER_GROUP, NodeId
from raftlog.machines.commands import RegisterNode
from raftlog.machines.rules import RULES_FIRST, RULES_LATEST
from raftlog.machines.topic import TopicMachine
from raftlog.storage.posix import PosixFileSystem
from tests.recorded.make import STORE, OneNode, Script, expected, main

HERE = Path(__file__).parent
RENAMED = {"RunDisplaced": "RunFenced"}
"""Refusals that have another name now. Their numbers, which the state hash covers, are the same."""
SETS = sorted(path.parent for path in HERE.glob("*/expected.json"))


def replayed(recorded: Path, folder: Path) -> OneNode:
    shutil.unpack_archive(recorded / "data.zip", folder)
    return OneNode(PosixFileSystem(folder))


@pytest.mark.parametrize("recorded", SETS, ids=lambda path: path.name)
def test_a_recorded_log_has_the_same_outcomes_as_when_it_was_written(
    recorded: Path, tmp_path: Path
) -> None:
    node = replayed(recorded, tmp_path)
    text = (recorded / "expected.json").read_text()
    for then, now in RENAMED.items():
        text = text.replace(f'"{then}"', f'"{now}"')
    wanted = json.loads(text)
    found = json.loads(json.dumps(expected(node)))
    node.close()
    assert found.keys() == wanted.keys()
    assert found["groups"].keys() == wanted["groups"].keys()
    for group, was in wanted["groups"].items():
        now = found["groups"][group]
        replay, own = (
            now["commands"][: len(was["commands"])],
            now["commands"][len(was["commands"]) :],
        )
        for before, after in zip(was["commands"], replay, strict=True):
            assert after == before, f"group {group}"
        # A leader that has not replayed its log yet raises the rules and proposes the settings once
        # more, which changes none.
        assert all(command["outcome"][0] in ("RulesApplied", "Configured") for command in own)
        now["commands"] = replay
        assert now == was


@pytest.mark.slow
@pytest.mark.parametrize("recorded", SETS, ids=lambda path: path.name)
def test_a_recorded_folder_is_upgraded_and_written_on(recorded: Path, tmp_path: Path) -> None:
    """Once all nodes say which rules they know, the old groups apply by them from then on."""
    node = replayed(recorded, tmp_path)
    stores = {NodeId(1): (STORE, "127.0.0.1:1")} | {
        other: (known.store_uuid, known.address)
        for other, known in node.multiraft.replicas.controller.nodes.items()
        if known.store_uuid
    }
    for other, (store, address) in stores.items():
        register = RegisterNode(node=other, store_uuid=store, address=address, rules=RULES_LATEST)
        node.write(CONTROLLER_GROUP, register)
    node.settle()
    assert {local.machine.rules for local in node.multiraft.replicas.values()} == {RULES_LATEST}
    marks = {
        h.group: h.machine.high_water_mark
        for h in node.multiraft.replicas.values()
        if isinstance(h.machine, TopicMachine)
    }
    script = Script(node)
    for group in marks:
        script.group = group
        script.append("after", 0, "upgrade")
    before = {h.group: h.machine.fingerprint() for h in node.multiraft.replicas.values()}
    assert all(
        h.machine.high_water_mark == marks[h.group] + len("upgrade")
        for h in node.multiraft.replicas.values()
        if isinstance(h.machine, TopicMachine)
    )
    node.close()
    again = OneNode(PosixFileSystem(tmp_path))
    assert {h.group: h.machine.fingerprint() for h in again.multiraft.replicas.values()} == before
    again.close()


def test_the_first_release_is_among_the_recorded() -> None:
    assert (HERE / "rules-1").is_dir()
    assert RULES_FIRST == 1


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "data.zip").write_bytes(b"recorded")
    with pytest.raises(SystemExit, match="holds a recording"):
        main(tmp_path)
    assert (tmp_path / "data.zip").read_bytes() == b"recorded"
