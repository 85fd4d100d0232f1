"""The port where Prometheus scrapes a node: plain HTTP or HTTPS, behind a bearer token if wished.

The server is the standard library's and what it answers prometheus-client's; here are only the
bounds. A node must not die of who scrapes it: connections that say nothing end, and those beyond
`metrics.requests_max` are closed at once.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from pydantic import SecretStr

from raftlog.changing_files import Latest
from raftlog.config_metrics import Listen, MetricsSettings
from raftlog.config_secrets import read_secret
from raftlog.errors import AddressInUse, InvalidOption

PATH = "/metrics"

_SILENT_S = 5.0
"""A connection that says nothing for so long is closed. No setting: a scraper speaks at once."""

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
        app = _only_metrics(make_wsgi_app(registry), token)
        try:
            self._server = _Server(listen, settings.requests_max, tls)
        except OSError as error:
            raise AddressInUse(address=listen.address, option="metrics.listen") from error
        self._server.set_app(app)
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

    def __init__(
        self, listen: Listen, requests_max: int, tls: Latest[ssl.SSLContext] | None
    ) -> None:
        self._tls = tls
        self._free = threading.BoundedSemaphore(requests_max)
        self.address_family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        super().__init__((listen.host, listen.port), _Handler)

    def server_bind(self) -> None:
        """As `WSGIServer` does, without asking the resolver for this machine's name: that may take
        seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """TLS shakes hands here, where it can keep nobody else waiting."""
        try:
            request.settimeout(_SILENT_S)
            if self._tls is not None:
                request = self._tls.now().wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:  # it said nothing, or no TLS
            self.shutdown_request(request)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that left, or spoke nonsense, is no news."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_S

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


def _only_metrics(app: App, latest: Latest[SecretStr | None]) -> App:
    """The metrics, to who presents the token; nothing else is here."""

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
        return app(environ, start)

    return answer
