"""Wires between nodes that can be cut, reset, slowed: a TCP proxy for each node that dials another.

Bytes from A to B travel on two connections, the one that A dialled and the one that B dialled, and
`PeerLinks` treats both alike: a cut from A to B holds those bytes, and the news of a close, while
what B sends goes on. Held bytes are not lost but late, as a TCP connection over a cut wire has
them. All proxies run in one event loop on a thread of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

_HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024
_CHUNKS_MAX = 64
"""Chunks under way on one direction of one connection; then its sender has to wait."""
_TIMEOUT_S = 10.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for 0 seconds, so that a close is a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What becomes of bytes from one node to another."""

    cut: bool = False
    delay_s: float = 0.0
    bytes_per_s: float | None = None
    """None: as fast as they come."""


PASSING = Wire()


@dataclass(frozen=True, slots=True)
class _End:
    """A connection's last word in one direction."""

    reset: bool


@dataclass(slots=True)
class _Way:
    """From one node to another: its wire, and an event that is set while it is not cut."""

    wire: Wire = PASSING
    passing: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, wire: Wire) -> None:
        self.wire = wire
        if wire.cut:
            self.passing.clear()
        else:
            self.passing.set()


class PeerLinks:
    """Proxies between all pairs of nodes. Use as a context manager; thread-safe within it."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        """`addresses`: where each node itself listens, `host:port`."""
        self._addresses = dict(addresses)
        self._pairs = [(a, b) for a in addresses for b in addresses if a != b]
        self._ports: dict[tuple[int, int], int] = {}
        self._ways: dict[tuple[int, int], _Way] = {}
        self._open: dict[tuple[int, int], set[asyncio.StreamWriter]] = {
            pair: set() for pair in self._pairs
        }
        """Both sockets of every connection, by who dialled whom."""
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> PeerLinks:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def routes(self) -> str:
        """The value of `server.peer_routes` that leads every node through its proxies."""
        return ",".join(f"{a}>{b}={_HOST}:{port}" for (a, b), port in self._ports.items())

    def set(self, sender: int, receiver: int, wire: Wire) -> None:
        """From now on bytes from `sender` to `receiver` fare so, those on their way as well."""
        self._run(self._become((sender, receiver), wire))

    def reset(self, one: int, other: int) -> int:
        """Reset all connections between two nodes, at both ends; how many there were."""
        return self._run(self._reset(one, other))

    def heal(self) -> None:
        """All wires pass."""
        for sender, receiver in self._pairs:
            self.set(sender, receiver, PASSING)

    # ------------------------------------------------------------ on the loop's thread

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    async def _listen(self) -> None:
        for pair in self._pairs:
            self._ways[pair] = _Way()
            self._ways[pair].become(PASSING)
        for pair in self._pairs:
            server = await asyncio.start_server(self._acceptor(pair), _HOST, 0)
            self._servers.append(server)
            self._ports[pair] = server.sockets[0].getsockname()[1]

    def _acceptor(
        self, pair: tuple[int, int]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connection(pair, reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return accept

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _become(self, pair: tuple[int, int], wire: Wire) -> None:
        self._ways[pair].become(wire)

    async def _reset(self, one: int, other: int) -> int:
        writers = [*self._open[one, other], *self._open[other, one]]
        for writer in writers:
            _reset_now(writer)
        return len(writers) // 2

    async def _connection(
        self,
        pair: tuple[int, int],
        near_reader: asyncio.StreamReader,
        near_writer: asyncio.StreamWriter,
    ) -> None:
        """One connection that `pair`'s first node dialled, from its start to its end."""
        there, back = self._ways[pair], self._ways[pair[1], pair[0]]
        await there.passing.wait()
        host, _, port = self._addresses[pair[1]].rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            _reset_now(near_writer)  # as the node's own port would refuse it
            return
        writers = {near_writer, far_writer}
        self._open[pair] |= writers
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(near_reader, far_writer, there))
                both.create_task(_carry(far_reader, near_writer, back))
        finally:
            self._open[pair] -= writers
            for writer in writers:
                writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way) -> None:
    """Carry one direction of a connection, its end as well, as `way` has it at each moment."""
    chunks: asyncio.Queue[tuple[float, bytes | _End]] = asyncio.Queue(_CHUNKS_MAX)
    async with asyncio.TaskGroup() as both:
        both.create_task(_take(reader, way, chunks))
        both.create_task(_give(writer, way, chunks))


async def _take(
    reader: asyncio.StreamReader, way: _Way, chunks: asyncio.Queue[tuple[float, bytes | _End]]
) -> None:
    now_s = asyncio.get_running_loop().time
    while True:
        data: bytes | _End
        try:
            data = await reader.read(_CHUNK_BYTES) or _End(reset=False)
        except ConnectionError:
            data = _End(reset=True)
        await chunks.put((now_s() + way.wire.delay_s, data))
        if isinstance(data, _End):
            return


async def _give(
    writer: asyncio.StreamWriter, way: _Way, chunks: asyncio.Queue[tuple[float, bytes | _End]]
) -> None:
    now_s = asyncio.get_running_loop().time
    while True:
        due_s, data = await chunks.get()
        await asyncio.sleep(max(0.0, due_s - now_s()))
        await way.passing.wait()
        if isinstance(data, _End):
            if data.reset:
                _reset_now(writer)
            else:
                writer.close()
            return
        if way.wire.bytes_per_s is not None:
            await asyncio.sleep(len(data) / way.wire.bytes_per_s)
        if writer.is_closing():
            continue  # the receiver has gone: the other direction carries that news
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()


def _reset_now(writer: asyncio.StreamWriter) -> None:
    taken = writer.get_extra_info("socket")
    if taken is not None and taken.fileno() >= 0:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
