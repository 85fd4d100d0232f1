"""Whether this installation can run nodes. A client's lacks the parts of the extra `server`."""

from __future__ import annotations

from importlib.util import find_spec

from raftlog.errors import ExtraMissing
from raftlog.extras import pip_line

PARTS = {
    "uvloop": "uvloop",
    "structlog": "structlog",
    "grpc_health": "grpcio-health-checking",
    "prometheus_client": "prometheus-client",
    "cryptography": "cryptography",
    "jwt": "PyJWT",
    "cachetools": "cachetools",
}
"""Modules that only a node imports, each with its distribution's name in setup.py."""


def require_server_extra(verb: str) -> None:
    """Raise `ExtraMissing` before the verb starts or writes anything. Imports nothing."""
    missing = [distribution for module, distribution in PARTS.items() if find_spec(module) is None]
    if missing:
        raise ExtraMissing(verb=verb, missing=", ".join(missing), command=pip_line("server"))
