"""The audit log: which calls are acts, what a line says, and that its file is rotated."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from raftlog.auth import grant_keys, quota_keys
from raftlog.auth.principals import Caller
from raftlog.auth.token_file import add_token, read_tokens, remove_tokens
from raftlog.chaos.cluster import PATIENCE_S
from raftlog.config_audit import AuditSettings
from raftlog.config_auth import AuthSettings
from raftlog.core.types import GroupId
from raftlog.errors import AuditUnavailable, PathUnusable, Unauthenticated
from raftlog.metrics.counts import CANCELLED
from raftlog.server.admission import Authenticator
from raftlog.server.audit import ACTS, AuditLog
from raftlog.wire.calls import CALLS, DeleteTopicCall, DescribeTopic
from raftlog.wire.kv_calls import PutKeyCall

NO_ACTS = frozenset(
    "Append Stage CommitEpoch AbortEpoch Read ReadSizes ReadHighWaterMark FindOffset"
    " DescribeCluster DescribeTopic ListTopics DescribePlacements WatchGroups ListWriters"
    " OpenKv OpenSession PutKey DeleteKey ReadKeys WatchKeys ReportPlacement"
    " GetLastApplied GetServers WatchEvents".split()
)
"""Reads of records and keys, and what is written all day by pipelines and by nodes."""

ADA = Caller(principal="token:ada")
PEER = "ipv4:127.0.0.1:40000"
DELETE = DeleteTopicCall(name="flights", incarnation="i1")


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_call_is_known_to_be_an_act_or_none() -> None:
    assert CALLS.keys() == ACTS | NO_ACTS
    assert not ACTS & NO_ACTS


def done(audit: AuditLog, request: object, who: Caller = ADA, outcome: str = "ok") -> None:
    """The call is made, and comes to this."""

    async def act() -> None:
        operation = audit.operation("DeleteTopic", request, who, PEER)
        assert operation is not None
        await operation.begin()
        operation.end(outcome)

    asyncio.run(act())


def test_an_operation_has_a_line_before_it_and_one_of_what_came_of_it(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit-{node}")), 3)
    for outcome in ("ok", "TopicNotFound", "NotLeader", "ok", CANCELLED):
        done(audit, DELETE, outcome=outcome)
    audit.stop()
    found = lines(tmp_path / "audit-3")
    assert all(str(line.pop("time")).endswith("+00:00") for line in found)
    begun = found[0]
    number = begun.pop("id")
    assert begun == {
        "node": 3,
        "who": "token:ada",
        "from": PEER,
        "call": "DeleteTopic",
        "what": {"name": "flights", "incarnation": "i1"},
        "outcome": "begun",
    }
    assert found[1] == begun | {"what": {}, "outcome": "ok", "id": number}
    assert [line["outcome"] for line in found] == [
        *("begun", "ok", "begun", "TopicNotFound", "begun", "NotLeader"),
        *("begun", "ok", "begun", "unknown"),
    ], "none is left out, however often it comes"
    assert len({str(line.get("id", number)) for line in found}) == 5


def reject(audit: AuditLog, *rejections: tuple[str, object, Caller | None, str, str]) -> None:
    """The calls are rejected before they begin, one after the other."""

    async def act() -> None:
        for each in rejections:
            audit.rejected(*each)

    asyncio.run(act())


def test_reads_of_records_and_keys_are_no_operations_but_for_grants_and_quotas(
    tmp_path: Path,
) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    for key in ("a", grant_keys.KEY_PREFIX, quota_keys.KEY_PREFIX):
        put = PutKeyCall(
            group=GroupId(1), session="s", sequence=1, key=f"{key}x", value=b"", expected=-1
        )
        assert (audit.operation("PutKey", put, ADA, PEER) is None) == (key == "a")
    audit.stop()


def test_where_it_is_required_an_operation_waits_until_its_line_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(
        "raftlog.server.audit.os.fsync",
        lambda descriptor: (synced.append((tmp_path / "audit").read_text()), real(descriptor)),
    )
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit"), required=True), 1)

    async def begin() -> None:
        operation = audit.operation("DeleteTopic", DELETE, ADA, PEER)
        assert operation is not None
        await operation.begin()

    asyncio.run(begin())
    assert '"begun"' in synced[-1]

    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("raftlog.server.audit.os.fsync", fails)
    with pytest.raises(AuditUnavailable, match="No space left"):
        asyncio.run(begin())
    audit.stop()


class SlowDisk:
    """Its first sync ends once `grouped` lets it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int = 0) -> None:
        self.syncs = 0
        self.synced = ""
        """What files held when they were synced."""
        self.began, self.may_end = threading.Event(), threading.Event()
        self._folder = folder
        self._fails_at = fails_at
        monkeypatch.setattr("raftlog.server.audit.os.fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        self.syncs += 1
        self.began.set()
        assert self.may_end.wait(PATIENCE_S)
        if self.syncs == self._fails_at:
            raise OSError(errno.EIO, "Input/output error")
        [file] = (
            each
            for each in self._folder.iterdir()
            if os.path.samestat(each.stat(), os.fstat(descriptor))
        )
        self.synced += file.read_text()


def grouped(audit: AuditLog, disk: SlowDisk, count: int) -> list[tuple[int, str, bool]]:
    """Lines that come while the first one is synced: the number of each, why it is not on disk, and
    whether it was synced when this was reported."""
    reported: list[tuple[int, str, bool]] = []

    def take(number: int) -> None:
        line = {"number": number, "what": "x" * 100}

        def written(problem: str) -> None:
            reported.append((number, problem, json.dumps(line) in disk.synced))

        audit.take(line, written)

    take(0)
    assert disk.began.wait(PATIENCE_S)
    for number in range(1, count):
        take(number)
    disk.may_end.set()
    audit.stop()
    return reported


@pytest.mark.parametrize(("synced_max", "syncs"), [(1000, 2), (10, 5)])
def test_lines_that_wait_are_synced_together_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced_max: int, syncs: int
) -> None:
    monkeypatch.setattr("raftlog.server.audit._SYNCED_MAX", synced_max)
    disk = SlowDisk(tmp_path, monkeypatch)
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    assert grouped(audit, disk, 41) == [(number, "", True) for number in range(41)]
    assert disk.syncs == syncs
    assert [line["number"] for line in lines(tmp_path / "audit")] == [*range(41)]


def test_lines_are_on_disk_before_their_file_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(tmp_path, monkeypatch)
    settings = AuditSettings(file=str(tmp_path / "audit"), file_bytes_max=4096)
    assert grouped(AuditLog(settings, 1), disk, 100) == [
        (number, "", True) for number in range(100)
    ]
    assert disk.syncs == 1 + len(list(tmp_path.iterdir())) > 3


def test_a_sync_that_fails_is_reported_to_each_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(tmp_path, monkeypatch, fails_at=2)
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    with capture_logs() as logged:
        first, *others = grouped(audit, disk, 4)
    assert first == (0, "", True)
    assert others == [(number, "[Errno 5] Input/output error", False) for number in (1, 2, 3)]
    assert [json.loads(line["line"])["number"] for line in logged] == [1, 2, 3]


def test_a_line_that_cannot_be_written_is_reported_and_not_synced() -> None:
    audit = AuditLog(AuditSettings(file="/dev/full"), 1)
    reported: list[str] = []
    with capture_logs() as logged:
        for number in range(3):
            audit.take({"number": number}, reported.append)
        audit.stop()
    assert reported == 3 * ["[Errno 28] No space left on device"]
    assert [json.loads(line["line"])["number"] for line in logged] == [0, 1, 2]


def signed_in(audit: AuditLog, *calls: tuple[Caller, str]) -> None:
    async def sign_in() -> None:
        for who, peer in calls:
            audit.signed_in(who, peer)

    asyncio.run(sign_in())


def test_who_is_known_signs_in_once_from_each_host(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    bob = Caller(principal="cert:bob")
    peers = (PEER, "ipv4:127.0.0.1:40001", "ipv4:10.0.0.1:40000")
    signed_in(audit, *((who, peer) for peer in peers for who in (ADA, bob, ADA)))
    reject(audit, ("CreateTopic", None, None, PEER, "Unauthenticated"))
    audit.stop()
    found = lines(tmp_path / "audit")
    assert [(line["call"], line["who"], line["outcome"]) for line in found] == [
        *(2 * [("SignIn", "token:ada", "ok"), ("SignIn", "cert:bob", "ok")]),
        ("CreateTopic", None, "Unauthenticated"),
    ]


def test_one_caller_from_many_hosts_has_few_lines(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    hosts = [f"ipv4:10.0.{number // 200}.{number % 200}:40000" for number in range(1_000)]
    signed_in(audit, *((ADA, host) for host in hosts))
    audit.stop()
    *first, counted = lines(tmp_path / "audit")
    assert [line["from"] for line in first] == hosts[:100]
    assert (counted["who"], counted["repeated"]) == ("token:ada", 900)


def test_changes_of_the_tokens_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.changing_files._LOOK_AGAIN_S", 0.0)
    file, now = tmp_path / "tokens.json", datetime(2026, 1, 1, tzinfo=UTC)
    first = add_token(file, "ada", (), None, now)
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    settings = AuthSettings(tokens_file=str(file))
    asked = Authenticator(settings, has_certificates=False, audit=audit)
    add_token(file, "bob", (), None, now)
    [ada, bob] = read_tokens(file)
    shown = (("authorization", f"Bearer {first}"),)
    assert asked.by_metadata(shown) is not None
    remove_tokens(file, "ada")
    with pytest.raises(Unauthenticated):
        asked.by_metadata(shown)
    audit.stop()
    assert [line["what"] for line in lines(tmp_path / "audit")] == [
        {"came": [f"token:bob {bob.id}"], "went": []},
        {"came": [], "went": [f"token:ada {ada.id}"]},
    ]


def test_a_token_in_a_wrong_place_is_not_kept(tmp_path: Path) -> None:
    """Nor the end of the line hidden by what looks like the begin of a key."""
    token = "raftlog_" + "planted-" * 6
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    for name in (token, "x" * 150 + ":" + token, "-----BEGIN PRIVATE KEY-----\nplanted"):
        call = DeleteTopicCall(name=name, incarnation="i1")
        reject(audit, ("DeleteTopic", call, ADA, PEER, "Forbidden"))
    audit.stop()
    assert "planted" not in (tmp_path / "audit").read_text()
    assert [line["outcome"] for line in lines(tmp_path / "audit")] == ["Forbidden"] * 3


def test_a_file_that_is_full_makes_room_and_so_many_are_kept(tmp_path: Path) -> None:
    settings = AuditSettings(file=str(tmp_path / "audit"), file_bytes_max=4096, files_max=2)
    for start in (0, 40):  # a node that starts again appends
        audit = AuditLog(settings, 1)
        for number in range(start, start + 40):
            named = DeleteTopicCall(name=f"topic-{number:03}", incarnation="i" * 100)
            done(audit, named)
        audit.stop()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["audit", "audit.1", "audit.2"]
    assert all(file.stat().st_size <= 4096 for file in files)
    kept = [
        line["what"]["name"]
        for file in reversed(files)
        for line in lines(file)
        if line["outcome"] == "begun"
    ]
    assert kept == [f"topic-{number:03}" for number in range(80 - len(kept), 80)]


def test_the_line_of_an_end_has_the_time_of_the_end(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)

    async def act() -> None:
        operation = audit.operation("DeleteTopic", DELETE, ADA, PEER)
        assert operation is not None
        await operation.begin()
        later = datetime.now(UTC) + timedelta(milliseconds=1)
        while datetime.now(UTC) < later:  # the file tells milliseconds
            pass
        operation.end("ok")

    asyncio.run(act())
    audit.stop()
    begun, ended = (str(line["time"]) for line in lines(tmp_path / "audit"))
    assert begun < ended


def test_what_is_asked_for_is_cut_off_where_it_is_long(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    done(audit, DeleteTopicCall(name="n" * 100_000, incarnation="i"))
    audit.stop()
    assert (tmp_path / "audit").stat().st_size < 5_000


def test_the_same_rejection_is_written_once_with_how_often_it_came(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    harmless, secret = (
        ("DescribeTopic", DescribeTopic(name=name), ADA, PEER, "Forbidden")
        for name in ("harmless", "secret")
    )
    missing = ("DescribeTopic", DescribeTopic(name="secret"), ADA, PEER, "TopicNotFound")
    reject(audit, *[harmless, secret] * 3, missing)
    audit.stop()
    found = lines(tmp_path / "audit")
    assert [line["what"] for line in found] == [
        {"name": "harmless", "any_node": False},
        {"name": "secret", "any_node": False},
        {"which": ["name=harmless"]},
        {"which": ["name=secret"]},
    ]
    assert [line.get("repeated") for line in found] == [None, None, 2, 2]


def test_what_is_asked_for_is_looked_at_no_further_than_it_is_shown(tmp_path: Path) -> None:
    class Columns(list[int]):
        seen = 0

        def __iter__(self) -> Iterator[int]:
            for self.seen in range(1, 1 << 30):
                yield self.seen

    columns = Columns([1])
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    asked = DeleteTopicCall(name=columns, incarnation="i1")  # type: ignore[arg-type]
    reject(audit, ("DeleteTopic", asked, ADA, PEER, "Forbidden"))
    audit.stop()
    [line] = lines(tmp_path / "audit")
    assert line["what"]["name"].startswith("[1, 2, 3,")  # type: ignore[index]
    assert columns.seen < 200


def test_nobody_pushes_out_what_others_did(tmp_path: Path) -> None:
    """Rejections of one caller are written so many times a minute, and in short."""
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    endless = [
        (
            "DeleteTopic",
            DeleteTopicCall(name=f"t{number}", incarnation="i" * 4_000),
            ADA,
            PEER,
            code,
        )
        for number, code in zip(range(1_000), itertools.cycle(("TopicNotFound", "Forbidden")))
    ]
    bob = Caller(principal="token:bob")
    reject(audit, *endless, ("DeleteTopic", DELETE, bob, PEER, "Forbidden"))
    done(audit, DELETE)
    audit.stop()
    found = lines(tmp_path / "audit")
    assert [line["who"] for line in found] == [
        *(100 * ["token:ada"]),
        "token:bob",
        *(3 * ["token:ada"]),
    ]
    assert found[-1]["repeated"] == 900
    assert (tmp_path / "audit").stat().st_size < 105 * 600


def test_strangers_from_many_hosts_share_a_bound_and_leave_principals_their_lines(
    tmp_path: Path,
) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)

    async def flood() -> None:
        for call in 2 * [*CALLS]:
            for host in range(300):
                audit.refused(call, f"ipv4:10.0.{host // 100}.{host % 100}:4", "Unauthenticated")

    asyncio.run(flood())
    deletions = [DeleteTopicCall(name=f"t{number}", incarnation="i") for number in range(150)]
    bob = Caller(principal="token:bob")
    reject(audit, *(("DeleteTopic", each, ADA, PEER, "Forbidden") for each in deletions))
    reject(audit, ("DeleteTopic", DELETE, bob, PEER, "Forbidden"))
    done(audit, DELETE)
    audit.stop()
    found = lines(tmp_path / "audit")
    of_strangers = [line for line in found if line["who"] is None]
    more = [line for line in of_strangers if line["from"] == "(several)"]
    assert len(of_strangers) == 2 * 200 + 1, "each has a line, and one that it came again"
    assert [(line["what"], line["repeated"]) for line in more] == [
        ({"hosts_at_least": 300}, 2 * len(CALLS) * 300 - 2 * 200)
    ]
    assert [(line["who"], line["outcome"], line.get("repeated")) for line in found[200:]] == [
        *(100 * [("token:ada", "Forbidden", None)]),
        ("token:bob", "Forbidden", None),
        ("token:ada", "begun", None),
        ("token:ada", "ok", None),
        *((None, "Unauthenticated", 1) for _ in range(200)),
        (None, "(several)", more[0]["repeated"]),
        ("token:ada", "(several)", 50),
    ]


def test_a_stranger_leaves_others_room_and_a_network_of_ipv6_is_one(tmp_path: Path) -> None:
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    one, other = "ipv6:%5B2001:db8::%5D:1", "ipv6:%5B2001:db8:0:1::%5D:1"
    deletions = [DeleteTopicCall(name=f"t{number}", incarnation="i") for number in range(150)]
    peers = [one.replace("::", f"::{number:x}") for number in range(150)]
    reject(
        audit,
        *(
            ("DeleteTopic", each, None, peer, "MalformedRequest")
            for each, peer in zip(deletions, peers, strict=True)
        ),
        ("DeleteTopic", DELETE, None, other, "MalformedRequest"),
    )
    audit.stop()
    *written, more = lines(tmp_path / "audit")
    assert [line["from"] for line in written] == [*peers[:100], other]
    assert (more["repeated"], more["what"]) == (50, {"hosts_at_least": 1})


def test_what_is_rejected_again_is_counted_while_the_node_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it never comes again after that: by a caller that is known, and by a stranger."""
    monkeypatch.setattr("raftlog.server.audit._WINDOW_S", 0.01)
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)

    def counts() -> list[tuple[object, object, object]]:
        found = lines(tmp_path / "audit")
        return [
            (each["who"], each["from"], each["repeated"]) for each in found if "repeated" in each
        ]

    async def act() -> None:
        for _ in range(3):
            audit.rejected("DeleteTopic", DELETE, ADA, PEER, "Forbidden")
            audit.refused("DeleteTopic", PEER, "Unauthenticated")
        async with asyncio.timeout(PATIENCE_S):
            while len(counts()) < 2:
                await asyncio.get_running_loop().run_in_executor(None, counts)
        assert counts() == [("token:ada", "", 2), (None, "ipv4:127.0.0.1", 2)]

    asyncio.run(act())
    audit.stop()
    assert len(counts()) == 2, "each is counted once"


def test_rejections_of_very_many_callers_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.server.audit._SAID_MAX", 2)
    audit = AuditLog(AuditSettings(file=str(tmp_path / "audit")), 1)
    callers = [Caller(principal=f"token:{number}") for number in range(10)]
    reject(audit, *(("DeleteTopic", DELETE, who, PEER, "Forbidden") for who in callers))
    audit.stop()
    *written, together = lines(tmp_path / "audit")
    assert [line["who"] for line in written] == ["token:0", "token:1"]
    assert (together["who"], together["repeated"]) == ("(several)", 8)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PathUnusable, match="nowhere"):
        AuditLog(AuditSettings(file=str(tmp_path / "nowhere" / "audit")), 1)
