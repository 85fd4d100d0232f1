"""Every figure of docs/BENCHMARKS.md: a table against the targets, and JSON.

    make bench                                   # all
    make bench ARGS="--only failover"            # one piece; may be repeated
    make bench ARGS="--long"                     # also 10 GiB reopened, 4 GiB caught up
    make bench ARGS="--closed"                   # with TLS, tokens and grants
    make bench ARGS="--only log --against HEAD~5 --rounds 6"    # this tree and another, in turns
    make bench ARGS="--markdown figures.md"      # the table for docs/BENCHMARKS.md

Each piece starts clusters of its own in a temporary folder and removes them. Other work on the
machine changes every figure: run the piece `floor` with it and compare that first. With --against,
rounds alternate between the trees, so that both have the same load.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raftlog.cli.output import plain, show_table
from tests.bench.compare import WORSE_MAX, Compared, compare
from tests.bench.figures import TARGETS, Figure, Level, level_of
from tests.bench.pieces import LONG_PIECES, PIECES, Piece
from tests.bench.place import CannotRun
from tests.bench.rounds import run_against, run_once
from tests.bench.trees import Tree, UnknownRevision, this_tree, tree_of

_PACKAGES = ("raftlog", "grpcio", "pyarrow", "uvloop", "pyspark")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen pieces.

    Exits with 1 when a figure falls short of its first landing, or with --against and --gate, when
    one is worse than the other tree's in every round.
    """
    options = parser().parse_args(arguments)
    pieces = LONG_PIECES if options.long else PIECES
    unknown = [name for name in options.only or [] if name not in pieces]
    if unknown:
        parser().error(f"no piece {unknown[0]!r}; there are: {', '.join(pieces)}")
    if options.gate and options.against is None:
        parser().error("--gate needs --against")
    chosen = {
        name: piece for name, piece in pieces.items() if not options.only or name in options.only
    }
    tree = this_tree()
    command = shlex.join(sys.argv[1:] if arguments is None else arguments)
    if options.against is None:
        sys.exit(_run_alone(chosen, tree, command, options))
    try:
        with tree_of(options.against) as other:
            sys.exit(_run_against(chosen, tree, other, command, options))
    except UnknownRevision as unknown_revision:
        parser().error(f"--against {unknown_revision}")


def _run_alone(
    pieces: Mapping[str, Piece], tree: Tree, command: str, options: argparse.Namespace
) -> bool:
    figures: list[Figure] = []
    try:
        for name, piece in pieces.items():
            began_s = _begin(name)
            try:
                for figure in run_once(name, piece, tree, closed=options.closed):
                    print(
                        f"  {figure.name}: {_number(figure.value)} {figure.unit}", file=sys.stderr
                    )
                    figures.append(figure)
            except CannotRun as reason:
                print(f"  {name} is left out: {reason}", file=sys.stderr)
            _end(name, began_s)
    finally:
        # Keep what was measured before a piece failed: it took minutes.
        about = {"command": command, "commit": tree.commit, **machine()}
        document = {"machine": about, "figures": [_as_object(figure) for figure in figures]}
        _write(options, document, markdown(figures, command, tree.commit))
        show_table(COLUMNS, [_row(figure) for figure in figures])
        print(json.dumps(about))
    return any(level_of(figure) is Level.SHORT for figure in figures)


def _run_against(
    pieces: Mapping[str, Piece], tree: Tree, other: Tree, command: str, options: argparse.Namespace
) -> bool:
    compared: list[Compared] = []
    left_out: dict[str, str] = {}
    try:
        for name, piece in pieces.items():
            began_s = _begin(name)
            try:
                sides = run_against(name, piece, tree, other, options.rounds, closed=options.closed)
                compared += compare(sides.here, sides.there)
            except CannotRun as reason:
                left_out[name] = str(reason)
                print(f"  {name} cannot be compared: {reason}", file=sys.stderr)
            _end(name, began_s)
    finally:
        about = {
            "command": command,
            "commit": tree.commit,
            "against": other.commit,
            "left_out": left_out,
            **machine(),
        }
        document = {"machine": about, "compared": [plain(each) for each in compared]}
        _write(options, document, _compared_markdown(compared, command, tree, other))
        show_table(COMPARED_COLUMNS, [_compared_row(each) for each in compared])
        print("Medians. A ratio above 1: this tree is worse, for rates too.", file=sys.stderr)
        print(json.dumps(about))
    worse = [each.name for each in compared if each.is_worse]
    if worse:
        print(f"worse than {other.name} in every round: {', '.join(worse)}", file=sys.stderr)
    return options.gate and bool(worse)


def _begin(name: str) -> float:
    print(f"{name}: load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return time.monotonic()


def _end(name: str, began_s: float) -> None:
    print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def _write(options: argparse.Namespace, document: Mapping[str, Any], table: str) -> None:
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    if options.markdown is not None:
        options.markdown.write_text(table)


def parser() -> argparse.ArgumentParser:
    """The flags."""
    made = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", action="append", metavar="PIECE", help=", ".join(PIECES))
    long = ", ".join(name for name in LONG_PIECES if name not in PIECES)
    made.add_argument("--long", action="store_true", help=f"pieces of 15 or 60 GB of disk: {long}")
    made.add_argument("--closed", action="store_true", help="with TLS, tokens and grants")
    made.add_argument("--against", metavar="REV", help="compare this tree with that revision")
    made.add_argument("--rounds", type=_count, default=4, metavar="N", help="with --against")
    made.add_argument(
        "--gate",
        action="store_true",
        help=f"with --against: exit with 1 if a ratio is above {WORSE_MAX} in every round; "
        "two rounds are too few to tell",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="the table as Markdown, too")
    return made


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def markdown(figures: Sequence[Figure], command: str, commit: str) -> str:
    """The table in docs/BENCHMARKS.md, below the command and the commit that it comes from."""
    lines = [
        _origin(command, commit),
        "",
        "| figure | measured | first landing | aim | reaches | beside it |",
        "|" + "---|" * 6,
    ]
    for figure in figures:
        name, value, unit, first_landing, aim, reaches, detail = _row(figure)
        lines.append(
            f"| {name} | {value} {unit} | {first_landing} | {aim} | {reaches} | {detail} |"
        )
    return "\n".join(lines) + "\n"


def _compared_markdown(compared: Sequence[Compared], command: str, tree: Tree, other: Tree) -> str:
    lines = [
        _origin(command, f"{tree.commit}, against {other.commit}"),
        "",
        f"| figure | {tree.commit} | {other.commit} | ratio | of the rounds |",
        "|" + "---|" * 5,
    ]
    for each in compared:
        name, here, there, unit, ratio, spread = _compared_row(each)
        lines.append(f"| {name} | {here} {unit} | {there} {unit} | {ratio} | {spread} |")
    return "\n".join(lines) + "\n"


def _origin(command: str, commit: str) -> str:
    return f'`make bench ARGS="{command}"` at {commit}'


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


COMPARED_COLUMNS = ("FIGURE", "HERE", "THERE", "UNIT", "RATIO", "OF THE ROUNDS")


def _compared_row(compared: Compared) -> list[str]:
    return [
        compared.name,
        _number(compared.here),
        _number(compared.there),
        compared.unit,
        f"{compared.ratio:.3f}",
        f"{compared.best:.3f} to {compared.worst:.3f}",
    ]


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
    # This exit unwinds, so clusters, drivers and worktrees end with this process.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    main()
