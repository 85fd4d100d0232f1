"""One damaged byte of a history file: how soon a scrub has it healed, and what appends notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from raftlog.bench.measure import latency_of
from raftlog.chaos.cluster import ProcessCluster, wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import GroupId, NodeId
from raftlog.wire.calls import GroupView, NodeView
from tests.bench.catch_up import ASKED_EVERY_S, SCHEMA, append_until
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.reopen import MIB, fill
from tests.cluster.waiting import leader_of

_WATCH_S = 10.0
_PATIENCE_S = 600.0


def repair(mib: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece with `mib` MiB of history on each node, damaged on one that does not lead."""

    def piece(place: Place) -> Iterator[Figure]:
        settings = [f"storage.snapshot_bytes={32 * MIB}", "storage.snapshot_age_s=1"]
        with place.cluster(settings=settings) as cluster, cluster.client() as client:
            for topic in ("bulk", "other"):
                client.create_topic(topic, SCHEMA)
            fill(client, "bulk", mib)
            group = client.describe_topic("bulk").group
            _wait_compacted(client, group, mib)
            node = NodeId(leader_of(client, "bulk") % 3 + 1)
            ends_s = time.monotonic() + _WATCH_S
            before = latency_of(append_until(client, lambda: time.monotonic() >= ends_s)).p99_ms
            size = _damage(cluster.data / f"node-{node}" / "groups" / str(group))
            client.scrub([group])
            healed = threading.Event()
            seconds: list[float] = []
            watcher = threading.Thread(
                target=_await_healed, args=(cluster, group, node, seconds, healed), daemon=True
            )
            watcher.start()
            beside = latency_of(append_until(client, healed.is_set)).p99_ms
            watcher.join()
        yield Figure(
            name="repair_heal_s",
            value=seconds[0],
            unit="s",
            about=f"from a scrub's find of a damaged byte in a history file of {size / 1e6:.0f} MB "
            "until the file is whole again",
            detail={"file_mb": size / 1e6},
        )
        yield Figure(
            name="repair_append_p99_ratio",
            value=beside / before,
            unit="times",
            about=f"p99 of single appends to another topic while all nodes scrub {mib} MiB and one "
            "repairs, over p99 before",
            detail={"before_ms": before, "beside_ms": beside},
        )

    return piece


def _damage(folder: Path) -> int:
    """Flip a bit in the largest history file; its bytes."""
    path = max(folder.glob("history-*"), key=lambda each: each.stat().st_size)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        (byte,) = file.read(1)
        file.seek(size // 2)
        file.write(bytes([byte ^ 1]))
    return size


def _wait_compacted(client: LogClient, group: GroupId, end: int) -> None:
    def compacted() -> bool:
        views = _views(client, group)
        return len(views) == 3 and all(each.history_end >= end for each in views.values())

    wait_for(compacted, "all to be in history", _PATIENCE_S, every_s=ASKED_EVERY_S)


def _await_healed(
    cluster: ProcessCluster,
    group: GroupId,
    node: NodeId,
    seconds: list[float],
    healed: threading.Event,
) -> None:
    """Note how long the damage was known, and set the event when it is healed."""
    try:
        with cluster.client() as client:
            for count in ("damage_found", "damage_healed"):
                wait_for(
                    lambda count=count: getattr(_views(client, group)[node], count) > 0,
                    count,
                    _PATIENCE_S,
                    every_s=0.1,
                )
                seconds.append(time.monotonic())
            seconds[:] = [seconds[1] - seconds[0]]
    finally:
        healed.set()


def _views(client: LogClient, group: GroupId) -> dict[NodeId, GroupView]:
    return {
        each.node: each
        for _, _, answer in client.views([group])
        if isinstance(answer, NodeView)
        for each in answer.groups
    }
