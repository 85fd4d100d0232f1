"""The pieces of `make bench` by their names. A piece is imported when it runs: another tree may
lack what one of them needs, and runs the others.

    python -m tests.bench.pieces NAME FOLDER OPEN|CLOSED     # runs one with the `raftlog` that
                                                             # this process imports; prints JSON
"""

from __future__ import annotations

import dataclasses
import json
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure
from tests.bench.place import Place
from tests.bench.processes import RolesWatch

Turns = Callable[[Sequence[Place]], Iterator[tuple[Figure, ...]]]
Whole = Callable[[Place], Iterator[Figure]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A function of a module in this folder."""

    module: str
    function: str
    arguments: tuple[Any, ...] = ()
    """Of the function that makes the piece; none: the function is the piece."""
    in_turns: bool = False
    """It measures several trees at the same time, which take short turns. Others are measured one
    after the other."""

    def load(self) -> Any:
        """The function to call: `Turns` or `Whole`."""
        found = getattr(import_module(f"tests.bench.{self.module}"), self.function)
        return found(*self.arguments) if self.arguments else found


PIECES: dict[str, Piece] = {
    "floor": Piece("floor", "floor"),
    "log": Piece("log", "log", in_turns=True),
    "failover": Piece("failover", "failover"),
    "rolling": Piece("rolling", "rolling"),
    "reopen": Piece("reopen", "reopen", (1,)),
    "catch-up": Piece("catch_up", "catch_up", (1024,)),
    "replay": Piece("replay", "replay", (100, 500)),
    "idle": Piece("idle", "idle", in_turns=True),
    "attacked": Piece("attacked", "attacked"),
    "memory": Piece("memory", "memory", (1000,)),
    "month": Piece("month", "month", (20, 300, 900)),
    "crumbs": Piece("crumbs", "crumbs"),
    "log-to-spark": Piece("spark", "log_to_spark"),
    "spark-to-log": Piece("spark", "spark_to_log"),
    "micro-batch": Piece("spark", "micro_batch"),
    "pruning": Piece("pruning", "pruning"),
    "kafka": Piece("kafka", "kafka"),
    "peers": Piece("peers.piece", "peers", in_turns=True),
}
LONG_PIECES: dict[str, Piece] = {
    **PIECES,
    "reopen-10": Piece("reopen", "reopen", (10,)),
    "catch-up-4": Piece("catch_up", "catch_up", (4096,)),
    "replay-300": Piece("replay", "replay", (300, 2000)),
    "micro-batch-settings": Piece("spark", "micro_batch_settings"),
    "month-long": Piece("month", "month", (20, 4500, 2000)),
    "chunks": Piece("chunks", "chunks", (20, 1168)),
    "repair": Piece("repair", "repair", (256,)),
    "observers": Piece("observers", "observers"),
    "image": Piece("image", "image", (1024,)),
    "image-10": Piece("image", "image", (10 * 1024,)),
}
"""With `--long`: each takes minutes, and 15 GB of disk at most, `image-10` up to 50."""


def whole(name: str, place: Place) -> Iterator[Figure]:
    """The figures of a piece that takes no turns, and what all of it cost the processor."""
    measure: Whole = LONG_PIECES[name].load()
    own_s, started_s = _processor_s(resource.RUSAGE_SELF), _processor_s(resource.RUSAGE_CHILDREN)
    with RolesWatch(place.clusters) as nodes:
        yield from measure(place)
    own_s = _processor_s(resource.RUSAGE_SELF) - own_s
    started_s = _processor_s(resource.RUSAGE_CHILDREN) - started_s
    spent = {
        "": (own_s + started_s, "of this process and all that it started"),
        "client_": (own_s, "of this process, which has the client"),
        "leaders_": (nodes.leaders_s, "of nodes while they led a topic"),
        "followers_": (nodes.followers_s, "of nodes while they led none"),
    }
    for whose, (seconds, about) in spent.items():
        yield Figure(
            name=f"{name.replace('-', '_')}_{whose}processor_s",
            value=seconds,
            unit="s",
            about=f"processor time of the whole piece: {about}",
        )


def _processor_s(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def main(name: str, folder: str, state: str) -> None:
    """Run a piece that takes no turns."""
    # This exit unwinds, so clusters and drivers end with this process.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    place = Place(name=name, folder=Path(folder), closed=state == "closed")
    print(json.dumps([dataclasses.asdict(figure) for figure in whole(name, place)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
