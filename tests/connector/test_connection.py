"""How long a query's clients wait where nothing listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from raftlog.errors import DeadlineExceeded, NodeUnreachable
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


def test_clients_are_kept_for_their_process(unreachable: ConnectionOptions) -> None:
    assert connection.client(unreachable) is connection.client(unreachable)
    assert connection.client(unreachable) is not connection.client(unreachable, starting=True)
