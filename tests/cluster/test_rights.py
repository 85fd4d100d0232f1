"""Rights, tried on real nodes from outside: who may do what, who is told what, and how soon."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import grpc
import pytest

from raftlog.auth import grant_keys
from raftlog.auth.principals import Caller
from raftlog.auth.rights import EVERYTHING, Kind, Resource, Right, reader_group_named, topic_named
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.client.written_topics import note
from raftlog.core.types import CONTROLLER_GROUP, NO_INDEX, GroupId
from raftlog.errors import (
    CheckpointRewound,
    Forbidden,
    GroupUnknown,
    InvalidOption,
    NotLeader,
    RaftlogError,
    SequenceGap,
    StoredValueInvalid,
    TopicNotFound,
    UnknownSession,
    WriterNotFound,
    WriterOfAnother,
)
from raftlog.machines.commands import EpochKey
from raftlog.spark.written_topics import check
from raftlog.wire.calls import (
    CALLS,
    COMMIT_EPOCH,
    PUT_KEY,
    READ_KEYS,
    SCRUB,
    SERVICE,
    WATCH_KEYS,
    ClusterDescription,
    CommitEpochCall,
    ScrubCall,
    StreamedCall,
)
from raftlog.wire.codec import decode_reply, encode_request
from raftlog.wire.kv_calls import (
    KEY_BYTES_PER_PAGE_MAX,
    KeyChanges,
    KeysReply,
    PutKeyCall,
    ReadKeys,
    WatchKeys,
)
from tests.cli.command import Finished, run
from tests.cluster.closed import (
    NODES,
    People,
    channel_to,
    knows,
    started,
    typed,
    watched,
    write_epoch,
    writes,
)
from tests.fuzz.samples import DDL, frames

pytestmark = pytest.mark.slow

CHECK_S = 0.2

OF_EVERYBODY = frozenset("DescribeCluster ListTopics WatchGroups DescribePlacements OpenKv".split())
"""Calls that are no secret, or show no more than one may see."""
ANY_RIGHT = frozenset(
    "DescribeTopic ReadHighWaterMark ListWriters GetLastApplied GetServers WatchEvents"
    " OpenSession".split()
)
"""Calls for which every right on the topic does, or on anything."""
OVERWRITE = "CommitEpoch that overwrites"
"""The same call, which needs more. Its name is the first word."""
NEEDED = {
    "RegisterNode": "cluster", "AddNode": "cluster", "SetParents": "cluster",
    "SetDuty": "cluster", "RetireNode": "cluster", "PlaceGroup": "cluster",
    "ReportPlacement": "cluster", "TransferLeadership": "cluster", "Scrub": "cluster",
    "CreateTopic": "create", "AlterTopic": "alter", "AlterSchema": "alter",
    "DeleteTopic": "delete", "Trim": "delete", OVERWRITE: "delete",
    "Append": "write", "Stage": "write", "CommitEpoch": "write", "AbortEpoch": "write",
    "PutKey": "write", "DeleteKey": "write",
    "Read": "read", "ReadSizes": "read", "FindOffset": "read", "ReadKeys": "read",
    "WatchKeys": "read", "GetEntries": "admin", "GetState": "admin",
    "RemoveWriter": "delete", "SetWriterOwner": "admin",
}  # fmt: skip
"""The right without which a call is refused, written here once more."""
ALSO = {OVERWRITE: ["write"], "RemoveWriter": ["admin"]}
"""To overwrite needs both; to remove a writer the topic's admin needs no right on the writer."""
BY_GROUP_ALONE = frozenset("GetLastApplied GetServers WatchEvents GetEntries GetState".split())
"""Calls that name a group's number, and no incarnation."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rights")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ProcessCluster]:
    admins = "token:root, group:token:other-roots"
    settings = {"auth.rights_check_s": str(CHECK_S), "auth.admins": admins}
    with started(folder, folder / "tokens", settings) as found:
        yield found


class Granting(People):
    """People of whom the operator may grant rights."""

    def let_operator_act(self) -> None:
        """By the first grant, which only an admin of the nodes can make."""
        self["root"].acl.grant("token:operator", [Right.ADMIN, Right.CLUSTER], EVERYTHING)
        with ExitStack() as stack:
            channels = [
                stack.enter_context(channel_to(self.cluster, node)) for node in self.cluster.pids
            ]
            know(self.tokens["operator"], channels)

    @contextmanager
    def without_grants(self) -> Iterator[None]:
        """While nothing is granted, as before the first grant."""
        root = self["root"]
        for grant in root.acl.scan():
            root.acl.revoke(grant.to, sorted(grant.rights), grant.resource)
        wait_for(lambda: is_refused(self["operator"], "other"), "the grants to go", PATIENCE_S)
        try:
            yield
        finally:
            self.let_operator_act()


@pytest.fixture(scope="module")
def people(cluster: ProcessCluster, folder: Path) -> Iterator[Granting]:
    found = Granting(cluster, folder)
    for right in Right:
        found.add(f"no-{right}")
        found.add(f"only-{right}")
    for name in ("eve", "etl", "bob", "deputy", "root"):
        found.add(name, *{"bob": ["analysts"], "deputy": ["other-roots"]}.get(name, ()))
    wait_for(lambda: knows(found["root"]), "the nodes to take the tokens up", PATIENCE_S)
    found.let_operator_act()
    operator = found["operator"]
    for name in ("made-by-operator", "trimmed", "other"):
        operator.create_topic(name, DDL)
        operator.append(name, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    operator.kv.put("a-key", b"value")
    yield found
    found.close()


def answers(of: LogClient) -> list[object]:
    return [answer for _, answer in of.describe_cluster()]


def outcome(channel: grpc.Channel, call: str, frame: bytes, token: str) -> RaftlogError | bytes:
    """What a node answers to the call of this token's owner, or to one without a token (""): its
    error, or all its bytes."""
    name = _name_of(call)
    kind = "unary_stream" if isinstance(CALLS[name], StreamedCall) else "unary_unary"
    method = getattr(channel, kind)(f"/{SERVICE}/{name}")
    metadata = (("authorization", f"Bearer {token.strip()}"),) if token else ()
    try:
        answered = method(frame, timeout=PATIENCE_S, metadata=metadata)
        return answered if kind == "unary_unary" else b"".join(answered)
    except grpc.RpcError as error:
        found = typed(error)
        if found is None:
            raise
        return found


def _name_of(call: str) -> str:
    return call.partition(" ")[0]


@pytest.fixture(scope="module")
def channels(cluster: ProcessCluster) -> Iterator[list[grpc.Channel]]:
    opened = [channel_to(cluster, node) for node in range(1, NODES + 1)]
    yield opened
    for channel in opened:
        channel.close()


def samples(people: People) -> dict[str, bytes]:
    operator = people["operator"]
    topic, trimmed = map(operator.describe_topic, ("made-by-operator", "trimmed"))
    node = answers(operator)[0]
    overwrite = CommitEpochCall(
        group=trimmed.group, incarnation=trimmed.incarnation,
        key=EpochKey(writer="writer", query_id="query", run="r" * 32, epoch=0, streaming=True),
        attempts=(), schema_version=1, keep_on_mismatch=False, create_writer=False,
        transient_writer=False, overwrite=True,
    )  # fmt: skip
    return {
        **frames(topic, trimmed, node.store_uuid, node.nodes[0].address),
        OVERWRITE: encode_request(COMMIT_EPOCH, overwrite, b""),
    }


def state(operator: LogClient) -> object:
    """All that a refused call could have changed."""
    topics = operator.list_topics()
    return (
        topics,
        [operator.read_high_water_mark(topic) for topic in topics],
        [list(operator.writers.scan(topic)) for topic in topics],
        list(operator.kv.scan()),
        operator.members.placements(),
    )


# ---------------------------------------------------------------- the first grant


def test_nothing_is_allowed_without_a_grant_and_the_last_one_that_goes_opens_nothing(
    people: Granting,
) -> None:
    with people.without_grants():
        for name in ("eve", "operator"):
            assert is_refused(people[name], "other"), name
            with pytest.raises(Forbidden, match=r"does not have (any right|the right 'admin')"):
                people[name].acl.grant(f"token:{name}", [Right.ADMIN], EVERYTHING)
        for name in ("root", "deputy"):
            people[name].append("other", [{"id": 4, "text": "d"}])
    assert is_refused(people["eve"], "other")
    with pytest.raises(Forbidden, match="'token:eve' does not have any right"):
        people["eve"].acl.grant("token:eve", [Right.READ], topic_named("other"))
    root = people["root"]
    root.append("other", [{"id": 5, "text": "e"}])
    with pytest.raises(InvalidOption, match="no right 'cluster' on topic"):
        people["operator"].acl.grant("token:etl", [Right.CLUSTER], topic_named("other"))
    with pytest.raises(StoredValueInvalid):
        people["operator"].kv.put("raftlog/acl/token:etl/topic/other", b"{}")


@pytest.mark.parametrize(
    "value",
    [b'{"v":1,"incarnation":"i","offset":1e999,"published_us":1,"publisher":""}', b"[" * 50_000],
    ids=["no number", "too deep"],
)
def test_who_may_only_read_publishes_no_position_that_leaders_cannot_read(
    people: People, value: bytes
) -> None:
    """They look at all positions before they remove old records, and when they are scraped."""
    operator = people["operator"]
    operator.acl.grant("token:only-read", [Right.READ], topic_named("other"))
    reader = people["only-read"]
    wait_for(lambda: may(reader.read_high_water_mark, "other"), "the right to read", PATIENCE_S)
    operator.acl.grant("token:only-read", [Right.WRITE], reader_group_named("g"))
    wait_for(
        lambda: may(reader.positions.publish, "g", "other", 1), "the group's right", PATIENCE_S
    )
    with pytest.raises(Forbidden, match="'write' on reader-group 'h'"):
        reader.positions.publish("h", "other", 1)
    with pytest.raises(StoredValueInvalid, match=r"g/other.* Nothing was written"):
        reader.kv.put("raftlog/positions/g/other", value)
    assert all(isinstance(each, ClusterDescription) for each in answers(people["root"]))


def may(act: Callable[..., object], *arguments: object) -> bool:
    """Whether the caller is let do it."""
    try:
        act(*arguments)
    except Forbidden:
        return False
    return True


def is_refused(of: LogClient, topic: str) -> bool:
    try:
        of.append(topic, [{"id": 9, "text": "x"}])
    except Forbidden as error:
        return f"raftlog acl grant {error.principal} write --topic {topic}" in error.remedy
    return False


# ---------------------------------------------------------------- the matrix


def test_each_call_is_refused_to_who_has_all_rights_but_the_one(
    cluster: ProcessCluster, people: People, channels: list[grpc.Channel]
) -> None:
    assert set(map(_name_of, NEEDED)) | OF_EVERYBODY | ANY_RIGHT == CALLS.keys()
    operator = people["operator"]
    for right in Right:
        others = [each for each in Right if each not in (right, Right.ADMIN)]
        operator.acl.grant(f"token:no-{right}", others, EVERYTHING)
        operator.acl.grant(f"token:only-{right}", [right], EVERYTHING)
    know(people.tokens["only-cluster"], channels)
    wanted = samples(people)
    before = state(operator)
    refused = set()
    for channel in channels:
        for call, right in NEEDED.items():
            for name in (f"no-{right}", "eve"):
                said = outcome(channel, call, wanted[call], people.tokens[name])
                refused.add(call)
                if call == "CreateTopic" and isinstance(said, NotLeader):
                    continue  # who does not lead does not know whether the topic exists
                if name == "eve" and call in BY_GROUP_ALONE:
                    assert isinstance(said, GroupUnknown), (call, said)
                    continue
                assert isinstance(said, Forbidden), (call, name, said)
                assert said.principal == f"token:{name}"
                assert said.right in {right, *ALSO.get(call, ())}, call
        for call in ANY_RIGHT:
            said = outcome(channel, call, wanted[call], people.tokens["eve"])
            wanted_error = GroupUnknown if call in BY_GROUP_ALONE else Forbidden
            assert isinstance(said, wanted_error), (call, said)
    assert refused == NEEDED.keys()
    for name in ("no-create", "eve"):
        wait_for(
            lambda name=name: any(
                isinstance(
                    outcome(channel, "CreateTopic", wanted["CreateTopic"], people.tokens[name]),
                    Forbidden,
                )
                for channel in channels
            ),
            f"the leader to reject a topic of {name}",
            PATIENCE_S,
        )
    assert state(operator) == before
    for channel in channels:
        for call in sorted(NEEDED.keys() | ANY_RIGHT | OF_EVERYBODY):
            name = f"only-{NEEDED.get(call, 'read')}"
            name = "no-admin" if call == OVERWRITE else name
            said = outcome(channel, call, wanted[call], people.tokens[name])
            assert not isinstance(said, Forbidden), (call, name, said)


def test_nobody_writes_in_a_session_of_another(people: People) -> None:
    """Who knew its number could have a revoke answered that was not done."""
    operator, other = people["operator"], people["no-alter"]
    operator.acl.grant("token:no-alter", [Right.READ, Right.WRITE], Resource(Kind.KEYS, "shared/"))
    wait_for(lambda: may(other.kv.put, "shared/other", b""), "the right to write", PATIENCE_S)
    store = operator.kv
    store.put("shared/operator", b"1")
    call = PutKeyCall(
        group=GroupId(store._group or 0),
        session=store._session,
        sequence=store._sequence + 1,
        key="shared/other",
        value=b"of another",
        expected=-1,
    )
    with pytest.raises(UnknownSession):
        other._connection.call_leader(call.group, PUT_KEY, call)
    with pytest.raises(SequenceGap):
        operator._connection.call_leader(call.group, PUT_KEY, replace(call, sequence=1 << 62))
    store.put("shared/operator", b"2")
    found = store.get("shared/operator")
    assert found is not None
    assert found.value == b"2"


def test_neither_pages_nor_watches_tell_of_keys_that_are_hidden(
    people: People, channels: list[grpc.Channel]
) -> None:
    """Whether there are more told the names of all, and an empty answer that there is a change."""
    operator, eve = people["operator"], people["eve"]
    for name in ("zoe", "zora"):
        operator.acl.grant(f"token:{name}", [Right.READ], topic_named("other"))
    operator.acl.grant("token:eve", [Right.READ], Resource(Kind.PREFIX, "public-"))
    own = f"{grant_keys.KEY_PREFIX}token:eve/prefix/public-"
    store = eve.kv._store(create=False)
    assert store is not None
    wait_for(lambda: page_of(eve, store, own, 10).keys != (), "eve's own grant", PATIENCE_S)
    for limit in (1, 2, 10):
        page = page_of(eve, store, own, limit)
        assert ([each.key for each in page.keys], page.more) == ([own], False), limit
    page = page_of(operator, store, own, 1)
    assert ([each.key for each in page.keys], page.more) == ([own], True), "who may see them"
    call = WatchKeys(group=store, prefix=grant_keys.KEY_PREFIX, after=page.index, seconds=60)
    metadata = (("authorization", f"Bearer {people.tokens['eve'].strip()}"),)
    watch = channels[0].unary_stream(f"/{SERVICE}/{WATCH_KEYS.name}")(
        encode_request(WATCH_KEYS, call, b""), timeout=PATIENCE_S, metadata=metadata
    )
    told: list[KeyChanges] = []
    thread = threading.Thread(target=lambda: told.append(decode_reply(WATCH_KEYS, next(watch))[0]))
    thread.start()
    operator.acl.grant("token:zora", [Right.WRITE], topic_named("other"))
    operator.acl.grant("token:eve", [Right.WRITE], Resource(Kind.PREFIX, "public-"))
    thread.join(PATIENCE_S)
    watch.cancel()
    assert [change.key for each in told for change in each.changes] == [own], "not an empty one"


def page_of(of: LogClient, store: GroupId, start: str, limit: int) -> KeysReply:
    """The keys from `start` on that it is given."""
    call = ReadKeys(
        group=store, strong=True, at_least=NO_INDEX, exactly=NO_INDEX,
        prefix=grant_keys.KEY_PREFIX, start=start, end="", limit=limit,
    )  # fmt: skip
    return of._connection.call_leader(store, READ_KEYS, call)


def know(token: str, channels: Sequence[grpc.Channel]) -> None:
    """Wait until every node knows the grants, of which the last one was for this token's owner: the
    right `cluster`."""
    frame = encode_request(SCRUB, ScrubCall(groups=(CONTROLLER_GROUP,)), b"")
    for channel in channels:
        wait_for(
            lambda channel=channel: isinstance(outcome(channel, "Scrub", frame, token), bytes),
            "a node to know the grants",
            PATIENCE_S,
        )


def test_names_are_told_to_nobody_who_may_not_know_them(
    people: People, channels: list[grpc.Channel]
) -> None:
    """Neither in listings and views, nor in what a refusal of a guess says."""
    operator, eve = people["operator"], people["eve"]
    operator.acl.grant("token:eve", [Right.READ], Resource(Kind.PREFIX, "public-"))
    operator.create_topic("public-one", DDL)
    operator.positions.publish("group-of-etl", "made-by-operator", 1)
    wait_for(
        lambda: [each.name for each in eve.list_topics()] == ["public-one"], "a list", PATIENCE_S
    )
    with pytest.raises(TopicNotFound) as told:
        eve.describe_topic("public-two")
    assert told.value.nearest == "public-one"
    with pytest.raises(Forbidden):
        eve.describe_topic("made-by-operato")
    assert [each.key for each in eve.kv.scan("raftlog/")] == [
        "raftlog/acl/token:eve/prefix/public-"
    ]
    assert [grant.to for grant in eve.acl.scan()] == ["token:eve"]
    assert list(eve.positions.scan()) == []
    for number in range(17):  # more than a page that eve sees nothing of
        operator.kv.put(f"raftlog/aaa/{number:05}", bytes(KEY_BYTES_PER_PAGE_MAX // 16))
    assert [grant.to for grant in eve.acl.scan()] == ["token:eve"]
    assert [each.key for each in eve.kv.scan("raftlog/")] == [
        "raftlog/acl/token:eve/prefix/public-"
    ]
    for name in ("made-by-operator", "nobody-made-it"):
        with pytest.raises(Forbidden) as refused:
            eve.create_topic(name, DDL, if_not_exists=True)
        assert (refused.value.right, refused.value.name) == (Right.CREATE, name)
    topic = operator.describe_topic("made-by-operator")
    guess = replace(topic, incarnation="0" * 32, name="guessed")
    guessed = frames(guess, guess, "0" * 32, "127.0.0.1:1")
    for channel in channels:
        for call, frame in guessed.items():
            said = outcome(channel, call, frame, people.tokens["eve"])
            assert isinstance(said, RaftlogError) or call in OF_EVERYBODY, (call, said)
            shown = said if isinstance(said, bytes) else (said.cause + said.remedy).encode()
            assert b"made-by-operator" not in shown, (call, shown)


def test_a_refusal_names_the_right_that_somebody_is_about_to_need(people: People) -> None:
    eve = people["eve"]
    wanted: dict[Right, Callable[[], object]] = {
        Right.WRITE: lambda: eve.append("made-by-operator", [{"id": 1}]),
        Right.DELETE: lambda: eve.trim("made-by-operator", before=1),
        Right.ALTER: lambda: eve.alter_topic("made-by-operator", {"retention_s": 60}),
        Right.ADMIN: lambda: eve.writers.remove("made-by-operator", "w"),
        Right.READ: lambda: list(eve.read("made-by-operator")),
    }
    for right, act in wanted.items():
        with pytest.raises(Forbidden) as refused:
            act()
        assert refused.value.remedy.endswith(
            f"acl grant token:eve {right} --topic made-by-operator"
        )


# ---------------------------------------------------------------- writers


def test_a_writer_is_continued_by_who_began_it_and_by_who_was_granted_that(
    people: People,
) -> None:
    operator = people["operator"]
    for name in ("etl", "eve"):
        operator.acl.grant(f"token:{name}", [Right.READ, Right.WRITE], topic_named("other"))
    for name in ("etl", "eve"):
        wait_for(lambda name=name: may_write(people[name]), f"the right of {name}", PATIENCE_S)
    write_epoch(people["etl"], 0)
    with pytest.raises(WriterOfAnother, match="'token:eve' may not continue writer 'w'"):
        write_epoch(people["eve"], 1, run="of-eve")
    for name in ("operator", "root"):  # they may continue any writer
        write_epoch(people[name], 0, writer=name)
        with pytest.raises(WriterOfAnother):
            write_epoch(people["eve"], 1, run="of-eve", writer=name)
        write_epoch(people["root"], 1, writer=name)
        assert operator.writers.describe("other", name).owner == f"token:{name}"
    write_epoch(people["etl"], 1)
    assert operator.writers.describe("other", "w").owner == "token:etl"
    operator.acl.grant("token:eve", [Right.WRITE], Resource(Kind.WRITER, "w"))
    wait_for(lambda: writes(people["eve"], 2, "of-eve"), "eve's right to the writer", PATIENCE_S)
    assert operator.writers.describe("other", "w").owner == "token:etl"


def test_a_writer_and_a_note_that_another_planted_end_no_query_that_does_not_write_there(
    people: People,
) -> None:
    operator, root = people["operator"], people["root"]
    planted = EpochKey(writer="planted", query_id="planted", run="r", epoch=1, streaming=True)
    write_epoch(operator, 0, writer="planted")
    write_epoch(operator, 5, writer="planted")
    note(operator.kv, "planted", "other", 0)
    check(root, planted, (), plan="", keep=False)
    with pytest.raises(CheckpointRewound):
        check(operator, replace(planted, run="s"), (), plan="", keep=False)


def test_a_writer_is_handed_over_by_the_command_that_the_error_names(
    cluster: ProcessCluster,
    people: People,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    operator, etl, eve = people["operator"], people["etl"], people["eve"]
    for name in ("etl", "eve"):
        operator.acl.grant(f"token:{name}", [Right.READ, Right.WRITE], topic_named("other"))
        wait_for(lambda name=name: may_write(people[name]), f"the right of {name}", PATIENCE_S)
    write_epoch(etl, 0, writer="moved")
    with pytest.raises(WriterOfAnother) as rejected:
        write_epoch(eve, 1, run="of-eve", writer="moved")
    words = shlex.split(rejected.value.remedy.partition("raftlog ")[2])
    assert words == ["writers", "chown", "other", "moved", "token:eve"]
    with pytest.raises(WriterNotFound):
        operator.writers.chown("other", "unknown", "token:eve")
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", str(cluster.data / "tls" / "ca.pem"))
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{folder / 'operator'}")
    done = run(monkeypatch, capsys, *words, "--servers", cluster.servers)
    assert done.code == 0, done.err
    assert "belongs to token:eve, and no longer to token:etl" in done.err
    write_epoch(eve, 1, run="of-eve", writer="moved")
    with pytest.raises(WriterOfAnother):
        write_epoch(etl, 2, writer="moved")


def may_write(of: LogClient) -> bool:
    """Whether the nodes that it takes let it write."""
    try:
        of.describe_topic("other")
    except Forbidden:
        return False
    return not is_refused(of, "other")


# ---------------------------------------------------------------- how soon


def test_what_is_revoked_acts_on_every_node_and_ends_what_is_being_read(
    people: People, channels: list[grpc.Channel]
) -> None:
    operator, bob = people["operator"], people["bob"]
    operator.acl.grant("group:token:analysts", [Right.READ], topic_named("other"))
    operator.acl.grant("group:token:analysts", [Right.READ], Resource(Kind.KEYS, "shared/"))
    token = people.tokens["bob"]
    frame = samples_of(operator, "other")["Read"]
    for channel in channels:
        wait_for(
            lambda channel=channel: isinstance(outcome(channel, "Read", frame, token), bytes),
            "the group's right",
            PATIENCE_S,
        )
    wait_for(
        lambda: may(lambda: list(bob.kv.scan("shared/"))), "the group's right to keys", PATIENCE_S
    )
    operator.kv.put("shared/one", b"1")
    watches: list[Iterator[bytes]] = []

    def begins(channel: grpc.Channel) -> bool:
        watch = watched(channel, operator, token, "shared/")
        try:
            assert any(b"shared/one" in part for part in watch)
        except grpc.RpcError as error:
            if isinstance(typed(error), Forbidden):
                return False  # this node does not know the right yet
            raise
        watches.append(watch)
        return True

    for channel in channels:
        wait_for(partial(begins, channel), "a watch", PATIENCE_S)
    for resource in (topic_named("other"), Resource(Kind.KEYS, "shared/")):
        operator.acl.revoke("group:token:analysts", [Right.READ], resource)
    for watch in watches:  # before the rest: a watch ends after a minute
        with pytest.raises(grpc.RpcError) as ended:
            next(watch)
        assert isinstance(typed(ended.value), Forbidden), "a watch goes on"
    for channel in channels:
        wait_for(
            lambda channel=channel: isinstance(outcome(channel, "Read", frame, token), Forbidden),
            "the refusal",
            PATIENCE_S,
        )


def samples_of(operator: LogClient, name: str) -> dict[str, bytes]:
    topic = operator.describe_topic(name)
    return frames(topic, topic, "0" * 32, "127.0.0.1:1")


def audited(folder: Path) -> list[dict[str, object]]:
    files = folder.glob("audit-*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_grants_are_audited_and_topics_that_are_not_created_are_no_operations(
    people: People, folder: Path
) -> None:
    """Else a caller without rights, or each batch of a sink, would add to the log without end."""
    people["operator"].acl.grant("token:only-write", [Right.WRITE], topic_named("other"))
    wait_for(lambda: may_write(people["only-write"]), "the right to write", PATIENCE_S)
    for if_not_exists in (False, True, True):
        with pytest.raises(Forbidden):
            people["eve"].create_topic("eves", DDL, if_not_exists=if_not_exists)
        people["only-write"].create_topic("other", DDL, if_not_exists=True)
    people["operator"].create_topic("after-these", DDL)
    wait_for(lambda: "after-these" in str(audited(folder)), "the operator's line", PATIENCE_S)
    found = audited(folder)
    made = [line for line in found if line["who"] in ("token:eve", "token:only-write")]
    assert ("token:eve", "Forbidden") in [(line["who"], line["outcome"]) for line in made]
    assert not [line for line in made if line["call"] == "CreateTopic" and "id" in line]
    grants = [line for line in found if line["call"] == "PutKey" and line["outcome"] == "begun"]
    assert {line["who"] for line in grants} == {"token:operator", "token:root"}
    assert all("raftlog/acl/" in json.dumps(line["what"]) for line in grants)


# ---------------------------------------------------------------- the command line


def test_the_commands_grant_show_check_and_say_what_was_denied(
    cluster: ProcessCluster,
    people: People,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert people["operator"].whoami() == Caller(
        principal="token:operator", groups=frozenset({"group:token:operators"})
    )
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", str(cluster.data / "tls" / "ca.pem"))
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{folder / 'operator'}")

    def verb(*words: str) -> Finished:
        return run(monkeypatch, capsys, *words, "--servers", cluster.servers)

    on = ("--prefix", "raw-")
    assert verb("acl", "grant", "token:ada", "read,write", *on).code == 0
    check = ("acl", "check", "token:ada", "read", "--topic", "raw-1")
    assert verb(*check).code == 0
    grant = {"to": "token:ada", "kind": "prefix", "name": "raw-", "rights": ["read", "write"]}
    assert grant in json.loads(verb("acl", "list", "-ojson").out)
    assert "has only write" in verb("acl", "revoke", "token:ada", "read", *on).err
    checked = verb(*check)
    assert (checked.code, "name its groups with --group" in checked.err) == (7, True)
    wrong = verb("acl", "grant", "token:ada", "fly", *on)
    assert (wrong.code, "read, write, create" in wrong.err) == (2, True)
    wrong = verb("acl", "grant", "ada", "read", *on)
    assert (wrong.code, "it has no type" in wrong.err, "token:NAME" in wrong.err) == (2, True, True)
    people["operator"].acl.grant("token:only-read", [Right.READ], topic_named("other"))
    reader, rows = people["only-read"], folder / "rows.json"
    wait_for(lambda: may(reader.read_high_water_mark, "other"), "the right to read", PATIENCE_S)
    (folder / "reader").write_text(people.tokens["only-read"])
    rows.write_text('{"id": 1}\n')
    monkeypatch.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{folder / 'reader'}")
    denied = verb("produce", "other", str(rows))
    assert (denied.code, "0 of the 1 records" in denied.err) == (7, True), denied.err
    assert "may have been written" not in denied.err


# ---------------------------------------------------------------- without a quorum


def test_nodes_go_on_with_the_grants_that_they_know_and_say_so(
    cluster: ProcessCluster, people: People, channels: list[grpc.Channel]
) -> None:
    """The last test of this module: two nodes are stopped for good."""
    frame = samples_of(people["operator"], "other")["Read"]
    for node in (2, 3):
        cluster.kill(node)
    log = cluster.logs[1]
    wait_for(lambda: "grants are not read" in log.read_text(), "node 1 to say so", PATIENCE_S)
    assert isinstance(outcome(channels[0], "Read", frame, people.tokens["etl"]), bytes)
    assert isinstance(outcome(channels[0], "Read", frame, people.tokens["bob"]), Forbidden)
