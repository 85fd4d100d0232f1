"""`python -m tests.chaos.noted_node`: a node on a faulty disk that also notes what is not synced.

The program of a cluster whose nodes lose power (`tests.chaos.power_loss`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from raftlog.chaos.faulty_node import main
from raftlog.storage.contract import FileSystem
from tests.chaos import noted_compaction
from tests.chaos.noted_disk import NotedFileSystem, NoteFiles


def noted(disk: FileSystem, cluster: Path, node: int) -> FileSystem:
    """The node's disk, which notes what a power loss could take."""
    return NotedFileSystem(disk, NoteFiles.of(cluster, node))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], noted, noted_compaction.__name__))
