"""A Python client of etcd's key-value API by grpcio, as a program (see `client_process`).

python -m tests.bench.peers.etcd_client HOST:PORT,...    # the members in their order
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from functools import cache
from typing import Any

import grpc

from tests.bench.line_server import PAYLOADS, answer, one_by_one, serve

_KEYS = 500
"""Appends go round so many keys, or etcd's index would grow with each."""
_TIMEOUT_S = 30.0
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

pb, services = grpc.protos_and_services("tests/bench/peers/etcd.proto")  # type: ignore


class Client:
    """What it can be asked to do. A topic is the beginning of keys."""

    def __init__(self, members: str) -> None:
        self._channels = [grpc.insecure_channel(each, _OPTIONS) for each in members.split(",")]
        self._ends: dict[str, int] = {}
        self._kv: Any = None

    def leader(self, topic: str) -> dict[str, Any]:
        """The member that leads; from now on it is asked. None leads at first: then 0."""
        for node, channel in enumerate(self._channels, 1):
            maintenance = services.MaintenanceStub(channel)
            status = maintenance.Status(pb.StatusRequest(), timeout=_TIMEOUT_S, wait_for_ready=True)
            if status.leader and status.leader == status.header.member_id:
                self._kv = services.KVStub(channel)
                return {"node": node}
        return {"node": 0}

    def append(self, topic: str, count: int, record_bytes: int) -> dict[str, Any]:
        """Put single values, each when the last is acknowledged."""
        values = _values(record_bytes)
        return one_by_one(
            count,
            record_bytes,
            lambda number: self._kv.Put(
                pb.PutRequest(
                    key=f"{topic}-{number % _KEYS}".encode(), value=values[number % PAYLOADS]
                ),
                timeout=_TIMEOUT_S,
            ),
        )

    def batches(
        self, topic: str, count: int, batch_bytes: int, max_in_flight: int
    ) -> dict[str, Any]:
        """Put large values, several in flight."""
        values = _values(batch_bytes)
        began_ns = time.perf_counter_ns()
        sent: deque[Any] = deque()
        for number in range(count):
            if len(sent) == max_in_flight:
                sent.popleft().result()
            request = pb.PutRequest(
                key=f"{topic}-{number}".encode(), value=values[number % PAYLOADS]
            )
            sent.append(self._kv.Put.future(request, timeout=_TIMEOUT_S))
        for each in sent:
            each.result()
        self._ends[topic] = count
        return answer(count, count * batch_bytes, began_ns)

    def read(self, topic: str, passes: int) -> dict[str, Any]:
        """Get all that the last `batches` put, one after the other, without asking a majority."""
        began_ns = time.perf_counter_ns()
        data_bytes = 0
        for _ in range(passes):
            for number in range(self._ends[topic]):
                request = pb.RangeRequest(key=f"{topic}-{number}".encode(), serializable=True)
                [found] = self._kv.Range(request, timeout=_TIMEOUT_S).kvs
                data_bytes += len(found.value)
        return answer(passes, data_bytes, began_ns)


@cache
def _values(size: int) -> list[bytes]:
    return [os.urandom(size) for _ in range(PAYLOADS)]


if __name__ == "__main__":
    serve(Client(sys.argv[1]))
