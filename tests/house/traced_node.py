"""A node that notes which files it passes through: `python -m tests.house.traced_node ARGUMENTS`.

Takes the arguments of `raftlog serve`, and writes what it noted when it is told to stop.
"""

from __future__ import annotations

import sys
from pathlib import Path

from raftlog.cli import main as raftlog
from tests.house.tracing import traced, write


def trace_of(data: Path, node: int) -> Path:
    """Where a node of the cluster in this folder writes it."""
    return data / f"trace-{node}.json"


def main() -> None:
    """Run the node."""
    given = dict(zip(sys.argv, sys.argv[1:], strict=False))
    path = trace_of(Path(given["--data"]), int(given["--node"]))
    with traced() as times:
        try:
            raftlog.main()
        finally:
            write(times, path)


if __name__ == "__main__":
    main()
