"""The outgoing half of a node pair: one stream that carries all groups' messages to one peer.

Messages collect while a write is in flight and leave together in one frame, so that the heartbeats
of all groups share it. Only one frame at a time is handed to grpc, because nothing can overtake
what grpc already holds. The outbox is bounded in bytes. What does not fit is dropped and counted:
Raft retransmits what is missing, and a stalled peer must not use up the memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import grpc
import grpc.aio
import structlog

from raftlog.core.messages import PeerMessage
from raftlog.core.types import NodeId
from raftlog.errors import FormatUnsupported, MalformedRequest, RaftlogError
from raftlog.transport.callers import LogLimit, brief
from raftlog.transport.outbox import Outbox
from raftlog.wire.calls import PEER_SERVICE
from raftlog.wire.codec import (
    ERROR_METADATA_KEY,
    decode_error,
    decode_welcome,
    encode_hello,
    encode_peer_messages,
)
from raftlog.wire.framing import pieces
from raftlog.wire.peer_greetings import PeerHello, PeerWelcome
from raftlog.wire.traced import TRACED_MAX, TracedEntry

ByteStream: TypeAlias = "grpc.aio.StreamStreamCall[bytes, bytes]"

KEEPALIVE_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 2000),
    ("grpc.keepalive_timeout_ms", 2000),
    # Without this option grpc waits a minute for a ping's answer, despite the option before it.
    ("grpc.http2.ping_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
    ("grpc.http2.max_ping_strikes", 0),
)
"""Gives up a connection whose packets vanish within seconds. TCP by itself would back off for
minutes, and a partition would last that much longer than the network's fault. No settings: an
election does not wait for them, and a ping costs nothing."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_retries", 0),
    *KEEPALIVE_OPTIONS,
)
"""Finds a node that comes back within half a second, which is no setting because a try costs one
packet. A link receives only a welcome: grpc would decompress one without a bound. The senders bound
the size of frames."""

_REFUSED_WAIT_S = 2.0
"""The wait after a rejection. The peer rejects again until an operator corrects a folder or an
address. No setting: only that operator waits for it."""

_READY_WAIT_S = 10.0
"""For so long grpc tries to reach the peer; then it is asked why it does not, and a new channel
shows the certificate that this node has then. No setting: nothing waits for it."""

_LOST = frozenset(
    (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
)
"""What happens to a stream on its way, and says nothing of who is there."""

_LINES_MAX = 20
"""Lines of one link in a minute. No setting: a peer may end each stream for another reason."""

STREAM_METHOD = f"/{PEER_SERVICE}/Stream"

log = structlog.get_logger(__name__)


class PeerLink:
    """Sends messages to `peer` and reconnects for as long as it runs. For one event loop only.

    `open_channel` opens a channel to `address`, with the certificate that this node has then.
    `on_refused` gets every typed error with which the peer refuses this node, and the peer.
    """

    def __init__(
        self,
        *,
        peer: NodeId,
        address: str,
        open_channel: Callable[[], grpc.aio.Channel],
        hello: PeerHello,
        outbox_bytes_max: int,
        reconnect_wait_s: float,
        known_store: Callable[[NodeId], str | None],
        on_open: Callable[[NodeId], None],
        on_lost: Callable[[NodeId], None],
        on_refused: Callable[[NodeId, RaftlogError], None],
    ) -> None:
        self.peer = peer
        self.address = address
        self.connected = False
        self.dropped_messages = 0
        """Messages dropped since this stream opened, because its outbox was full."""
        self._open_channel = open_channel
        self._hello = hello
        self._outbox = Outbox(outbox_bytes_max)
        self._traced: deque[TracedEntry] = deque(maxlen=TRACED_MAX)
        self._outbox_bytes_max = outbox_bytes_max
        self._reconnect_wait_s = reconnect_wait_s
        self._known_store = known_store
        self._on_open = on_open
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._refusal = ""
        self._log_limit = LogLimit("peer stream", _LINES_MAX)
        self._wake = asyncio.Event()

    def send(self, messages: Sequence[PeerMessage], traced: Sequence[TracedEntry] = ()) -> None:
        """Queue messages, some of whose entries may be traced. Without a stream they are dropped,
        as if the wire were cut."""
        if not self.connected:
            return
        for message in messages:
            if not self._outbox.put(message):
                self._drop()
        self._traced.extend(traced)
        self._wake.set()

    @property
    def queued_bytes(self) -> int:
        """Bytes of bulk messages that wait for the stream."""
        return self._outbox.bulk_bytes

    def _drop(self) -> None:
        if self.dropped_messages == 0:
            log.warning(
                "peer falls behind: messages to it are dropped",
                peer=self.peer,
                address=self.address,
                limit=self._outbox_bytes_max,
                option="server.peer_queue_bytes_max",
            )
        self.dropped_messages += 1

    async def run(self) -> None:
        """Keep a stream to the peer until cancelled."""
        task = asyncio.current_task()
        assert task is not None, "it runs in a task of its own"
        while not task.cancelling():  # grpc.aio may swallow a cancellation
            async with self._open_channel() as channel:
                wait_s = await self._try(channel)
            await asyncio.sleep(wait_s)

    async def _try(self, channel: grpc.aio.Channel) -> float:
        """Keep a stream for as long as it lasts. Returns how long to wait for the next."""
        wait_s = self._reconnect_wait_s
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_WAIT_S):
                    await channel.channel_ready()
            await self._stream(channel)
        except grpc.aio.AioRpcError as error:
            if self._is_refusal(error.code()):
                wait_s = max(wait_s, _REFUSED_WAIT_S)
                self._refused(error)
            elif self.connected:
                self._log_end(error)
            else:
                self._log_once(error)
        except MalformedRequest as error:
            wait_s = max(wait_s, _REFUSED_WAIT_S)
            self._is_none(error)
        finally:
            was_connected = self.connected
            self.connected = False
            self._outbox.clear()
            self._traced.clear()
        if was_connected:
            self._on_lost(self.peer)
        return wait_s

    def _is_refusal(self, status: grpc.StatusCode) -> bool:
        """Is that what a peer that does not take us says, or a service that is no node?"""
        if self.connected:  # it had taken us
            return status is grpc.StatusCode.FAILED_PRECONDITION
        return status not in _LOST

    def _refused(self, error: grpc.aio.AioRpcError) -> None:
        """Log that the peer refuses us, or is not the node we mean."""
        self._log_once(error)
        for key, value in error.trailing_metadata() or ():
            if key == ERROR_METADATA_KEY and isinstance(value, bytes):
                try:
                    refusal = decode_error(value)
                except MalformedRequest as malformed:
                    self._is_none(malformed)
                else:
                    self._on_refused(self.peer, refusal)

    def _is_none(self, error: MalformedRequest) -> None:
        """Log that what answers at the peer's address is no node: once, not at every try."""
        if self._refusal != error.cause and self._log_limit.admits(error.cause):
            self._refusal = error.cause
            log.warning(
                "what listens at the address of a peer is no node of raftlog",
                peer=self.peer,
                address=self.address,
                cause=brief(error.cause),
            )

    def _log_once(self, error: grpc.aio.AioRpcError) -> None:
        """Log why there is no stream: once, not at every try."""
        if self._refusal != error.details():
            self._refusal = error.details() or ""
            self._log_end(error)

    def _log_end(self, error: grpc.aio.AioRpcError) -> None:
        status, details = error.code().name, brief(error.details() or "")
        if self._log_limit.admits(status, details):
            log.info(
                "peer stream ended",
                peer=self.peer,
                address=self.address,
                status=status,
                details=details,
                dropped_messages=self.dropped_messages,
            )

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        call: ByteStream = channel.stream_stream(STREAM_METHOD)()
        await call.write(encode_hello(self._hello))
        answer = await call.read()
        if not isinstance(answer, bytes):  # grpc.aio.EOF
            # A peer that refuses says so in the call's status, which this raises.
            raise await _status_error(call)
        welcome = decode_welcome(answer)
        self._check(welcome)
        self.connected = True
        self.dropped_messages = 0
        self._refusal = ""
        if self._log_limit.admits("open"):
            log.info("peer stream open", peer=self.peer, address=self.address)
        self._on_open(self.peer)
        # The peer sends nothing more. So a read that returns shows that the stream has ended, even
        # while there is nothing to write.
        ended = asyncio.ensure_future(call.read())
        ended.add_done_callback(lambda _: self._wake.set())
        try:
            while not ended.done():
                await self._wake.wait()
                self._wake.clear()
                while self._outbox:
                    frame = encode_peer_messages(self._outbox.take_frame(), self._traced)
                    self._traced.clear()
                    for message in pieces(frame, welcome.message_bytes_max):
                        await call.write(message)
        except asyncio.InvalidStateError:
            # grpc raises this if the stream ended between two writes. The stream's status says why.
            raise await _status_error(call) from None
        finally:
            if ended.done() and not ended.cancelled():
                ended.exception()  # retrieved, not raised: the stream's status is reported instead
            ended.cancel()
            call.cancel()

    def _check(self, welcome: PeerWelcome) -> None:
        """Check that the address is the node we mean, with the store that the controller knows."""
        known = self._known_store(self.peer)
        problem, own = "", self._hello.format
        if welcome.format != own:
            peer = f"Node {welcome.node} at {self.address}"
            found = welcome.format or "unknown"
            problem = str(FormatUnsupported(folder=peer, found=found, supported=own))
        elif welcome.node != self.peer:
            problem = f"{self.address} is node {welcome.node}, not {self.peer}"
        elif known is not None and known != welcome.store_uuid:
            problem = f"node {self.peer} has store {welcome.store_uuid}, known is {known}"
        if problem:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.FAILED_PRECONDITION,
                grpc.aio.Metadata(),
                grpc.aio.Metadata(),
                details=problem,
            )


async def _status_error(call: ByteStream) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await call.code(),
        await call.initial_metadata(),
        await call.trailing_metadata(),
        details=await call.details(),
    )
