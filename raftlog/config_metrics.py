"""Settings of what a node tells Prometheus, and where."""

from __future__ import annotations

from typing import NamedTuple

from raftlog.config_hosts import PORT_MAX, is_host
from raftlog.config_secrets import refuse_bare_secret
from raftlog.config_section import Section, setting
from raftlog.config_tls import PemFiles, refuse_half_pair
from raftlog.errors import InvalidOption
from raftlog.redaction import shown_address


class MetricsSettings(Section):
    """The port that Prometheus scrapes."""

    listen: str = setting(
        "",
        "Where Prometheus scrapes the node, host:port. `127.0.0.1:+1000` is the node's own port "
        "plus 1000, which one file can say for several nodes of a machine. Empty: nowhere.",
    )
    cert_file: str = setting(
        "", "PEM file with the certificate of that port, and those above it; empty: no TLS."
    )
    key_file: str = setting("", "PEM file with the certificate's private key.")
    token: str = setting(
        "",
        "The bearer token that a scraper must present: `file:PATH` or `env:NAME`, where it "
        "stands. Empty: none is asked for.",
    )
    topics_max: int = setting(
        200,
        "Topics with series of their own on each node, those that were created first. Each has "
        "about 20; beyond some hundreds a scrape takes long and Prometheus much memory. Sums "
        "count all topics.",
        ge=0,
        le=10_000,
    )
    requests_max: int = setting(
        4, "Scrapes that are answered at a time; further ones get the status 503.", ge=1, le=64
    )


class Listen(NamedTuple):
    """Where the port is."""

    host: str
    """Without brackets."""
    port: int

    @property
    def address(self) -> str:
        """As people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_of(settings: MetricsSettings, own_port: int) -> Listen | None:
    """Where a node whose own port is `own_port` is scraped; None: nowhere. Raises `InvalidOption`
    for what is no host and port."""
    if not settings.listen:
        return None
    host, _, number = settings.listen.rpartition(":")
    digits = number.removeprefix("+")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(PORT_MAX))
    port = int(digits) + (own_port if number.startswith("+") else 0) if is_number else 0
    if not is_host(host) or not 0 < port <= PORT_MAX or port == own_port:
        raise InvalidOption(
            option="metrics.listen",
            problem=f"is {shown_address(settings.listen)!r}, which is no host and free port",
            advice="Write for example 127.0.0.1:9401, or 127.0.0.1:+1000 for the node's own port "
            "plus 1000.",
        )
    return Listen(host.strip("[]"), port)


def refuse_half_metrics(settings: MetricsSettings) -> None:
    """Refuse settings that do not go together. Raises `InvalidOption`."""
    listen_of(settings, own_port=0)
    refuse_bare_secret("metrics.token", settings.token, "a text")
    files = PemFiles("", settings.cert_file, settings.key_file)
    refuse_half_pair(files, PemFiles("", "metrics.cert_file", "metrics.key_file"))
