"""Quotas, tried on real nodes from outside: who is held back, who is refused, and who is not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pyarrow as pa
import pytest

from raftlog.auth.quotas import EVERYBODY, Limit
from raftlog.auth.rights import EVERYTHING, Right, topic_named
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client import written_topics
from raftlog.client.attempt import Attempt
from raftlog.client.log_client import LogClient
from raftlog.errors import (
    DeadlineExceeded,
    ExitCode,
    Forbidden,
    InvalidOption,
    QuotaExceeded,
    StoredValueInvalid,
    WriterBytesExceeded,
)
from raftlog.machines.commands import Append, EpochKey
from raftlog.wire.codec import decode_command
from raftlog.wire.reserved_keys import WRITTEN_PREFIX, WrittenNote, written_key
from tests.cli.command import run
from tests.cluster.closed import (
    NODES,
    channel_to,
    client,
    knows,
    made,
    started,
    typed,
    watched,
)

pytestmark = pytest.mark.slow

CHECK_S = 0.2
SHORT_S = 2.0
"""How long a client tries that is to give up."""
TOPIC = "limited"
SCHEMA = "id bigint, body binary"
BODY = Random(1).randbytes(100_000)
"""Nothing makes it shorter."""
NAMES = ("writer", "reader", "watcher", "stager", "eve", "root")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quotas")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ProcessCluster]:
    settings = {"auth.rights_check_s": str(CHECK_S), "auth.admins": "token:root"}
    with started(folder, folder / "tokens", settings) as found:
        yield found


@pytest.fixture(scope="module")
def people(cluster: ProcessCluster, folder: Path) -> Iterator[dict[str, LogClient]]:
    """A client for each identity, once all nodes know all of them."""
    tokens = {name: made(folder / "tokens", name) for name in NAMES}
    tokens["operator"] = (folder / "operator").read_text()
    found = {
        name: client(cluster, token, folder / f"{name}.token") for name, token in tokens.items()
    }
    wait_for(lambda: knows(found["root"]), "the nodes to take the tokens up", PATIENCE_S)
    root = found["root"]
    root.create_topic(TOPIC, SCHEMA)
    root.acl.grant("token:operator", [Right.ADMIN], EVERYTHING)
    for name in NAMES:
        root.acl.grant(f"token:{name}", [Right.READ, Right.WRITE], topic_named(TOPIC))
    for name in (*NAMES, "operator"):
        wait_for(lambda name=name: has_rights(found[name]), f"the rights of {name}", PATIENCE_S)
    yield found
    for each in found.values():
        each.close()


def has_rights(of: LogClient) -> bool:
    try:
        of.append(TOPIC, [{"id": 0}])
    except Forbidden:
        return False
    return True


def patient(cluster: ProcessCluster, folder: Path, name: str, seconds: float) -> LogClient:
    """A client of the identity that gives up after so long."""
    return client(
        cluster, (folder / f"{name}.token").read_text(), folder / f"{name}.token", seconds
    )


# ---------------------------------------------------------------- rates


def held(cluster: ProcessCluster) -> set[str]:
    """The identities that a node reports to have a quota."""
    lines = [line for log in cluster.logs.values() for line in log.read_text().splitlines()]
    told = [json.loads(line) for line in lines if '"caller held to its quota"' in line]
    return {each["who"] for each in told}


def test_who_writes_too_much_is_held_back_and_nobody_else_is(
    cluster: ProcessCluster, people: dict[str, LogClient]
) -> None:
    people["operator"].quotas.set("token:writer", {Limit.IN_BYTES: 400_000})

    def held_back() -> bool:
        """More than a second's burst, as often as it takes: a node may learn of the quota late."""
        for number in range(14):
            people["writer"].append(TOPIC, [{"id": number, "body": BODY}])
            people["eve"].append(TOPIC, [{"id": number, "body": BODY}])
        return "token:writer" in held(cluster)

    wait_for(held_back, "the quota to act", PATIENCE_S)
    assert "token:eve" not in held(cluster)


def test_who_reads_too_much_is_held_back(
    cluster: ProcessCluster, people: dict[str, LogClient]
) -> None:
    operator, reader = people["operator"], people["reader"]
    operator.quotas.set("token:reader", {Limit.OUT_BYTES: 1_000_000})
    for number in range(40):
        operator.append(TOPIC, [{"id": number, "body": BODY}])

    def held_back() -> bool:
        read_bytes = sum(batch.nbytes for batch in reader.read(TOPIC))
        assert read_bytes >= 40 * len(BODY), "four seconds' worth"
        return "token:reader" in held(cluster)

    wait_for(held_back, "the quota to act", PATIENCE_S)


def test_who_would_wait_too_long_is_refused_and_told_by_what(
    cluster: ProcessCluster, people: dict[str, LogClient], folder: Path
) -> None:
    people["operator"].quotas.set("token:eve", {Limit.IN_BYTES: 1000})
    with patient(cluster, folder, "eve", SHORT_S) as eve:

        def is_told() -> bool:
            """As often as it takes: a node may learn of the quota late, or answer too late."""
            try:
                eve.append(TOPIC, [{"id": 1, "body": BODY}])
            except DeadlineExceeded as error:
                return "'token:eve' exceeds its quota of this node, in_bytes_per_s: 1000" in str(
                    error
                )
            return False

        wait_for(is_told, "a refusal that names the quota", PATIENCE_S)
    people["operator"].quotas.set("token:eve", {Limit.IN_BYTES: None})
    wait_for(lambda: has_rights(people["eve"]), "the quota to be lifted", PATIENCE_S)


# ---------------------------------------------------------------- what is open


def test_streams_beyond_the_quota_are_refused_until_one_has_ended(
    cluster: ProcessCluster, people: dict[str, LogClient], folder: Path
) -> None:
    """Also those count that began before there was a quota."""
    operator, token = people["operator"], (folder / "watcher.token").read_text()
    with channel_to(cluster, 1) as channel:

        def watch() -> Any:
            found = watched(channel, operator, token, "raftlog/")
            next(found)
            return found

        def opens() -> bool:
            try:
                watch()
            except grpc.RpcError as error:
                return not isinstance(typed(error), QuotaExceeded)
            return True

        def is_refused() -> bool:
            """Until the node has heard of the quota, there are more streams."""
            refusal = None
            try:
                opened.append(watch())
            except grpc.RpcError as error:
                refusal = error
            return refusal is not None and "streams: 2" in str(typed(refusal))

        opened = [watch()]
        operator.quotas.set("token:watcher", {Limit.STREAMS: 2})
        wait_for(is_refused, "a stream to be refused", PATIENCE_S)
        while len(opened) > 1:
            opened.pop().cancel()
        wait_for(opens, "a stream to be let in", PATIENCE_S)
        opened.pop().cancel()


def test_staged_bytes_beyond_the_quota_are_refused_until_others_are_committed(
    cluster: ProcessCluster, people: dict[str, LogClient], folder: Path
) -> None:
    people["operator"].quotas.set("token:stager", {Limit.STAGED_BYTES: 300_000})
    stager = people["stager"]
    tries = itertools.count()
    kept: list[tuple[str, Attempt]] = []
    with patient(cluster, folder, "stager", SHORT_S) as hasty:

        def is_told() -> bool:
            """As often as it takes: a node may learn of the quota late, or answer too late."""
            number = next(tries)
            first, second, error = f"one {number}", f"two {number}", ""
            attempt = staged(stager, first, 2)
            try:
                staged(hasty, second, 2)
            except DeadlineExceeded as caught:
                error = str(caught)
            stager.abort_epoch(TOPIC, key_of(second))
            if "exceeds its quota of this node, staged_bytes" not in error:
                stager.abort_epoch(TOPIC, key_of(first))
                return False
            kept.append((first, attempt))
            return True

        wait_for(is_told, "a refusal that names the quota", PATIENCE_S)
    [(first, attempt)] = kept
    with pytest.raises(WriterBytesExceeded, match="raftlog quota set token:stager --staged-bytes"):
        staged(stager, "three", 1, 4 * BODY)
    reference = attempt.finish()
    assert reference is not None
    stager.commit_epoch(TOPIC, key_of(first), [reference])
    staged(stager, "two", 2)


def key_of(writer: str) -> EpochKey:
    return EpochKey(writer=writer, query_id=writer, run="run", epoch=0, streaming=True)


def staged(of: LogClient, writer: str, count: int, body: bytes = BODY) -> Attempt:
    """An attempt with so many batches of one record."""
    attempt = of.attempt(TOPIC, key_of(writer))
    for number in range(count):
        rows = pa.RecordBatch.from_pylist([{"id": number, "body": body}])
        attempt.write(rows)
        attempt.flush()
        attempt.settle()
    return attempt


# ---------------------------------------------------------------- who sets and sees them


def test_only_an_admin_of_everything_sets_quotas_and_others_see_their_own(
    people: dict[str, LogClient],
) -> None:
    operator, eve = people["operator"], people["eve"]
    with pytest.raises(Forbidden, match="'token:eve' does not have the right 'admin'"):
        eve.quotas.set("token:eve", {Limit.STREAMS: 1000})
    operator.quotas.set("token:eve", {Limit.STREAMS: 50})
    operator.quotas.set("token:other", {Limit.STREAMS: 5})
    operator.quotas.set(EVERYBODY, {Limit.STREAMS: 500, Limit.REQUESTS: 100_000})
    assert {quota.to for quota in eve.quotas.scan()} == {"token:eve", EVERYBODY}
    assert {"token:eve", "token:other", EVERYBODY} <= {quota.to for quota in operator.quotas.scan()}
    left = operator.quotas.set(EVERYBODY, {Limit.STREAMS: None})
    assert left is not None
    assert left.limits == {Limit.REQUESTS: 100_000}
    assert operator.quotas.set("token:other", {Limit.STREAMS: None}) is None
    with pytest.raises(StoredValueInvalid):
        operator.kv.put("raftlog/quotas/token:eve", b"{}")
    with pytest.raises(InvalidOption, match="streams"):
        operator.quotas.set("token:eve", {Limit.STREAMS: 0})


def test_the_command_sets_lists_and_lifts_them_and_the_audit_log_has_it(
    cluster: ProcessCluster,
    people: dict[str, LogClient],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{folder / 'operator'}")
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", str(cluster.data / "tls" / "ca.pem"))

    def quota(*words: str) -> tuple[int, str]:
        ended = run(monkeypatch, capsys, "quota", *words, "--servers", cluster.servers)
        return ended.code, ended.out + ended.err

    code, said = quota("set", "group:token:etl", "--in-bytes-per-s", "10MiB", "--streams", "8")
    assert (code, "group:token:etl may use in_bytes_per_s 10MiB, streams 8" in said) == (0, True)
    code, said = quota("list", "-o", "json")
    [found] = [each for each in json.loads(said) if each["to"] == "group:token:etl"]
    assert (found["in_bytes_per_s"], found["streams"], found["staged_bytes"]) == (10 << 20, 8, None)
    code, said = quota("list")
    assert "10MiB" in said
    code, said = quota("set", "group:token:etl", "--in-bytes-per-s", "none", "--streams", "none")
    assert (code, "has no quota of its own" in said) == (0, True)
    code, said = quota("set", "group:token:etl")
    assert "Say what to limit" in said
    code, said = quota("set", "group:token:etl", "--streams", "many")
    assert "no value" in said

    def audited() -> bool:
        lines = [
            json.loads(line)
            for node in range(1, NODES + 1)
            for line in (folder / f"audit-{node}.jsonl").read_text().splitlines()
        ]
        keys = [each["what"].get("key") for each in lines if each["who"] == "token:operator"]
        return "raftlog/quotas/group:token:etl" in keys

    wait_for(audited, "the audit log", PATIENCE_S)


# ---------------------------------------------------------------- shares


def test_the_log_says_which_principal_appends(people: dict[str, LogClient]) -> None:
    """A topic with too many producers forgets one of the principal with the most."""
    people["eve"].append(TOPIC, [{"id": 1}])
    operator = people["operator"]
    entries = operator.groups.entries(operator.describe_topic(TOPIC).group)
    commands = [decode_command(each.command) for each in entries if each.kind == "command"]
    owners = [each.owner for each in commands if isinstance(each, Append)]
    assert (owners[0], owners[-1]) == ("token:writer", "token:eve")


def test_a_note_is_under_its_writers_name_and_an_admin_removes_those_of_a_principal(
    cluster: ProcessCluster,
    people: dict[str, LogClient],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are the keys of the store that need no right on keys."""
    operator, eve = people["operator"], people["eve"]

    def may_note() -> bool:
        try:
            written_topics.note(eve.kv, "w0", TOPIC, 1)
        except Forbidden:
            return False
        return True

    wait_for(may_note, "the right to write", PATIENCE_S)
    for key in ("raftlog/written/anything/limited", written_key("another", TOPIC)):
        with pytest.raises(StoredValueInvalid):
            eve.kv.put(key, WrittenNote(writer="w", epoch=1).encode())
    for writer in ("w1", "w2"):
        written_topics.note(eve.kv, writer, TOPIC, 1)
    written_topics.note(operator.kv, "w", TOPIC, 1)
    owners = {each.key: each.owner for each in operator.kv.scan(WRITTEN_PREFIX)}
    its_own = {written_key(f"w{number}", TOPIC): "token:eve" for number in range(3)}
    assert owners == its_own | {written_key("w", TOPIC): ""}, "an admin has no share"
    seen = {each.key: each.owner for each in eve.kv.scan(WRITTEN_PREFIX)}
    assert seen == dict.fromkeys(owners, ""), "only admins see principals"
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{folder / 'operator'}")
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", str(cluster.data / "tls" / "ca.pem"))
    words = ("kv", "delete", "raftlog/", "--prefix", "--owner", "token:eve", "--yes")
    removed = run(monkeypatch, capsys, *words, "--servers", cluster.servers)
    assert (removed.code, removed.err) == (0, "deleted 3 keys\n")
    again = run(monkeypatch, capsys, *words, "--servers", cluster.servers)
    assert again.code == ExitCode.NOT_FOUND
    assert [each.key for each in operator.kv.scan(WRITTEN_PREFIX)] == [written_key("w", TOPIC)]
    operator.kv.delete(written_key("w", TOPIC))
