"""Real nodes that ask callers who they are: by TLS, with a file of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from raftlog.auth.token_file import add_token
from raftlog.chaos.cluster import ProcessCluster, free_ports
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load

WAIT_S = 60.0
NODES = 3


def started(
    folder: Path, tokens_file: Path, settings: Mapping[str, str] | None = None
) -> ProcessCluster:
    """A cluster, when an operator whose token is in `folder / "operator"` is served."""
    operator = folder / "operator"
    operator.write_text(made(tokens_file, "operator", "operators"))
    given = {
        "tls.peer_port_offset": str(NODES),
        "auth.tokens_file": str(tokens_file),
        "audit.file": str(folder / "audit-{node}.jsonl"),
        **(settings or {}),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{operator}")
        return ProcessCluster.start(
            folder / "data",
            nodes=NODES,
            port=free_ports(2 * NODES),
            settings=[f"{key}={value}" for key, value in given.items()],
            tls=True,
        )


def made(file: Path, identity: str, *groups: str, ends: datetime | None = None) -> str:
    """A token of the identity, whose hash is in the file."""
    return add_token(file, identity, groups, ends, datetime.now(UTC))


def client(cluster: ProcessCluster, token: str = "", where: Path | None = None) -> LogClient:
    """One that shows this token, from a file, and no certificate."""
    if not token:
        return client_by(cluster, "")
    assert where is not None
    where.write_text(token + "\n")
    return client_by(cluster, f"file:{where}")


def client_by(cluster: ProcessCluster, reference: str) -> LogClient:
    """One that shows the token to which the reference leads."""
    settings = {
        "bootstrap_servers": cluster.servers,
        "request_timeout_s": WAIT_S,
        "tls_ca_file": str(cluster.data / "tls" / "ca.pem"),
        "token": reference,
    }
    return connect(settings=load().client.model_copy(update=settings))
