"""`python -m raftlog.chaos.proxy`: a TCP proxy for each node that dials another, to be commanded.

Bytes from A to B travel on two connections, the one that A dialled and the one that B dialled, and
both are treated alike: a cut from A to B holds those bytes, and the news of a close, while what B
sends goes on. Held bytes are not lost but late, as a TCP connection over a cut wire has them.

A process of its own, so that nodes never wait for the harness. `raftlog.chaos.links` starts it and
speaks with it, one JSON object a line: first where every node listens, by number; the answer is the
proxies' ports; then a `Command` after another, each answered with a number. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024
_CHUNKS_MAX = 64
"""Chunks in flight on one direction of one connection; then its sender has to wait."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """From now on bytes from `sender` to `receiver` fare as `wire` says; with no wire, reset all
    connections between the two, at both ends."""

    sender: int
    receiver: int
    wire: Wire | None

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Command:
        """What `encode` made."""
        table = json.loads(line)
        wire = table.pop("wire")
        return cls(**table, wire=Wire(**wire) if wire is not None else None)


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


class Proxies:
    """Proxies between all pairs of nodes. One event loop's own."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        """`addresses`: where each node itself listens, `host:port`."""
        self._addresses = dict(addresses)
        pairs = [(a, b) for a in addresses for b in addresses if a != b]
        self._ways: dict[tuple[int, int], _Way] = {pair: _Way() for pair in pairs}
        for way in self._ways.values():
            way.become(PASSING)
        self._open: dict[tuple[int, int], set[asyncio.StreamWriter]] = {
            pair: set() for pair in pairs
        }
        """Both sockets of every connection, by who dialled whom."""
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> list[tuple[int, int, int]]:
        """From now on; who is to dial whom at which port."""
        ports = []
        for pair in self._ways:
            server = await asyncio.start_server(self._acceptor(pair), HOST, 0)
            self._servers.append(server)
            ports.append((*pair, server.sockets[0].getsockname()[1]))
        return ports

    def obey(self, command: Command) -> int:
        """Do it; how many connections were reset."""
        one, other = command.sender, command.receiver
        if command.wire is not None:
            self._ways[one, other].become(command.wire)
            return 0
        writers = [*self._open[one, other], *self._open[other, one]]
        for writer in writers:
            _reset_now(writer)
        return len(writers) // 2

    def _acceptor(
        self, pair: tuple[int, int]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._connection(pair, reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return accept

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


async def serve() -> None:
    """Obey standard input until its end."""
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    addresses = json.loads(await commands.readline())
    proxies = Proxies({int(node): address for node, address in addresses.items()})
    _answer(await proxies.listen())
    while line := await commands.readline():
        _answer(proxies.obey(Command.decode(line)))


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve())
