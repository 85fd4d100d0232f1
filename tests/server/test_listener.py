"""What a node logs when strangers end grpc's loop."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from typing import Any

import grpc.aio
import pytest
from structlog.testing import capture_logs

from raftlog.chaos.cluster import PATIENCE_S, free_ports
from raftlog.server.listener import Listener, Port
from tests.fuzz.http2 import request


def test_ends_of_grpcs_loop_are_logged_once_a_minute_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = Listener(grpc.aio.server, [])
    with capture_logs() as lines:
        for _ in range(100):
            ended.note_end(ValueError("a stranger's path"))
        assert [line["times"] for line in lines] == [1]
        monkeypatch.setattr(ended, "_logs_again_s", 0.0)
        ended.note_end(None)
    assert [line["times"] for line in lines] == [1, 100]


def test_a_server_whose_loop_a_stranger_has_just_ended_is_stopped_as_any_other() -> None:
    async def run() -> None:
        port = free_ports(1)
        listener = Listener(grpc.aio.server, [Port(f"127.0.0.1:{port}", None)])
        await listener.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("ListTopics", b"", path=b"\xff"))
        async with asyncio.timeout(PATIENCE_S):
            assert listener._grpc_loop is not None
            await asyncio.wait([listener._grpc_loop])
            await listener.stop()
            await listener.keep()
        writer.close()

    with capture_logs():
        asyncio.run(run())


def test_a_server_that_takes_anothers_place_while_all_is_stopped_is_stopped_too() -> None:
    """Otherwise it keeps running, and a caller that waits for the listener never returns."""

    async def run() -> None:
        port = free_ports(1)
        holding = socket.socket()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stopping: list[asyncio.Task[None]] = []

        def make() -> grpc.aio.Server:
            if listener._grpc_loop is not None and not stopping:  # it takes another's place
                with suppress(OSError):  # the last one may have the port yet
                    holding.bind(("127.0.0.1", port))
                    holding.listen()  # so it is tried again, and meanwhile all is stopped
                stopping.append(asyncio.create_task(listener.stop()))
                stopping[0].add_done_callback(lambda _: holding.close())
            return grpc.aio.server(options=[("grpc.so_reuseport", 0)])

        listener = Listener(make, [Port(f"127.0.0.1:{port}", None)])
        await listener.start()
        keeping = asyncio.create_task(listener.keep())
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("ListTopics", b"", path=b"\xff"))
        async with asyncio.timeout(PATIENCE_S):
            await keeping
            await stopping[0]
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    with capture_logs():
        asyncio.run(run())


def test_a_port_that_another_process_takes_meanwhile_is_served_again_when_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any local user can take it, for as long as it likes: that must not end the node."""
    monkeypatch.setattr("raftlog.server.listener._REBIND_PAUSE_S", 0)
    refused = 150

    async def run() -> None:
        port = free_ports(1)
        holding = socket.socket()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made, held = 0, False

        def make() -> grpc.aio.Server:
            nonlocal made, held
            made += 1
            if made > 1 and not held:
                with suppress(OSError):  # the last one may have the port yet
                    holding.bind(("127.0.0.1", port))
                    holding.listen()
                    held = True
            elif made >= refused:
                holding.close()
            return grpc.aio.server(options=[("grpc.so_reuseport", 0)])

        listener = Listener(make, [Port(f"127.0.0.1:{port}", None)])
        await listener.start()
        keeping = asyncio.create_task(listener.keep())
        writers = []
        async with asyncio.timeout(PATIENCE_S):
            while made < refused:
                if not held:  # the former server had the port until the next one took it
                    with suppress(ConnectionError):
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                        writers.append(writer)
                        writer.write(request("ListTopics", b"", path=b"\xff"))
                await asyncio.wait([keeping], timeout=0.01)
                assert not keeping.done()
            while True:
                with suppress(ConnectionRefusedError):
                    _, again = await asyncio.open_connection("127.0.0.1", port)
                    break
            again.close()
            await listener.stop()
            await keeping
        for writer in writers:
            writer.close()

    with capture_logs():
        asyncio.run(run())


PATHS = 20


def test_an_end_of_grpcs_loop_leaves_no_exception_to_the_event_loop() -> None:
    """The node logs each with a traceback, so a stranger could fill a disk."""
    left: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context))
        port = free_ports(1)
        made: list[grpc.aio.Server] = []

        def make() -> grpc.aio.Server:
            made.append(grpc.aio.server(options=[("grpc.so_reuseport", 0)]))
            return made[-1]

        listener = Listener(make, [Port(f"127.0.0.1:{port}", None)])
        await listener.start()
        keeping = asyncio.create_task(listener.keep())
        async with asyncio.timeout(PATIENCE_S):
            while len(made) <= PATHS:
                with suppress(ConnectionError):  # one server is replaced by another
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(request("ListTopics", b"", path=b"\xff"))
                    await reader.read()
                    writer.close()
        await listener.stop()
        await keeping

    with capture_logs():
        asyncio.run(run())
    gc.collect()
    assert left == []
