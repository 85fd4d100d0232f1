"""The port where Prometheus scrapes a node: plain HTTP or HTTPS, behind a bearer token if wished.

The server is the standard library's and what it answers prometheus-client's; here are only the
bounds, so that strangers can neither harm a node nor blind it: a request has one deadline, from
TLS to the end of its header, and only a request whose token was right takes one of the
`metrics.requests_max` places.
"""

from __future__ import annotations

import hmac
import io
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.handlers import SimpleHandler
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from pydantic import SecretStr

from raftlog.changing_files import Latest
from raftlog.config_metrics import Listen, MetricsSettings
from raftlog.config_secrets import read_secret
from raftlog.errors import AddressInUse, InvalidOption

PATH = "/metrics"

_REQUEST_S = 5.0
"""A connection whose request is not there as a whole by then is closed, and one that does not take
its answer in that time. No setting: a scraper speaks at once."""

_HEADER_BYTES_MAX = 16_384
"""Of a request line and its header; no setting: a scraper's have some hundred."""

_WAITING_MAX = 64
_WAITING_SHARE = 32
"""Limits on connections that have not sent their request: a number, and a share of the files that
the process may have open. One more closes the oldest: a scraper sends its request within
milliseconds. No setting: it bounds threads."""

_QUEUED_MAX = 128
"""Connections that the kernel keeps until they are accepted (listen(2)). No setting: with the
standard library's 5, a few hundred strangers' connections a second kept a scraper out."""

_CONNECTION = "raftlog.connection"
"""The connection of a request, in its environment (PEP 3333)."""

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class MetricsPort:
    """Answers scrapes from threads of its own."""

    def __init__(
        self,
        settings: MetricsSettings,
        listen: Listen,
        registry: CollectorRegistry,
        on_problem: Callable[[str], None],
    ) -> None:
        """Binds the port. Certificate and token are followed where their files are replaced;
        `on_problem` is told why later ones cannot be used. Raises `AddressInUse`, and
        `InvalidOption` for a certificate or token that cannot be read."""
        token = Latest(
            [settings.token.removeprefix("file:")],
            lambda: read_secret("metrics.token", settings.token) if settings.token else None,
            on_problem,
        )
        files = [settings.cert_file, settings.key_file]
        tls = Latest(files, lambda: _tls(settings), on_problem) if settings.cert_file else None
        try:
            self._server = _Server(listen, settings.requests_max, tls)
        except OSError as error:
            raise AddressInUse(address=listen.address, option="metrics.listen") from error
        self._server.set_app(_only_metrics(make_wsgi_app(registry), token, self._server.begin))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port. What is being answered is cut off with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _QUEUED_MAX

    def __init__(
        self, listen: Listen, requests_max: int, tls: Latest[ssl.SSLContext] | None
    ) -> None:
        self._tls = tls
        self._requests_max = requests_max
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, float] = {}
        """Connections whose request is not there yet, the oldest first, and their deadlines."""
        self._answered: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        self._waiting_max = _waiting_max()
        super().__init__((listen.host, listen.port), _Handler)

    def server_bind(self) -> None:
        """As `WSGIServer` does, without asking the resolver for this machine's name: that may take
        seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """TLS shakes hands in the connection's thread, where it delays no others."""
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.now().wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._waiting) >= self._waiting_max:
                oldest = next(iter(self._waiting))
                del self._waiting[oldest]
                with suppress(OSError):  # the other side has closed it
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # leaves its TLS to its thread
            self._waiting[request] = time.monotonic() + _REQUEST_S
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if isinstance(request, ssl.SSLSocket):
                request.settimeout(_REQUEST_S)  # of all that it reads and writes
                request.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError:  # it said nothing, or no TLS
            self.shutdown_request(request)
        finally:
            with self._lock:
                self._waiting.pop(request, None)
                self._answered.discard(request)

    def deadline(self, connection: socket.socket) -> float:
        """When its request must be there, by the monotonic clock."""
        return self._waiting.get(connection, 0.0)

    def begin(self, connection: socket.socket) -> bool:
        """Its request is there, and may be answered if there is a place."""
        with self._lock:
            self._waiting.pop(connection, None)
            if len(self._answered) >= self._requests_max:
                return False
            self._answered.add(connection)
        connection.settimeout(_REQUEST_S)
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that left, or spoke nonsense, is no news."""


class _Header(io.RawIOBase):
    """What a connection says first: not after its deadline, and not more than the bound."""

    def __init__(self, connection: socket.socket, ends_s: float) -> None:
        self._connection = connection
        self._ends_s = ends_s
        self._left = _HEADER_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining_s = self._ends_s - time.monotonic()
        if remaining_s <= 0 or self._left == 0:
            raise TimeoutError
        self._connection.settimeout(remaining_s)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Answer(SimpleHandler):
    def _write(self, data: bytes) -> None:
        """Let wsgiref ignore every error of the connection: it logs those of TLS, and timeouts."""
        try:
            super()._write(data)
        except OSError as error:
            raise ConnectionAbortedError from error


class _Handler(WSGIRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Header(self.request, self.server.deadline(self.request)))

    def handle(self) -> None:
        """As `WSGIRequestHandler` does, but the answer names no versions to strangers."""
        self.raw_requestline = self.rfile.readline(_HEADER_BYTES_MAX)
        if self.parse_request():
            environ = self.get_environ() | {_CONNECTION: self.request}
            header: Any = self.rfile
            body: Any = self.wfile
            app = self.server.get_app()
            assert app is not None, "it is set before the first request"
            _Answer(header, body, self.get_stderr(), environ).run(app)

    def send_header(self, keyword: str, value: str) -> None:
        """Of requests that are no HTTP."""
        if keyword != "Server":
            super().send_header(keyword, value)

    def log_message(self, *_: Any) -> None:
        """Nothing: a scrape is no news."""


def _tls(settings: MetricsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOption(
            option="metrics.cert_file",
            problem="and metrics.key_file are no certificate with its key that can be read "
            f"({error.strerror or error})",
            advice="Give PEM files that belong together and that this process may read.",
        ) from error
    return context


def _only_metrics(
    app: App, latest: Latest[SecretStr | None], begin: Callable[[socket.socket], bool]
) -> App:
    """The metrics, to who presents the token; nothing else is here. `begin`: see `_Server`."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        token = latest.now()
        given = environ.get("HTTP_AUTHORIZATION", "")
        if token is not None and not hmac.compare_digest(
            given.encode(), f"Bearer {token.get_secret_value()}".encode()
        ):
            start("401 Unauthorized", [("WWW-Authenticate", "Bearer"), ("Content-Length", "0")])
            return [b""]
        if environ.get("PATH_INFO") != PATH or environ.get("REQUEST_METHOD") != "GET":
            start("404 Not Found", [("Content-Length", "0")])
            return [b""]
        if not begin(environ[_CONNECTION]):
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        return app(environ, start)

    return answer


def _waiting_max() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WAITING_MAX if files < 0 else max(1, min(_WAITING_MAX, files // _WAITING_SHARE))
