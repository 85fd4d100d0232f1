"""Producers whose cluster falls silent, and those of a process that forks: nothing is reported as
written that is not, and every thread gets an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.errors import (
    DeadlineExceeded,
    ProducerClosed,
    RaftlogError,
    SchemaMismatch,
    SequenceReused,
    TooLarge,
    TopicRecreated,
    UnknownProducer,
)
from raftlog.machines.limits import PRODUCER_APPENDS_KEPT
from raftlog.wire.calls import APPEND, AppendCall
from tests.cluster.row_by_row import row_by_row

DDL = "id bigint not null"
TIMEOUT_S = 10.0
"""The deadline of a client whose node hangs; other requests take less."""
THREADS = 8

FORKED = """
import json, os, sys, threading
import raftlog
client = raftlog.connect(sys.argv[1])
topic = client.create_topic("forked", "id bigint")
client.append("forked", [{"id": 0}])
producer = client.producer("forked", linger_s=60)
producer.append([{"id": 1}])
client._shared_producers._lock.acquire()  # as another thread may at the moment of a fork
child = os.fork()
if child == 0:
    said = [list(reply) for reply in map(
        lambda _: (lambda r: (r.start, r.end, r.repeated))(client.append("forked", [{"id": 9}])),
        range(3))]
    for call in (producer.flush, producer.close, lambda: producer.append([{"id": 2}])):
        try:
            said.append(call())
        except raftlog.RaftlogError as error:
            said.append(str(error))
    print(json.dumps(said), flush=True)
    os._exit(0)
client._shared_producers._lock.release()
assert os.waitpid(child, 0)[1] == 0
for _ in range(3):
    client.append("forked", [{"id": 9}])
producer.close()
"""


LEFT_OPEN = """
import sys, threading
import raftlog
client = raftlog.connect(sys.argv[1])
waiting = client.producer("left-open", linger_s=60)
waiting.append([{"id": 1}])
closed = client.producer("left-open", linger_s=60)

def append() -> None:
    threading.main_thread().join()
    closed.append([{"id": 2}])
    closed.close()

threading.Thread(target=append).start()
"""


@pytest.fixture(scope="module")
def cluster(lone: ProcessCluster) -> ProcessCluster:
    return lone


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


@pytest.fixture
def hasty(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client(request_timeout_s=TIMEOUT_S) as connected:
        yield connected


def ids(cluster: ProcessCluster, topic: str) -> list[int]:
    with cluster.client() as client:
        return [each for batch in client.read(topic) for each in batch.column("id").to_pylist()]


def test_a_forked_child_writes_as_itself_and_leaves_its_parents_producers_alone(
    cluster: ProcessCluster,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, cluster.servers],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    *appended, flushed, closed, more = json.loads(ended.stdout.splitlines()[-1])
    assert len({start for start, _, _ in appended}) == 3
    assert not any(repeated for *_, repeated in appended)
    for refusal in (flushed, closed, more):
        assert "'forked' takes no more rows: it belongs to the process that this one" in refusal
    assert sorted(ids(cluster, "forked")) == [0, 1, *[9] * 6]


def test_rows_are_sent_by_time_and_the_thread_ends_with_the_last_reply(
    cluster: ProcessCluster, client: LogClient
) -> None:
    client.create_topic("lingering", DDL)
    soon, at_once = client.producer("lingering"), client.producer("lingering", linger_s=0)
    later = client.producer("lingering", linger_s=60)
    for number, producer in enumerate((soon, at_once, later)):
        producer.append([{"id": number}])
    wait_for(lambda: sorted(ids(cluster, "lingering")) == [0, 1], "rows by time", PATIENCE_S)
    wait_for(lambda: soon.acknowledged == at_once.acknowledged == 1, "the replies", PATIENCE_S)
    assert later.acknowledged == 0
    later.close()
    wait_for(
        lambda: "raftlog-producer" not in {each.name for each in threading.enumerate()},
        "the threads to end",
        PATIENCE_S,
    )
    soon.append([{"id": 3}])
    wait_for(lambda: soon.acknowledged == 2, "another thread", PATIENCE_S)


def test_an_error_between_two_calls_is_raised_by_the_next_one(
    client: LogClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = client.create_topic("gone", DDL)
    producer = client.producer(topic)
    client.delete_topic(topic)
    producer.append([{"id": 1}])
    wait_for(lambda: "producer of topic gone failed" in caplog.text, "the error", PATIENCE_S)
    with pytest.raises(TopicRecreated):
        producer.flush()
    for call in (producer.close, lambda: producer.append([{"id": 2}])):
        with pytest.raises(ProducerClosed, match="it failed before"):
            call()


@pytest.mark.parametrize("bad", [{"id": None}, {"id": 2, "at": {"x": None}}])
def test_a_null_where_the_topic_allows_none_names_its_row(
    client: LogClient, bad: dict[str, Any]
) -> None:
    ddl = "id bigint not null, at struct<x: bigint not null>"
    topic = client.create_topic("nulls", ddl, if_not_exists=True)
    given = [{"id": 1, "at": {"x": 1}}, {"id": 1}, {"id": 1}, bad]
    loose = pa.schema([("id", pa.int64()), ("at", pa.struct([("x", pa.int64())]))])
    chunks = pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(part, loose) for part in (given[:2], given[2:])]
    )
    for data in (given, chunks):
        with pytest.raises(SchemaMismatch, match="none, in row 3, counted from 0") as caught:
            client.append(topic, data)
        assert caught.value.rows == (3,)


def test_a_row_that_is_too_large_is_left_out_and_all_others_are_written_once(
    cluster: ProcessCluster, client: LogClient
) -> None:
    client.create_topic("large-rows", "id bigint, text string")
    text = os.urandom(5 << 20).hex()
    large = {"id": -1, "text": text}
    producer = client.producer("large-rows", linger_s=60, batch_bytes=1024)
    with pytest.raises(
        TooLarge, match="Row 2 of the producer, counted from 0, like row 4, has"
    ) as both:
        producer.append([{"id": 0}, {"id": 1}, large, {"id": 2}, large, {"id": 3}])
    assert both.value.rows == (2, 4)
    assert producer.flush() == producer.acknowledged == 4
    for rows, end in (([large], 4), ([{"id": 4}, large, {"id": 5}], 6)):
        with pytest.raises(TooLarge, match=f"Row {len(rows) // 2} of this call") as caught:
            producer.append_and_flush(rows)
        assert producer.may_have_taken(caught.value) == (end > 4)
        assert producer.flush() == end
    producer.append([{"id": 6}])
    with pytest.raises(TooLarge, match="Row 11 of the producer"):
        producer.append([large, {"id": 7}])
    producer.close()
    assert ids(cluster, "large-rows") == list(range(8))


def test_a_block_that_ends_with_an_error_drops_what_was_not_sent(
    cluster: ProcessCluster, client: LogClient
) -> None:
    client.create_topic("broken-off", DDL)
    producer = client.producer("broken-off", linger_s=60)

    def append() -> None:
        with producer:
            producer.append([{"id": 1}])
            raise KeyError

    with pytest.raises(KeyError):
        append()
    with pytest.raises(ProducerClosed, match="ended with an error"):
        producer.flush()
    assert ids(cluster, "broken-off") == []


def test_the_interpreter_exits_once_the_rows_are_acknowledged_and_says_of_which_topic(
    cluster: ProcessCluster, client: LogClient
) -> None:
    """A thread that appends after the main thread has ended closes its producer in time."""
    client.create_topic("left-open", DDL)
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, cluster.servers],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert ended.stderr.count("producer of topic left-open are acknowledged") == 1
    assert "Close the producer" in ended.stderr
    assert sorted(ids(cluster, "left-open")) == [1, 2]


def test_a_producer_that_failed_never_says_that_what_it_took_is_written(
    cluster: ProcessCluster, client: LogClient, hasty: LogClient
) -> None:
    client.create_topic("failed", DDL)
    producer = row_by_row(hasty, "failed")
    producer.append([{"id": 0}])
    producer.flush()
    cluster.pause(1)
    for number in range(1, 4):
        producer.append([{"id": number}])
    with pytest.raises(DeadlineExceeded):
        producer.flush()
    cluster.resume(1)
    for call in (producer.flush, producer.close, lambda: producer.append([{"id": 4}])):
        with pytest.raises(ProducerClosed, match=r"it failed before \(Append was not done"):
            call()
    client.append("failed", [{"id": 5}])
    found = ids(cluster, "failed")
    assert found[0] == 0
    assert found[-1] == 5
    assert len(found) == len(set(found))


def test_rows_are_taken_wholly_or_not_at_all(cluster: ProcessCluster, client: LogClient) -> None:
    import pyarrow as pa

    client.create_topic("whole", DDL)
    table = pa.table({"id": pa.chunked_array([[1, 2], [3, None]], pa.int64())})
    with row_by_row(client, "whole") as producer:
        with pytest.raises(SchemaMismatch, match="null"):
            producer.append(table)
        producer.append([{"id": 4}])
    assert ids(cluster, "whole") == [4]


def test_threads_that_append_to_a_node_that_hangs_all_get_the_deadline_and_go_on_after_it(
    cluster: ProcessCluster, client: LogClient, hasty: LogClient
) -> None:
    client.create_topic("threads", DDL)
    hasty.append("threads", [{"id": -1}])

    def append(number: int) -> RaftlogError | None:
        try:
            hasty.append("threads", [{"id": number}])
        except RaftlogError as error:
            return error
        return None

    cluster.pause(1)
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(append, range(THREADS)))
    cluster.resume(1)
    assert all(isinstance(answer, DeadlineExceeded) for answer in answers), answers
    client.append("threads", [{"id": -2}])  # the node has to wake up first
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(append, range(100, 100 + THREADS))) == [None] * THREADS
    found = ids(cluster, "threads")
    assert len(found) == len(set(found))
    assert {*range(100, 100 + THREADS)} <= {*found}


def test_a_follower_of_a_topic_is_told_when_no_node_answers(
    cluster: ProcessCluster, client: LogClient, hasty: LogClient
) -> None:
    topic = client.create_topic("followed", DDL)
    client.append("followed", [{"id": 0}])
    rows = hasty.follow(topic, 0, idle_timeout_s=0.5)
    assert next(rows).num_rows == 1
    client.append("followed", [{"id": 1}])
    cluster.pause(1)
    with pytest.raises(DeadlineExceeded, match="ReadHighWaterMark"):
        list(rows)
    cluster.resume(1)
    assert [batch.num_rows for batch in client.follow(topic, 1, idle_timeout_s=0.5)] == [1]


LEASE_S = 1
"""The least that a lease may be."""


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """A node that forgets a producer soon."""
    settings = [f"topic.producer_lease_s={LEASE_S}", "topic.lease_check_s=0.1"]
    data = tmp_path_factory.mktemp("forgetful") / "data"
    with ProcessCluster.start(data, nodes=1, settings=settings) as running:
        yield running


def forget_all(cluster: ProcessCluster, topic: str) -> None:
    """Return once the log has forgotten every producer that appended before.

    One producer resends its first append to find out: while the log knows the producer, that is a
    repeat; then it is refused, because it would look like a new producer's first.
    """
    with cluster.client() as client:
        told = client.producer(topic)
        calls: list[tuple[AppendCall, bytes]] = []
        [batch] = told._conformed([{"id": -1}])
        for encoded in (*told._buffer.add(batch), *told._buffer.flush()):
            calls.append((told._call(encoded), encoded.body))
        [(call, body)] = calls
        deadline_s = time.monotonic() + PATIENCE_S

        def is_known() -> bool:
            try:
                reply = client._connection.call_leader(told.topic.group, APPEND, call, body)
            except UnknownProducer:
                return False
            return bool(reply.repeated)

        assert not is_known()
        pause = threading.Event()
        while is_known():
            assert time.monotonic() < deadline_s, "the producer is never forgotten"
            pause.wait(0.05)


def idle_soon(cluster: ProcessCluster) -> LogClient:
    """A client whose producers count as idle after the shortest silence."""
    settings = load().client.model_copy(
        update={"bootstrap_servers": cluster.servers, "producer_idle_max_s": LEASE_S / 10}
    )
    return connect(settings=settings)


def test_a_client_continues_after_a_silence_longer_than_its_producers_lease(
    forgetful: ProcessCluster,
) -> None:
    with idle_soon(forgetful) as client:
        client.create_topic("silent", DDL)
        own = client.producer("silent")
        own.append([{"id": 0}])
        own.flush()
        client.append("silent", [{"id": 1}])
        forget_all(forgetful, "silent")
        reply = client.append("silent", [{"id": 2}])
        assert reply.end - reply.start == 1
        own.append([{"id": 3}])
        own.close()
        assert own.acknowledged == 2
    assert [each for each in ids(forgetful, "silent") if each >= 0] == [0, 1, 2, 3]


def test_an_append_of_unknown_fate_is_reported_and_no_new_producer_takes_over(
    forgetful: ProcessCluster,
) -> None:
    with idle_soon(forgetful) as client:
        client.create_topic("doubt", DDL)
        producer = row_by_row(client, "doubt")
        producer.append([{"id": 0}])
        producer.flush()
        for batch in producer._conformed([{"id": 1}]):
            producer._send(producer._buffer.add(batch), None)  # and its answer is never read
        forget_all(forgetful, "doubt")
        producer.append([{"id": 2}])
        with pytest.raises(UnknownProducer, match="it is not known whether"):
            producer.flush()
        assert producer.acknowledged == 2
    assert [each for each in ids(forgetful, "doubt") if each >= 0] == [0, 1]


def test_rows_that_the_log_took_for_a_resend_are_not_reported_as_written(
    client: LogClient,
) -> None:
    """Another producer under the same id is further than the log can compare."""
    client.create_topic("hijacked", DDL)
    mine, other = client.producer("hijacked"), client.producer("hijacked")
    mine.append_and_flush([{"id": 0}])
    for name in ("_producer", "_sequence", "_sent_at_s"):
        setattr(other, name, getattr(mine, name))
    for number in range(PRODUCER_APPENDS_KEPT + 1):
        other.append_and_flush([{"id": number}])
    with pytest.raises(SequenceReused):
        mine.append_and_flush([{"id": 777}])
    with pytest.raises(ProducerClosed):
        mine.append_and_flush([{"id": 778}])
