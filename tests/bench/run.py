"""Every figure of docs/BENCHMARKS.md: a table against the targets, and JSON.

    make bench                                   # all, about seven minutes, 11 with Kafka
    make bench ARGS="--only failover"            # one piece; may be repeated
    make bench ARGS="--long"                     # also 10 GiB reopened, 4 GiB caught up

    make bench ARGS="--markdown figures.md"      # the table for docs/BENCHMARKS.md

Each piece starts clusters of its own in a temporary folder and removes them. Other work on the
machine changes every figure: run the piece `floor` with it and compare that first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raftlog.cli.output import plain, show_table
from tests.bench.attacked import attacked
from tests.bench.catch_up import catch_up
from tests.bench.chunks import chunks
from tests.bench.closed import closed, closed_idle, closed_spark
from tests.bench.crumbs import crumbs
from tests.bench.failover import failover
from tests.bench.figures import TARGETS, Figure, Level, level_of
from tests.bench.floor import floor
from tests.bench.idle import idle
from tests.bench.image import image
from tests.bench.kafka import kafka
from tests.bench.log import log
from tests.bench.memory import memory
from tests.bench.month import Month, month
from tests.bench.observers import observers
from tests.bench.pruning import pruning
from tests.bench.reopen import reopen
from tests.bench.repair import repair
from tests.bench.replay import replay
from tests.bench.rolling import rolling
from tests.bench.spark import log_to_spark, micro_batch, micro_batch_settings, spark_to_log

Piece = Callable[[Path], Iterator[Figure]]

PIECES: dict[str, Piece] = {
    "floor": floor,
    "log": log,
    "failover": failover,
    "rolling": rolling,
    "reopen": reopen(1),
    "catch-up": catch_up(1024),
    "replay": replay(100, 500),
    "idle": idle((1, 100, 1000)),
    "closed": closed,
    "closed-idle": closed_idle,
    "closed-spark": closed_spark,
    "attacked": attacked,
    "memory": memory(1000),
    "month": month(Month(topics=20, epochs=300, snapshot_entries=900)),
    "crumbs": crumbs,
    "log-to-spark": log_to_spark,
    "spark-to-log": spark_to_log,
    "micro-batch": micro_batch,
    "pruning": pruning,
    "kafka": kafka,
}
LONG_PIECES: dict[str, Piece] = {
    **PIECES,
    "reopen-10": reopen(10),
    "catch-up-4": catch_up(4096),
    "replay-300": replay(300, 2000),
    "micro-batch-settings": micro_batch_settings,
    "month-long": month(Month(topics=20, epochs=4500, snapshot_entries=2000)),
    "chunks": chunks(20, 1168),
    "repair": repair(256),
    "observers": observers,
    "image": image(1024),
    "image-10": image(10 * 1024),
}
"""With `--long`: each takes minutes, and 15 GB of disk at most, `image-10` up to 50."""

_PACKAGES = ("raftlog", "grpcio", "pyarrow", "uvloop", "pyspark")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen pieces; exits with 1 when a figure falls short of its first landing."""
    options = parser().parse_args(arguments)
    # This exit unwinds, so clusters and drivers end with this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    pieces = LONG_PIECES if options.long else PIECES
    unknown = [name for name in options.only or [] if name not in pieces]
    if unknown:
        parser().error(f"no piece {unknown[0]!r}; there are: {', '.join(pieces)}")
    figures: list[Figure] = []
    try:
        for name, piece in pieces.items():
            if not options.only or name in options.only:
                figures.extend(_run(name, piece))
    finally:
        # Keep what was measured before a piece failed: it took minutes.
        _tell(figures, options)
    sys.exit(any(level_of(figure) is Level.SHORT for figure in figures))


def _tell(figures: Sequence[Figure], options: argparse.Namespace) -> None:
    about = machine()
    if options.json is not None:
        document = {"machine": about, "figures": [_as_object(figure) for figure in figures]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(markdown(figures))
    show_table(COLUMNS, [_row(figure) for figure in figures])
    print(json.dumps(about))


def parser() -> argparse.ArgumentParser:
    """The flags."""
    made = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", action="append", metavar="PIECE", help=", ".join(PIECES))
    long = ", ".join(name for name in LONG_PIECES if name not in PIECES)
    made.add_argument("--long", action="store_true", help=f"pieces of 15 or 60 GB of disk: {long}")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="the table as Markdown, too")
    return made


def markdown(figures: Sequence[Figure]) -> str:
    """The rows of the table in docs/BENCHMARKS.md."""
    lines = ["| figure | measured | first landing | aim | reaches | beside it |", "|" + "---|" * 6]
    for figure in figures:
        name, value, unit, first_landing, aim, reaches, detail = _row(figure)
        lines.append(
            f"| {name} | {value} {unit} | {first_landing} | {aim} | {reaches} | {detail} |"
        )
    return "\n".join(lines) + "\n"


def _run(name: str, piece: Piece) -> Iterator[Figure]:
    folder = Path(tempfile.mkdtemp(prefix=f"raftlog-bench-{name}-"))
    began_s = time.monotonic()
    print(f"{name}: load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    try:
        for figure in piece(folder):
            print(f"  {figure.name}: {_number(figure.value)} {figure.unit}", file=sys.stderr)
            yield figure
    finally:
        shutil.rmtree(folder)
    print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    processor = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "versions": {package: version(package) for package in _PACKAGES},
    }


COLUMNS = ("FIGURE", "VALUE", "UNIT", "FIRST LANDING", "AIM", "REACHES", "DETAIL")


def _row(figure: Figure) -> list[object]:
    target = TARGETS.get(figure.name)
    shown = list(figure.detail.items())[:4]
    return [
        figure.name,
        _number(figure.value),
        figure.unit,
        _number(target.first_landing) if target else "-",
        _number(target.aim) if target else "-",
        level_of(figure).value,
        ", ".join(f"{name} {_number(value)}" for name, value in shown),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _as_object(figure: Figure) -> dict[str, Any]:
    target = TARGETS.get(figure.name)
    return {
        **plain(figure),
        "first_landing": target.first_landing if target else None,
        "aim": target.aim if target else None,
        "reaches": level_of(figure).value,
    }


if __name__ == "__main__":
    main()
