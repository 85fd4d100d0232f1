"""The grpc channels of one process to nodes. Thread-safe."""

from __future__ import annotations

import threading

import grpc

from raftlog.client.forks import in_each_child, leave_alone
from raftlog.config import ClientSettings, refuse_bad_proxy, tls_files
from raftlog.config_tls import PemFiles
from raftlog.errors import ClientClosed
from raftlog.tls import NO_PROXY, Certificates, ChannelOptions, Pem, open_channel
from raftlog.wire.calls import SERVICE

_ANSWER_BYTES_MAX = 513 * 1024 * 1024
"""No node sends more: twice the largest `server.entry_bytes_max` that there can be, and what comes
with it (`Settings.message_bytes_max`)."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A connection whose packets are lost is given up, even while a long read waits on it.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # The client retries by itself: grpc would resend to the same node.
    ("grpc.enable_retries", 0),
)
"""No settings: they decide only how soon a lost connection is noticed and opened again. A call
waits for `client.try_timeout_s`, then another node is asked."""


class Channels:
    """Channels by address, opened on first use. A forked child opens its own."""

    def __init__(self, settings: ClientSettings) -> None:
        """Reads what the client trusts and shows, if it has TLS. Raises `InvalidOption`."""
        refuse_bad_proxy(settings.proxy, "client.proxy")
        proxy: ChannelOptions = NO_PROXY
        if settings.proxy:
            proxy = (("grpc.http_proxy", f"http://{settings.proxy}"), *NO_PROXY[1:])
        self._options: ChannelOptions = (*CHANNEL_OPTIONS, *proxy)
        files = tls_files(settings)
        names = (
            f"client.tls_{which}_file (in Spark the credential's)" for which in PemFiles._fields
        )
        self._certificates = None if files is None else Certificates(files, PemFiles(*names))
        self._pem: Pem | None = None
        """That of the channels."""
        self._lock = threading.Lock()
        self._closed = False
        self._channels: dict[str, grpc.Channel] = {}
        self._stubs: dict[tuple[str, str], grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        """By address and method; they belong to these channels."""
        in_each_child(self, Channels._begin_again)

    def _begin_again(self) -> None:
        """In a forked child: the channels belong to the parent."""
        leave_alone(self._channels, self._stubs)
        self._lock = threading.Lock()
        self._channels, self._stubs = {}, {}

    def close(self) -> None:
        """Close the channels of this process, for good."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
            self._stubs = {}
        for channel in channels.values():
            channel.close()

    def own(self, address: str) -> grpc.Channel:
        """A channel that is the caller's to close, and that nothing else uses."""
        with self._lock:
            self._follow_certificates()
            return open_channel(address, self._pem, self._options)

    def unary(self, address: str, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
        """A call with one reply. Raises `ClientClosed` after `close`."""
        with self._lock:
            self._follow_certificates()
            channel = self._channel(address)
            stub = self._stubs.get((address, method))
            if stub is None:
                stub = channel.unary_unary(f"/{SERVICE}/{method}")
                self._stubs[address, method] = stub
            return stub

    def streamed(self, address: str, method: str) -> grpc.UnaryStreamMultiCallable[bytes, bytes]:
        """A call with a stream of replies. Raises `ClientClosed` after `close`."""
        with self._lock:
            self._follow_certificates()
            return self._channel(address).unary_stream(f"/{SERVICE}/{method}")

    def _channel(self, address: str) -> grpc.Channel:
        """The channel to the address. Call it with the lock held."""
        if self._closed:
            raise ClientClosed
        channel = self._channels.get(address)
        if channel is None:
            channel = open_channel(address, self._pem, self._options)
            self._channels[address] = channel
        return channel

    def _follow_certificates(self) -> None:
        """Let go of channels with a former certificate: calls in flight keep theirs. Call it with
        the lock held."""
        pem = None if self._certificates is None else self._certificates.current()
        if pem is not self._pem:
            self._pem = pem
            self._channels, self._stubs = {}, {}
