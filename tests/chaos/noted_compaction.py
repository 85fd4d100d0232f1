"""The compaction process of a `tests.chaos.noted_node`: it has the same disk, and notes of its own.

Two processes cannot share notes. Nothing that a node is told of is missing from a sync of the
process, so its changes and the node's may be lost independently of each other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from raftlog.chaos.faulty_disk import FaultyFileSystem, faults_file
from raftlog.compaction.worker import work
from raftlog.storage.posix import PosixFileSystem
from tests.chaos.noted_disk import NotedFileSystem, NoteFiles


def main(data: Path, share: float) -> None:
    """Compact for the node of the folder `data` until its standard input ends."""
    cluster, node = data.parent, int(data.name.removeprefix("node-"))
    noted = NotedFileSystem(PosixFileSystem(data), NoteFiles.of_compaction(cluster, node))
    work(data, FaultyFileSystem(noted, faults_file(cluster, node)), share)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
