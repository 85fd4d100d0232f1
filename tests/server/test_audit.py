"""The audit log: which calls are acts, what a line says, and that its file is rotated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raftlog.auth.caller import Caller, Means
from raftlog.config_audit import AuditSettings
from raftlog.errors import PathUnusable
from raftlog.server.audit import ACTS, AuditLog
from raftlog.wire.calls import CALLS, DeleteTopicCall, DescribeTopic

NO_ACTS = frozenset(
    "Append Stage CommitEpoch AbortEpoch Read ReadSizes ReadHighWaterMark FindOffset"
    " DescribeCluster DescribeTopic ListTopics DescribePlacements WatchGroups ListWriters"
    " OpenKv OpenSession PutKey DeleteKey ReadKeys WatchKeys ReportPlacement"
    " GetLastApplied GetServers GetEntries GetState WatchEvents".split()
)
"""Reads, and what is written all day by pipelines and by nodes themselves."""

ADA = Caller(identity="ada", means=Means.TOKEN)
PEER = "ipv4:127.0.0.1:40000"
DELETE = DeleteTopicCall(name="flights", incarnation="i1")


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_call_is_known_to_be_an_act_or_none() -> None:
    assert CALLS.keys() == ACTS | NO_ACTS
    assert not ACTS & NO_ACTS


def test_a_line_says_who_did_what_from_where_and_what_came_of_it(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit-{node}")), 3)
    audit.called("DeleteTopic", DELETE, ADA, PEER, "ok")
    audit.called("DeleteTopic", DELETE, ADA, PEER, "NotLeader")  # it is asked elsewhere
    audit.called("DeleteTopic", None, None, PEER, "MalformedRequest")
    audit.refused("CreateTopic", PEER, "Unauthenticated")
    audit.stop()
    found = lines(tmp_path / "audit-3")
    assert all(str(line.pop("time")).endswith("+00:00") for line in found)
    assert found[0] == {
        "node": 3,
        "who": "ada",
        "means": "token",
        "from": PEER,
        "call": "DeleteTopic",
        "what": {"name": "flights", "incarnation": "i1"},
        "outcome": "ok",
    }
    assert [(line["call"], line["who"], line["outcome"]) for line in found[1:]] == [
        ("DeleteTopic", None, "MalformedRequest"),
        ("CreateTopic", None, "Unauthenticated"),
    ]


def test_a_token_in_a_wrong_place_is_not_kept(tmp_path: Path) -> None:
    """Nor the end of the line hidden by what looks like the begin of a key."""
    token = "raftlog_" + "planted-" * 6
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    for name in (token, "x" * 150 + ":" + token, "-----BEGIN PRIVATE KEY-----\nplanted"):
        call = DeleteTopicCall(name=name, incarnation="i1")
        audit.called("DeleteTopic", call, ADA, PEER, "Forbidden")
    audit.stop()
    assert "planted" not in (tmp_path / "audit").read_text()
    assert [line["outcome"] for line in lines(tmp_path / "audit")] == ["Forbidden"] * 3


def test_a_file_that_is_full_makes_room_and_so_many_are_kept(tmp_path: Path) -> None:
    settings = AuditSettings(file=str(tmp_path / "audit"), file_bytes_max=4096, files_max=2)
    for start in (0, 40):  # a node that starts again appends
        audit = AuditLog(settings, 1)
        for number in range(start, start + 40):
            named = DeleteTopicCall(name=f"topic-{number:03}", incarnation="i" * 100)
            audit.called("DeleteTopic", named, ADA, PEER, "ok")
        audit.stop()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["audit", "audit.1", "audit.2"]
    assert all(file.stat().st_size <= 4096 for file in files)
    kept = [line["what"]["name"] for file in reversed(files) for line in lines(file)]
    assert kept == [f"topic-{number:03}" for number in range(80 - len(kept), 80)]


def test_what_is_asked_for_is_cut_off_where_it_is_long(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    audit.called(
        "DeleteTopic", DeleteTopicCall(name="n" * 100_000, incarnation="i"), ADA, PEER, "ok"
    )
    audit.stop()
    assert (tmp_path / "audit").stat().st_size < 5_000


def test_what_is_refused_is_logged_once_for_each_thing_that_it_names(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    for _ in range(3):
        for name in ("harmless", "secret"):
            audit.called("DescribeTopic", DescribeTopic(name=name), ADA, PEER, "Forbidden")
    audit.called("DescribeTopic", DescribeTopic(name="secret"), ADA, PEER, "TopicNotFound")
    audit.stop()
    assert [line["what"]["name"] for line in lines(tmp_path / "audit")] == ["harmless", "secret"]


def test_nobody_pushes_out_what_others_did(tmp_path: Path) -> None:
    """Failed calls of one caller are logged so many times a minute, and in short."""
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    for number in range(1_000):
        named = DeleteTopicCall(name=f"t{number}", incarnation="i" * 4_000)
        audit.called(
            "DeleteTopic", named, ADA, PEER, "Forbidden" if number % 2 else "TopicNotFound"
        )
    bob = Caller(identity="bob", means=Means.TOKEN)
    audit.called("DeleteTopic", DELETE, bob, PEER, "Forbidden")
    audit.called("DeleteTopic", DELETE, ADA, PEER, "ok")
    audit.stop()
    found = lines(tmp_path / "audit")
    assert [line["who"] for line in found] == 100 * ["ada"] + ["bob", "ada"]
    assert [number for number, line in enumerate(found) if "rest" in line] == [99]
    assert found[99]["rest"] == "not logged"
    assert (tmp_path / "audit").stat().st_size < 102 * 600


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PathUnusable, match="nowhere"):
        AuditLog(AuditSettings(file=str(tmp_path / "nowhere" / "audit")), 1)
