"""How long a query's clients wait where nothing listens."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.errors import DeadlineExceeded, InvalidOption, NodeUnreachable
from raftlog.spark import connection
from raftlog.spark.options import ConnectionOptions

DEADLINE_S = 1.0


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectionOptions]:
    """An address where nothing listens: bound and not listening, so refused at once."""
    monkeypatch.setenv("RAFTLOG_CLIENT__REFUSED_TIMEOUT_S", "0.1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        yield ConnectionOptions(
            bootstrap_servers=servers, zookeeper="", request_timeout_s=DEADLINE_S
        )


def test_a_query_that_starts_is_soon_told_that_nothing_listens(
    unreachable: ConnectionOptions,
) -> None:
    with pytest.raises(NodeUnreachable, match="raftlog up"):
        connection.client(unreachable, starting=True).describe_topic("flights")


def test_a_query_that_starts_does_not_wait_its_deadline_for_silent_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever listens there takes connections and never answers, as behind a firewall."""
    monkeypatch.setattr(connection, "START_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        options = ConnectionOptions(
            bootstrap_servers=servers, zookeeper="", request_timeout_s=3600.0
        )
        with pytest.raises(NodeUnreachable, match=f"{servers} .*nothing came within 0.5 s"):
            connection.check_reachable(options)


@pytest.mark.slow
def test_a_running_query_waits_for_a_cluster_that_is_down_for_a_moment(
    unreachable: ConnectionOptions,
) -> None:
    with pytest.raises(DeadlineExceeded, match=unreachable.bootstrap_servers):
        connection.client(unreachable).describe_topic("flights")


def test_an_option_that_names_a_ca_tells_nothing_of_other_files(
    unreachable: ConnectionOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("no certificate")
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    told = set()
    for name in ("text", "large", "folder", "fifo", "missing", "text/below", "x\0"):
        path = f"{tmp_path}/{name}"
        with pytest.raises(InvalidOption) as caught:
            connection.client(dataclasses.replace(unreachable, tls_ca_file=path))
        told.add(str(caught.value).replace(repr(path), "PATH"))
        assert caught.value.option == "raftlog.tls.ca.file"
    assert len(told) == 1

    missing = str(tmp_path / "missing")
    monkeypatch.setenv("RAFTLOG_CLIENT__TLS_CA_FILE", missing)
    with pytest.raises(InvalidOption, match="No such file"):
        connection.client(dataclasses.replace(unreachable, tls_ca_file=missing))


def test_clients_are_kept_for_their_process(unreachable: ConnectionOptions) -> None:
    assert connection.client(unreachable) is connection.client(unreachable)
    assert connection.client(unreachable) is not connection.client(unreachable, starting=True)
