"""The client of a raftlog cluster as a program of its own (see `client_process`).

Every revision that is compared runs this file with its own `raftlog`, so it uses only those parts
of the public client that never changed.

    python -m tests.bench.raftlog_client HOST:PORT,...
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from typing import Any

import pyarrow as pa

import raftlog
from tests.bench.line_server import PAYLOADS, answer, one_by_one, serve

_ROWS_OF_A_LARGE_BATCH = 16


class Client:
    """What it can be asked to do."""

    def __init__(self, servers: str) -> None:
        self._client = raftlog.connect(servers, request_timeout_s=60.0)
        self._producers: dict[str, Any] = {}
        self._marks: dict[str, int] = {}
        """High-water marks of topics that are only read now."""

    def create(self, topics: list[str]) -> dict[str, Any]:
        """Create topics that hold payloads; the last one gets a record."""
        for topic in topics:
            self._client.create_topic(topic, "payload binary not null")
        self._client.append(topics[-1], _batches(1, 1)[0])
        return {}

    def leader(self, topic: str) -> dict[str, Any]:
        """The node that leads the topic's group; 0 if none does."""
        return {"node": self._client.watermark(topic).leader}

    def terms(self) -> dict[str, Any]:
        """The latest term of each group."""
        found: dict[int, int] = {}
        for _, _, view in self._client.views():
            if isinstance(view, raftlog.RaftlogError):
                raise view
            for each in view.groups:
                found[each.group] = max(found.get(each.group, 0), each.term)
        return {"terms": found}

    def append(self, topic: str, count: int, record_bytes: int) -> dict[str, Any]:
        """Append single records, each when the last is acknowledged."""
        batches = _batches(1, record_bytes)
        return one_by_one(
            count,
            record_bytes,
            lambda number: self._client.append(topic, batches[number % PAYLOADS]),
        )

    def records(self, topic: str, count: int, record_bytes: int, rows: int) -> dict[str, Any]:
        """Write small records, given to a producer in Arrow batches of so many rows."""
        producer = self._producer(topic)
        began_ns = time.perf_counter_ns()
        self._write(producer, _batches(rows, record_bytes), count // rows)
        return answer(count, count * record_bytes, began_ns)

    def batches(
        self, topic: str, count: int, batch_bytes: int, max_in_flight: int
    ) -> dict[str, Any]:
        """Write batches of one entry each, several in flight."""
        producer = self._producer(
            topic, compression="none", batch_bytes=batch_bytes, max_in_flight=max_in_flight
        )
        rows = _ROWS_OF_A_LARGE_BATCH
        began_ns = time.perf_counter_ns()
        self._write(producer, _batches(rows, batch_bytes // rows), count)
        return answer(count, count * batch_bytes, began_ns)

    def read(self, topic: str, passes: int) -> dict[str, Any]:
        """Read the whole topic, some times. Nothing may be written to it any more."""
        if topic not in self._marks:
            self._marks[topic] = self._client.watermark(topic).high_water_mark
        end = self._marks[topic]
        began_ns = time.perf_counter_ns()
        data_bytes = 0
        for _ in range(passes):
            records = 0
            for batch in self._client.read(topic, 0, end, mark=end):
                records += batch.num_rows
                data_bytes += batch.nbytes
            assert records == end, f"{records} of {end} records were read"
        return answer(passes, data_bytes, began_ns)

    def _producer(self, topic: str, **settings: Any) -> Any:
        if topic not in self._producers:
            self._producers[topic] = self._client.producer(topic, **settings)
        return self._producers[topic]

    def _write(self, producer: Any, batches: list[pa.RecordBatch], count: int) -> None:
        """Write so many of them in turn, and wait until all are acknowledged."""
        for number in range(count):
            producer.append(batches[number % PAYLOADS])
        producer.flush()


@cache
def _batches(rows: int, record_bytes: int) -> list[pa.RecordBatch]:
    schema = pa.schema([pa.field("payload", pa.binary(), nullable=False)])
    payloads = ([os.urandom(record_bytes) for _ in range(rows)] for _ in range(PAYLOADS))
    return [
        pa.RecordBatch.from_arrays([pa.array(each, type=pa.binary())], schema=schema)
        for each in payloads
    ]


if __name__ == "__main__":
    serve(Client(sys.argv[1]))
