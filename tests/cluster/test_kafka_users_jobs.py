"""What users of Kafka's Python clients do in their first weeks, each job in its shortest form."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import raftlog
from raftlog import EpochCommitted, EpochKey
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.errors import (
    DeadlineExceeded,
    EpochContentMismatch,
    InvalidOption,
    OffsetTrimmed,
    PositionMoved,
    ProducerClosed,
    SchemaMismatch,
)
from tests.cli.command import run

MESSAGES = "key string, value binary, headers array<struct<key: string, value: binary>>"

FORKED_WORKERS = """
import multiprocessing, sys, raftlog

with raftlog.connect(sys.argv[1]) as client:
    end = client.read_high_water_mark("shared-out").high_water_mark

    def count(part):
        return client.read("shared-out", end * part // 3, end * (part + 1) // 3).to_table().num_rows

    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(count, range(3)))
"""


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [row["n"] for row in rows(batches)]


def test_a_message_comes_back_with_key_headers_offset_and_time(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, MESSAGES)
    headers = [{"key": "trace", "value": b"\x00\xff"}]
    before = datetime.now(UTC)
    sent = client.append(name, [{"key": "k", "value": b"v", "headers": headers}, {"key": "gone"}])
    found = client.read(name, columns=["key", "value", "headers", "_offset", "_timestamp"])
    first, tombstone = rows(found)
    assert abs(first.pop("_timestamp") - before).total_seconds() < 600
    assert first == {"key": "k", "value": b"v", "headers": headers, "_offset": sent.start}
    assert (tombstone["value"], tombstone["headers"]) == (None, None)


def test_threads_that_share_a_producer_keep_the_order_of_each(client: LogClient, name: str) -> None:
    client.create_topic(name, "thread int, n int")
    with client.producer(name) as producer, ThreadPoolExecutor(4) as threads:

        def produce(thread: int) -> None:
            for n in range(50):
                producer.append([{"thread": thread, "n": n}])

        list(threads.map(produce, range(4)))
        assert producer.flush() == producer.acknowledged == 200
    for thread in range(4):
        assert numbers(client.read(name, where=f"thread = {thread}")) == list(range(50))


def test_rows_are_sent_if_a_script_ends_with_sys_exit_inside_its_block(
    shared: ProcessCluster, client: LogClient, name: str
) -> None:
    """As a handler of SIGTERM does, which ends a service."""
    other = client.create_topic(f"{name}-other", "n int")
    client.create_topic(name, "n int")

    leaving = shared.client()
    open_one = leaving.producer(name, linger_s=60)

    def serve() -> None:
        with leaving:
            open_one.append([{"n": 1}])
            with leaving.producer(name, linger_s=60) as producer:
                producer.append([{"n": 2}])
                with leaving.producer(other) as failed:
                    with pytest.raises(DeadlineExceeded):
                        failed.append_and_flush([{"n": 3}], timeout_s=0)
                    sys.exit(5)

    with pytest.raises(SystemExit, match="5"):
        serve()
    with pytest.raises(ProducerClosed, match="its client was closed"):
        open_one.append([{"n": 4}])
    assert sorted(numbers(client.read(name))) == [1, 2]


def test_a_transaction_over_two_topics_takes_rows_as_a_producer_does(
    client: LogClient, name: str
) -> None:
    topics = [client.create_topic(f"{name}-{each}", "n int") for each in ("debit", "credit")]
    key = EpochKey(writer="bank", query_id="bank", run=uuid.uuid4().hex, epoch=0, streaming=False)
    attempts = [client.attempt(topic, key) for topic in topics]
    for n, attempt in enumerate(attempts):
        with pytest.raises(SchemaMismatch):
            attempt.write([{"n": 5}, {"n": "six"}])
        attempt.write([{"n": n}])
    staged = [attempt.finish() for attempt in attempts]
    assert [numbers(client.read(topic)) for topic in topics] == [[], []]
    for topic, reference in zip(topics, staged, strict=True):
        assert reference is not None
        for replayed in (False, True):
            assert client.commit_epoch(topic, key, [reference]).replayed == replayed
    assert [numbers(client.read(topic)) for topic in topics] == [[0], [1]]


def test_one_reader_shares_its_records_out_to_threads_by_key(client: LogClient, name: str) -> None:
    client.create_topic(name, "key string, n int")
    client.append(name, [{"key": f"user-{n % 5}", "n": n} for n in range(50)])
    workers = [ThreadPoolExecutor(1) for _ in range(3)]
    done: dict[str, list[int]] = {}
    reader = client.follow(name, group=name, idle_timeout_s=0)
    for batch in reader:
        given = [
            workers[zlib.crc32(row["key"].encode()) % 3].submit(
                done.setdefault(row["key"], []).append, row["n"]
            )
            for row in batch.to_pylist()
        ]
        for each in given:
            each.result()
        reader.commit()
    assert done == {f"user-{user}": list(range(user, 50, 5)) for user in range(5)}
    assert client.positions.lag(name)[0].records_behind == 0


def test_a_standby_continues_after_the_last_record_that_a_dead_member_committed(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "n int")
    client.append(name, [{"n": n} for n in range(10)])
    given = {"columns": ["n", "_offset"], "where": "n >= 4", "idle_timeout_s": 0}
    dying = client.follow(name, group=name, **given)
    for row in next(dying).to_pylist():
        dying.commit(row["_offset"] + 1)
        if row["n"] == 6:
            break
    standby = client.follow(name, group=name, **given)
    assert numbers(standby) == [7, 8, 9]
    standby.commit()
    with pytest.raises(PositionMoved, match="to offset 10"):
        dying.commit()


def test_topics_of_a_pattern_are_read_under_one_group(client: LogClient, name: str) -> None:
    for kind in ("cpu", "memory"):
        client.append(client.create_topic(f"{name}-{kind}", "n int"), [{"n": 1}])
    wanted = [topic for topic in client.list_topics() if re.fullmatch(f"{name}-.*", topic.name)]
    for reader in [client.follow(topic, group=name, idle_timeout_s=0) for topic in wanted]:
        assert numbers(reader) == [1]
        reader.commit()
    lags = client.positions.lag(name)
    assert {lag.position.topic: lag.records_behind for lag in lags} == {
        f"{name}-cpu": 0,
        f"{name}-memory": 0,
    }


def test_what_cannot_be_processed_goes_to_a_dead_letter_topic(client: LogClient, name: str) -> None:
    client.create_topic(name, "value binary")
    good = client.create_topic(f"{name}-good", "n int")
    dead = client.create_topic(f"{name}-dead", "value binary, error string, source_offset bigint")
    values = [b'{"n": 1}', b"{oops", b'{"n": "two"}', b"\xff\xfe", None, b'{"n": 6}']
    client.append(name, [{"value": value} for value in values])
    reader = client.follow(name, group=name, columns=["value", "_offset"], idle_timeout_s=0)
    with client.producer(good) as results, client.producer(dead) as letters:
        for row in rows(reader):
            try:
                results.append([json.loads(row["value"])])
            except (ValueError, TypeError, SchemaMismatch) as error:
                letter = {"error": type(error).__name__, "source_offset": row["_offset"]}
                letters.append([{"value": row["value"], **letter}])
        results.flush()
        letters.flush()
    reader.commit()
    assert numbers(client.read(good)) == [1, 6]
    assert [(row["value"], row["source_offset"]) for row in rows(client.read(dead))] == [
        (values[offset], offset) for offset in (1, 2, 3, 4)
    ]


def test_a_read_begins_at_a_time_or_at_the_end(client: LogClient, name: str) -> None:
    client.create_topic(name, "n int")
    client.append(name, [{"n": 0}])
    [first] = rows(client.read(name, columns=["_timestamp"]))
    wait_for(lambda: datetime.now(UTC) > first["_timestamp"], "the clock", PATIENCE_S)
    new = client.follow(name, idle_timeout_s=0)
    client.append(name, [{"n": 1}, {"n": 2}])
    [*_, last] = rows(client.read(name, columns=["_timestamp"]))
    assert numbers(new) == [1, 2], "what came after the call, though nothing had been taken"
    assert client.find_offset(name, first["_timestamp"]) == 0
    since = client.find_offset(name, last["_timestamp"])
    assert numbers(client.follow(name, since, idle_timeout_s=0)) == [1, 2]
    end = client.read_high_water_mark(name).high_water_mark
    assert numbers(client.read(name, end - 1)) == [2]


@pytest.mark.parametrize("group", [None, "polling"])
def test_a_reader_that_found_nothing_is_polled_again(
    client: LogClient, name: str, group: str | None
) -> None:
    client.create_topic(name, "n int")
    begin: dict[str, Any] = {"start": 0} if group is None else {"group": group}
    reader = client.follow(name, idle_timeout_s=0, **begin)
    for n in range(3):
        assert next(reader, None) is None
        client.append(name, [{"n": n}])
        assert numbers(reader) == [n]
    reader.close()
    client.append(name, [{"n": 3}])
    assert next(reader, None) is None


def test_the_latest_value_of_each_key_is_kept_up_by_reading_on(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "key string not null, value string")
    client.append(
        name, [{"key": f"u{n % 3}", "value": f"v{n}"} for n in range(9)] + [{"key": "u1"}]
    )
    table: dict[str, str] = {}
    changes = client.follow(name, 0, idle_timeout_s=0)

    def read_on() -> dict[str, str]:
        for row in rows(changes):
            if row["value"] is None:
                table.pop(row["key"], None)
            else:
                table[row["key"]] = row["value"]
        return table

    assert read_on() == {"u0": "v6", "u2": "v8"}
    client.append(name, [{"key": "u1", "value": "back"}])
    assert read_on() == {"u0": "v6", "u1": "back", "u2": "v8"}


def test_a_consumer_meets_a_wider_column_and_continues_after_it_follows_again(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "n int")
    client.append(name, [{"n": 1}])
    reader = client.follow(name, group=name, idle_timeout_s=0)
    alone = client.follow(name, 0, idle_timeout_s=0)
    assert numbers(reader) == numbers(alone) == [1]
    reader.commit()
    client.alter_schema(name, add="country string", types="n bigint")
    client.append(name, [{"n": 2}])
    assert numbers(reader) == numbers(alone) == [2], "as long as the values fit"
    client.append(name, [{"n": 2**40, "country": "DE"}])
    for each in (reader, alone, reader, alone):
        with pytest.raises(SchemaMismatch, match="altered since the read began"):
            next(each)
    assert reader.commit().offset == 2
    again = client.follow(name, group=name, idle_timeout_s=0)
    assert rows(again) == [{"n": 2**40, "country": "DE"}]


def test_coroutines_append_side_by_side_and_a_reader_task_ends_at_shutdown(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "n int")
    reader = client.follow(name, group=name)
    found: list[int] = []

    async def consume() -> None:
        while (batch := await asyncio.to_thread(next, reader, None)) is not None:
            found.extend(batch.column("n").to_pylist())
            await asyncio.to_thread(reader.commit)

    async def serve() -> None:
        consumer = asyncio.create_task(consume())
        producer = client.producer(name)
        calls = [asyncio.to_thread(producer.append_and_flush, [{"n": n}]) for n in range(8)]
        sent = await asyncio.gather(*calls)
        assert sorted(each.start for each in sent) == list(range(8))
        await asyncio.to_thread(wait_for, lambda: len(found) == 8, "the records", PATIENCE_S)
        reader.close()
        await asyncio.wait_for(consumer, PATIENCE_S)

    asyncio.run(serve())
    assert sorted(found) == list(range(8))
    assert client.follow(name, group=name).position == 8


def test_a_handler_of_a_signal_ends_the_reader_of_its_own_thread(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "n int")
    client.append(name, [{"n": 1}])
    reader = client.follow(name, group=name)
    found: list[int] = []

    def end_once_it_waits() -> None:
        wait_for(lambda: found == [1], "the record", PATIENCE_S)
        os.kill(os.getpid(), signal.SIGUSR1)

    former = signal.signal(signal.SIGUSR1, lambda *_: reader.close())
    ending = threading.Thread(target=end_once_it_waits)
    ending.start()
    try:
        for batch in reader:
            found.extend(batch.column("n").to_pylist())
    finally:
        ending.join(PATIENCE_S)
        signal.signal(signal.SIGUSR1, former)
    assert reader.commit().offset == 1


def test_a_pool_of_processes_shares_out_a_topic_by_ranges_of_offsets(
    shared: ProcessCluster, client: LogClient
) -> None:
    client.create_topic("shared-out", "n int")
    client.append("shared-out", [{"n": n} for n in range(10)])
    command = [sys.executable, "-c", FORKED_WORKERS, shared.servers]
    printed = subprocess.run(
        command, capture_output=True, timeout=PATIENCE_S, check=True, text=True
    ).stdout
    assert json.loads(printed) == [3, 3, 4]


def test_what_tail_prints_as_json_is_produced_into_another_topic(
    shared: ProcessCluster,
    client: LogClient,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.create_topic(name, MESSAGES)
    sent: list[dict[str, Any]] = [
        {"key": "a", "value": b"text", "headers": [{"key": "h", "value": b"\xff"}]},
        {"key": None, "value": b"\x00\xfe", "headers": None},
        {"key": 'quote" \u2028', "value": None, "headers": []},
    ]
    client.append(name, sent)
    words = ("--servers", shared.servers)
    printed = run(monkeypatch, capsys, *words, "tail", name, "--start", "earliest", "-o", "json")
    assert printed.code == 0
    file = tmp_path / "printed.jsonl"
    file.write_text(printed.out)
    client.create_topic(f"{name}-copy", MESSAGES)
    copied = run(monkeypatch, capsys, *words, "produce", f"{name}-copy", str(file))
    assert copied.code == 0, copied.err
    assert rows(client.read(f"{name}-copy")) == sent


def test_a_nightly_job_that_runs_twice_has_its_rows_in_the_topic_once(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "n int")

    def run_job(day: int, numbers: Iterable[int]) -> EpochCommitted:
        run = uuid.uuid4().hex
        key = EpochKey(writer="nightly", query_id="nightly", run=run, epoch=day, streaming=False)
        attempt = client.attempt(name, key)
        attempt.write([{"n": n} for n in numbers])
        staged = attempt.finish()
        assert staged is not None
        return client.commit_epoch(name, key, [staged])

    first = run_job(20261130, range(3))
    assert not first.replayed
    assert not run_job(20261201, range(3, 5)).replayed
    for day, numbers_again in ((20261130, range(3)), (20261201, range(3, 5))):
        assert run_job(day, numbers_again).replayed
    with pytest.raises(EpochContentMismatch, match="3 records and is replayed with 4"):
        run_job(20261130, range(4))
    assert numbers(client.read(name)) == list(range(5))
    assert (first.start, client.writers.describe(name, "nightly").last_epoch) == (0, 20261201)


def test_an_epoch_compacts_a_topic_to_the_last_value_of_each_key(
    client: LogClient, name: str
) -> None:
    client.create_topic(name, "key string not null, value string")
    client.append(
        name, [{"key": f"u{n % 3}", "value": f"v{n}"} for n in range(6)] + [{"key": "u1"}]
    )

    def table(batches: Iterable[pa.RecordBatch]) -> dict[str, str]:
        last = {row["key"]: row["value"] for row in rows(batches)}
        return {key: value for key, value in last.items() if value is not None}

    at_the_end = client.follow(name, group=f"{name}-fast", idle_timeout_s=0)
    kept = table(at_the_end)
    client.positions.publish(f"{name}-slow", name, 2)
    key = EpochKey(writer="compactor", query_id="compactor", run="1", epoch=0, streaming=False)
    attempt = client.attempt(name, key)
    attempt.write([{"key": key, "value": value} for key, value in kept.items()])
    staged = attempt.finish()
    assert staged is not None
    done = client.commit_epoch(name, key, [staged], overwrite=True)
    assert (done.start, done.end) == (7, 9)
    assert table(client.read(name)) == table(at_the_end) == kept == {"u0": "v3", "u2": "v5"}
    assert at_the_end.commit().offset == 9
    with pytest.raises(OffsetTrimmed, match="never processed what is gone"):
        next(client.follow(name, group=f"{name}-slow", idle_timeout_s=0))
    client.positions.publish(f"{name}-slow", name, done.start)
    assert table(client.follow(name, group=f"{name}-slow", idle_timeout_s=0)) == kept


def test_consumers_share_a_topic_by_a_column_and_none_is_behind(
    client: LogClient, name: str
) -> None:
    """Each has a group of its own; what its condition leaves out is no lag."""
    client.create_topic(name, "bucket int, n int")
    client.append(name, [{"bucket": n % 3, "n": n} for n in range(9)])

    def consume(bucket: int) -> list[int]:
        where, group = f"bucket = {bucket}", f"{name}-{bucket}"
        reader = client.follow(name, group=group, where=where, idle_timeout_s=0)
        taken = numbers(reader)
        reader.commit()
        return taken

    assert [consume(bucket) for bucket in range(4)] == [[0, 3, 6], [1, 4, 7], [2, 5, 8], []]
    client.append(name, [{"bucket": 0, "n": 9}])
    lags = [client.positions.lag(f"{name}-{bucket}")[0] for bucket in range(4)]
    assert [lag.records_behind for lag in lags] == [1] * 4
    assert [consume(bucket) for bucket in range(4)] == [[9], [], [], []]
    assert {lag.records_behind for lag in client.positions.lag() if lag.position.topic == name} == {
        0
    }


def test_a_record_that_fails_is_tried_three_times_and_then_is_a_dead_letter(
    client: LogClient, name: str
) -> None:
    columns = "n int, tried int"
    work, dead = (client.create_topic(f"{name}-{kind}", columns) for kind in ("work", "dead"))
    client.append(work, [{"n": n, "tried": 0} for n in range(4)])
    tries: list[tuple[int, int]] = []
    reader = client.follow(work, group=name, idle_timeout_s=0)
    with client.producer(work) as again, client.producer(dead) as letters:
        for batch in reader:
            for row in batch.to_pylist():
                tries.append((row["n"], row["tried"] + 1))
                fails = row["n"] == 2 or (row["n"] == 1 and row["tried"] == 0)
                if fails:
                    to = letters if row["tried"] == 2 else again
                    to.append([{"n": row["n"], "tried": row["tried"] + 1}])
            again.flush()
            letters.flush()
            reader.commit()
    assert tries == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (2, 3)]
    assert rows(client.read(dead)) == [{"n": 2, "tried": 3}]
    assert client.positions.lag(name)[0].records_behind == 0


def test_a_reply_is_found_by_the_id_of_its_request_among_those_of_others(
    client: LogClient, name: str
) -> None:
    requests = client.create_topic(f"{name}-requests", "id string, n int")
    replies = client.create_topic(f"{name}-replies", "id string, n int")
    asked = client.follow(requests, 0)

    def answer() -> None:
        for row in (row for batch in asked for row in batch.to_pylist()):
            client.append(replies, [{"id": row["id"], "n": row["n"] ** 2}])

    def ask(n: int) -> int:
        each = uuid.uuid4().hex
        with client.follow(replies, where=f"id = '{each}'", idle_timeout_s=PATIENCE_S) as mine:
            client.append(requests, [{"id": each, "n": n}])
            [reply] = rows([next(mine)])
            return int(reply["n"])

    with ThreadPoolExecutor(4) as threads:
        serving = threads.submit(answer)
        try:
            assert list(threads.map(ask, range(6))) == [n**2 for n in range(6)]
        finally:
            asked.close()
        serving.result(PATIENCE_S)


def test_a_mirror_continues_after_the_last_offset_that_its_copy_has(
    client: LogClient, name: str
) -> None:
    """Offsets that are kept with the results need no group and no transaction."""
    client.create_topic(name, "n int")
    copy = client.create_topic(f"{name}-copy", "n int, source_offset bigint not null")

    def mirror(records_max: int) -> None:
        marks = client.read_high_water_mark(copy)
        start = 0
        if marks.high_water_mark > marks.log_start_offset:
            [last] = rows(client.read(copy, marks.high_water_mark - 1))
            start = last["source_offset"] + 1
        end = start + records_max
        for batch in client.read(name, start, end, columns=["n", "_offset"]):
            client.append(copy, batch.rename_columns(["n", "source_offset"]))

    for n in range(5):
        client.append(name, [{"n": n}])
        if n % 2 == 0:
            mirror(records_max=2)
    for _ in range(2):
        mirror(records_max=10)
    assert rows(client.read(copy)) == [{"n": n, "source_offset": n} for n in range(5)]


def test_rows_that_linger_are_one_entry_and_a_smaller_batch_makes_more(
    client: LogClient, name: str
) -> None:
    topic = client.create_topic(name, "n bigint not null")

    def entries() -> int:
        found = client.groups.entries(topic.group)
        return len({entry.body for entry in found if entry.kind == "command"})  # resent: the same

    with client.producer(topic, linger_s=60, batch_bytes=2**20) as lingering:
        for n in range(300):
            lingering.append([{"n": n}])
        assert lingering.acknowledged == 0
        assert lingering.flush() == lingering.acknowledged == 300
    assert entries() == 1
    with client.producer(topic, linger_s=60, batch_bytes=1024) as small:
        for n in range(300, 600):
            small.append([{"n": n}])
    assert entries() >= 3, "300 numbers of 8 bytes, in entries of 1 KiB"
    assert numbers(client.read(topic)) == list(range(600))


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ("localhost", "'localhost', which is not host:port"),
        (["127.0.0.1:7401"], "'servers' is of type list. Give one text, such as"),
        ({"bootstrap.servers": "127.0.0.1:7401"}, "'servers' is of type dict"),
    ],
)
def test_servers_as_other_clients_take_them_are_refused_with_the_form(
    servers: Any, problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem):
        raftlog.connect(servers)
