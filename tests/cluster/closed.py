"""Real nodes that ask callers who they are: by TLS, with a file of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from raftlog.auth.token_file import add_token
from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports
from raftlog.client.connect import connect
from raftlog.client.log_client import LogClient
from raftlog.config import load
from raftlog.config_tls import PemFiles
from raftlog.errors import RaftlogError, WriterOfAnother
from raftlog.machines.commands import EpochKey
from raftlog.tls import Certificates, open_channel
from raftlog.wire.calls import SERVICE, WATCH_KEYS
from raftlog.wire.codec import ERROR_METADATA_KEY, decode_error, encode_request
from raftlog.wire.kv_calls import WatchKeys

NODES = 3
WATCHED_S = 55.0
"""Less than the longest watch of a node."""


def started(
    folder: Path,
    tokens_file: Path,
    settings: Mapping[str, str] | None = None,
    *,
    ports: int = 2,
) -> ProcessCluster:
    """A cluster, when an operator whose token is in `folder / "operator"` is served. Each node has
    so many ports."""
    operator = folder / "operator"
    operator.write_text(made(tokens_file, "operator", "operators"))
    given = {
        "tls.peer_port_offset": str(NODES),
        "auth.tokens_file": str(tokens_file),
        "auth.admins": "token:operator",
        "audit.file": str(folder / "audit-{node}.jsonl"),
        **(settings or {}),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAFTLOG_CLIENT__TOKEN", f"file:{operator}")
        return ProcessCluster.start(
            folder / "data",
            nodes=NODES,
            port=free_ports(ports * NODES),
            settings=[f"{key}={value}" for key, value in given.items()],
            tls=True,
        )


def made(file: Path, identity: str, *groups: str, ends: datetime | None = None) -> str:
    """A token of the identity, whose hash is in the file."""
    return add_token(file, identity, groups, ends, datetime.now(UTC))


def client(
    cluster: ProcessCluster,
    token: str = "",
    where: Path | None = None,
    timeout_s: float = PATIENCE_S,
) -> LogClient:
    """One that shows this token, from a file, and no certificate."""
    if not token:
        return client_by(cluster, "", timeout_s)
    assert where is not None
    where.write_text(token + "\n")
    return client_by(cluster, f"file:{where}", timeout_s)


def client_by(cluster: ProcessCluster, reference: str, timeout_s: float = PATIENCE_S) -> LogClient:
    """One that shows the token to which the reference leads."""
    settings = {
        "bootstrap_servers": cluster.servers,
        "request_timeout_s": timeout_s,
        "tls_ca_file": str(cluster.data / "tls" / "ca.pem"),
        "token": reference,
    }
    return connect(settings=load().client.model_copy(update=settings))


def knows(last: LogClient, principal: str = "token:root") -> bool:
    """Whether all nodes know the last token that was made, which this client shows."""
    try:
        answers = [answer for _, answer in last.describe_cluster()]
    except RaftlogError:
        return False  # also where no node answers soon enough: they are asked again
    return all(getattr(each, "caller", "") == principal for each in answers)


def channel_to(cluster: ProcessCluster, node: int) -> grpc.Channel:
    """A channel to one node, without a certificate."""
    ca = PemFiles(str(cluster.data / "tls" / "ca.pem"))
    return open_channel(cluster.address(node), Certificates(ca, ca).current(), ())


def watched(channel: grpc.Channel, operator: LogClient, token: str, prefix: str) -> Iterator[bytes]:
    """One call that watches keys for a minute, of which it is given less. It has answers
    at once, and can be cancelled."""
    topics = {0, *(each.group for each in operator.list_topics())}
    [group] = {each.group for each in operator.members.placements().groups} - topics
    call = WatchKeys(group=group, prefix=prefix, after=0, seconds=60)
    method = channel.unary_stream(f"/{SERVICE}/{WATCH_KEYS.name}")
    metadata = (("authorization", f"Bearer {token.strip()}"),)
    answers: Iterator[bytes] = method(
        encode_request(WATCH_KEYS, call), timeout=WATCHED_S, metadata=metadata
    )
    return answers


def typed(error: grpc.RpcError) -> RaftlogError | None:
    """The error that a node sent; None: it sent none."""
    for key, value in error.trailing_metadata() or ():
        if key == ERROR_METADATA_KEY:
            return decode_error(value)
    return None


class People:
    """Identities with a token each, and a client each."""

    def __init__(self, cluster: ProcessCluster, folder: Path) -> None:
        self.tokens: dict[str, str] = {"operator": (folder / "operator").read_text()}
        self.cluster = cluster
        self._folder = folder
        self._clients: dict[str, LogClient] = {}

    def add(self, name: str, *groups: str) -> None:
        if name not in self.tokens:
            self.tokens[name] = made(self._folder / "tokens", name, *groups)

    def __getitem__(self, name: str) -> LogClient:
        if name not in self._clients:
            where = self._folder / f"{name}.token"
            self._clients[name] = client(self.cluster, self.tokens[name], where)
        return self._clients[name]

    def close(self) -> None:
        for each in self._clients.values():
            each.close()


def write_epoch(of: LogClient, epoch: int, run: str = "run", writer: str = "w") -> None:
    key = EpochKey(writer=writer, query_id=writer, run=run, epoch=epoch, streaming=True)
    attempt = of.attempt("other", key)
    attempt.write(pa.RecordBatch.from_pylist([{"id": epoch, "text": "t"}]))
    reference = attempt.finish()
    assert reference is not None
    of.commit_epoch("other", key, [reference])


def writes(of: LogClient, epoch: int, run: str) -> bool:
    try:
        write_epoch(of, epoch, run)
    except WriterOfAnother:
        return False
    return True
