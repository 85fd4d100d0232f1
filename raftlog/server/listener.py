"""A node's grpc server at its address, which is replaced if grpc's own loop ends.

grpc.aio takes all calls in one loop and decodes each call's path there. A path that is not UTF-8,
from any host, ends the loop and closes the port. The process would live on, lead its groups and
answer no call. So this module waits for the end of that loop and starts a new server at once. Calls
and streams of the old server are cut off, and their clients try again.

grpc would then shut its server down, in a task whose exception it leaves to the event
loop: a traceback in the log for each such path. This module does it in its place.

! A server must have generic handlers only (`add_generic_rpc_handlers`). For each registered method
grpc.aio keeps a request that waits in grpc's core, and frees it when its loop ends. The core
writes to these requests when the server is stopped afterwards, so a stranger's path corrupted the
process's memory. The one request that waits for generic handlers has just been answered then.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
import grpc.aio
import structlog

from raftlog.errors import AddressInUse

_GRPC_LOOP = "_server_main_loop"
"""The name of the coroutine in which grpc.aio's server takes calls."""

_REBIND_PAUSE_S = 0.05
"""The old server's port may take a moment to be free, and another process of this machine may take
it meanwhile. No setting: a try costs nothing."""

_CAUSE_CHARACTERS_MAX = 400
"""It quotes what a stranger sent, so the log's line is bounded; no setting."""

_LOGGED_AGAIN_S = 60.0
"""Strangers must not fill a disk: ends of grpc's loop are logged this often, with their number."""

_starting = asyncio.Lock()

log = structlog.get_logger(__name__)


class Port(NamedTuple):
    """Where a server listens."""

    address: str
    """host:port."""
    credentials: Callable[[], grpc.ServerCredentials] | None
    """Makes those of one server: grpc takes no certificate for a second port from credentials that
    may change. None: it is not encrypted."""
    option: str = AddressInUse.option
    """Where the port was said, for who must choose another."""


class Listener:
    """Serves at `ports` with servers from `make`. For one event loop only."""

    def __init__(self, make: Callable[[], grpc.aio.Server], ports: Sequence[Port]) -> None:
        self._make = make
        self._ports = ports
        self._server: grpc.aio.Server | None = None
        self._grpc_loop: asyncio.Task[None] | None = None
        self._stopping = False
        self._ends = 0
        """Of grpc's loop, since they were logged."""
        self._logs_again_s = -math.inf

    async def start(self) -> None:
        """Bind and serve. Raises `AddressInUse`."""
        # One after the other: each finds the loop of its own server among the new tasks.
        async with _starting:
            if not self._stopping:
                await self._start()

    async def _start(self) -> None:
        server = self._make()
        for port in self._ports:
            _bind(server, port)
        before = asyncio.all_tasks()
        await server.start()
        new = asyncio.all_tasks() - before
        loops = [task for task in new if getattr(task.get_coro(), "__name__", "") == _GRPC_LOOP]
        assert len(loops) == 1, "this version of grpc takes calls otherwise"
        core: Any = server
        ends = core._server._serving_task_crash_handler  # by which grpc stops the server itself
        assert loops[0].remove_done_callback(ends) == 1, "this version of grpc ends otherwise"
        self._grpc_loop = loops[0]
        self._server = server

    async def keep(self) -> None:
        """Until `stop`: serve again whenever grpc's loop has ended, however long another process
        holds the port then: any local user can take it in that moment."""
        while True:
            assert self._grpc_loop is not None, "it was started"
            await asyncio.wait([self._grpc_loop])
            if self._stopping or self._grpc_loop.cancelled():
                return
            cause = self._grpc_loop.exception()
            self.note_end(cause)
            await self._again()

    def note_end(self, cause: BaseException | None) -> None:
        """Log that grpc's loop ended, once a minute, with how often."""
        self._ends += 1
        if time.monotonic() < self._logs_again_s:
            return
        said = repr(cause)[:_CAUSE_CHARACTERS_MAX]
        log.warning("grpc's server ended: another takes its place", cause=said, times=self._ends)
        self._ends = 0
        self._logs_again_s = time.monotonic() + _LOGGED_AGAIN_S

    async def stop(self) -> None:
        """Cut off every call and stream, and close the port."""
        assert self._server is not None, "it was started"
        self._stopping = True
        async with _starting:  # one that is being started is closed as well
            await _close_port(self._server)
            await _close_port(self._server)  # if grpc's loop has ended, only now it shuts down

    async def _again(self) -> None:
        old = self._server
        assert old is not None
        await _close_port(old)
        if self._stopping:
            return
        while True:
            try:
                await self.start()
                break
            except AddressInUse as error:
                self.note_end(error)
                await asyncio.sleep(_REBIND_PAUSE_S)
        await old.stop(None)


async def _close_port(server: grpc.aio.Server) -> None:
    """Stop it, or begin to. If grpc's loop has ended, that raises why; it was logged."""
    await asyncio.gather(server.stop(None), return_exceptions=True)


def _bind(server: grpc.aio.Server, port: Port) -> None:
    try:
        if port.credentials is None:
            bound = server.add_insecure_port(port.address)
        else:
            bound = server.add_secure_port(port.address, port.credentials())
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise AddressInUse(address=port.address, option=port.option)
