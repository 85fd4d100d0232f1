"""What callers feel of strangers who attack a closed cluster's ports at the same time.

python -m tests.bench.attacked KIND PORT TLS    attacks one of them until it is told to end
"""

from __future__ import annotations

import itertools
import signal
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from socket import socket

from raftlog.bench.workloads import Plan, append_latency
from raftlog.chaos.cluster import ProcessCluster
from raftlog.client.log_client import LogClient
from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.cluster.doors import Door
from tests.fuzz.http2 import stream_of_bytes
from tests.fuzz.inputs import numbered

_TURNS = 3
_PLAN = Plan(seconds=4.0, warm_up_s=1.0)
_OPEN_MAX = 5000
"""Connections that the attacker holds at a time; the node cuts them off before that."""
_PER_S = 500
"""Connections a second. Without a bound it is measured how two cores are shared with whoever opens
them, which a network does not do."""

_HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


def attacked(place: Place) -> Iterator[Figure]:
    """Appends, in turns without and with each attack. The cluster is always closed."""
    closed = replace(place, closed=True)
    with closed.cluster() as cluster, cluster.client() as client:
        _p50_ms(client)  # warms up
        ratios: dict[str, list[float]] = {}
        for _ in range(_TURNS):
            for kind in ATTACKS:
                quiet_ms = _p50_ms(client)
                with _attack(kind, cluster):
                    ratios.setdefault(kind, []).append(_p50_ms(client) / quiet_ms)
    medians = {kind: statistics.median(found) for kind, found in ratios.items()}
    yield Figure(
        name="attacked_append_p50_ratio",
        value=max(medians.values()),
        unit="x",
        about="p50 of an append while a stranger attacks a port of a node, over without, the worst "
        "of the attacks",
        detail=medians,
    )


def _p50_ms(client: LogClient) -> float:
    latency = append_latency(client, _PLAN).latency
    assert latency is not None
    return latency.p50_ms


@contextmanager
def _attack(kind: str, cluster: ProcessCluster) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.bench.attacked", kind, str(cluster.port)]
    attacker = subprocess.Popen([*command, str(cluster.data / "tls")], stdout=subprocess.PIPE)
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"attacking\n"
        yield
        assert attacker.poll() is None, "it attacks until it is told to end"
    finally:
        attacker.send_signal(signal.SIGTERM)
        attacker.wait(30)
        attacker.stdout.close()


# ---------------------------------------------------------------- the attacker


def _half_hellos(door: Door) -> None:
    """Handshakes that never end."""
    held: deque[socket] = deque()
    for _ in _paced():
        held.append(door.knock())
        held[-1].sendall(_HALF_A_HELLO)
        if len(held) > _OPEN_MAX:
            held.popleft().close()


def _handshakes(door: Door) -> None:
    """Whole handshakes, each for nothing."""
    for _ in _paced():
        door.enter().close()


def _broken_frames(door: Door) -> None:
    """Broken frames of HTTP/2, floods of headers, and messages that claim 4 GiB, within TLS."""
    good = {"ListTopics": b"", "Append": bytes(64)}
    for turn in itertools.count():
        for one in numbered(f"turn {turn}", 100):
            door.say(stream_of_bytes(good, one.random), one.random)


def _paced() -> Iterator[int]:
    pause, began_s = threading.Event(), time.monotonic()
    for number in itertools.count():
        pause.wait(max(0.0, began_s + number / _PER_S - time.monotonic()))
        yield number


ATTACKS = {"half-hellos": _half_hellos, "handshakes": _handshakes, "frames": _broken_frames}


def _main(kind: str, port: str, tls: str) -> None:
    context = ssl.create_default_context(cafile=f"{tls}/ca.pem")
    context.load_cert_chain(f"{tls}/client.pem", f"{tls}/client.key")
    context.set_alpn_protocols(["h2"])
    print("attacking", flush=True)
    ATTACKS[kind](Door(int(port), context))


if __name__ == "__main__":
    _main(*sys.argv[1:])
