"""What the machine itself costs: a bare grpc call, a small synced write, a copy of memory.

Every other figure contains these, so machines, and hours on a shared one, can be compared.
Run as a module, this is the echo server.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import uvloop

from raftlog.bench.measure import Measured, Stopwatch
from tests.bench.figures import Figure
from tests.bench.place import Place

_SECONDS, _WARM_UP_S = 3.0, 0.5
_METHOD = "/bench/Echo"
_SMALL = bytes(100)
_FILE_BYTES = 1 << 20
_COPY_BYTES = 64 << 20


def floor(place: Place) -> Iterator[Figure]:
    """The machine's own figures, on the disk of the place."""
    yield _latency(
        "echo_p50_ms",
        _echo(),
        "bare grpcio call of 100 B and its echo: blocking client, asyncio server on uvloop",
    )
    yield _latency(
        "fdatasync_p50_ms",
        _synced_writes(place.folder / "floor"),
        "write 100 B and fdatasync, space reserved ahead",
    )
    watch = Stopwatch(warm_up_s=_WARM_UP_S, seconds=1.0)
    source, target = bytes(_COPY_BYTES), memoryview(bytearray(_COPY_BYTES))
    while watch.running():
        target[:] = source
        watch.lap(records=0, data_bytes=_COPY_BYTES)
    copies = watch.result("copy", "", with_latency=False)
    yield Figure(
        name="copy_mb_per_s",
        value=copies.mb_per_s,
        unit="MB/s",
        about="copy 64 MiB of memory, one thread",
    )


def _latency(name: str, measured: Measured, about: str) -> Figure:
    assert measured.latency is not None
    return Figure(
        name=name,
        value=measured.latency.p50_ms,
        unit="ms",
        about=about,
        detail={"p99_ms": measured.latency.p99_ms, "count": measured.operations},
    )


def _echo() -> Measured:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.floor"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.stdout.readline().strip()}") as channel:
            call = channel.unary_unary(_METHOD)
            watch = Stopwatch(warm_up_s=_WARM_UP_S, seconds=_SECONDS)
            while watch.running():
                call(_SMALL, timeout=10)
                watch.lap(records=1, data_bytes=len(_SMALL))
            return watch.result("echo", "", with_latency=True)
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _synced_writes(path: Path) -> Measured:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, _FILE_BYTES)
        os.fsync(file)
        watch = Stopwatch(warm_up_s=_WARM_UP_S, seconds=_SECONDS)
        position = 0
        while watch.running():
            os.pwrite(file, _SMALL, position)
            os.fdatasync(file)
            position = (position + len(_SMALL)) % _FILE_BYTES
            watch.lap(records=1, data_bytes=len(_SMALL))
        return watch.result("fdatasync", "", with_latency=True)
    finally:
        os.close(file)
        path.unlink()


async def serve(handlers: dict[str, grpc.RpcMethodHandler]) -> None:
    """Serve these calls of the service `bench` until the process is ended; prints the port."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def _echoed(data: bytes, _: grpc.aio.ServicerContext) -> bytes:
    return data


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(serve({"Echo": grpc.unary_unary_rpc_method_handler(_echoed)}))
