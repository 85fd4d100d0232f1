"""`python -m raftlog.chaos.faulty_node`: `raftlog serve` over a disk that the harness commands.

It takes the arguments `[--set SECTION.KEY=VALUE ...] serve --node N --data CLUSTER` and serves as
that verb does. No module of the product imports this one. It is the only part of the harness that
uses the server, and the server has no switch for it.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from raftlog.chaos.faulty_disk import FaultyFileSystem, faults_file
from raftlog.config import load
from raftlog.errors import RaftlogError
from raftlog.server.compactor import COMPACTION_PROGRAM
from raftlog.server.main import run_node
from raftlog.storage.contract import FileSystem
from raftlog.storage.posix import PosixFileSystem


def plain(disk: FileSystem, cluster: Path, node: int) -> FileSystem:
    """The disk itself."""
    return disk


def main(
    arguments: list[str],
    below: Callable[[FileSystem, Path, int], FileSystem] = plain,
    compaction: str = COMPACTION_PROGRAM,
) -> int:
    """Serve until told to stop. Returns the exit code.

    `below` is given the real disk, the cluster's folder and the node; the faults happen on top of
    what it returns. `compaction` is the program that compacts for the node.
    """
    parser = argparse.ArgumentParser(prog="python -m raftlog.chaos.faulty_node")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    verbs = parser.add_subparsers(required=True)
    serve = verbs.add_parser("serve")
    serve.add_argument("--node", type=int, required=True)
    serve.add_argument("--data", type=Path, required=True)
    asked = parser.parse_args(arguments)
    recorded = tomllib.loads((asked.data / "cluster.toml").read_text())
    data = asked.data / f"node-{asked.node}"
    disk = below(PosixFileSystem(data), asked.data, asked.node)
    try:
        run_node(
            settings=load(flags=asked.settings),
            cluster_id=recorded["cluster_id"],
            node=asked.node,
            addresses={int(node): address for node, address in recorded["nodes"].items()},
            data=data,
            fs=FaultyFileSystem(disk, faults_file(asked.data, asked.node)),
            compaction=compaction,
        )
    except RaftlogError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
