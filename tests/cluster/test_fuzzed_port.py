"""Bytes of all kinds at a node's port, and connections without progress: the node still serves."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from raftlog.chaos.cluster import PATIENCE_S, ProcessCluster, free_ports, wait_for
from raftlog.client.log_client import LogClient
from raftlog.wire.calls import ClusterDescription
from tests.cluster.doors import Door, Heard
from tests.fuzz.http2 import (
    ACK,
    PING,
    PREFACE,
    Windows,
    beginning,
    opening,
    ping,
    request,
    stream_of_bytes,
)
from tests.fuzz.inputs import numbered
from tests.fuzz.node_watch import NodeWatch
from tests.fuzz.samples import DDL, frames

SILENT = 200
LOOK_EVERY = 500
CONNECTIONS_MAX = 16


@pytest.fixture(scope="module")
def cluster(lone: ProcessCluster) -> ProcessCluster:
    return lone


@pytest.fixture
def client(cluster: ProcessCluster) -> Iterator[LogClient]:
    with cluster.client() as connected:
        yield connected


def good_frames(client: LogClient, name: str) -> dict[str, bytes]:
    ((address, described),) = client.describe_cluster()
    assert isinstance(described, ClusterDescription)
    topic = client.create_topic(name, DDL)
    return frames(topic, topic, described.store_uuid, address)


HEALTH = b"/grpc.health.v1.Health/Watch"
HEALTH_CALLS = 90
HEALTH_BYTES = HEALTH_CALLS * 66_000
"""A window of 64 KiB each, with the headers of frames."""
QUIET_ROUNDS = 20
"""Answers of the node after which no window will be widened any more."""
HEADER_BYTES = 128 * 1024 * 1024
"""What the allocator may keep of headers that are named by a byte (RFC 7541, section 6.1): grpc
decodes them before a call is judged."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_bytes_that_are_no_protocol_do_no_harm(
    cluster: ProcessCluster, client: LogClient, count: int
) -> None:
    door = Door(cluster.port)
    watch = NodeWatch(cluster, client, client.create_topic(f"own-{count}", DDL))
    good = good_frames(client, f"target-{count}")
    with door.enter() as sound:
        sound.sendall(request("DescribeCluster", good["DescribeCluster"]))
        assert sound.recv(9)[3] == 4, "a request written by hand is answered, settings first"
    for one in numbered("port warm-up", LOOK_EVERY):
        door.say(stream_of_bytes(good, one.random), one.random)
    watch.begin()
    for one in numbered("port", count):
        door.say(stream_of_bytes(good, one.random), one.random)
        if one.number % LOOK_EVERY == 0:
            watch.serves()
    watch.end(HEADER_BYTES)


@pytest.mark.parametrize("rounds", [100, pytest.param(3_000, marks=pytest.mark.soak)])
def test_paths_that_are_no_text_leave_the_nodes_memory_alone(
    cluster: ProcessCluster, client: LogClient, rounds: int
) -> None:
    """grpc freed what its core still wrote to: after some dozens of them a node died anywhere."""
    topic = client.create_topic(f"paths-{rounds}", DDL)
    watch = NodeWatch(cluster, client, topic)
    for number in range(rounds):
        for path in (b"\xff", b"\x80" * 100):
            with Door(cluster.port).enter() as sent, suppress(ConnectionError):
                sent.sendall(request("ListTopics", b"", path=path))
        made = client.create_topic(f"round-{rounds}-{number}", DDL)  # touches much memory
        client.append(made, [{"id": number, "text": "x"}])
        client.delete_topic(made.name)
    watch.serves()


@pytest.mark.parametrize("path", [b"\xff", b"/raftlog.v1.Log/\xf4", b"\x80" * 100, b"", b"x"])
def test_a_path_that_is_no_text_does_not_end_the_service(
    cluster: ProcessCluster, client: LogClient, path: bytes
) -> None:
    """grpc's own loop fails to decode it and ends: another server takes its place."""
    watch = NodeWatch(cluster, client, client.create_topic(f"path-{path.hex()[:99]}", DDL))
    with Door(cluster.port).enter() as sent:
        sent.sendall(request("ListTopics", b"", path=path))
        watch.serves()
    with Door(cluster.port).enter() as sent:
        sent.sendall(request("ListTopics", b"", path=path))
        watch.serves()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(b"", b"", id="silent"),
        pytest.param(PREFACE[:10], PREFACE[10:11], id="slow preface"),
        pytest.param(opening(), b"", id="opened and silent"),
        pytest.param(opening() + b"\0\x40\0", b"\0", id="slow frame"),
    ],
)
def test_connections_without_progress_are_closed_and_delay_no_client(
    cluster: ProcessCluster, client: LogClient, first: bytes, then: bytes
) -> None:
    """Slow loris: each holds a socket open for as long as it can, a byte at a time."""
    watch = NodeWatch(cluster, client, client.create_topic(f"beside-{first.hex()[:99]}", DDL))
    watch.begin()
    before = watch.open_files()
    slow = [Door(cluster.port).enter() for _ in range(SILENT)]
    try:
        for each in slow:
            each.sendall(first)
        wait_for(lambda: watch.open_files() >= before + SILENT // 2, "the connections", PATIENCE_S)
        wait_for(drips(slow, then, watch, before), "the node to close them", PATIENCE_S)
    finally:
        for each in slow:
            each.close()
    watch.end()


def drips(
    slow: list[socket.socket], then: bytes, watch: NodeWatch, before: int
) -> Callable[[], bool]:
    """Whether all are closed; each look sends one more byte, and checks that the node serves."""

    def closed() -> bool:
        for each in slow:
            try:
                each.sendall(then)
            except ConnectionError:
                pass  # closed by the node, as it should be
        watch.serves()
        return watch.open_files() <= before

    return closed


def test_what_is_sent_to_health_calls_takes_no_more_than_their_first_windows(
    cluster: ProcessCluster, client: LogClient
) -> None:
    """They read nothing, and need no identity. grpc would widen their windows to many MiB."""
    watch = NodeWatch(cluster, client, client.create_topic("beside-health", DDL))
    watch.begin()
    streams = range(1, 2 * HEALTH_CALLS, 2)
    windows, sent, quiet, noted = Windows(streams), 0, 0, 0
    with Door(cluster.port).enter() as poured:
        heard = Heard(poured)
        poured.sendall(opening() + b"".join(beginning(each, HEALTH) for each in streams))
        for number in itertools.count(1):
            data = windows.fill()
            sent, quiet = sent + len(data), 0 if data else quiet + 1
            if sent > 2 * HEALTH_BYTES or quiet == QUIET_ROUNDS:
                break
            poured.sendall(data + ping(number))
            wait_for(lambda at=number: heard.count(PING, ACK) == at, "the ping", PATIENCE_S)
            frames = heard.frames()
            for frame in frames[noted:]:
                windows.note(frame)
            noted = len(frames)
        assert HEALTH_BYTES / 2 < sent <= HEALTH_BYTES
    watch.end()


def test_more_connections_than_a_node_takes_are_closed_at_once(tmp_path: Path) -> None:
    """Who is connected is served on."""
    settings = [f"server.connections_max={CONNECTIONS_MAX}"]
    with (
        ProcessCluster.start(
            tmp_path / "data", nodes=1, settings=settings, port=free_ports(1)
        ) as cluster,
        cluster.client() as client,
        ExitStack() as opened,
    ):
        client.create_topic("t", DDL)
        others = [
            opened.enter_context(Door(cluster.port).knock()) for _ in range(3 * CONNECTIONS_MAX)
        ]
        wait_for(
            lambda: sum(map(is_closed, others)) >= 2 * CONNECTIONS_MAX,
            "the node to close those beyond its limit",
            PATIENCE_S,
        )
        client.append("t", [{"id": 1, "text": "a"}])


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it. It says something first, when it takes it."""
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True
