"""`python -m raftlog.chaos.proxy`: TCP proxies between nodes, which take commands.

Bytes from A to B travel on two connections, the one that A dialled and the one that B dialled. Both
are treated alike: a cut from A to B holds those bytes and the notice of a close, while what B sends
still arrives. Held bytes are late, not lost, as they are on a TCP connection over a cut wire.

It is a process of its own, so that nodes never wait for the harness. `raftlog.chaos.links` starts
it. They exchange one JSON object per line: first the addresses of all nodes, by number, which are
answered with the proxies' ports; then one `Command` after another, each answered with a number. The
process ends when its input ends.
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
"""Chunks in flight on one direction of one connection. Beyond that its sender has to wait."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER: on, for 0 seconds, so that a close is a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How bytes from one node to another are treated."""

    cut: bool = False
    delay_s: float = 0.0
    bytes_per_s: float | None = None
    """None: without a bound."""


PASSING = Wire()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Treat bytes from `sender` to `receiver` as `wire` says from now on. Without a wire, reset all
    connections between the two, at both ends."""

    sender: int
    receiver: int
    wire: Wire | None

    def encode(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Command:
        """The inverse of `encode`."""
        table = json.loads(line)
        wire = table.pop("wire")
        return cls(**table, wire=Wire(**wire) if wire is not None else None)


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a connection in one direction."""

    reset: bool


@dataclass(slots=True)
class _Way:
    """The direction from one node to another: its wire, and an event that is set unless cut."""

    wire: Wire = PASSING
    passing: asyncio.Event = field(default_factory=asyncio.Event)

    def become(self, wire: Wire) -> None:
        self.wire = wire
        if wire.cut:
            self.passing.clear()
        else:
            self.passing.set()


class Proxies:
    """Proxies between all pairs of nodes. For one event loop only."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        """`addresses` are those at which the nodes themselves listen, `host:port`."""
        self._addresses = dict(addresses)
        pairs = [(a, b) for a in addresses for b in addresses if a != b]
        self._ways: dict[tuple[int, int], _Way] = {pair: _Way() for pair in pairs}
        for way in self._ways.values():
            way.become(PASSING)
        self._open: dict[tuple[int, int], set[asyncio.StreamWriter]] = {
            pair: set() for pair in pairs
        }
        """Both sockets of every connection, by which node dialled which."""
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> list[tuple[int, int, int]]:
        """Start to listen. Returns (dialling node, dialled node, port) for each pair."""
        ports = []
        for pair in self._ways:
            server = await asyncio.start_server(self._acceptor(pair), HOST, 0)
            self._servers.append(server)
            ports.append((*pair, server.sockets[0].getsockname()[1]))
        return ports

    def obey(self, command: Command) -> int:
        """Carry out the command. Returns how many connections were reset."""
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
        """Serve one connection that the first node of `pair` dialled, until it ends."""
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
    """Carry one direction of a connection and its end, as the wire demands at each moment."""
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
            continue  # the receiver has closed: the other direction carries that notice
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()


def _reset_now(writer: asyncio.StreamWriter) -> None:
    taken = writer.get_extra_info("socket")
    if taken is not None and taken.fileno() >= 0:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


async def serve() -> None:
    """Carry out the commands on standard input until it ends."""
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
