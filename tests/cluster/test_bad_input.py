"""What a bad input gets from real nodes: a typed error that names cause, remedy and option.

One test for each row of the table in docs/TESTING.md, "Bad input". After every refusal the node
lives and the topic is as it was.
"""

from __future__ import annotations

import json
import random
import re
import uuid
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.call_errors import typed_error
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.core.types import Offset
from raftlog.errors import (
    DataLoss,
    DeadlineExceeded,
    ExitCode,
    InvalidOption,
    InvalidTopicName,
    MalformedRequest,
    NodeUnreachable,
    NotLeader,
    NotYet,
    RaftlogError,
    SchemaMismatch,
    TooLarge,
    TooMany,
    TopicNotFound,
)
from raftlog.machines.commands import TopicInfo
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.wire.calls import (
    APPEND,
    CALLS,
    DESCRIBE_TOPIC,
    LIST_TOPICS,
    READ,
    READ_HIGH_WATER_MARK,
    READ_KEYS,
    READ_PIECES_MAX,
    READ_SIZES,
    SERVICE,
    AppendCall,
    Call,
    DescribeTopic,
    ListTopics,
    ReadCall,
    ReadHighWaterMark,
    ReadSizes,
)
from raftlog.wire.codec import encode_request
from raftlog.wire.kv_calls import ReadKeys
from tests.cluster.waiting import leader_of
from tests.fuzz.relay import Relay

DDL = "id bigint, text string"


def records(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "text": [f"record {each}" for each in ids]})


def ids_read(client: LogClient, topic: str | TopicInfo) -> list[int]:
    batches = client.read(topic, columns=["id"])
    return [each for batch in batches for each in batch.column(0).to_pylist()]


def raw(address: str, method: str, data: bytes) -> tuple[grpc.StatusCode, RaftlogError]:
    """Make one call with these bytes: the status that any grpc client sees, and the typed error."""
    with grpc.insecure_channel(address) as channel:
        answers = channel.unary_stream(f"/{SERVICE}/{method}")(data, timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
    return caught.value.code(), typed_error(address, caught.value)


def read_call(topic: TopicInfo, start: int, end: int, mark: int) -> ReadCall:
    return ReadCall(
        group=topic.group,
        incarnation=topic.incarnation,
        start=start,
        end=end,
        mark=mark,
        field_ids=(),
        all_fields=True,
    )


# ---------------------------------------------------------------- what a call says


@pytest.mark.parametrize("method", CALLS)
def test_a_malformed_message_is_an_invalid_argument_that_names_the_call(
    shared: ProcessCluster, client: LogClient, method: str
) -> None:
    address = shared.servers.split(",")[0]
    for data in (
        b"",
        b"\0",
        b"\xff" * 100,
        b"\1" + b"\x7f\xff\xff\xff" * 3,
        b"\1\0\0\0\xff\xff\xff\x7f",
        b"\1\0\0\0\4\0\0\0\xff\xff\xff\xff\0\0\0\0",
    ):
        code, error = raw(address, method, data)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert isinstance(error, MalformedRequest)
        assert error.call == method
        assert "client of the same major version" in error.remedy
    assert client.list_topics() is not None


def test_a_header_or_a_list_beyond_its_bound_is_refused_unread(
    shared: ProcessCluster, client: LogClient
) -> None:
    """Two bytes of a header can be a value of a list, which costs a hundred times as much."""
    address = shared.servers.split(",")[0]
    attempts = b"\x22\0" * 200_000
    for header, what in (
        (attempts, "has more than 100000 fields"),
        (attempts * 20, "a header of 8000000"),
    ):
        frame = b"\1\0\0\0" + len(header).to_bytes(4, "little") + header
        code, error = raw(address, "CommitEpoch", frame)
        assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, MalformedRequest)
        assert what in error.cause


def test_a_batch_is_split_and_a_record_over_the_limit_names_size_limit_and_option(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, DDL)
    table = pa.table({"id": range(40), "text": [f"{each:0600000d}" for each in range(40)]})
    assert client.append(name, table).end == 40, "24 MB go as several entries of at most 8"
    assert sum(1 for _ in client.read(name, columns=["id"])) > 3
    # The second is also above what the server's grpc accepts.
    for size, limit in ((10 << 20, 8 << 20), (20 << 20, 17 << 20)):
        text = random.Random(1).randbytes(size // 2).hex()
        with pytest.raises(TooLarge) as caught:
            client.append(name, [{"id": 40, "text": text}])
        error = caught.value
        assert error.exit_code is ExitCode.USAGE
        assert error.size > error.limit == limit
        assert error.option == "server.entry_bytes_max"
        assert error.remedy == "Split it, or raise server.entry_bytes_max."
    client.append(name, [{"id": 40, "text": "small"}])
    assert ids_read(client, name) == list(range(41))


def test_an_unknown_topic_is_not_found_with_the_nearest_names_and_the_call(
    shared: ProcessCluster, client: LogClient
) -> None:
    client.create_topic("flights", DDL)
    with pytest.raises(TopicNotFound) as caught:
        client.describe_topic("flihgts")
    error = caught.value
    assert (error.grpc_status, error.exit_code) == ("NOT_FOUND", ExitCode.NOT_FOUND)
    assert error.cause == "There is no topic 'flihgts'. Did you mean flights?"
    assert error.remedy.startswith("See client.list_topics()")
    assert "create it first: client.create_topic('flihgts', schema)" in error.remedy
    assert "subscribe" not in error.remedy
    for change in (
        client.delete_topic,
        lambda name: client.trim(name, before=1),
        lambda name: client.alter_topic(name, {"retention_s": 1}),
    ):
        with pytest.raises(TopicNotFound) as missing:
            change("flihgts")
        assert missing.value.remedy.startswith("There is nothing to ")
        assert "topic create" not in missing.value.remedy


def test_a_name_longer_than_any_topic_s_is_shown_in_part(client: LogClient) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        client.describe_topic("x" * 5_000)
    assert len(str(caught.value)) < 1_000
    assert "xxx...'" in caught.value.cause


def test_a_name_of_any_length_and_content_is_answered(
    shared: ProcessCluster, client: LogClient
) -> None:
    """A refusal quotes it, and grpc takes no more than 8 KiB beside a status."""
    address = shared.servers.split(",")[0]
    unknown = (grpc.StatusCode.NOT_FOUND, TopicNotFound)
    too_long = (grpc.StatusCode.INVALID_ARGUMENT, MalformedRequest)
    for long, answer in (
        ("." * 249, unknown),
        ("\u65e5" * 249, unknown),
        ("\u65e5" * 250, too_long),
        ("\u65e5" * 100_000, too_long),
    ):
        call = encode_request(DESCRIBE_TOPIC, DescribeTopic(name=long, any_node=True))
        code, error = raw(address, "DescribeTopic", call)
        assert (code, type(error)) == answer
        with pytest.raises(InvalidTopicName):
            client.describe_topic(long)
        with pytest.raises(InvalidTopicName):
            client.create_topic(long, DDL)


@pytest.mark.parametrize(
    "bad", ["", ".hidden", "..", "a/b", "a\\b", "x" * 250, "sp ace", "ü", "\0"]
)
def test_an_invalid_name_is_refused_with_the_rule(client: LogClient, bad: str) -> None:
    with pytest.raises(InvalidTopicName) as caught:
        client.create_topic(bad, DDL)
    assert caught.value.grpc_status == "INVALID_ARGUMENT"
    assert caught.value.remedy == "Use 1 to 249 of A-Z a-z 0-9 . _ - without a leading dot."


def test_no_name_reaches_a_path(shared: ProcessCluster, client: LogClient) -> None:
    client.create_topic("x" * 249, DDL)
    for node in (1, 2, 3):
        folders = list((shared.data / f"node-{node}" / "groups").iterdir())
        # Earlier tests leave folders that are being removed, and damaged ones.
        named = re.compile(r"\d+(\.new|\.removed|\.damaged-\d+)?")
        assert all(named.fullmatch(folder.name) for folder in folders)


def test_a_schema_that_differs_is_explained_field_by_field_before_bytes_leave(
    client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, "id bigint not null, text string, day date")
    with pytest.raises(SchemaMismatch) as caught:
        client.append(name, pa.table({"id": pa.array(["a"]), "txt": ["b"]}))
    error = caught.value
    assert error.exit_code is ExitCode.USAGE
    lines = error.difference.splitlines()
    assert {word for line in lines for word in ("id", "txt", "text", "day") if word in line} == {
        "id", "txt", "text", "day",
    }  # fmt: skip
    assert "raftlog topic describe" in error.remedy
    assert client.read_high_water_mark(topic).high_water_mark == 0
    with pytest.raises(InvalidOption, match="columns"):
        client.read(name, columns=["nothing"])


# ---------------------------------------------------------------- where a read begins and ends


def test_an_offset_beyond_the_mark_waits_then_not_yet_then_data_loss(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, DDL)
    client.append(name, records(0, 3))
    shared.wait_caught_up(client, name)
    for address in shared.servers.split(","):
        code, error = raw(address, "Read", encode_request(READ, read_call(topic, 0, 5, 5)))
        assert (code, type(error)) == (grpc.StatusCode.UNAVAILABLE, NotYet)
        assert (error.topic, error.have, error.need) == (name, 3, 5)
        assert error.retriable
    with shared.client(request_timeout_s=10.0) as hasty, pytest.raises(DataLoss) as caught:
        list(hasty.read(topic, 0, 5, mark=5))
    assert caught.value.exit_code is ExitCode.DATA_LOSS
    assert "ends at offset 3" in caught.value.cause
    assert "failOnDataLoss=false" in caught.value.remedy


@pytest.mark.parametrize(("start", "end", "mark"), [(-1, 1, 1), (2, 1, 3), (0, 3, 2)])
def test_an_invalid_range_is_refused(
    shared: ProcessCluster, client: LogClient, name: str, start: int, end: int, mark: int
) -> None:
    topic = client.create_topic(name, DDL)
    client.append(name, records(0, 3))
    data = encode_request(READ, read_call(topic, start, end, mark))
    code, error = raw(shared.servers.split(",")[0], "Read", data)
    assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, MalformedRequest)
    assert f"start {start} <= end {end} <= mark {mark}" in error.cause


def test_a_split_into_too_many_pieces_is_refused_and_the_client_asks_for_fewer(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    """Each piece costs the node's loop a search, and a call could ask for 2**63 of them before."""
    topic = client.create_topic(name, DDL)
    client.append(name, records(0, 3))
    call = ReadSizes(
        group=topic.group,
        incarnation=topic.incarnation,
        start=Offset(0),
        end=Offset(3),
        mark=Offset(3),
        pieces_max=READ_PIECES_MAX + 1,
    )
    code, error = raw(shared.servers.split(",")[0], "ReadSizes", encode_request(READ_SIZES, call))
    assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, TooMany)
    assert "10000" in error.cause
    assert client.read_sizes(topic, 0, 3, mark=3, pieces_max=1 << 40).offsets[-1] == 3


def rejection(address: str, call: Call[Any, Any], request: Any) -> RaftlogError | None:
    """The typed error with which a node rejects the call; None: it answers."""
    with grpc.insecure_channel(address) as channel:
        method = channel.unary_stream(f"/{SERVICE}/{call.name}")
        caught: grpc.RpcError | None = None
        try:
            list(method(encode_request(call, request), timeout=PATIENCE_S))
        except grpc.RpcError as error:
            caught = error
    if caught is None:
        return None
    found = typed_error(address, caught)
    assert caught.code() is grpc.StatusCode.UNAVAILABLE or not isinstance(found, NotLeader)
    return found


@pytest.mark.parametrize("holds", ["topic", "controller", "key-value store"])
def test_a_node_that_does_not_lead_says_which_it_is_what_it_does_not_lead_and_who_does(
    shared: ProcessCluster, client: LogClient, name: str, holds: str
) -> None:
    call: Call[Any, Any]
    request: object
    match holds:
        case "topic":
            topic = client.create_topic(name, DDL)
            what = f"topic {name!r} (group {topic.group})"
            call = READ_HIGH_WATER_MARK
            request = ReadHighWaterMark(group=topic.group, incarnation=topic.incarnation)
        case "controller":
            what, call, request = "the controller (group 0)", LIST_TOPICS, ListTopics()
        case _:
            client.kv.put(name, b"")
            store = client.kv._store(create=False)
            assert store is not None
            what, call = f"the key-value store (group {store})", READ_KEYS
            request = ReadKeys(
                group=store,
                strong=True,
                at_least=0,
                exactly=0,
                prefix="",
                start="",
                end="",
                limit=1,
            )
    addresses = shared.servers.split(",")

    def all_say_so() -> bool:
        """Those two that do not lead. Leaders may just be changing, and replicas come."""
        said = {n: rejection(each, call, request) for n, each in enumerate(addresses, 1)}
        others = {n: error for n, error in said.items() if isinstance(error, NotLeader)}
        return len(others) == 2 and all(
            error.cause == f"Node {n} does not lead {what}."
            and error.leader not in (0, *others)
            and error.remedy == f"Ask node {error.leader} at {addresses[error.leader - 1]}."
            for n, error in others.items()
        )

    wait_for(all_say_so, f"two nodes that say that they do not lead {what}", PATIENCE_S)


def test_without_a_majority_a_call_ends_at_its_deadline_and_says_what_to_look_at(
    cluster: ProcessCluster,
) -> None:
    with cluster.client() as client:
        client.create_topic("t", DDL)
        client.append("t", records(0, 2))
        topic = client.describe_topic("t")
        wait_for(
            lambda: [each.high_water_mark for each in client.watermark(topic).replicas] == [2] * 3,
            "every replica to serve the records",
            PATIENCE_S,
        )
        for node in (2, 3):
            cluster.kill(node)
        with cluster.client(request_timeout_s=2.0) as hasty:
            with pytest.raises(DeadlineExceeded) as caught:
                hasty.append("t", records(2, 1))
            assert (caught.value.seconds, caught.value.retriable) == ("2", True)
            assert caught.value.exit_code is ExitCode.UNAVAILABLE
            assert caught.value.last, "what prevented it"
            assert "raftlog status" in caught.value.remedy
        read = [row["id"] for b in client.read(topic, 0, 2, mark=2) for row in b.to_pylist()]
        assert read == [0, 1], "what is below a known mark is read from any one node"


def test_a_client_that_knew_the_cluster_waits_for_it_within_its_deadline(
    single: ProcessCluster,
) -> None:
    """A client that never had an answer gives up soon: its addresses may be wrong."""
    impatient = load().client.model_copy(
        update={"bootstrap_servers": single.servers, "refused_timeout_s": 0.0}
    )
    with connect(settings=impatient) as known, futures.ThreadPoolExecutor(1) as pool:
        known.create_topic("t", DDL)
        single.kill(1)
        with connect(settings=impatient) as stranger:
            with pytest.raises(NodeUnreachable) as caught:
                stranger.list_topics()
            assert caught.value.exit_code is ExitCode.UNAVAILABLE
            assert single.servers in caught.value.cause
            assert "raftlog up" in caught.value.remedy
        appended = pool.submit(known.append, "t", records(0, 1))
        single.serve(1)
        assert appended.result(PATIENCE_S).end == 1


# ---------------------------------------------------------------- flipped bits


def test_a_bit_flipped_on_the_way_to_the_log_never_reaches_it(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, DDL)
    rows = conform(records(0, 200).to_batches()[0], topic.schema, name)
    batch = encode_batch(rows, topic.schema, "lz4")
    leader = shared.address(leader_of(client, name))
    chance = random.Random(1)
    tried = 0
    while tried < 50:
        body = bytearray(batch.body)
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        call = AppendCall(
            group=topic.group,
            incarnation=topic.incarnation,
            producer=uuid.uuid4().hex,
            sequence=0,
            batch=batch.header,
            crc=batch.crc,
        )
        code, error = raw(leader, "Append", encode_request(APPEND, call, bytes(body)))
        if isinstance(error, NotLeader):  # an election came in between
            leader = shared.address(leader_of(client, name))
            continue
        assert (code, type(error)) == (grpc.StatusCode.INVALID_ARGUMENT, MalformedRequest)
        assert "CRC-32C does not fit" in error.cause
        tried += 1
    assert client.read_high_water_mark(topic).high_water_mark == 0


def test_a_bit_flipped_on_the_way_to_a_reader_is_noticed_by_the_client(
    single: ProcessCluster,
) -> None:
    with (
        Relay(single.servers) as relay,
        connect(relay.address) as client,
    ):
        topic = client.create_topic("t", DDL)
        client.append("t", records(0, 500))
        assert ids_read(client, topic) == list(range(500))
        relay.flips = random.Random(1)
        for flip in range(1, 101):
            with pytest.raises(DataLoss, match="has CRC"):
                list(client.read(topic))
            assert relay.flipped == 2 * flip, (
                "the records, and the node's answer about its own copy"
            )
        relay.flips = None
        assert ids_read(client, topic) == list(range(500))


def test_bits_flipped_on_one_nodes_disk_are_never_served_and_heal(tmp_path: Path) -> None:
    """The others have their copies, and the group continues. Reads meet some of the bits while the
    node runs; others wait for its restart, and may cost the replica its whole log."""
    uncached = ["storage.payload_cache_bytes_max=0"]
    with (
        ProcessCluster.start(tmp_path / "data", settings=uncached) as cluster,
        cluster.client() as client,
    ):
        topic = client.create_topic("t", DDL)
        for first in range(0, 1000, 50):
            client.append("t", records(first, 50))
        cluster.wait_caught_up(client, "t")
        node = leader_of(client, "t") % 3 + 1
        log = cluster.data / f"node-{node}" / "groups" / str(topic.group) / f"{1:020d}.log"
        end = len(log.read_bytes().rstrip(b"\0"))
        chance = random.Random(1)
        for _ in range(36):
            with log.open("r+b") as file:
                place = chance.randrange(end)
                file.seek(place)
                (byte,) = file.read(1)
                file.seek(place)
                file.write(bytes([byte ^ 1 << chance.randrange(8)]))
            for _ in range(2):
                assert ids_read(client, topic) == list(range(1000))
        said = cluster.logs[node]
        cluster.kill(node)
        cluster.serve(node)
        wait_for(lambda: "is damaged at byte" in said.read_text(), "the node to say it", PATIENCE_S)
        words = said.read_text().splitlines()
        told = json.loads(next(line for line in words if "is damaged at byte" in line))
        assert "damage was found" in told["event"] or "is quarantined" in told["event"]
        assert str(log) in told["cause"]
        cluster.wait_caught_up(client, "t")
        assert client.append("t", records(1000, 1)).end == 1001
        assert ids_read(client, topic) == list(range(1001))
