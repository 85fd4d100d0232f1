"""Runs pieces: once on this tree, or in several rounds on this tree and on another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from raftlog.chaos.cluster import signals_deferred
from tests.bench.client_process import ClientFailed
from tests.bench.figures import Figure
from tests.bench.pieces import Piece, Turns, whole
from tests.bench.place import THIS_TREE, CannotRun, Place
from tests.bench.trees import Tree

_PIECE_S = 7200.0
_END_S = 60.0


@dataclass(slots=True)
class Sides:
    """The figures of two trees, in the order in which they were measured."""

    here: list[Figure] = field(default_factory=list)
    there: list[Figure] = field(default_factory=list)


def run_once(name: str, piece: Piece, tree: Tree, *, closed: bool) -> Iterator[Figure]:
    """The figures of a piece on this tree, as they come. Raises `CannotRun`."""
    with _folder(name) as folder:
        if piece.in_turns:
            for figures in _turns(piece, [tree], [folder], closed):
                yield from figures
        else:
            yield from whole(name, Place(name=tree.name, folder=folder, closed=closed))


def run_against(
    name: str, piece: Piece, this: Tree, other: Tree, rounds: int, *, closed: bool
) -> Sides:
    """Run the piece on both trees. Which of them is the first changes with each round.

    Raises `CannotRun` if the other tree cannot run it, or neither can.
    """
    found = Sides()
    of_tree = {this.name: found.here, other.name: found.there}
    for number in range(rounds):
        trees = [this, other] if number % 2 == 0 else [other, this]
        print(f"{name}: round {number + 1} of {rounds}", file=sys.stderr)
        with _folder(name) as folder:
            folders = [folder / f"{place}" for place, _ in enumerate(trees)]
            for each in folders:
                each.mkdir()
            if piece.in_turns:
                try:
                    for figures in _turns(piece, trees, folders, closed):
                        for tree, figure in zip(trees, figures, strict=True):
                            of_tree[tree.name].append(figure)
                except ClientFailed as failed:
                    if failed.name == THIS_TREE:
                        raise
                    raise CannotRun(f"{failed.name}: {failed}") from failed
            else:
                for tree, own in zip(trees, folders, strict=True):
                    of_tree[tree.name] += _whole(name, tree, own, closed)
    return found


def _turns(
    piece: Piece, trees: Sequence[Tree], folders: Sequence[Path], closed: bool
) -> Iterator[tuple[Figure, ...]]:
    turns: Turns = piece.load()
    return turns(
        [
            Place(name=tree.name, folder=folder, closed=closed, environment=tree.environment)
            for tree, folder in zip(trees, folders, strict=True)
        ]
    )


def _whole(name: str, tree: Tree, folder: Path, closed: bool) -> list[Figure]:
    """The figures of the piece in a process that imports the tree's `raftlog`."""
    command = [sys.executable, "-m", "tests.bench.pieces", name, str(folder)]
    said = folder / "piece.log"
    with signals_deferred(), said.open("wb") as log:
        process = subprocess.Popen(
            [*command, "closed" if closed else "open"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=tree.environment,
            process_group=0,
        )
    try:
        output, _ = process.communicate(timeout=_PIECE_S)
    finally:
        if process.poll() is None:
            process.terminate()  # it ends its clusters
            process.wait(_END_S)
    lines = said.read_text(errors="replace").splitlines()
    if process.returncode and tree.name == THIS_TREE:
        sys.exit("\n".join([f"{name} failed on this tree:", *lines]))
    if process.returncode:
        raise CannotRun(f"{tree.name}: {lines[-1] if lines else process.returncode}")
    return [Figure(**each) for each in json.loads(output.splitlines()[-1])]


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"raftlog-bench-{name}-"))
    try:
        yield folder
    finally:
        with signals_deferred():
            shutil.rmtree(folder)
