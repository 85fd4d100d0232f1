"""What a node holds in memory after many topics were written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pyarrow as pa

from raftlog.bench.measure import MEGABYTE
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import MemoryWatch, memory_bytes

_MIB = 1024 * 1024


def memory(topics: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece that writes 1 MiB into each of so many topics, one after another."""

    def piece(place: Place) -> Iterator[Figure]:
        with place.cluster("memory") as cluster, cluster.client() as client:
            pids = list(cluster.pids.values())
            for number in range(topics):
                client.create_topic(f"t-{number}", "payload binary not null")
            made = max(memory_bytes(pid)["VmRSS"] for pid in pids)
            with MemoryWatch(pids) as watch:
                for number in range(topics):
                    client.append(f"t-{number}", pa.table({"payload": [os.urandom(_MIB)]}))
            yield Figure(
                name=f"written_{topics}_topics_memory_mb",
                value=watch.most("VmRSS") / MEGABYTE,
                unit="MB",
                about=f"highest resident memory of any node while {topics:,} topics get 1 MiB each",
                detail={"before_the_writes_mb": made / MEGABYTE},
            )

    return piece
