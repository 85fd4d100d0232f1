"""Nodes of a cluster that was founded on several machines: each has a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raftlog.chaos.cluster import PATIENCE_S


@contextmanager
def served(
    folder: Path, node: int, flags: Sequence[str], *more: str, within: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A node that runs from the folder. `more` follows on its command, `within` comes before it."""
    folder.mkdir(exist_ok=True)
    words = [*flags, "serve", "--node", str(node), "--data", str(folder), *more]
    with folder.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "raftlog", *words], stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `raftlog` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "raftlog", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
