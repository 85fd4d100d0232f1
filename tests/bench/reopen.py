"""How long a node takes to come back with a long log."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from tests.bench.figures import Figure
from tests.bench.place import Place

MIB = 1024 * 1024
_SCHEMA = "payload binary not null"
_PATIENCE_S = 120.0


def reopen(gib: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece that reopens a log of `gib` GiB in entries of 1 MiB."""

    def piece(place: Place) -> Iterator[Figure]:
        with (
            place.cluster(f"reopen-{gib}", nodes=1) as cluster,
            cluster.client() as client,
        ):
            client.create_topic("long", _SCHEMA)
            client.append("long", [{"payload": b""}])
            empty_s = _comeback_s(cluster, client)
            fill(client, "long", gib * 1024)
            full_s = _comeback_s(cluster, client)
        yield Figure(
            name=f"reopen_{gib}_gib_s",
            value=full_s,
            unit="s",
            about=f"kill -9 and start one node with {gib} GiB in entries of 1 MiB, warm cache, "
            "until it answers a linearizable read; Python's own start is in it",
            detail={"with_an_empty_log_s": empty_s},
        )

    return piece


def fill(client: LogClient, topic: str, entries: int) -> None:
    """Append so many entries of 1 MiB."""
    payload = pa.array([os.urandom(MIB)], type=pa.binary())
    schema = pa.schema([pa.field("payload", pa.binary(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([payload], schema=schema)
    with client.producer(topic, compression="none", batch_bytes=MIB, max_in_flight=8) as producer:
        for _ in range(entries):
            producer.append(batch)


def _comeback_s(cluster: ProcessCluster, client: LogClient) -> float:
    """From the start of the process to its first answer."""
    topic = client.describe_topic("long")
    mark = client.read_high_water_mark(topic).high_water_mark
    cluster.kill(1)
    # The kernel closes a dying process's files after its main thread is gone.
    wait_for(lambda: not _listens(cluster.port), "the killed node's port to close", _PATIENCE_S)
    began_s = time.perf_counter()
    cluster.serve(1)
    wait_for(lambda: _listens(cluster.port), "the node to listen", _PATIENCE_S)
    # A new client: the old one's connection would wait before it dials again.
    with cluster.client(_PATIENCE_S) as fresh:
        assert fresh.read_high_water_mark(topic).high_water_mark == mark, (
            "every record is there again"
        )
    return time.perf_counter() - began_s


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
