"""What answers in an ensemble's place may send anything: no client or node comes to harm."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from raftlog.chaos.cluster import PATIENCE_S, wait_for
from raftlog.config import ClientSettings
from raftlog.config_ensemble import DiscoverySettings
from raftlog.discovery.announcer import Announcer
from raftlog.discovery.directory import look_up
from raftlog.discovery.entries import ClusterEntry, FounderEntry, NodeEntry
from raftlog.errors import ZooKeeperUnavailable
from tests.discovery.forged_ensemble import STAT, frame, header, welcome
from tests.discovery.listening import Listening

pytestmark = pytest.mark.slow

WELCOME = welcome(1000)

ANSWERS: dict[str, Callable[[int], bytes]] = {
    "to another request": lambda xid: frame(header(xid + 7)),
    "an unknown error": lambda xid: frame(header(xid, -12345)),
    "too short": lambda xid: frame(header(xid) + b"\x00"),
    "without data": lambda xid: frame(header(xid) + struct.pack("!i", -1) + STAT),
    "longer than it is": lambda xid: frame(header(xid) + struct.pack("!i", 2**31 - 1) + b"x"),
    "no header": lambda _: frame(b"\x01"),
    "bytes": lambda xid: frame(header(xid) + struct.pack("!i", 3) + b"\xff\xfe\xfd" + STAT),
    "endless": lambda _: struct.pack("!i", 2**31 - 1) + b"x" * 1000,
}


class Impostor(Listening):
    """Welcomes every session, then gives each request the same kind of answer."""

    def __init__(self) -> None:
        self.answer: Callable[[int], bytes] | None = None
        """None: it sends noise at once."""
        super().__init__(self._answer)

    def _answer(self, connection: socket.socket) -> None:
        connection.recv(4096)
        if self.answer is None:
            connection.sendall(os.urandom(1000))
            return
        connection.sendall(WELCOME)
        while data := connection.recv(4096):
            (xid,) = struct.unpack_from("!i", data, 4)
            connection.sendall(frame(header(xid)) if xid == -2 else self.answer(xid))


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    made = Impostor()
    yield made
    made.close()


KAZOO_S_THREAD_ENDS = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


@KAZOO_S_THREAD_ENDS
@pytest.mark.parametrize("kind", [*ANSWERS, "noise"])
def test_a_client_gets_an_error_of_ours_or_finds_no_cluster(impostor: Impostor, kind: str) -> None:
    impostor.answer = ANSWERS.get(kind)
    settings = ClientSettings(zookeeper=impostor.where)
    if kind in ("without data", "bytes"):
        found = look_up(settings, timeout_s=0.5)
        assert found.cluster is None
        assert len(found.passed_over) == 1
    else:
        with pytest.raises(ZooKeeperUnavailable, match=impostor.where):
            look_up(settings, timeout_s=0.5)


@KAZOO_S_THREAD_ENDS
@pytest.mark.parametrize("kind", ["to another request", "an unknown error", "no header"])
def test_a_node_gets_over_an_answer_that_ends_kazoo_s_thread(impostor: Impostor, kind: str) -> None:
    impostor.answer = ANSWERS[kind]
    founder = FounderEntry(node=1, address="127.0.0.1:7401", store_uuid="s")
    announcer = Announcer(
        DiscoverySettings(zookeeper=impostor.where, zookeeper_session_timeout_s=1.0),
        cluster=ClusterEntry(cluster_id="c", founders=(founder,)),
        node=NodeEntry(node=1, cluster_id="c", store_uuid="s", addresses=(founder.address,)),
        tell=lambda *_: None,
    )
    announcer.start()
    try:
        wait_for(lambda: impostor.connections >= 3, "the node to come back", PATIENCE_S)
    finally:
        announcer.stop(PATIENCE_S)
