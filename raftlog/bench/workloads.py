"""The four workloads: single appends, small records, large batches, reads.

Each creates a scratch topic with a random name and always deletes it in the end. Payloads are
random bytes, which do not compress. There is one thread; the producer's window decides what is in
flight.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from raftlog.bench.measure import MEGABYTE, Measured, Stopwatch
from raftlog.client.log_client import LogClient, TopicInfo

MIB = 1024 * 1024
SCHEMA = "payload binary not null"
TOPIC_PREFIX = "bench-"

_LARGE_ROWS = 16
"""Records of one large batch. The number matters little there: the bytes do."""

_DISTINCT_BATCHES = 8
"""How many payloads are used in turn, so that no cache of the disk sees the same block again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sizes of all workloads."""

    seconds: float = 10.0
    warm_up_s: float = 2.0
    record_bytes: int = 100
    rows_per_append: int = 1000
    batch_bytes: int = MIB
    max_in_flight: int = 8
    read_bytes: int = 256 * MIB
    compression: str = "none"


@contextmanager
def scratch_topic(client: LogClient) -> Iterator[TopicInfo]:
    """A topic with `SCHEMA` that is deleted afterwards."""
    topic = client.create_topic(f"{TOPIC_PREFIX}{uuid.uuid4().hex[:12]}", SCHEMA)
    try:
        yield topic
    finally:
        client.delete_topic(topic.name)


def append_latency(client: LogClient, plan: Plan) -> Measured:
    """Append one record at a time, the next when the last is durable on a majority and readable."""
    batches = one_record(plan)
    with scratch_topic(client) as topic:
        watch = Stopwatch(warm_up_s=plan.warm_up_s, seconds=plan.seconds)
        turn = 0
        while watch.running():
            client.append(topic.name, batches[turn % _DISTINCT_BATCHES])
            watch.lap(records=1, data_bytes=plan.record_bytes)
            turn += 1
        what = f"append one record of {plan.record_bytes} B and wait, one client"
        return watch.result("append", what, with_latency=True)


def small_records(client: LogClient, plan: Plan) -> Measured:
    """Write small records with a producer that batches them to entries of its configured size."""
    rows, size = plan.rows_per_append, plan.record_bytes
    batches = [_batch(rows, size) for _ in range(_DISTINCT_BATCHES)]
    settings = client.settings
    with scratch_topic(client) as topic, client.producer(topic.name) as producer:
        watch = Stopwatch(warm_up_s=plan.warm_up_s, seconds=plan.seconds)
        turn = 0
        while watch.running():
            producer.append(batches[turn % _DISTINCT_BATCHES])
            watch.lap(records=rows, data_bytes=rows * size)
            turn += 1
        producer.flush()
        what = (
            f"records of {size} B, Arrow batches of {rows:,} to one producer; entries of "
            f"{settings.batch_bytes / MIB:g} MiB, {settings.max_in_flight} in flight, "
            f"{settings.compression}"
        )
        return watch.result("records", what, with_latency=False)


def large_batches(client: LogClient, plan: Plan) -> Measured:
    """Write batches of one entry each, several in flight."""
    batches = _large(plan)
    with (
        scratch_topic(client) as topic,
        client.producer(
            topic.name,
            compression=plan.compression,
            batch_bytes=plan.batch_bytes,
            max_in_flight=plan.max_in_flight,
        ) as producer,
    ):
        watch = Stopwatch(warm_up_s=plan.warm_up_s, seconds=plan.seconds)
        turn = 0
        while watch.running():
            batch = batches[turn % _DISTINCT_BATCHES]
            producer.append(batch)
            watch.lap(records=batch.num_rows, data_bytes=plan.batch_bytes)
            turn += 1
        producer.flush()
        what = (
            f"batches of {plan.batch_bytes / MIB:g} MiB, {plan.max_in_flight} in flight, "
            f"{_compressed(plan.compression)}"
        )
        return watch.result("batches", what, with_latency=False)


def _compressed(name: str) -> str:
    return "uncompressed" if name == "none" else name


def reads(client: LogClient, plan: Plan) -> Measured:
    """Read the same range again and again, from any replica, from the nodes' page caches."""
    with readable_topic(client, plan) as (topic, end):
        return read_over_and_over(client, plan, topic, end)


@contextmanager
def readable_topic(client: LogClient, plan: Plan) -> Iterator[tuple[TopicInfo, int]]:
    """A scratch topic with `plan.read_bytes` of large batches in it, and its end offset."""
    batches = _large(plan)
    with scratch_topic(client) as topic:
        with client.producer(
            topic.name, compression=plan.compression, batch_bytes=plan.batch_bytes
        ) as producer:
            for turn in range(max(1, plan.read_bytes // plan.batch_bytes)):
                producer.append(batches[turn % _DISTINCT_BATCHES])
            end = producer.flush()
        yield topic, end


def read_over_and_over(client: LogClient, plan: Plan, topic: TopicInfo, end: int) -> Measured:
    """Read [0, end) of what `readable_topic` wrote, in whole passes, until the time is over."""
    per_record = plan.batch_bytes // _LARGE_ROWS
    watch = Stopwatch(warm_up_s=plan.warm_up_s, seconds=plan.seconds)
    while watch.running():
        records = sum(batch.num_rows for batch in client.read(topic, 0, end, mark=end))
        assert records == end, f"{records} of {end} records were read"
        watch.lap(records=records, data_bytes=records * per_record)
    what = (
        f"read {end * per_record / MEGABYTE:,.0f} MB in batches of "
        f"{plan.batch_bytes / MIB:g} MiB, page cache, one client"
    )
    return watch.result("read", what, with_latency=False)


WORKLOADS: dict[str, Callable[[LogClient, Plan], Measured]] = {
    "append": append_latency,
    "records": small_records,
    "batches": large_batches,
    "read": reads,
}
"""By the names that `raftlog bench --only` takes, in the order of execution."""


def one_record(plan: Plan) -> list[pa.RecordBatch]:
    """Batches of one record each, to be used in turn."""
    return [_batch(1, plan.record_bytes) for _ in range(_DISTINCT_BATCHES)]


def _large(plan: Plan) -> list[pa.RecordBatch]:
    return [_batch(_LARGE_ROWS, plan.batch_bytes // _LARGE_ROWS) for _ in range(_DISTINCT_BATCHES)]


def _batch(rows: int, record_bytes: int) -> pa.RecordBatch:
    payload = pa.array([os.urandom(record_bytes) for _ in range(rows)], type=pa.binary())
    schema = pa.schema([pa.field("payload", pa.binary(), nullable=False)])
    return pa.RecordBatch.from_arrays([payload], schema=schema)
