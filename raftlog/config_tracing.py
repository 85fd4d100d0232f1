"""Settings of traces: what one call took, and where, across client, leader and followers."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from raftlog.config_hosts import is_address
from raftlog.config_section import Section, setting
from raftlog.errors import InvalidOption
from raftlog.extras import pip_line
from raftlog.redaction import shown_address


class TracingSettings(Section):
    """What a node tells a collector of OpenTelemetry of the calls that are traced."""

    endpoint: str = setting(
        "",
        "Where the node's spans go, by OTLP over grpc: `http://host:4317`, or `https://` with TLS. "
        "Empty: it makes none. OpenTelemetry's own variables count too, such as "
        "OTEL_EXPORTER_OTLP_HEADERS.",
    )
    sample_ratio: float = setting(
        0.0,
        "The share of the calls that are traced although their client traces none. What a client "
        "traces is traced here too.",
        ge=0,
        le=1,
    )


def refuse_bad_endpoint(endpoint: str, option: str) -> None:
    """Raises `InvalidOption` for what is no address of a collector."""
    if not endpoint:
        return
    parts = urlsplit(endpoint)
    whole = f"{parts.scheme}://{parts.netloc}" == endpoint.rstrip("/")
    if not whole or parts.scheme not in ("http", "https") or not is_address(parts.netloc):
        raise InvalidOption(
            option=option,
            problem=f"is {shown_address(endpoint)!r}, which is no address of a collector",
            advice="Write for example http://127.0.0.1:4317.",
        )


def check_tracing(endpoint: str, option: str) -> None:
    """Raises `InvalidOption` for what is no address of a collector, and where there is no
    OpenTelemetry to send it anything."""
    refuse_bad_endpoint(endpoint, option)
    if endpoint and not _is_installed():
        raise InvalidOption(
            option=option,
            problem="needs OpenTelemetry, which is not installed",
            advice=f"Install it: {pip_line('tracing')}",
        )


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.grpc") is not None
    except ModuleNotFoundError:  # of a package above it
        return False
