"""A replica that was away for so long that it gets an image: how fast, and what others notice.

Beside it the two floors in the same run: the disk, and one grpc stream that carries nothing else.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import uvloop

from raftlog.bench.measure import MEGABYTE, latency_of
from raftlog.chaos.cluster import wait_for
from raftlog.client.log_client import LogClient
from raftlog.core.types import Offset
from tests.bench.catch_up import SCHEMA, append_until, await_caught_up
from tests.bench.figures import Figure
from tests.bench.floor import serve
from tests.bench.month import applied
from tests.bench.place import Place
from tests.bench.reopen import MIB, fill
from tests.cluster.waiting import leader_of

_METHOD = "/bench/Stream"
_WATCH_S = 10.0
"""Before, and once more after: the speed of a shared machine varies."""
_PATIENCE_S = 1800.0
_UNLIMITED = 1 << 40
_THROTTLED_SHARE = 0.25


def image(mib: int) -> Callable[[Place], Iterator[Figure]]:
    """A piece in which a replica lacks `mib` MiB that the others have in history files only."""

    def piece(place: Place) -> Iterator[Figure]:
        wire = _wire_mb_per_s(mib)
        free = _ship(place, "free", mib, _UNLIMITED, watched=False)
        yield Figure(
            name="image_rate_share",
            value=free.mb_per_s / min(free.disk_mb_per_s, wire),
            unit="times",
            about=f"rate at which a replica gets an image of {mib:,} MiB, from its node's first "
            "answer to its last entry, over the slower of disk and wire",
            detail={
                "mb_per_s": free.mb_per_s,
                "disk_mb_per_s": free.disk_mb_per_s,
                "wire_mb_per_s": wire,
                "start_s": free.start_s,
            },
        )
        limit = int(_THROTTLED_SHARE * free.mb_per_s * MEGABYTE)
        shutil.rmtree(place.folder / "free")  # three times the image
        throttled = _ship(place, "throttled", mib, limit, watched=True)
        yield Figure(
            name="image_append_p99_ratio",
            value=throttled.p99_ratio,
            unit="times",
            about="p99 of single appends to another topic beside an image at a quarter of that "
            "rate, over p99 before and after",
            detail={"mb_per_s": throttled.mb_per_s, "calm_ms": throttled.calm_ms},
        )

    return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shipped:
    """One transfer, and the p99 of the appends to another topic beside it, and before and after."""

    mb_per_s: float
    disk_mb_per_s: float
    """The bare disk, before and after; 0 if the appends were watched instead."""
    start_s: float
    """What the start of the process took, which is not counted."""
    calm_ms: float
    beside_ms: float

    @property
    def p99_ratio(self) -> float:
        return self.beside_ms / self.calm_ms


def _ship(place: Place, name: str, mib: int, bytes_per_s_max: int, *, watched: bool) -> _Shipped:
    settings = (
        f"server.catch_up_bytes_per_s_max={bytes_per_s_max}",
        "storage.log_behind_bytes_max=0",
        f"storage.snapshot_bytes={64 * MIB}",
        "storage.snapshot_age_s=1",
    )
    with place.cluster(name, settings=settings) as cluster, cluster.client() as client:
        for topic in ("bulk", "other"):
            client.create_topic(topic, SCHEMA)
            client.append(topic, [{"payload": b""}])
        leaders = {leader_of(client, topic) for topic in ("bulk", "other")}
        away = min({1, 2, 3} - leaders)
        calm = _append_for(client, _WATCH_S) if watched else []
        cluster.kill(away)
        fill(client, "bulk", mib)
        _wait_dropped(client, Offset(mib))
        bulk = client.describe_topic("bulk")
        disk_s = 0.0 if watched else _disk_s(cluster.data / "floor-before", mib)
        start_s = time.monotonic()
        cluster.serve(away)
        wait_for(lambda: applied(client, [bulk], away, Offset(0)), "it to answer", _PATIENCE_S)
        began_s = time.monotonic()
        there = threading.Event()
        watcher = threading.Thread(target=await_caught_up, args=(cluster, there), daemon=True)
        watcher.start()
        beside_ms = 0.0
        if watched:
            beside_ms = latency_of(append_until(client, there.is_set)).p99_ms
        watcher.join()
        seconds = time.monotonic() - began_s
        calm += _append_for(client, _WATCH_S) if watched else []
        disk_s += 0.0 if watched else _disk_s(cluster.data / "floor-after", mib)
    megabytes = mib * MIB / MEGABYTE
    return _Shipped(
        mb_per_s=megabytes / seconds,
        disk_mb_per_s=2 * megabytes / disk_s if disk_s else 0.0,
        start_s=began_s - start_s,
        calm_ms=latency_of(calm).p99_ms if watched else 0.0,
        beside_ms=beside_ms,
    )


def _append_for(client: LogClient, seconds: float) -> list[int]:
    ends_s = time.monotonic() + seconds
    return append_until(client, lambda: time.monotonic() >= ends_s)


def _wait_dropped(client: LogClient, end: Offset) -> None:
    """Wait until the two nodes that run have all but the last entries in history only."""
    topic = client.describe_topic("bulk")
    deadline_s = time.monotonic() + _PATIENCE_S
    pause = threading.Event()
    while True:
        views = []
        for _, _, answer in client.views([topic.group]):
            views += getattr(answer, "groups", ())
        if len(views) == 2 and all(
            each.history_end >= end and each.log_bytes < 64 * MIB for each in views
        ):
            return
        assert time.monotonic() < deadline_s, f"not compacted within {_PATIENCE_S:g} s: {views}"
        pause.wait(0.2)


# ---------------------------------------------------------------- floors


def _disk_s(path: Path, mib: int) -> float:
    """Write so much in pieces of 1 MiB, and sync it once. The file stays: a virtual machine writes
    five times as fast into pages that were just freed as into those that its host must give."""
    piece = os.urandom(MIB)
    began_s = time.monotonic()
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(mib):
            os.write(file, piece)
        os.fsync(file)
    finally:
        os.close(file)
    return time.monotonic() - began_s


def _wire_mb_per_s(mib: int) -> float:
    """Let another process send so much on one stream, in messages of 1 MiB."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.image"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        target = f"127.0.0.1:{server.stdout.readline().strip()}"
        return asyncio.run(_receive(target, mib))
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


async def _receive(target: str, mib: int) -> float:
    options = (("grpc.max_receive_message_length", 2 * MIB),)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        began_s = time.monotonic()
        received = 0
        async for message in channel.unary_stream(_METHOD)(b"%d" % mib):
            received += len(message)
        return received / MEGABYTE / (time.monotonic() - began_s)


async def _streamed(request: bytes, _: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
    piece = os.urandom(MIB)
    for _number in range(int(request)):
        yield piece


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(serve({"Stream": grpc.unary_stream_rpc_method_handler(_streamed)}))
