"""A Python client of NATS JetStream, as a program (see `client_process`).

python -m tests.bench.peers.nats_client HOST:PORT,...    # the servers in their order
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine
from functools import cache
from typing import Any

import nats
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import ServiceUnavailableError

from tests.bench.line_server import PAYLOADS, answer, serve

_TIMEOUT_S = 30.0
_PAUSE_S = 0.3
_TRIES = 20
_TRY_S = 3.0
_FETCHED = 32
"""Messages of one request of a reader."""


class Client:
    """What it can be asked to do. A topic is a stream of three replicas."""

    def __init__(self, servers: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers = [f"nats://{each}" for each in servers.split(",")]
        self._run(self._connect(self._servers[0]))
        self._ends: dict[str, int] = {}

    def create(self, topics: list[str]) -> dict[str, Any]:
        """Create streams."""
        self._run(self._create(topics))
        return {}

    def leader(self, topic: str) -> dict[str, Any]:
        """The server that leads the stream; from now on it is asked. 0: none leads."""
        return {"node": self._run(self._leader(topic))}

    def append(self, topic: str, count: int, record_bytes: int) -> dict[str, Any]:
        """Publish single messages, each when the last is acknowledged."""
        return self._run(self._append(topic, count, _payloads(record_bytes)))

    def batches(
        self, topic: str, count: int, batch_bytes: int, max_in_flight: int
    ) -> dict[str, Any]:
        """Publish large messages, several in flight."""
        self._ends[topic] = self._ends.get(topic, 0) + count
        return self._run(self._batches(topic, count, _payloads(batch_bytes), max_in_flight))

    def read(self, topic: str, passes: int) -> dict[str, Any]:
        """Read all that `batches` published, some times."""
        return self._run(self._read(topic, passes))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    async def _connect(self, server: str) -> None:
        self._connection = await nats.connect(server, allow_reconnect=False)
        self._stream = self._connection.jetstream(timeout=_TIMEOUT_S)

    async def _create(self, topics: list[str]) -> None:
        for topic in topics:
            config = StreamConfig(
                name=topic, subjects=[topic], storage=StorageType.FILE, num_replicas=3
            )
            for left in reversed(range(_TRIES)):
                try:
                    await self._connection.jetstream(timeout=_TRY_S).add_stream(config)
                    break
                except (ServiceUnavailableError, TimeoutError):  # they have no leader yet
                    if not left:
                        raise
                    await asyncio.sleep(_PAUSE_S)

    async def _leader(self, topic: str) -> int:
        info = await self._stream.stream_info(topic)
        if info.cluster is None or not info.cluster.leader:
            return 0
        node = int(info.cluster.leader.removeprefix("n"))
        if self._connection.connected_url.netloc != self._servers[node - 1].removeprefix("nats://"):
            await self._connection.close()
            await self._connect(self._servers[node - 1])
        return node

    async def _append(self, topic: str, count: int, payloads: list[bytes]) -> dict[str, Any]:
        samples_ns = []
        began_ns = before_ns = time.perf_counter_ns()
        for number in range(count):
            await self._stream.publish(topic, payloads[number % PAYLOADS])
            now_ns = time.perf_counter_ns()
            samples_ns.append(now_ns - before_ns)
            before_ns = now_ns
        done = answer(count, count * len(payloads[0]), began_ns)
        return {**done, "samples_ns": samples_ns}

    async def _batches(
        self, topic: str, count: int, payloads: list[bytes], max_in_flight: int
    ) -> dict[str, Any]:
        began_ns = time.perf_counter_ns()
        free = asyncio.Semaphore(max_in_flight)

        async def publish(number: int) -> None:
            async with free:
                await self._stream.publish(topic, payloads[number % PAYLOADS])

        await asyncio.gather(*map(publish, range(count)))
        return answer(count, count * len(payloads[0]), began_ns)

    async def _read(self, topic: str, passes: int) -> dict[str, Any]:
        began_ns = time.perf_counter_ns()
        data_bytes = 0
        for _ in range(passes):
            left = self._ends[topic]
            reader = await self._stream.pull_subscribe(topic)
            while left:
                for message in await reader.fetch(min(_FETCHED, left), timeout=_TIMEOUT_S):
                    data_bytes += len(message.data)
                    left -= 1
            await reader.unsubscribe()
        return answer(passes, data_bytes, began_ns)


@cache
def _payloads(size: int) -> list[bytes]:
    return [os.urandom(size) for _ in range(PAYLOADS)]


if __name__ == "__main__":
    serve(Client(sys.argv[1]))
