"""The port for Prometheus: what it answers, to whom, and what it does not die of."""

from __future__ import annotations

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from raftlog import changing_files
from raftlog.chaos.cluster import PATIENCE_S, free_ports, wait_for
from raftlog.config_metrics import Listen, MetricsSettings
from raftlog.errors import AddressInUse, InvalidOption
from raftlog.metrics import port as metrics_port
from raftlog.metrics.port import MetricsPort
from tests.metrics.certificates import certificate_files

problems: list[str] = []
"""What ports said of files that were replaced."""

pytestmark = pytest.mark.slow  # each waits half a second for a server to stop


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    Gauge("seven", "It is seven.", registry=found).set(7)
    return found


@contextmanager
def answering(
    settings: MetricsSettings,
    host: str = "127.0.0.1",
    registered: CollectorRegistry | None = None,
) -> Iterator[Listen]:
    listen = Listen(host, free_ports(1))
    port = MetricsPort(settings, listen, registered or registry(), problems.append)
    port.start()
    try:
        yield listen
    finally:
        port.stop()


def asked(
    listen: Listen,
    path: str = "/metrics",
    *,
    token: str | None = None,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
) -> tuple[int, str]:
    """Status and text."""
    if tls is None:
        connection = http.client.HTTPConnection(*listen, timeout=PATIENCE_S)
    else:
        connection = http.client.HTTPSConnection(*listen, timeout=PATIENCE_S, context=tls)
    with closing(connection):
        headers = {} if token is None else {"Authorization": token}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_scrape_gets_the_metrics_and_nothing_else_is_there(host: str) -> None:
    with answering(MetricsSettings(), host) as listen:
        status, text = asked(listen)
        (metric,) = text_string_to_metric_families(text)
        assert (status, metric.name, metric.samples[0].value) == (200, "seven", 7)
        for path, method in (("/", "GET"), ("/metrics/..", "GET"), ("/metrics", "POST")):
            assert asked(listen, path, method=method) == (404, "")


@pytest.mark.slow
def test_a_node_that_starts_again_is_scraped_where_it_was() -> None:
    """What is left of the connections that it closed keeps the port from nobody."""
    with answering(MetricsSettings()) as listen:
        assert asked(listen)[0] == 200
    again = MetricsPort(MetricsSettings(), listen, registry(), problems.append)
    again.start()
    assert asked(listen)[0] == 200
    again.stop()


@pytest.mark.slow
def test_with_a_token_only_who_presents_it_gets_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("s3cret-canary\n")
    monkeypatch.setenv("METRICS_TOKEN", "s3cret-canary")
    for reference in (f"file:{tmp_path}/token", "env:METRICS_TOKEN"):
        with answering(MetricsSettings(token=reference)) as listen:
            for wrong in (None, "", "Bearer ", "Bearer s3cret", "s3cret-canary", "Bearer \u00fc"):
                assert asked(listen, token=wrong) == (401, "")
            status, text = asked(listen, token="Bearer s3cret-canary")
            assert status == 200
            assert "canary" not in text


def test_over_tls_plain_text_gets_no_answer(tmp_path: Path) -> None:
    ca, cert, key = certificate_files(tmp_path)
    settings = MetricsSettings(cert_file=str(cert), key_file=str(key))
    trusting = ssl.create_default_context(cafile=str(ca))
    assert metrics_port._tls(settings).minimum_version == ssl.TLSVersion.TLSv1_2
    with answering(settings) as listen:
        assert asked(listen, tls=trusting)[0] == 200
        with pytest.raises((http.client.HTTPException, OSError)):
            asked(listen)
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(listen, tls=ssl.create_default_context())
        assert asked(listen, tls=trusting)[0] == 200


def test_certificate_and_token_are_replaced_while_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing_files, "_LOOK_AGAIN_S", 0.0)
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    ca, cert, key = certificate_files(tmp_path / "old")
    new_ca, new_cert, new_key = certificate_files(tmp_path / "new")
    token = tmp_path / "token"
    token.write_text("first")
    settings = MetricsSettings(cert_file=str(cert), key_file=str(key), token=f"file:{token}")
    before, after = (ssl.create_default_context(cafile=str(each)) for each in (ca, new_ca))
    with answering(settings) as listen:
        assert asked(listen, tls=before, token="Bearer first")[0] == 200
        problems.clear()
        new_cert.replace(cert)
        for _ in range(2):  # the key is still the old certificate's
            assert asked(listen, tls=before, token="Bearer first")[0] == 200
        new_key.replace(key)
        token.write_text("second")
        assert asked(listen, tls=after, token="Bearer second")[0] == 200
        assert asked(listen, tls=after, token="Bearer first")[0] == 401
        token.unlink()
        assert asked(listen, tls=after, token="Bearer second")[0] == 200
    assert [problem.split("'")[1] for problem in problems] == ["metrics.cert_file", "metrics.token"]


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_connections_without_a_whole_request_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    """Each byte that comes meanwhile gives them no further time; scrapes are answered."""
    monkeypatch.setattr(metrics_port, "_REQUEST_S", 1.0)
    settings, trusting = MetricsSettings(requests_max=1), None
    if encrypted:
        ca, cert, key = certificate_files(tmp_path)
        settings = MetricsSettings(requests_max=1, cert_file=str(cert), key_file=str(key))
        trusting = ssl.create_default_context(cafile=str(ca))
    with answering(settings) as listen, ExitStack() as opened:
        slow = [
            opened.enter_context(socket.create_connection(listen, timeout=PATIENCE_S))
            for _ in range(5)
        ]
        if trusting is not None:  # two of them in their handshakes
            slow[2:] = [
                trusting.wrap_socket(each, server_hostname=listen.host) for each in slow[2:]
            ]
            for each in slow[2:]:
                opened.enter_context(each)
        for each in slow[1:]:
            each.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert asked(listen, tls=trusting)[0] == 200
        wait_for(lambda: sum(map(drips, slow)) == len(slow), "the port to close them", PATIENCE_S)
        assert asked(listen, tls=trusting)[0] == 200


def drips(slow: socket.socket) -> bool:
    """Whether it is closed; one more byte is sent."""
    try:
        slow.sendall(b"a")
        slow.settimeout(0.05)
        return slow.recv(1) == b""
    except TimeoutError:
        return False
    except (OSError, ValueError):
        return True


def test_connections_that_wait_take_a_small_part_of_the_open_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else strangers at this port would take those that logs and calls need."""
    for files, most in ((128, 4), (160, 5), (1024, 32), (1 << 20, metrics_port._WAITING_MAX)):
        monkeypatch.setattr(metrics_port.resource, "getrlimit", lambda _, n=files: (n, n))
        assert metrics_port._waiting_max() == most


@pytest.mark.slow
def test_more_connections_than_may_wait_close_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_port, "_REQUEST_S", 10 * PATIENCE_S)
    with answering(MetricsSettings()) as listen, ExitStack() as opened:
        waiting = [
            opened.enter_context(socket.create_connection(listen, timeout=PATIENCE_S))
            for _ in range(metrics_port._WAITING_MAX)
        ]
        assert asked(listen)[0] == 200
        assert waiting[0].recv(1) == b"", "closed"
        waiting[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert waiting[-1].recv(12) == b"HTTP/1.0 200", "the newest is not"


def test_no_more_scrapes_are_answered_at_a_time_than_may_be() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(Collector):
        def collect(self) -> Iterator[Metric]:
            begun.set()
            goes_on.wait(PATIENCE_S)
            yield from ()

    registered = CollectorRegistry()
    with answering(MetricsSettings(requests_max=1), registered=registered) as listen:
        registered.register(Slow())
        first = threading.Thread(target=asked, args=(listen,))
        first.start()
        assert begun.wait(PATIENCE_S)
        assert asked(listen) == (503, "")
        goes_on.set()
        first.join(PATIENCE_S)
        # Its place is free a moment after its answer is there.
        wait_for(lambda: asked(listen)[0] == 200, "room for another", PATIENCE_S)


def test_a_scraper_that_leaves_before_its_answer_is_not_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, left = threading.Event(), threading.Event()

    class Slow(Collector):
        def collect(self) -> Iterator[Metric]:
            begun.set()
            assert left.wait(PATIENCE_S)
            yield from ()

    ca, cert, key = certificate_files(tmp_path)
    trusting = ssl.create_default_context(cafile=str(ca))
    settings = MetricsSettings(requests_max=1, cert_file=str(cert), key_file=str(key))
    registered = CollectorRegistry()
    with answering(settings, registered=registered) as listen:
        registered.register(Slow())
        plain = socket.create_connection(listen, timeout=PATIENCE_S)
        with trusting.wrap_socket(plain, server_hostname=listen.host) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert begun.wait(PATIENCE_S)
            at_once = struct.pack("ii", 1, 0)  # closing it resets the connection
            scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        left.set()
        # Its place is free once its thread has ended.
        wait_for(lambda: asked(listen, tls=trusting)[0] == 200, "its place", PATIENCE_S)
    assert capsys.readouterr().err == ""


def test_an_error_of_the_metrics_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(Collector):
        def collect(self) -> Iterator[Metric]:
            raise OSError("no file of this name")

    registered = CollectorRegistry()
    with answering(MetricsSettings(), registered=registered) as listen:
        registered.register(Failing())
        assert asked(listen)[0] == 500
    assert "OSError: no file of this name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "said", [b"\xff" * 100_000, b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000, b"GET /\r\n\r\n"]
)
def test_nonsense_is_bounded_and_learns_no_version(said: bytes) -> None:
    with answering(MetricsSettings()) as listen:
        with socket.create_connection(listen, timeout=PATIENCE_S) as nonsense:
            answer = b""
            with suppress(OSError):  # it does not take all
                nonsense.sendall(said)
            with suppress(OSError):
                while part := nonsense.recv(4096):
                    answer += part
        assert b"Server" not in answer
        assert b"Python" not in answer
        with closing(http.client.HTTPConnection(*listen, timeout=PATIENCE_S)) as connection:
            connection.request("GET", "/metrics")
            assert connection.getresponse().getheader("Server") is None


def test_a_port_in_use_and_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    with answering(MetricsSettings()) as listen:
        with pytest.raises(AddressInUse, match=listen.address) as caught:
            MetricsPort(MetricsSettings(), listen, registry(), problems.append)
        assert "metrics.listen" in caught.value.remedy
    _, cert, key = certificate_files(tmp_path)
    other = tmp_path / "none.pem"
    other.write_text("no PEM")
    for cert_file, key_file in ((cert, other), (other, key), (tmp_path / "absent", key)):
        settings = MetricsSettings(cert_file=str(cert_file), key_file=str(key_file))
        with pytest.raises(InvalidOption, match=r"metrics\.cert_file"):
            MetricsPort(settings, Listen("127.0.0.1", free_ports(1)), registry(), problems.append)


@pytest.mark.parametrize("token", ["canary-in-place-of-a-reference", "env:NOBODY_SET_IT", "file:"])
def test_a_token_that_is_not_there_is_refused_unseen(token: str) -> None:
    with pytest.raises(InvalidOption, match=r"metrics\.token") as caught:
        MetricsPort(
            MetricsSettings(token=token),
            Listen("127.0.0.1", free_ports(1)),
            registry(),
            problems.append,
        )
    assert "canary" not in str(caught.value)


def test_connections_wait_in_a_long_queue_until_they_are_accepted() -> None:
    """A scraper's is one of them, when strangers connect faster than the port takes them."""
    port = MetricsPort(MetricsSettings(), Listen("127.0.0.1", free_ports(1)), registry(), print)
    with ExitStack() as opened:
        opened.callback(port._server.server_close)
        for _ in range(100):
            opened.enter_context(
                socket.create_connection(port._server.server_address, timeout=PATIENCE_S)
            )
