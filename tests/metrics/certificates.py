"""A certificate of a server on loopback, made for one test."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from raftlog.certificates import make_certificates


class ServerFiles(NamedTuple):
    """PEM files."""

    ca: Path
    cert: Path
    key: Path


def certificate_files(folder: Path) -> ServerFiles:
    """The certificate, its key, and who signed it, in a folder of their own."""
    made = folder / "of-metrics"
    make_certificates(made, cluster_id="c", hosts={1: "127.0.0.1"}, days=1)
    return ServerFiles(made / "ca.pem", made / "node-1.pem", made / "node-1.key")
