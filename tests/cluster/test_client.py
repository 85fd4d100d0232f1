"""The Python API against three real nodes: topics, appends, reads, epochs, marks, refusals."""

from __future__ import annotations

import runpy
import threading
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import grpc
import pandas as pd
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import raftlog
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.call_errors import typed_error
from raftlog.client.log_client import LogClient
from raftlog.client.marks import IN_FLIGHT_MAX
from raftlog.core.types import Offset
from raftlog.errors import (
    CheckpointReset,
    ClientClosed,
    InvalidOption,
    MalformedRequest,
    NodeUnreachable,
    NotLeader,
    ProducerClosed,
    RaftlogError,
    RunFenced,
    SchemaMismatch,
    TopicExists,
    TopicNotFound,
    TopicRecreated,
    UnknownSchemaVersion,
)
from raftlog.machines.commands import EpochKey, TopicInfo
from raftlog.records.batch_codec import encode_batch
from raftlog.records.conform import conform
from raftlog.wire.calls import APPEND, SERVICE, AppendCall, ReadableRange
from raftlog.wire.codec import encode_request
from tests.cluster.waiting import leader_of
from tests.docs.pages import ROOT, blocks

DDL = "id bigint, text string"


def key(run: str, epoch: int, *, query: str = "query") -> EpochKey:
    return EpochKey(writer="writer", query_id=query, run=run, epoch=epoch, streaming=True)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": each, "text": f"text {each}"} for each in ids],
        schema=pa.schema([("id", pa.int64()), ("text", pa.string())]),
    )


def ids(client: LogClient, topic: str | TopicInfo) -> list[int]:
    return [row for batch in client.read(topic) for row in batch.column("id").to_pylist()]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("epoch", 10**20, f"0 to {2**63 - 2}"),
        ("epoch", 2**63 - 1, f"0 to {2**63 - 2}"),
        ("epoch", -1, f"0 to {2**63 - 2}"),
        ("stream_batch", 2**63, f"0 to {2**63 - 2}"),
        ("writer", "x" * 5000, "has 5000 characters; 1 to 1024"),
        ("run", "", "has 0 characters; 1 to 1024"),
        ("stream", "x" * 1025, "has 1025 characters; 0 to 1024"),
    ],
)
def test_a_key_that_no_topic_accepts_is_refused_with_its_field_and_bounds(
    client: LogClient, name: str, field: str, value: str | int, problem: str
) -> None:
    topic = client.create_topic(name, DDL)
    bad = replace(key("run", 0), **{field: value})
    for call in (client.attempt, client.abort_epoch, partial(client.commit_epoch, attempts=[])):
        with pytest.raises(InvalidOption, match=problem) as raised:
            call(topic, bad)
        assert raised.value.option == f"EpochKey.{field}"


def test_rows_appended_are_read_back_from_every_replica(client: LogClient, name: str) -> None:
    """CHECKLIST 19 (pushed), 23, 68."""
    client.create_topic(name, DDL)
    reply = client.append(name, [{"id": 1, "text": "a"}, {"id": 2, "text": None}])
    assert (reply.start, reply.end) == (0, 2)
    for preference in ("leader", "follower", "nearest"):
        batches = list(client.read(name, preference=preference))
        assert pa.Table.from_batches(batches).to_pylist() == [
            {"id": 1, "text": "a"},
            {"id": 2, "text": None},
        ]


def test_columns_come_in_the_asked_order_with_metadata(client: LogClient, name: str) -> None:
    client.create_topic(name, DDL)
    client.append(name, [{"id": 7, "text": "x"}, {"id": 8, "text": "y"}])
    (batch,) = client.read(name, 1, 2, columns=["_offset", "id", "_topic", "_writer", "_epoch"])
    assert batch.to_pylist() == [
        {"_offset": 1, "id": 8, "_topic": name, "_writer": None, "_epoch": None}
    ]


def test_a_large_table_is_split_into_extents_and_any_range_is_exact(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, DDL)
    count = 50_000
    table = pa.table({"id": range(count), "text": [f"{each:0100d}" for each in range(count)]})
    assert client.append(name, table).end == count
    info = client.describe_topic(name)
    sizes = client.read_sizes(info, 0, count, mark=count, pieces_max=4)
    assert sizes.offsets[0] == 0
    assert sizes.offsets[-1] == count
    assert len(sizes.offsets) > 2
    for start, end in ((0, 1), (9_999, 20_001), (count - 1, count), (5, 5)):
        found = [
            each
            for batch in client.read(info, start, end, columns=["id"])
            for each in batch.column(0).to_pylist()
        ]
        assert found == list(range(start, end))


def test_a_producer_keeps_order_over_many_small_appends(client: LogClient, name: str) -> None:
    client.create_topic(name, DDL)
    with client.producer(name, batch_bytes=1024, max_in_flight=8) as producer:
        for each in range(500):
            producer.append([{"id": each, "text": "x" * 20}])
    assert ids(client, name) == list(range(500))


def test_follow_gives_records_as_they_come(client: LogClient, name: str) -> None:
    client.create_topic(name, DDL)
    client.append(name, [{"id": 0, "text": ""}])
    found: list[int] = []

    def follow() -> None:
        for batch in client.follow(name, 0, columns=["id"], idle_timeout_s=PATIENCE_S):
            found.extend(batch.column(0).to_pylist())
            if len(found) == 2:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    wait_for(lambda: found == [0], "the first record", PATIENCE_S)
    client.append(name, [{"id": 1, "text": ""}])
    wait_for(lambda: found == [0, 1], "the second record", PATIENCE_S)
    follower.join(PATIENCE_S)
    assert not follower.is_alive()


def test_a_read_gives_the_rows_for_which_where_is_true(client: LogClient, name: str) -> None:
    topic = client.create_topic(name, "id bigint not null, text string")
    client.append(name, [{"id": each, "text": None if each % 3 else "x"} for each in range(6)])
    late = raftlog.And(
        parts=(
            raftlog.Compare(column="_offset", operator=">=", value=1),
            raftlog.Not(part=raftlog.IsNull(column="text")),
        )
    )
    for where in ("_offset >= 1 AND text IS NOT NULL", late):
        assert client.read(name, columns=["id"], where=where).to_table().to_pydict() == {"id": [3]}
    found = client.read(topic, where="text <> 'y'")
    assert found.schema == topic.schema.to_arrow() == found.to_table().schema
    assert client.read(topic, where="id > 9").to_table().num_rows == 0
    frame = client.read(topic, columns=["text", "_offset"], where="id < 2").to_pandas()
    assert frame.to_dict("list") == {"text": ["x", None], "_offset": [0, 1]}
    for wrong in ("nope = 1", "id =", 5):
        with pytest.raises(InvalidOption) as refused:
            client.read(topic, where=wrong)
        assert refused.value.option == "where"


@pytest.mark.parametrize("group", [None, "closed"])
def test_another_thread_ends_a_follow_that_waits(
    client: LogClient, name: str, group: str | None
) -> None:
    topic = client.create_topic(name, DDL)
    client.append(name, rows(0, 1))
    begin = {"start": 0} if group is None else {"group": group}
    following = client.follow(topic, columns=["id"], where="id > 0", **begin)
    found: list[int] = []

    def follow() -> None:
        for batch in following:
            found.extend(batch.column("id").to_pylist())

    follower = threading.Thread(target=follow)
    follower.start()
    wait_for(lambda: found == [1], "the record", PATIENCE_S)
    first = following._reader._awaited
    wait_for(lambda: following._reader._awaited is not first, "the wait for more", PATIENCE_S)
    following.close()
    follower.join(PATIENCE_S)
    assert not follower.is_alive()
    assert following._reader._awaited.future.cancelled(), "nothing waits until its time has passed"
    assert next(following, None) is None
    with pytest.raises(NodeUnreachable, match="cancelled"):  # and no other node is asked
        following._reader.wait(Offset(3), 1.0)
    if isinstance(following, raftlog.GroupReader):
        assert following.commit().offset == 2, "what where leaves out counts as taken"


def test_a_read_that_was_closed_asks_no_node_again(client: LogClient, name: str) -> None:
    topic = client.create_topic(name, DDL)
    client.append(topic, rows(1))
    with client.read(topic) as found:
        pass
    assert list(found) == []


def test_a_data_frame_makes_a_topic_and_comes_back(client: LogClient, name: str) -> None:
    frame = pd.DataFrame({"id": [1, 2], "text": ["a", None]}, index=[5, 6])
    client.create_topic(name, frame)
    client.append(name, frame)
    client.append(name, frame[["id"]])
    pd.testing.assert_frame_equal(
        client.read(name).to_pandas(),
        pd.DataFrame({"id": [1, 2, 1, 2], "text": ["a", None, None, None]}),
    )


def test_the_page_for_python_runs_as_printed(
    shared: ProcessCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "".join(blocks(ROOT / "docs" / "PYTHON.md", "python"))
    program = tmp_path / "page.py"
    program.write_text(code.replace("connect()", f"connect({shared.servers!r})"))
    runpy.run_path(str(program))
    late, followed = capsys.readouterr().out.split("\n", 1)[1].split("\n", 1)
    assert late.split()[:3] == ["0", "AA", "0"]
    assert "UA" in followed


def test_an_epoch_is_invisible_until_committed_then_whole(client: LogClient, name: str) -> None:
    """CHECKLIST 23."""
    topic = client.create_topic(name, DDL)
    run = uuid.uuid4().hex
    first = client.attempt(topic, key(run, 0))
    second = client.attempt(topic, key(run, 0))
    losing = client.attempt(topic, key(run, 0))
    first.write(rows(1, 2))
    second.write(rows(3))
    losing.write(rows(9))
    references = [first.finish(), second.finish()]
    assert losing.finish() is not None
    assert client.read_high_water_mark(topic).high_water_mark == 0
    assert client.watermark(topic).open_epochs == 1
    reply = client.commit_epoch(topic, key(run, 0), references)
    assert (reply.start, reply.end, reply.replayed) == (0, 3, False)
    assert ids(client, topic) == [1, 2, 3]
    again = client.commit_epoch(topic, key(run, 0), references)
    assert again.replayed
    assert ids(client, topic) == [1, 2, 3]


def test_a_replay_by_another_run_changes_nothing_and_old_runs_are_fenced(
    client: LogClient, name: str
) -> None:
    """docs/EXACTLY_ONCE.md, rules 3 and 5."""
    topic = client.create_topic(name, DDL)
    old, new = uuid.uuid4().hex, uuid.uuid4().hex
    attempt = client.attempt(topic, key(old, 0))
    attempt.write(rows(1, 2))
    client.commit_epoch(topic, key(old, 0), [attempt.finish()])
    attempt = client.attempt(topic, key(new, 0))
    attempt.write(rows(1, 2))
    assert client.commit_epoch(topic, key(new, 0), [attempt.finish()]).replayed
    zombie = client.attempt(topic, key(old, 1))
    zombie.write(rows(3))
    with pytest.raises(RunFenced, match=new):
        zombie.finish()
    with pytest.raises(CheckpointReset):
        client.commit_epoch(topic, key(uuid.uuid4().hex, 0, query="another"), [])
    assert ids(client, topic) == [1, 2]


def test_an_aborted_epoch_takes_no_offset(client: LogClient, name: str) -> None:
    topic = client.create_topic(name, DDL)
    run = uuid.uuid4().hex
    attempt = client.attempt(topic, key(run, 0))
    attempt.write(rows(1))
    attempt.finish()
    assert client.abort_epoch(topic, key(run, 0)) == 1
    assert client.append(name, [{"id": 5, "text": ""}]).start == 0


def test_topics_are_created_once_and_listed(client: LogClient, name: str) -> None:
    topic = client.create_topic(name, DDL)
    assert client.create_topic(name, "other int", if_not_exists=True) == topic
    with pytest.raises(TopicExists):
        client.create_topic(name, DDL)
    assert name in [each.name for each in client.list_topics()]


def test_a_recreated_topic_is_told_from_its_former_incarnation(
    client: LogClient, name: str
) -> None:
    former = client.create_topic(name, DDL)
    client.append(name, [{"id": 1, "text": "former"}])
    client.delete_topic(name)
    with pytest.raises(TopicNotFound):
        client.describe_topic(name)
    latter = client.create_topic(name, DDL)
    assert latter.incarnation != former.incarnation
    for use in (
        lambda: list(client.read(former)),
        lambda: client.append(former, [{"id": 2, "text": "former"}]),
        lambda: client.describe_topic(former),
        lambda: client.delete_topic(former),
    ):
        with pytest.raises(TopicRecreated):
            use()
    assert ids(client, latter) == []
    assert client.append(name, [{"id": 3, "text": "latter"}]).end == 1, "a name is the latter's"
    assert client.append(latter, [{"id": 4, "text": "latter"}]).end == 2
    assert client.read_high_water_mark(name).high_water_mark == 2
    client.close()


def test_marks_of_many_topics_come_in_order_with_those_that_are_gone(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    topics = [client.create_topic(f"{name}-{each:02}", DDL) for each in range(IN_FLIGHT_MAX + 4)]
    for count, topic in enumerate(topics[:4]):
        client.append(topic, rows(*range(count + 1)))
    gone = client.create_topic(f"{name}-gone", DDL)
    client.delete_topic(gone)
    with shared.client() as other:  # which knows no leader yet
        for _ in range(2):
            *marks, last, unknown = other.read_high_water_marks([*topics, gone, f"{name}-unknown"])
            assert [mark.high_water_mark for mark in marks if isinstance(mark, ReadableRange)] == [
                *range(1, 5),
                *(0 for _ in topics[4:]),
            ]
            assert isinstance(last, TopicRecreated | TopicNotFound)
            assert isinstance(unknown, TopicNotFound)


def test_the_watermark_tells_every_replicas_lag(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    """CHECKLIST 24."""
    client.create_topic(name, DDL)
    client.append(name, [{"id": 1, "text": ""}])
    shared.wait_caught_up(client, name)
    wait_for(lambda: client.watermark(name).leader in (1, 2, 3), "a leader to be known", PATIENCE_S)
    wait_for(
        lambda: [each.high_water_mark for each in client.watermark(name).replicas] == [1, 1, 1],
        "every replica to serve the record",
        PATIENCE_S,
    )


def test_no_server_at_all_is_an_error_that_says_how_to_start_one() -> None:
    with (
        raftlog.connect("127.0.0.1:9", request_timeout_s=0.5) as client,
        pytest.raises(Exception, match="raftlog up") as caught,
    ):
        client.list_topics()
    assert "127.0.0.1:9" in str(caught.value)
    assert not isinstance(caught.value, NodeUnreachable)


def test_a_closed_producer_takes_nothing(client: LogClient, name: str) -> None:
    client.create_topic(name, DDL)
    with client.producer(name) as producer:
        producer.append([{"id": 1, "text": ""}])
    with pytest.raises(ProducerClosed, match=name):
        producer.append([{"id": 2, "text": ""}])
    assert ids(client, name) == [1]


def test_what_is_no_rows_is_refused_with_the_valid_forms(client: LogClient, name: str) -> None:
    client.create_topic(name, DDL)
    for wrong in ({"id": 1}, [(1, "a")], [1], None, 5, object()):
        with pytest.raises(InvalidOption, match="list of mappings"):
            client.append(name, wrong)
    with pytest.raises(InvalidOption, match="is -3"):
        list(client.read(name, -3))
    client.append(name, ({"id": each, "text": ""} for each in range(3)))
    assert ids(client, name) == [0, 1, 2]


def test_a_batch_whose_bytes_are_not_as_described_never_reaches_the_log(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    """CRC-32C from client to disk: readers could not read it, and it would be there for ever."""
    topic = client.create_topic(name, DDL)
    batch = encode_batch(conform(rows(*range(500)), topic.schema, name), topic.schema, "none")
    body = bytearray(batch.body)
    body[len(body) // 2] ^= 1
    columns = batch.header.columns
    wrong = [
        (batch.header, batch.crc, bytes(body)),
        (batch.header, batch.crc ^ 1, batch.body),
        (batch.header, batch.crc, batch.body[:-1]),
        (replace(batch.header, record_count=0), batch.crc, batch.body),
        (replace(batch.header, columns=columns[:1]), batch.crc, batch.body),
        (replace(batch.header, columns=columns[::-1]), batch.crc, batch.body),
        (replace(batch.header, schema_version=2), batch.crc, batch.body),
    ]

    def refusal(request: bytes) -> RaftlogError:
        leader = shared.servers.split(",")[leader_of(client, name) - 1]
        with grpc.insecure_channel(leader) as channel:
            answer = channel.unary_stream(f"/{SERVICE}/Append")(request, timeout=PATIENCE_S)
            with pytest.raises(grpc.RpcError) as caught:
                list(answer)
            return typed_error(leader, caught.value)

    for header, crc, sent in wrong:
        call = AppendCall(
            group=topic.group,
            incarnation=topic.incarnation,
            producer=uuid.uuid4().hex,
            sequence=0,
            batch=header,
            crc=crc,
        )
        request = encode_request(APPEND, call, sent)
        said: list[RaftlogError] = []

        def is_judged(request: bytes = request, said: list[RaftlogError] = said) -> bool:
            """Another node may have been elected meanwhile."""
            said.append(refusal(request))
            return not isinstance(said[-1], NotLeader)

        wait_for(is_judged, "the leader's answer", PATIENCE_S)
        assert isinstance(said[-1], MalformedRequest | SchemaMismatch | UnknownSchemaVersion)
    assert client.read_high_water_mark(topic).high_water_mark == 0


def test_every_node_answers_the_standard_health_check(shared: ProcessCluster) -> None:
    for address in shared.servers.split(","):
        with grpc.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", SERVICE):
                asked = health_pb2.HealthCheckRequest(service=service)
                answer = health.Check(asked, timeout=PATIENCE_S)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_closing_a_client_flushes_its_producers_and_ends_its_follows(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    other = f"{name}-gone"
    client.create_topic(name, DDL)
    closed = shared.client()
    gone = closed.producer(client.create_topic(other, DDL), linger_s=60)
    gone.append([{"id": 1}])
    client.delete_topic(other)
    producers = [closed.producer(name, linger_s=60) for _ in range(3)]
    for producer in producers:
        producer.append([{"id": 1}])
    following = closed.follow(name, 3)
    ended: list[RaftlogError] = []

    def follow() -> None:
        try:
            next(following)
        except RaftlogError as error:
            ended.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    wait_for(lambda: following._reader._awaited is not None, "the wait", PATIENCE_S)
    with pytest.raises(TopicRecreated):
        closed.close()
    assert ids(client, name) == [1, 1, 1]
    follower.join(PATIENCE_S)
    assert [type(each) for each in ended] == [ClientClosed]
    for producer in producers:
        with pytest.raises(ProducerClosed, match="its client was closed"):
            producer.append([{"id": 2}])
        producer.close()
    with pytest.raises(ProducerClosed, match="it failed before"):
        gone.append([{"id": 2}])


def test_a_client_whose_block_ends_with_an_error_drops_what_was_not_sent(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    client.create_topic(name, DDL)
    closed = shared.client()
    producer = closed.producer(name, linger_s=60)

    def append() -> None:
        with closed:
            producer.append([{"id": 1}])
            raise KeyError

    with pytest.raises(KeyError):
        append()
    with pytest.raises(ProducerClosed, match="ended with an error"):
        producer.flush()
    assert ids(client, name) == []


def test_a_client_that_was_closed_writes_nothing_more(shared: ProcessCluster, name: str) -> None:
    with shared.client() as client:
        topic = client.create_topic(name, DDL)
        client.append(name, [{"id": 1}])
        client.close()
        for call in (
            lambda: client.append(name, [{"id": 2}]),
            lambda: client.read_high_water_mark(topic),
        ):
            with pytest.raises(ClientClosed):
                call()
    with shared.client() as another:
        assert another.read_high_water_mark(topic).high_water_mark == 1
